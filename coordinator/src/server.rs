//! The daemon: serves the API on a socket, sweeps, and drains when told to stop.

use std::{future::Future, pin::pin};

use axum::serve::ListenerExt;
use tokio::{net::TcpListener, sync::oneshot, time};

use crate::{coordinator::Coordinator, error::Error, http, tasks::Task};

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
    let (sweeper, averager) = (Task::sweeper(coordinator.clone()), Task::averager(coordinator.clone()));
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
    drop((sweeper, averager));
    coordinator.flush().await?;
    tracing::info!("the store is flushed");
    Ok(())
}
