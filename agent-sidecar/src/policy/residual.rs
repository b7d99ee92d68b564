//! PPO as a bounded correction of a policy that is good already: at most one step of each lever from its wish.
//!
//! The network is a [`Ppo`] [on](Ppo::on) a [`Base`], and starts as one that leaves the base's wish as it is
//! ([`untrained`]). Whether it has learnt anything that helps here, nobody can promise: so [`Residual`] lets it act only
//! while a [`Shadow`] evaluation finds its wishes cheaper than the base's.

mod shadow;

use std::{fmt, sync::Arc};

use meanfield_common::{invalid::Invalid, mean_field::Aspects, resources::Scale};
use meanfield_learner::{ActorCritic, Config};

pub use self::shadow::Shadow;
use super::{
    Decision, Feedback, Policy, View,
    outlook::{Foresee, LEVELS, Spread},
    plan::Plan,
    ppo::{self, Ppo},
};

/// Numbers that a base tells the network: its wish over what is there for the three levers, bias and doubt of its model,
/// and three levels of what may come, soon and within the next minute.
pub const KNOWN: usize = 3 + 2 + 2 * SHOWN.len();

/// Places among [`LEVELS`] that the network sees: 0.5, 0.95 and 0.99.
const SHOWN: [usize; 3] = [0, 3, 5];
const _: () = assert!(LEVELS[SHOWN[0]] == 0.5 && LEVELS[SHOWN[1]] == 0.95 && LEVELS[SHOWN[2]] == 0.99);

/// How far a logarithm is shown.
const FAR: f64 = 2.0;

/// The bias of "stay" at first: chosen about four times out of five while exploring, always when not.
const STAY: f32 = 2.0;

/// A policy that can be corrected.
pub trait Base: Policy + fmt::Debug {
    /// What it knows beyond what was measured, each about within [-1, 1]; `wish` is what it has just decided.
    fn known(&self, view: &View<'_>, wish: &Scale) -> [f32; KNOWN];

    /// What the step in view would have cost, in cores, with a scale of which so many replicas serve, at a rate.
    fn cost(&self, view: &View<'_>, scale: &Scale, serving: u32, rate: f64) -> f64;

    /// How likely it would have missed its objective.
    fn miss(&self, view: &View<'_>, scale: &Scale, serving: u32, rate: f64) -> f64;
}

impl<F: Foresee + fmt::Debug> Base for Plan<F> {
    fn known(&self, view: &View<'_>, wish: &Scale) -> [f32; KNOWN] {
        let seen = view.seen;
        let (bias, doubt) = self.estimate().surprise();
        let ratio = |wish: f64, is: f64| (wish.max(1e-9) / is.max(1e-9)).ln().clamp(-FAR, FAR);
        let mut known = [0.0; KNOWN];
        known[..5].copy_from_slice(&[
            ratio(wish.limit.cpu.cores(), seen.scale.limit.cpu.cores()),
            ratio(wish.limit.memory.as_mebi(), seen.scale.limit.memory.as_mebi()),
            ratio(wish.replicas.into(), seen.scale.replicas.into()),
            bias,
            doubt,
        ]);
        if let Some(outlook) = self.outlook() {
            // One request in a step is the least that a rate can be told from nothing.
            let least = 1.0 / seen.seconds.max(1e-9);
            let level = |spread: &Spread, at: usize| ratio(spread.0[at] + least, seen.arrival_rate + least);
            let levels =
                [&outlook.next, &outlook.ahead].into_iter().flat_map(|spread| SHOWN.map(|at| level(spread, at)));
            known[5..].iter_mut().zip(levels).for_each(|(slot, level)| *slot = level);
        }
        known.map(|value| value as f32)
    }

    fn cost(&self, view: &View<'_>, scale: &Scale, serving: u32, rate: f64) -> f64 {
        self.cost(view, scale, serving, rate)
    }

    fn miss(&self, view: &View<'_>, scale: &Scale, serving: u32, rate: f64) -> f64 {
        self.estimate().miss(&view.target.slo, scale.limit.cpu.cores(), f64::from(serving.max(1)), rate).min(1.0)
    }
}

/// A fresh network that leaves every wish as it is, until it learns better.
pub fn untrained(config: Config, seed: u64) -> Result<ActorCritic, crate::Error> {
    ppo::check(&config)?;
    if !ppo::is_residual(&config) {
        return Err(Invalid::new("observation", config.observation, "that of the preset `residual`").into());
    }
    let mut network = ActorCritic::new(config, seed)?;
    let (actor, critic) = network.parameters();
    let (mut actor, critic) = (actor.to_vec(), critic.to_vec());
    // The last parameters are the biases of the last layer: down, stay and up of each head.
    let biases = actor.len().saturating_sub(network.config().logits());
    actor[biases..].iter_mut().skip(1).step_by(3).for_each(|stay| *stay = STAY);
    network.set_parameters(&actor, &critic)?;
    Ok(network)
}

/// A base and a network that corrects it while that pays.
#[derive(Debug)]
pub struct Residual {
    ppo: Ppo,
    shadow: Shadow,
}

impl Residual {
    /// Serves a network on a base, under a shadow evaluation.
    pub fn new(network: Arc<ActorCritic>, base: Box<dyn Base>) -> Result<Self, Invalid> {
        ppo::check(network.config())?;
        if !ppo::is_residual(network.config()) {
            let bound = "that of the preset `residual`";
            return Err(Invalid::new("observation", network.config().observation, bound));
        }
        Ok(Self { ppo: Ppo::serving(network).on(base), shadow: Shadow::default() })
    }

    /// The evaluation that decides who acts.
    #[must_use]
    pub fn shadow(&self) -> &Shadow {
        &self.shadow
    }
}

impl Policy for Residual {
    fn name(&self) -> &'static str {
        "residual"
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let corrected = self.ppo.decide(view)?;
        let (Some(base), Some(plain)) = (self.ppo.base(), self.ppo.unmoved()) else { return Ok(corrected) };
        self.shadow.step(base, view, [plain.scale, corrected.scale]);
        Ok(if self.shadow.acts() { corrected } else { plain })
    }

    fn feedback(&mut self, feedback: Feedback) -> Result<(), crate::Error> {
        self.ppo.feedback(feedback)
    }

    fn wants(&self) -> Aspects {
        self.ppo.wants()
    }

    fn reset(&mut self) {
        self.ppo.reset();
        self.shadow = Shadow::default();
    }
}
