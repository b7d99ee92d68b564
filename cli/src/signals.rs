//! Signals that end a daemon.

use anyhow::Context;
use tokio::signal::unix::{SignalKind, signal};

/// Waits for SIGINT or SIGTERM.
pub fn shutdown() -> anyhow::Result<impl Future<Output = ()> + Send> {
    let mut interrupt = signal(SignalKind::interrupt()).context("cannot listen for SIGINT")?;
    let mut terminate = signal(SignalKind::terminate()).context("cannot listen for SIGTERM")?;
    Ok(async move {
        tokio::select! {
            _ = interrupt.recv() => tracing::info!("SIGINT"),
            _ = terminate.recv() => tracing::info!("SIGTERM"),
        }
    })
}
