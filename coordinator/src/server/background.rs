//! What the daemon does beside serving, again and again.

use std::{future::Future, sync::Arc, time::Duration};

use tokio::{
    sync::oneshot,
    task::{JoinHandle, spawn_blocking},
    time::{self, MissedTickBehavior},
};
use tracing::Instrument;

use crate::{
    coordinator::Coordinator,
    tls::{Current, LOOK_EVERY, Look},
};

/// A task that never ends by itself: by [`Self::end`] it does after what it is at, dropped at once.
pub(super) struct Task {
    running: JoinHandle<()>,
    stop: Option<oneshot::Sender<()>>,
}

impl Task {
    /// Marks who is silent, and takes out who is gone.
    pub(super) fn sweeper(coordinator: Coordinator) -> Self {
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

    /// Removes trajectories that are too old or too many. Apart from the sweeper: nobody may stay a member because a disk is slow.
    pub(super) fn remover(coordinator: Coordinator) -> Self {
        Self::every(Duration::from_secs(1), tracing::info_span!("remover"), move || {
            let coordinator = coordinator.clone();
            async move {
                if let Err(error) = coordinator.retain().await {
                    // The store has failed for good, and has said so.
                    tracing::debug!(%error, "retention");
                }
            }
        })
    }

    /// Has base models follow their agents.
    pub(super) fn averager(coordinator: Coordinator) -> Self {
        let period = coordinator.options().models.every;
        Self::every(period, tracing::info_span!("averager"), move || {
            let coordinator = coordinator.clone();
            async move {
                // Many sorts and a flush. An error means a panic, which its hook has reported.
                let _ = spawn_blocking(move || coordinator.average_models()).await;
            }
        })
    }

    /// Takes new certificates.
    pub(super) fn reloader(coordinator: Coordinator, tls: Arc<Current>) -> Self {
        Self::every(LOOK_EVERY, tracing::info_span!("reloader"), move || {
            let (coordinator, tls) = (coordinator.clone(), Arc::clone(&tls));
            async move {
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
        })
    }

    fn every<F>(period: Duration, span: tracing::Span, work: impl Fn() -> F + Send + 'static) -> Self
    where
        F: Future<Output = ()> + Send,
    {
        let (stop, mut stopped) = oneshot::channel();
        let work = async move {
            let mut ticks = time::interval(period);
            ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
            loop {
                tokio::select! {
                    biased;
                    _ = &mut stopped => return,
                    _ = ticks.tick() => {}
                }
                work().await;
            }
        };
        Self { running: tokio::spawn(work.instrument(span)), stop: Some(stop) }
    }

    /// Ends it, and returns when it holds nothing any more: whoever opens the store next must not find it locked.
    pub(super) async fn end(mut self) {
        drop(self.stop.take());
        // A panic over there was reported by the panic hook.
        let _ = (&mut self.running).await;
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        self.running.abort();
    }
}
