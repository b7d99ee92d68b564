//! One agent, one step: observe, heartbeat, record, decide, guard, actuate.

use std::{fmt, mem, sync::Arc};

use meanfield_common::{
    action::Action,
    identity::PoolName,
    mean_field::AuxiliaryState,
    observation::Observation,
    resources::{MilliCores, Resources, Scale},
    reward::{Penalties, Reward, Shape},
    state::LocalState,
    trace::Context,
    wire::Directives,
};

use crate::{
    Error,
    environment::{Environment, Target},
    following::Following,
    guard::{
        self, Clip,
        budget::{self, Reserved},
    },
    link::Link,
    membership::{self, Membership},
    metrics::Metrics,
    policy::{Decision, Feedback, Policy, View},
    profile::Profile,
    scarcity::{Claimant, Told},
    sharing::Sharing,
    teaching::Teaching,
    trajectories::Recorder,
};

/// An agent of one workload.
#[derive(Debug)]
pub struct Agent<E, L, P> {
    target: Target,
    environment: E,
    membership: Membership<L>,
    policy: P,
    fallback: Option<Fallback>,
    sharing: Option<Sharing>,
    teaching: Option<Teaching>,
    following: Option<Following>,
    recorder: Option<Recorder>,
    profile: Option<Profile>,
    shape: Shape,
    exports: bool,
    metrics: Option<Arc<Metrics>>,
    memory: Memory,
}

/// Who decides while an operator's kill switch is on.
struct Fallback(Box<dyn Policy>);

impl fmt::Debug for Fallback {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Fallback").field(&self.0.name()).finish()
    }
}

/// What an agent carries from one step to the next.
#[derive(Debug, Clone, Default)]
struct Memory {
    /// What was done in the step before, and what that costs whatever comes of it.
    action: Action,
    penalties: Penalties,
    /// The CPU request that was asked for, if apart from the limit.
    request: Option<MilliCores>,
    /// The CPU limit that a grant has cut, to go back to.
    full: Option<MilliCores>,
    /// The scale that a grant has cut.
    uncut: Option<Scale>,
    rate: Option<f64>,
    /// g and directives as last heard; kept while the coordinator is away.
    auxiliary: AuxiliaryState,
    directives: Directives,
    claimant: Claimant,
    told: Told,
    /// How many nodes were named.
    turn: usize,
    /// Where the last decision would have gone without a change budget.
    aim: Option<Reserved>,
}

/// What happened in one step.
#[derive(Debug, Clone, Copy)]
pub struct Report {
    /// What was measured.
    pub seen: Observation,
    /// The reward of the action before.
    pub reward: f64,
    /// The action taken now.
    pub action: Action,
    /// Why the guard cut the policy's wish, if it did; nothing is cut of what is not carried out.
    pub clip: Option<Clip>,
    /// Whether the coordinator answered.
    pub connected: bool,
    /// The measurement over the objective; above 1 the objective was missed. `None` without requests.
    pub excess: Option<f64>,
    /// Whether the objective was missed.
    pub violated: bool,
}

impl Memory {
    /// A wish for the CPU limit that a grant has left is none of the policy's own: it means the limit before, with as
    /// many cores in all.
    fn undo_cut(&self, current: &Scale, wish: &Scale) -> Scale {
        let (Some(full), cpu) = (self.full, wish.limit.cpu) else { return *wish };
        if cpu != current.limit.cpu || cpu >= full {
            return *wish;
        }
        let replicas = (f64::from(wish.replicas) * cpu.cores() / full.cores()).ceil() as u32;
        Scale { replicas, limit: Resources { cpu: full, ..wish.limit } }
    }
}

impl<E: Environment, L: Link, P: Policy> Agent<E, L, P> {
    /// An agent that joins `pool` with its first step.
    pub fn new(target: Target, environment: E, link: L, pool: PoolName, policy: P, shape: Shape) -> Self {
        let membership = Membership::new(link, &target, pool);
        Self {
            target,
            environment,
            membership,
            policy,
            fallback: None,
            sharing: None,
            teaching: None,
            following: None,
            recorder: None,
            profile: None,
            shape,
            exports: false,
            metrics: None,
            memory: Memory::default(),
        }
    }

    /// Keeps the network that the policy forecasts with at the one that the pool shares.
    pub fn share(&mut self, sharing: Sharing) {
        self.sharing = Some(sharing);
    }

    /// Hands in what the policy learns, for the base model that others start from.
    pub fn teach(&mut self, teaching: Teaching) {
        self.teaching = Some(teaching);
    }

    /// Keeps the network that the policy decides with at the version of its base model that is served.
    pub fn keep_up(&mut self, following: Following) {
        self.following = Some(following);
    }

    /// Hands in what each step was and came to.
    pub fn record(&mut self, recorder: Recorder) {
        self.recorder = Some(recorder);
    }

    /// Has the category follow what the workload is seen to use.
    pub fn infer(&mut self, profile: Profile) {
        self.profile = Some(profile);
    }

