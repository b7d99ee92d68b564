//! What the daemon does beside serving: each a task that ends when its handle is dropped.

use std::{sync::Arc, time::Duration};

use tokio::{
    task::{JoinHandle, spawn_blocking},
    time,
};
use tracing::Instrument;

use crate::{
    coordinator::Coordinator,
    tls::{Current, LOOK_EVERY, Look},
};

fn ticks(period: Duration) -> time::Interval {
    let mut ticks = time::interval(period);
    ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
    ticks
}

/// The task that sweeps.
pub(super) struct Sweeper(JoinHandle<()>);

impl Sweeper {
    pub(super) fn start(coordinator: Coordinator) -> Self {
        // Often enough that a deadline is noticed soon after it passes, in proportion to its length.
        let period = (coordinator.options().suspect_after / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let sweep = async move {
            let mut ticks = ticks(period);
            loop {
                ticks.tick().await;
                if let Err(error) = coordinator.sweep().await {
                    // The store has failed for good and the coordinator is not ready; sweeping still cleans memory.
                    tracing::debug!(%error, "sweep");
                }
            }
        };
        Self(tokio::spawn(sweep.instrument(tracing::info_span!("sweeper"))))
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// The task that takes new certificates.
pub(super) struct Reloader(JoinHandle<()>);

impl Reloader {
    pub(super) fn start(coordinator: Coordinator, tls: Arc<Current>) -> Self {
        let reload = async move {
            let mut ticks = ticks(LOOK_EVERY);
            loop {
                ticks.tick().await;
                let tls = Arc::clone(&tls);
                match spawn_blocking(move || tls.look()).await {
                    Ok(Look::Same) => {}
                    Ok(Look::Replaced) => tracing::info!("took a new certificate: new connections see it"),
                    Ok(Look::Bad(error)) => {
                        coordinator.metrics().certificates_refused.inc();
                        tracing::error!(%error, "the new certificate cannot be used: the one before stays");
                    }
                    // A panic over there was reported by the panic hook; the certificate stays.
                    Err(error) => tracing::error!(%error, "looking for a new certificate"),
                }
            }
        };
        Self(tokio::spawn(reload.instrument(tracing::info_span!("reloader"))))
    }
}

impl Drop for Reloader {
    fn drop(&mut self) {
        self.0.abort();
    }
}
