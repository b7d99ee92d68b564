//! Recorded steps: taking them in, from members and from files, and removing them.

use std::sync::Arc;

use meanfield_common::{
    identity::AgentId,
    trajectory::{Append, Appended},
};
use tokio::sync::OwnedSemaphorePermit;

use super::Coordinator;
use crate::{
    error::Error,
    trajectories::{Origin, import::Batch, store::Store},
};

/// How many exports and imports may be under way: each keeps a thread.
pub(crate) const TRANSFERS: usize = 16;

impl Coordinator {
    /// Takes what a member recorded, and returns when it is durable. Steps that are known already change nothing.
    ///
    /// # Errors
    /// If the agent is no member or has registered again since, a step is known with other content, or the store fails.
    /// Then none of the steps is taken.
    pub async fn append(&self, agent: AgentId, append: Append) -> Result<Appended, Error> {
        let member = self.agent(agent)?;
        Error::check_epoch(agent, append.epoch, member.epoch)?;
        let origin = Origin { agent, epoch: append.epoch, pool: member.pool, category: member.category };
        let appended = self.0.trajectories.append(origin, self.0.clock.wall(), append.steps.into()).await?;
        // A batch that is known already has said so before.
        if appended.stored > 0 {
            self.0.metrics.trajectories.dropped.inc_by(append.dropped.get());
        }
        Ok(appended)
    }

    /// Takes steps from elsewhere, whether or not the agent is a member, or says what would come of that.
    pub(crate) async fn import(&self, batch: Batch, dry_run: bool) -> Result<Appended, Error> {
        let Batch { origin, received, steps } = batch;
        if dry_run {
            return self.0.trajectories.weigh(origin, received, steps).await;
        }
        self.0.trajectories.append(origin, received, steps).await
    }

    /// Where [`query`](crate::trajectories::query) and [`export`](crate::trajectories::export) read.
    #[must_use]
    pub fn trajectories(&self) -> Arc<dyn Store> {
        self.0.trajectories.store()
    }

    /// Removes trajectories that are too old or too many. [`crate::serve`] calls this by itself.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn retain(&self) -> Result<(), Error> {
        self.0.trajectories.retain().await
    }

    /// Leave to send or take a file, until it is dropped; none while too many are.
    pub(crate) fn transfer(&self) -> Option<OwnedSemaphorePermit> {
        Arc::clone(&self.0.transfers).try_acquire_owned().ok()
    }
}
