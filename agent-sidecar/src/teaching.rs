//! What an agent has learnt, handed in for the base model that it started from.
//!
//! Like [`crate::sharing`], nothing here is a reason to stop or to decide otherwise: what does not get through is logged
//! once and forgotten, since the next network will be the better one.

use std::sync::Arc;

use meanfield_common::identity::ModelName;
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::{link::Link, membership::Membership};

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
    model: ModelName,
    outbox: Outbox,
    rewards: f64,
    steps: u32,
    failed: bool,
}

impl Teaching {
    /// For one base model.
    #[must_use]
    pub fn new(model: ModelName, outbox: Outbox) -> Self {
        Self { model, outbox, rewards: 0.0, steps: 0, failed: false }
    }

    /// Counts a step's reward, and hands in what waits.
    pub async fn step<L: Link>(&mut self, reward: f64, membership: &mut Membership<L>) {
        self.rewards += reward;
        self.steps = self.steps.saturating_add(1);
        let Some(checkpoint) = self.outbox.0.lock().take() else { return };
        let mean = self.rewards / f64::from(self.steps);
        match membership.contribute(&self.model, &checkpoint, mean).await {
            Ok(()) => {
                info!(agent = %membership.name(), model = %self.model, reward = mean, "handed in what was learnt");
                *self = Self::new(self.model.clone(), self.outbox.clone());
            }
            Err(error) => {
                if !self.failed {
                    warn!(agent = %membership.name(), model = %self.model, %error, "cannot hand in what was learnt");
                }
                self.failed = true;
            }
        }
    }
}
