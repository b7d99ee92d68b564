//! PPO as a policy: a network decides, and what came of it is recorded for the learner.
//!
//! Its levers move a step from the scale that is there, or, [on](Ppo::on) another policy, from what that one wishes for.
//! The policy only holds a network and its own trajectory. Whoever trains (see [`crate::training`]) takes finished
//! trajectories away and hands new networks in, so that one network can learn from the experience of many agents.

use std::sync::Arc;

use meanfield_common::{
    invalid::Invalid,
    mean_field::Aspects,
    observation::Observation,
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
    scarcity,
};
use meanfield_learner::{ActScratch, ActorCritic, Choice, Config, Mode, Segment, Step, Turns};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use super::{
    Decision, Feedback, Policy, View,
    features::{self, Features},
    residual::{self, Base},
};

/// Factor of one vertical CPU step.
const CPU_FACTOR: f64 = 1.25;
/// Factor of one vertical memory step.
const MEMORY_FACTOR: f64 = 1.2;
/// How full the fullest replica of late may be after a step down.
const FULLEST: f64 = 0.9;
/// Share of the replicas that one horizontal step moves; at least one replica.
const REPLICA_SHARE: f64 = 0.2;

/// Whether a configuration fits the inputs and levers that this policy has: the seven numbers of l or the longer list
/// of [`features`], with what another policy knows where it moves from that one's wish, then g where the actor sees it,
/// then the embedding.
pub fn check(config: &Config) -> Result<(), Invalid> {
    let (own, width) = (own_inputs(config), config.auxiliary_layout().width());
    let residual = features::SIZE + residual::KNOWN;
    if ![7, features::SIZE, residual].contains(&own) {
        let more = config.observation - own;
        let bound = format!("7, {} or {residual} plus {more} of embedding and g", features::SIZE);
        return Err(Invalid::new("observation", config.observation, bound));
    }
    if is_residual(config) && config.heads != [3, 3, 3] {
        return Err(Invalid::new("heads", format!("{:?}", config.heads), "[3, 3, 3] on another policy"));
    }
    let with_headroom = width + scarcity::FEATURES;
    if ![0, width, with_headroom].contains(&config.auxiliary) {
        let bound = format!("{width}, {with_headroom} with headroom, or 0 to leave g out");
        return Err(Invalid::new("auxiliary", config.auxiliary, bound));
    }
    if config.heads != [7] && config.heads != [3, 3, 3] {
        return Err(Invalid::new("heads", format!("{:?}", config.heads), "[7] or [3, 3, 3]"));
    }
    Ok(())
}

/// How many of the actor's inputs describe its own workload.
fn own_inputs(config: &Config) -> usize {
    let g = if config.auxiliary_in_actor { config.auxiliary_layout().width() } else { 0 };
    config.observation.saturating_sub(config.embedding + g)
}

/// Whether a network of this configuration moves from another policy's wish.
#[must_use]
pub fn is_residual(config: &Config) -> bool {
    own_inputs(config) == features::SIZE + residual::KNOWN
}

/// The policy.
#[derive(Debug)]
pub struct Ppo {
    network: Arc<ActorCritic>,
    /// From whose wish the levers move; from the scale that is there without one.
    base: Option<Box<dyn Base>>,
    /// What the base wished for last.
    unmoved: Option<Decision>,
    /// Explores by sampling when there is one; serves the best action otherwise.
    explorer: Option<ChaCha8Rng>,
    features: Features,
    scratch: ActScratch,
    record: Record,
    /// Whether it is not this agent's turn.
    holding: bool,
}

/// A trajectory in the making: flat columns, one row a decision; rewards arrive later.
#[derive(Debug, Default)]
struct Record {
    observations: Vec<f32>,
    auxiliaries: Vec<f32>,
    masks: Vec<bool>,
    choices: Vec<Choice>,
    values: Vec<f32>,
    own: Vec<f32>,
    team: Vec<Option<f32>>,
    lag: usize,
    /// Rewards that the last decision has brought so far: more than one where agents wait for their turn.
    rewards: u32,
}

/// A finished trajectory and the value of the state in which it was cut off.
#[derive(Debug)]
pub struct Episode {
    /// The steps.
    pub segment: Segment,
    /// What the critic expected from there on.
    pub bootstrap: f32,
}

