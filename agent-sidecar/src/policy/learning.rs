//! A PPO policy that learns by itself, from its own experience, while it acts.

use std::sync::Arc;

use meanfield_learner::{Batch, Config, Learner};
use tracing::warn;

use super::{
    Decision, Feedback, Policy, View,
    ppo::{self, Episode, Ppo},
};

/// A policy and its learner: after each episode's worth of settled decisions comes an update.
#[derive(Debug)]
pub struct Learning {
    policy: Ppo,
    learner: Learner,
    batch: Batch,
}

impl Learning {
    /// Goes on with a learner, exploring from a seed.
    pub fn new(learner: Learner, seed: u64) -> Result<Self, crate::Error> {
        let config = learner.network().config();
        ppo::check(config)?;
        let batch = Batch::new(config, config.horizon);
        let policy = Ppo::exploring(Arc::new(learner.network().clone()), seed);
        Ok(Self { policy, learner, batch })
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
                Ok(_) => self.policy.set_network(Arc::new(self.learner.network().clone())),
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

    fn reset(&mut self) {
        self.policy.reset();
    }
}
