//! What an agent has learnt, handed in for the base model that it started from.
//!
//! Like [`crate::sharing`], nothing here is a reason to stop or to decide otherwise: what does not get through is logged
//! once and forgotten, since the next network will be the better one.

use std::sync::Arc;

use meanfield_common::identity::{Category, ModelName};
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::{
    following::{Wanted, nothing_wanted},
    link::{Error, Link},
    membership::Membership,
};

/// The newest network that waits to be handed in, for whoever learns.
#[derive(Debug, Clone, Default)]
pub struct Outbox(Arc<Mutex<Option<Vec<u8>>>>);

impl Outbox {
    /// Puts a checkpoint there, in the place of one that still waits.
    pub fn put(&self, checkpoint: Vec<u8>) {
        *self.0.lock() = Some(checkpoint);
    }
}

/// Hands in what is in an [`Outbox`], with the mean reward since the last time.
#[derive(Debug)]
pub struct Teaching {
    wanted: Wanted,
    outbox: Outbox,
    rewards: f64,
    steps: u32,
    failed: bool,
}

impl Teaching {
    /// For the base model that what is learnt started from.
    #[must_use]
    pub fn of(model: ModelName, outbox: Outbox) -> Self {
        Self::new(Wanted { name: Some(model), ..Wanted::default() }, outbox)
    }

    /// For the base model that an agent would start from now, where nobody knows which one it was.
    #[must_use]
    pub fn new(wanted: Wanted, outbox: Outbox) -> Self {
        Self { wanted, outbox, rewards: 0.0, steps: 0, failed: false }
    }

    /// The workload is of another category than it was thought to be.
    pub fn recategorise(&mut self, category: Category) {
        self.wanted.recategorise(category);
    }

    /// Counts a step's reward, and hands in what waits.
    pub async fn step<L: Link>(&mut self, reward: f64, membership: &mut Membership<L>) {
        self.rewards += reward;
        self.steps = self.steps.saturating_add(1);
        let Some(checkpoint) = self.outbox.0.lock().take() else { return };
        let mean = self.rewards / f64::from(self.steps);
        match self.hand_in(&checkpoint, mean, membership).await {
            Ok(model) => {
                info!(agent = %membership.name(), %model, reward = mean, "handed in what was learnt");
                (self.rewards, self.steps, self.failed) = (0.0, 0, false);
            }
            Err(error) => {
                if !self.failed {
                    warn!(agent = %membership.name(), %error, "cannot hand in what was learnt");
                }
                self.failed = true;
            }
        }
    }

    /// Hands a checkpoint in for the first of the wanted models that the coordinator has, and says which one that is.
    async fn hand_in<L: Link>(
        &self,
        checkpoint: &[u8],
        reward: f64,
        membership: &mut Membership<L>,
    ) -> Result<ModelName, Error> {
        let mut missing = None;
        for model in self.wanted.names() {
            match membership.contribute(&model, checkpoint, reward).await {
                Ok(()) => return Ok(model),
                Err(error) if error.is_unknown_model() => missing = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(missing.unwrap_or_else(nothing_wanted))
    }
}