impl Ppo {
    /// A policy that takes the network's best action.
    #[must_use]
    pub fn serving(network: Arc<ActorCritic>) -> Self {
        Self {
            network,
            base: None,
            unmoved: None,
            explorer: None,
            features: Features::default(),
            scratch: ActScratch::default(),
            record: Record::default(),
            holding: false,
        }
    }

    /// Whether it must leave everything as it is until its next turn. What its last decision brings until then is the
    /// mean of the rewards.
    pub fn hold(&mut self, holding: bool) {
        self.holding = holding;
    }

    /// A policy that samples actions and records what comes of them.
    #[must_use]
    pub fn exploring(network: Arc<ActorCritic>, seed: u64) -> Self {
        Self { explorer: Some(ChaCha8Rng::seed_from_u64(seed)), ..Self::serving(network) }
    }

    /// The same network, moving a step from what another policy wishes for. The network must be made for it
    /// ([`is_residual`]).
    #[must_use]
    pub fn on(self, base: Box<dyn Base>) -> Self {
        Self { base: Some(base), ..self }
    }

    /// From whose wish it moves.
    #[must_use]
    pub fn base(&self) -> Option<&dyn Base> {
        self.base.as_deref()
    }

    /// What that policy wished for last.
    #[must_use]
    pub fn unmoved(&self) -> Option<Decision> {
        self.unmoved
    }

    /// Replaces the network. What was recorded for one of another configuration is forgotten.
    pub fn set_network(&mut self, network: Arc<ActorCritic>) {
        if network.config() != self.network.config() {
            self.reset();
        }
        self.network = network;
    }

    /// Decisions whose rewards are known.
    #[must_use]
    pub fn settled(&self) -> usize {
        let config = self.network.config();
        let lag = if config.team_share > 0.0 && !config.team_weighted { self.record.lag } else { 0 };
        self.record.own.len().saturating_sub(lag)
    }

    /// Says what the team earned in the round that the last feedback was about, where the network asks for a mean by
    /// priority: the coordinator's has no weights.
    pub fn credit(&mut self, team: f64) {
        if self.network.config().team_weighted
            && let Some(last) = self.record.team.last_mut()
        {
            *last = Some(team as f32);
        }
    }

    /// Takes the settled part of the trajectory; `None` when there is none. Decisions without their reward stay
    /// behind unless the episode is over ([`Policy::reset`]).
    pub fn take_episode(&mut self) -> Result<Option<Episode>, crate::Error> {
        // The last decision may have its reward already where agents take turns; its value is the bootstrap all the same.
        let count = self.settled().min(self.record.values.len().saturating_sub(1));
        let Some(&bootstrap) = self.record.values.get(count).filter(|_| count > 0) else { return Ok(None) };
        let config = self.network.config();
        let (observation, auxiliary, logits) = (config.observation, config.auxiliary, config.logits());
        let share = config.team_share;
        let mut segment = Segment::new(config, count);
        let record = &mut self.record;
        for row in 0..count {
            let own = record.own[row];
            // While the coordinator was away nobody knew the team's reward: the agent's own stands in.
            let team = record.team[row].unwrap_or(own);
            segment.push(&Step {
                observation: &record.observations[row * observation..][..observation],
                auxiliary: &record.auxiliaries[row * auxiliary..][..auxiliary],
                mask: Some(&record.masks[row * logits..][..logits]),
                choice: record.choices[row],
                reward: own + share * (team - own),
                value: record.values[row],
                terminated: false,
            })?;
        }
        record.observations.drain(..count * observation);
        record.auxiliaries.drain(..count * auxiliary);
        record.masks.drain(..count * logits);
        record.choices.drain(..count);
        record.values.drain(..count);
        record.own.drain(..count);
        record.team.drain(..count);
        Ok(Some(Episode { segment, bootstrap }))
    }

