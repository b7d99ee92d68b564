//! The daemon: serves the API on a socket, sweeps, renews its certificate, and drains when told to stop.

mod background;
mod connection;
mod pace;

use std::{future::Future, io, pin::pin, sync::Arc, time::Duration};

use tokio::{
    net::TcpListener,
    sync::{Semaphore, watch},
    task::JoinSet,
    time,
};

use crate::{coordinator::Coordinator, error::Error, http, tls};
use background::Task;
use connection::Connection;

/// How long to wait when the system has no more file descriptors.
const BREATH: Duration = Duration::from_secs(1);

/// Serves until `shutdown` is done. Then the coordinator is no longer ready and takes no new connections; requests
/// under way get the configured grace to finish, and everything is flushed before this returns.
///
/// # Errors
/// If the address may not be listened on, the certificate cannot be used, or the store fails.
pub async fn serve(
    coordinator: Coordinator,
    listener: TcpListener,
    shutdown: impl Future<Output = ()>,
) -> Result<(), Error> {
    let address = listener.local_addr().map_err(|reason| Error::Io { what: "reading the socket's address", reason })?;
    let options = coordinator.options();
    options.check_listen(address)?;
    let tls = options.tls.clone().map(tls::Current::load).transpose()?.map(Arc::new);
    tracing::info!(%address, tls = tls.is_some(), "serving");
    let tasks = [Task::sweeper, Task::remover, Task::averager].map(|task| task(coordinator.clone()));
    let reloader = tls.clone().map(|tls| Task::reloader(coordinator.clone(), tls));
    let router = http::router(coordinator.clone());
    let room = Arc::new(Semaphore::new(options.limits.connections));
    let (stop, stopping) = watch::channel(());
    let mut connections = JoinSet::new();
    let mut shutdown = pin!(shutdown);
    loop {
        let accepted = tokio::select! {
            () = &mut shutdown => break,
            Some(_) = connections.join_next() => continue,
            accepted = listener.accept() => accepted,
        };
        let stream = match accepted {
            Ok((stream, _)) => stream,
            Err(error) if is_the_clients(&error) => continue,
            Err(error) => {
                tracing::error!(%error, "cannot accept connections");
                // Until some have ended.
                tokio::select! {
                    () = &mut shutdown => break,
                    () = time::sleep(BREATH) => continue,
                }
            }
        };
        let Ok(place) = Arc::clone(&room).try_acquire_owned() else {
            coordinator.metrics().connections_refused.inc();
            continue;
        };
        let tls = tls.as_ref().map(|tls| tls.config());
        let connection = Connection { coordinator: coordinator.clone(), router: router.clone(), tls };
        let stopping = stopping.clone();
        connections.spawn(async move {
            connection.serve(stream, stopping).await;
            drop(place);
        });
    }
    // Closed to others before the last request is done.
    drop(listener);
    coordinator.drain();
    tracing::info!("shutting down: no new connections");
    drop(stop);
    let finish = async { while connections.join_next().await.is_some() {} };
    match time::timeout(coordinator.options().grace, finish).await {
        Ok(()) => tracing::info!("all requests have finished"),
        Err(_) => {
            connections.shutdown().await;
            tracing::warn!("grace is over: some requests were cut off");
        }
    }
    for task in tasks.into_iter().chain(reloader) {
        task.end().await;
    }
    coordinator.flush().await?;
    tracing::info!("the store is flushed");
    Ok(())
}

/// Whether only this one connection could not be accepted.
fn is_the_clients(error: &io::Error) -> bool {
    use io::ErrorKind::{ConnectionAborted, ConnectionRefused, ConnectionReset};
    matches!(error.kind(), ConnectionAborted | ConnectionRefused | ConnectionReset)
}
