//! Signals and logs: what every daemon sets up first.

use std::io::IsTerminal;

use anyhow::Context;
use meanfield_common::invalid::Invalid;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

use crate::args::{LogArgs, LogFormat};

/// Logs to standard error, so that standard output stays for results.
pub fn start_log(args: &LogArgs) -> anyhow::Result<()> {
    // The store's library tells the operator in its own words what our errors tell in ours.
    let quiet = if args.log.contains("sled") { args.log.clone() } else { format!("{},sled=off", args.log) };
    let filter =
        EnvFilter::try_new(quiet).map_err(|error| Invalid::new("log", &args.log, format!("a filter ({error})")))?;
    let builder = tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr);
    match args.log_format {
        LogFormat::Text if std::io::stderr().is_terminal() => builder.with_target(false).init(),
        // Colours are for terminals, not for files.
        LogFormat::Text => builder.with_target(false).with_ansi(false).init(),
        LogFormat::Json => builder.json().init(),
    }
    Ok(())
}

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