    /// What the network sees; `from` is the scale that it moves from.
    fn observation(&mut self, view: &View<'_>, from: &Scale) -> Vec<f32> {
        let config = self.network.config();
        let mut observation = Vec::with_capacity(config.observation);
        if own_inputs(config) >= features::SIZE {
            observation.extend_from_slice(&self.features.next(view));
        } else {
            observation.extend_from_slice(&view.state.features());
        }
        if let Some(base) = self.base.as_ref().filter(|_| is_residual(config)) {
            observation.extend_from_slice(&base.known(view, from));
        }
        if config.auxiliary_in_actor {
            observation.extend(view.auxiliary.inputs(&config.auxiliary_layout()));
        }
        // The place of the workload's embedding; a workload without one is described by zeros.
        observation.resize(config.observation, 0.0);
        observation
    }
}

impl Policy for Ppo {
    fn name(&self) -> &'static str {
        if self.base.is_some() { "residual-ungated" } else { "ppo" }
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        if self.base.is_some() != is_residual(self.network.config()) {
            let bound = "a network for a policy to move from exactly where there is one";
            return Err(Invalid::new("observation", self.network.config().observation, bound).into());
        }
        let base = self.base.as_mut().map(|base| base.decide(view)).transpose()?;
        self.unmoved = base;
        let from = base.map_or(view.uncut, |wish| wish.scale);
        let observation = self.observation(view, &from);
        if self.holding && !view.paused {
            return Ok(Decision::wish(view.uncut));
        }
        let levers = Levers::of(self.network.config());
        let mut mask = levers.legal(&view.target.bounds, &from);
        levers.close_hopeless(&mut mask, view.seen, &from, self.features.fullest());
        if base.is_some() {
            // To leave the other policy's wish as it is, is always right.
            mask.iter_mut().skip(1).step_by(3).for_each(|stay| *stay = true);
        }
        let mode = self.explorer.as_mut().map_or(Mode::Greedy, Mode::Sample);
        let choice = self.network.act(&observation, Some(&mask), mode, &mut self.scratch)?;
        if view.paused {
            // What comes of a pause is nobody's doing, and a trajectory must not run across it: begin anew afterwards.
            self.record = Record::default();
        } else if self.explorer.is_some() {
            let config = self.network.config();
            let layout = config.auxiliary_layout();
            let mut auxiliary = if config.auxiliary > 0 { view.auxiliary.inputs(&layout) } else { Vec::new() };
            if config.auxiliary > layout.width() {
                let headroom = view.scarcity.map(|scarcity| scarcity.headroom).unwrap_or_default();
                auxiliary.extend_from_slice(&headroom.features());
            }
            let value = self.network.value(&observation, &auxiliary, &mut self.scratch)?;
            self.record.observations.extend_from_slice(&observation);
            self.record.auxiliaries.extend_from_slice(&auxiliary);
            self.record.masks.extend_from_slice(&mask);
            self.record.choices.push(choice);
            self.record.values.push(value);
        }
        let decision = levers.apply(&view.target.bounds, &from, choice.actions());
        // The base's request belongs to the base's limit; to another one it is in proportion.
        let request = base.and_then(|wish| {
            let part = decision.scale.limit.cpu.0 as f64 / (wish.scale.limit.cpu.0 as f64).max(1.0);
            wish.request.map(|cpu| MilliCores((cpu.0 as f64 * part).ceil() as u64))
        });
        Ok(Decision { request, ..decision })
    }

    fn feedback(&mut self, feedback: Feedback) -> Result<(), crate::Error> {
        let record = &mut self.record;
        // The first step of an episode reports a reward that belongs to no decision of it.
        if record.own.len() < record.choices.len() {
            record.own.push(feedback.own as f32);
            record.rewards = 1;
            record.team.push(None);
            record.lag = feedback.team_lag;
            let told = !self.network.config().team_weighted;
            let row = record.team.len().checked_sub(1 + feedback.team_lag).filter(|_| told);
            if let Some(slot) = row.and_then(|row| record.team.get_mut(row)) {
                *slot = feedback.team.map(|team| team as f32);
            }
        } else if self.network.config().turns == Turns::One
            && let Some(own) = record.own.last_mut()
        {
            record.rewards += 1;
            *own += (feedback.own as f32 - *own) / record.rewards as f32;
        }
        Ok(())
    }

    fn wants(&self) -> Aspects {
        let config = self.network.config();
        let looked_at = config.auxiliary_in_actor || (config.auxiliary > 0 && self.explorer.is_some());
        if looked_at { config.auxiliary_layout().aspects() } else { Aspects::NONE }
    }

    fn reset(&mut self) {
        if let Some(base) = &mut self.base {
            base.reset();
        }
        self.unmoved = None;
        self.features = Features::default();
        self.record = Record::default();
    }
}

