//! What a serving coordinator does by itself, again and again.

use std::{future::Future, time::Duration};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time::{self, MissedTickBehavior},
};
use tracing::Instrument;

use crate::coordinator::Coordinator;

/// A task that never ends by itself; it ends when this is dropped.
pub(crate) struct Task(JoinHandle<()>);

impl Task {
    /// Marks who is silent, and takes out who is gone.
    pub(crate) fn sweeper(coordinator: Coordinator) -> Self {
        // Often enough that a deadline is noticed soon after it passes, in proportion to its length.
        let period = (coordinator.options().suspect_after / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        Self::every(period, tracing::info_span!("sweeper"), move || {
            let coordinator = coordinator.clone();
            async move {
                if let Err(error) = coordinator.sweep().await {
                    // The store has failed for good and the coordinator is not ready; sweeping still cleans memory.
                    tracing::debug!(%error, "sweep");
                }
            }
        })
    }

    /// Has base models follow their agents.
    pub(crate) fn averager(coordinator: Coordinator) -> Self {
        let period = coordinator.options().models.every;
        Self::every(period, tracing::info_span!("averager"), move || {
            let coordinator = coordinator.clone();
            async move {
                // Many sorts and a flush. An error means a panic, which its hook has reported.
                let _ = spawn_blocking(move || coordinator.average_models()).await;
            }
        })
    }

    fn every<F>(period: Duration, span: tracing::Span, work: impl Fn() -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let work = async move {
            let mut ticks = time::interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                work().await;
            }
        };
        Self(tokio::spawn(work.instrument(span)))
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.0.abort();
    }
}
