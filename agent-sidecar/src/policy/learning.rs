//! A PPO policy that learns by itself, from its own experience, while it acts.

use std::{num::NonZero, sync::Arc};

use meanfield_common::{invalid::Invalid, mean_field::Aspects};
use meanfield_learner::{ActorCritic, Batch, Config, Learner};
use tracing::warn;

use super::{
    Decision, Feedback, Policy, View,
    ppo::{self, Episode, Ppo},
};

/// A policy and its learner: after each episode's worth of settled decisions comes an update.
pub struct Learning {
    policy: Ppo,
    learner: Learner,
    batch: Batch,
    updates: u64,
    /// Hears of every so many updates.
    keeper: Option<(NonZero<u64>, Keeper)>,
}

/// Whoever keeps what was learnt.
pub type Keeper = Box<dyn FnMut(&Learner) + Send>;

impl Learning {
    /// Goes on with a learner, exploring from a seed.
    pub fn new(learner: Learner, seed: u64) -> Result<Self, crate::Error> {
        let config = learner.network().config();
        ppo::check(config)?;
        if config.team_weighted {
            let bound = "false for an agent that learns by itself, since the coordinator's mean has no weights";
            return Err(Invalid::new("team_weighted", true, bound).into());
        }
        let batch = Batch::new(config, config.horizon);
        let policy = Ppo::exploring(Arc::new(learner.network().clone()), seed);
        Ok(Self { policy, learner, batch, updates: 0, keeper: None })
    }

    /// Starts from a network that others trained and use too; what this agent learns from here on is its own.
    pub fn from_shared(network: ActorCritic, seed: u64) -> Result<Self, crate::Error> {
        Self::new(Learner::from_network(network, seed), seed)
    }

    /// The same, showing what was learnt after every so many updates.
    #[must_use]
    pub fn kept_every(self, updates: NonZero<u64>, keeper: Keeper) -> Self {
        Self { keeper: Some((updates, keeper)), ..self }
    }

    /// The learner's settings.
    #[must_use]
    pub fn config(&self) -> &Config {
        self.learner.network().config()
    }

    /// The learner, for a checkpoint.
    #[must_use]
    pub fn learner(&self) -> &Learner {
        &self.learner
    }
}

impl Policy for Learning {
    fn name(&self) -> &'static str {
        "ppo-learning"
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        // An update needs the value of the state that follows the last settled decision, which is known by now.
        let decision = self.policy.decide(view)?;
        if self.policy.settled() >= self.config().horizon
            && let Some(Episode { segment, bootstrap }) = self.policy.take_episode()?
        {
            self.batch.clear();
            self.batch.push_segment(&segment, bootstrap)?;
            // Online there is no end in sight: the learning rate stays at its final value.
            match self.learner.update(&self.batch, 1.0) {
                Ok(_) => {
                    self.policy.set_network(Arc::new(self.learner.network().clone()));
                    self.updates += 1;
                    if let Some((every, keeper)) = &mut self.keeper
                        && self.updates.is_multiple_of(every.get())
                    {
                        keeper(&self.learner);
                    }
                }
                // A workload must not lose its agent to one bad update; the learner is as it was before.
                Err(error @ meanfield_learner::Error::Diverged { .. }) => warn!(%error, "an update was given up"),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(decision)
    }

    fn feedback(&mut self, feedback: Feedback) -> Result<(), crate::Error> {
        self.policy.feedback(feedback)
    }

    fn wants(&self) -> Aspects {
        self.policy.wants()
    }

    fn reset(&mut self) {
        self.policy.reset();
    }
}