/// How the heads of a policy move the three levers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Levers {
    /// One head of seven: hold, CPU up, CPU down, memory up, memory down, out, in. One lever a step, as published.
    One,
    /// Three heads of three, down, stay and up: CPU, memory, replicas.
    Three,
}

impl Levers {
    fn of(config: &Config) -> Self {
        if config.heads.len() == 3 { Self::Three } else { Self::One }
    }

    /// The direction of each lever (CPU, memory, replicas) behind a choice.
    fn directions(self, actions: &[u8]) -> [i32; 3] {
        match self {
            Self::Three => [0, 1, 2].map(|head| i32::from(actions.get(head).copied().unwrap_or(1)) - 1),
            Self::One => match actions.first() {
                Some(1) => [1, 0, 0],
                Some(2) => [-1, 0, 0],
                Some(3) => [0, 1, 0],
                Some(4) => [0, -1, 0],
                Some(5) => [0, 0, 1],
                Some(6) => [0, 0, -1],
                _ => [0, 0, 0],
            },
        }
    }

    /// Which outputs would move a lever that can move.
    fn legal(self, bounds: &Bounds, current: &Scale) -> Vec<bool> {
        let can = |lever: usize, direction: i32| {
            let mut directions = [0; 3];
            directions[lever] = direction;
            moved(bounds, current, directions) != *current
        };
        match self {
            Self::Three => (0..3).flat_map(|lever| [can(lever, -1), true, can(lever, 1)]).collect(),
            Self::One => [true].into_iter().chain((0..3).flat_map(|lever| [can(lever, 1), can(lever, -1)])).collect(),
        }
    }

    /// Closes what cannot end well, so that nobody has to explore it on a running workload.
    ///
    /// Less memory gets replicas killed while the fullest one of late would hardly fit; right after a kill only more of
    /// it helps. And while replicas wait for a node, neither more nor larger ones will find one.
    fn close_hopeless(self, mask: &mut [bool], seen: &Observation, from: &Scale, fullest: f64) {
        let (Self::Three, [_, _, cpu_up, down, stay, up, _, _, out]) = (self, mask) else { return };
        let killed = seen.oom_kills > 0;
        let smaller = from.limit.memory.0 as f64 / MEMORY_FACTOR;
        *down &= !killed && fullest < FULLEST * smaller;
        *stay &= !(killed && *up);
        *cpu_up &= seen.pending == 0;
        *out &= seen.pending == 0;
    }

    fn apply(self, bounds: &Bounds, current: &Scale, actions: &[u8]) -> Decision {
        let directions = self.directions(actions);
        let scale = moved(bounds, current, directions);
        let illegal = directions != [0; 3] && scale == *current;
        Decision { scale, request: None, illegal }
    }
}

/// The scale one step further, cut at the bounds.
fn moved(bounds: &Bounds, current: &Scale, [cpu, memory, replicas]: [i32; 3]) -> Scale {
    let by = (f64::from(current.replicas) * REPLICA_SHARE).round().max(1.0) as u32;
    // Whole hundredths of a core and mebibytes: what a person would write.
    bounds.clamp(&Scale {
        replicas: match replicas.signum() {
            1 => current.replicas.saturating_add(by),
            -1 => current.replicas.saturating_sub(by),
            _ => current.replicas,
        },
        limit: Resources {
            cpu: MilliCores(stretched(current.limit.cpu.0, CPU_FACTOR, cpu, 10)),
            memory: Bytes(stretched(current.limit.memory.0, MEMORY_FACTOR, memory, 1 << 20)),
        },
    })
}

/// A limit one step up or down in whole units; at least one unit, or small limits would never move.
fn stretched(limit: u64, factor: f64, direction: i32, unit: u64) -> u64 {
    let units = (limit as f64 * factor.powi(direction) / unit as f64).round() as u64;
    let rounded = units.saturating_mul(unit);
    match direction.signum() {
        1 => rounded.max(limit.saturating_add(unit)),
        -1 => rounded.min(limit.saturating_sub(unit)),
        _ => limit,
    }
}

#[cfg(test)]
mod tests;
