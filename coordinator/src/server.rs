//! The daemon: serves the API on a socket, sweeps, and drains when told to stop.

use std::{future::Future, pin::pin, time::Duration};

use axum::serve::ListenerExt;
use tokio::{net::TcpListener, sync::oneshot, task::JoinHandle, time};

use crate::{coordinator::Coordinator, error::Error, http};

/// Serves until `shutdown` is done. Then the coordinator is no longer ready and takes no new connections; requests
/// under way get the configured grace to finish, and everything is flushed before this returns.
///
/// # Errors
/// If the socket or the store fails.
pub async fn serve(
    coordinator: Coordinator,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let address = listener.local_addr().map_err(|reason| Error::Io { what: "reading the socket's address", reason })?;
    tracing::info!(%address, "serving");
    // Answers are small and awaited: waiting to fill a packet would only delay them.
    let listener = listener.tap_io(|stream| {
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
    });
    let sweeper = Sweeper::start(coordinator.clone());
    let (stop, stopped) = oneshot::channel::<()>();
    let serving = axum::serve(listener, http::router(coordinator.clone())).with_graceful_shutdown(async {
        // An error means that the sender is gone, which is as good a reason to stop.
        let _ = stopped.await;
    });
    let mut serving = pin!(serving.into_future());
    let failed = |reason| Error::Io { what: "serving", reason };
    tokio::select! {
        ended = &mut serving => ended.map_err(failed)?,
        () = shutdown => {
            coordinator.drain();
            tracing::info!("shutting down: no new connections");
            let _ = stop.send(());
            match time::timeout(coordinator.options().grace, serving).await {
                Ok(ended) => {
                    ended.map_err(failed)?;
                    tracing::info!("all requests have finished");
                }
                Err(_) => tracing::warn!("grace is over: some requests were cut off"),
            }
        }
    }
    drop(sweeper);
    coordinator.flush().await?;
    tracing::info!("the store is flushed");
    Ok(())
}

/// The task that sweeps; ends when this is dropped.
struct Sweeper(JoinHandle<()>);

impl Sweeper {
    fn start(coordinator: Coordinator) -> Self {
        // Often enough that a deadline is noticed soon after it passes, in proportion to its length.
        let period = (coordinator.options().suspect_after / 8).clamp(Duration::from_millis(10), Duration::from_secs(1));
        let sweep = async move {
            let mut ticks = time::interval(period);
            ticks.set_missed_tick_behavior(time::MissedTickBehavior::Delay);
            loop {
                ticks.tick().await;
                if let Err(error) = coordinator.sweep().await {
                    // The store has failed for good and the coordinator is not ready; sweeping still cleans memory.
                    tracing::debug!(%error, "sweep");
                }
            }
        };
        Self(tokio::spawn(tracing::Instrument::instrument(sweep, tracing::info_span!("sweeper"))))
    }
}

impl Drop for Sweeper {
    fn drop(&mut self) {
        self.0.abort();
    }
}