    /// Hands in the last recorded steps, within a grace; nothing is recorded from here on.
    pub async fn finish(&mut self) {
        if let Some(recorder) = self.recorder.take() {
            recorder.finish().await;
        }
    }

    /// Has this policy decide while an operator's kill switch is on. Without one, the workload is left as it is.
    pub fn fall_back_to(&mut self, policy: Box<dyn Policy>) {
        self.fallback = Some(Fallback(policy));
    }

    /// Says that traces of its steps are exported, and that those who are called should do so too.
    pub fn export(&mut self) {
        self.exports = true;
    }

    /// Whether traces of its steps are exported.
    pub fn exports(&self) -> bool {
        self.exports
    }

    /// Counts its steps here too.
    pub fn measure(&mut self, metrics: Arc<Metrics>) {
        self.metrics = Some(metrics);
    }

    /// Says what the next requests to the coordinator belong to, for whoever follows them there.
    pub fn follow(&mut self, context: Option<Context>) {
        self.membership.follow(context);
    }

    /// One step. `round` is the round of simulated time in lock-step runs.
    pub async fn step(&mut self, round: Option<u64>) -> Result<Report, Error> {
        // Observe.
        let seen = self.environment.observe().await?;
        if let Some(category) = self.profile.as_mut().and_then(|profile| profile.observe(&seen)) {
            self.target.category = category;
            self.membership.recategorise(category);
            self.following.iter_mut().for_each(|following| following.recategorise(category));
            self.teaching.iter_mut().for_each(|teaching| teaching.recategorise(category));
        }
        let Target { slo, bounds, .. } = &self.target;
        let state = LocalState::new(&seen, self.memory.rate.unwrap_or(seen.arrival_rate), slo, bounds);
        let reward = self.shape.reward(&seen, slo, self.memory.penalties);

        // Heartbeat.
        let reported = Reward::try_from(reward)?;
        let Memory { request, directives, action, .. } = self.memory;
        let mut claim = self.memory.claimant.claim(&seen, request.is_some(), self.target.weight, directives.paused);
        if self.memory.told.wants_nodes() {
            // One of them with each step, in turn.
            let nodes = self.environment.nodes();
            claim.node = nodes.get(self.memory.turn % nodes.len().max(1)).copied();
            self.memory.turn = self.memory.turn.wrapping_add(1);
        }
        let detail = self.policy.wants();
        let here = Reserved { scale: seen.scale, request: seen.request.cpu };
        // Older coordinators know no wishes to move; whoever gives an allowance does.
        let aim = self.memory.aim.filter(|_| !directives.paused).unwrap_or(here);
        let moving = self.memory.told.allowance().map(|_| here.distance(&aim));
        let said = membership::Step { round, state, action, reward: reported, claim, detail, moving };
        let answer = self.membership.report(&said).await?;
        if answer.is_none() {
            self.memory.told.miss(seen.seconds);
        }
        if let Some(answer) = &answer {
            self.memory.told.hear(answer.scarcity, answer.allowance);
            self.memory.auxiliary.clone_from(&answer.auxiliary);
            if answer.directives.paused != self.memory.directives.paused {
                let word = if answer.directives.paused { "paused" } else { "resumed" };
                tracing::info!(agent = %self.target.name, "{word} by the coordinator");
            }
            if answer.directives.fallback != self.memory.directives.fallback {
                let word = if answer.directives.fallback { "the fallback decides" } else { "the policy decides again" };
                tracing::warn!(agent = %self.target.name, "{word}: the kill switch was turned");
            }
            if answer.directives.lifecycle != self.memory.directives.lifecycle {
                let wanted = answer.directives.lifecycle.map_or("none", |state| state.name());
                tracing::info!(agent = %self.target.name, wanted, "a state of the lifecycle is wanted; there is none yet");
            }
            self.memory.directives = answer.directives;
        }

        // Record.
        let team = answer.as_ref().and_then(|answer| answer.team_reward);
        self.policy.feedback(Feedback { own: reward, team, team_lag: usize::from(round.is_some()) })?;

        // Decide.
        let Memory { auxiliary, directives, action: previous, .. } = self.memory.clone();
        let Directives { paused, fallback, .. } = directives;
        let scarcity = self.memory.told.now();
        let (target, auxiliary) = (&self.target, &auxiliary);
        let uncut = self.memory.uncut.unwrap_or(seen.scale);
        let view = View { target, seen: &seen, state: &state, auxiliary, scarcity, uncut, previous, paused };
        // Both look at every step, so that either is up to date when the switch is turned; one is carried out.
        let aside = View { paused: true, ..view };
        let mut decision = self.policy.decide(if fallback { &aside } else { &view })?;
        let instead = match &mut self.fallback {
            Some(Fallback(policy)) => policy.decide(if fallback { &view } else { &aside })?,
            None => Decision { request: self.memory.request, ..Decision::wish(uncut) },
        };
        if fallback {
            decision = instead;
        }
        decision.scale = self.memory.undo_cut(&seen.scale, &decision.scale);

        // Guard.
        let wish = bounds.clamp(&decision.scale);
        self.memory.claimant.wished(&wish, decision.request);
        let mut verdict = guard::check(bounds, &uncut, &decision.scale);
        let full = verdict.scale;
        // A request belongs to the limit that was wished for; to another one it is in proportion.
        let part = full.limit.cpu.0 as f64 / (wish.limit.cpu.0 as f64).max(1.0);
        decision.request = decision.request.map(|cpu| MilliCores((cpu.0 as f64 * part).ceil() as u64));
        if let Some(grant) = scarcity.and_then(|scarcity| scarcity.grant) {
            let one = self.memory.claimant.request(verdict.scale.limit.cpu, decision.request);
            verdict = guard::cut(bounds, verdict, one, &grant);
            let replicas = verdict.scale.replicas;
            decision.request = decision.request.map(|cpu| guard::cut_request(cpu, replicas, &grant));
        }
        let cut = verdict.clip == Some(Clip::Grant);
        let request = self.memory.claimant.request(verdict.scale.limit.cpu, decision.request);
        let aim = Reserved { scale: verdict.scale, request };
        self.memory.aim = Some(aim);
        if let Some(allowance) = self.memory.told.allowance() {
            // Last, and so whatever the reason: it is the operator's bound on how fast the pool changes.
            let (clipped, request) = budget::spend(bounds, &here, &aim, verdict.clip, &allowance);
            decision.request = decision.request.map(|_| request);
            verdict = clipped;
        }

        // Actuate.
        let action = if paused {
            // Whatever is done to the workload meanwhile is the operator's doing.
            (self.memory.uncut, self.memory.full) = (None, None);
            Action::HOLD
        } else {
            // A request never exceeds its limit, also where the guard has cut that.
            let request = decision.request.map(|cpu| cpu.clamp(MilliCores(1), verdict.scale.limit.cpu));
            self.memory.uncut = cut.then_some(full);
            self.memory.full = (verdict.scale.limit.cpu < wish.limit.cpu).then_some(wish.limit.cpu).filter(|_| {
                // Also on the way back, which the rate of change makes longer.
                cut || self.memory.full.is_some()
            });
            if verdict.scale != seen.scale || request != self.memory.request {
                self.environment.actuate(verdict.scale, request).await?;
                self.memory.request = request;
            }
            Action::between(&seen.scale, &verdict.scale)
        };

        let clip = verdict.clip.filter(|_| !paused);

        // Hand in: into a queue, so nothing waits.
        if let Some(recorder) = &mut self.recorder {
            let told = [(paused, "paused"), (fallback, "fallback")];
            let told = told.into_iter().filter_map(|(on, name)| on.then_some(name));
            let said = clip.map(Clip::name);
            recorder.step(self.membership.member(), state, reported, action, said.into_iter().chain(told));
        }

        // Share, follow and teach. Last, so that no decision waits for a file.
        if let (Some(answer), Some(sharing)) = (&answer, &mut self.sharing) {
            sharing.hear(answer.forecast, &mut self.membership).await;
        }

        if let (Some(answer), Some(following)) = (&answer, &mut self.following)
            && let Some(shape) = following.hear(answer.models, &mut self.membership).await
        {
            self.shape = shape;
        }

        if let (Some(_), Some(teaching)) = (&answer, &mut self.teaching) {
            teaching.step(reward, &mut self.membership).await;
        }

        let oscillation = action.oscillates_after(&previous);
        self.memory.penalties = Penalties { illegal: decision.illegal && !paused, oscillation };
        self.memory.action = action;
        self.memory.rate = Some(seen.arrival_rate);
        let (excess, violated) = (slo.excess(&seen), slo.violated(&seen));
        let report = Report { seen, reward, action, clip, connected: answer.is_some(), excess, violated };
        if let Some(metrics) = &self.metrics {
            metrics.step(&report, &self.memory.directives);
            self.recorder.iter().for_each(|recorder| metrics.recorded(recorder.outcome()));
        }
        Ok(report)
    }

    /// Goes on in another environment, with the same membership and policy.
    pub fn move_to(&mut self, environment: E) {
        self.environment = environment;
        self.recorder.iter_mut().for_each(Recorder::interrupt);
        let Memory { auxiliary, directives, .. } = mem::take(&mut self.memory);
        // What was granted was for another workload's need.
        self.memory = Memory { auxiliary, directives, ..Memory::default() };
    }

    /// Leaves the pool.
    pub async fn leave(&mut self) -> Result<(), Error> {
        Ok(self.membership.leave().await?)
    }

    /// The workload.
    pub fn target(&self) -> &Target {
        &self.target
    }

    /// What is observed and scaled.
    pub fn environment(&self) -> &E {
        &self.environment
    }

    /// Who decides.
    pub fn policy_mut(&mut self) -> &mut P {
        &mut self.policy
    }

    /// The membership.
    pub fn membership(&self) -> &Membership<L> {
        &self.membership
    }
}
