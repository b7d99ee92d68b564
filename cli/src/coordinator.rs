//! `meanfield coordinator`: the daemon.

use std::io::Write;

use anyhow::Context;
use meanfield_coordinator::{Clock, Coordinator, Options, models, serve, tls, trajectories::Retention};
use tokio::net::TcpListener;

use crate::{args::CoordinatorArgs, signals, telemetry};

pub fn run(args: CoordinatorArgs) -> anyhow::Result<()> {
    let telemetry = telemetry::start(&args.log, "meanfield-coordinator")?;
    let (rates, limits, tls) = (args.serving.rates(), args.serving.limits(), args.serving.tls()?);
    let options = Options {
        data_dir: Some(args.data_dir),
        suspect_after: args.suspect_after,
        gone_after: args.gone_after,
        pools: args.pools,
        max_pools: args.max_pools,
        max_agents: args.max_agents,
        capacities: args.capacity,
        token: args.token,
        rates,
        limits,
        tls,
        insecure_listen: args.serving.insecure_listen,
        trajectories: Retention { bytes: args.trajectory_bytes.0, age: args.trajectory_age },
        grace: args.grace,
        models: models::Options {
            every: args.average_every,
            rate: args.average_rate,
            trim: args.average_trim,
            least: args.average_least,
            kept: args.kept_versions,
        },
        audit_keep: args.audit_keep,
        exports: telemetry.exports(),
    };
    options.validate()?;
    if let Some(files) = &options.tls {
        // Before anything is made, or an address said that nobody answers.
        tls::check(files).context("tls-cert, tls-key")?;
    }
    options.check_listen(args.listen)?;
    let scheme = if options.tls.is_some() { "https" } else { "http" };
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(async {
        let shutdown = signals::shutdown()?;
        let coordinator = Coordinator::open(options, Clock::system())?;
        let listener =
            TcpListener::bind(args.listen).await.with_context(|| format!("cannot listen on {}", args.listen))?;
        // The one line on standard output: with port 0, whoever started this reads the address here.
        let mut stdout = std::io::stdout();
        writeln!(stdout, "{scheme}://{}", listener.local_addr()?)?;
        stdout.flush()?;
        serve(coordinator, listener, shutdown).await?;
        Ok(())
    })
}
