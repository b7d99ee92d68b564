//! `meanfield loadgen`: simulated agents against a coordinator.

pub mod args;

use std::{
    fs,
    io::IsTerminal,
    net::{SocketAddr, ToSocketAddrs},
    time::Duration,
};

use anyhow::Context;
use indicatif::ProgressBar;
use meanfield_common::invalid::{Invalid, within};
use meanfield_coordinator::token;
use meanfield_loadgen::{
    load::{Load, Progress, Report},
    pace::Percentiles,
    swarm::Swarm,
    tls::Tls,
};
use reqwest::Url;
use tokio::{runtime::Builder, time};

use crate::table::table;
use args::{LoadgenArgs, LoadgenCommand, SwarmArgs};

pub fn run(args: &LoadgenArgs) -> anyhow::Result<()> {
    match &args.command {
        LoadgenCommand::Swarm(args) => swarm(args),
    }
}

fn swarm(args: &SwarmArgs) -> anyhow::Result<()> {
    let (address, tls) = place(args)?;
    if !address.ip().is_loopback() && !args.beyond_loopback {
        let bound = "on this machine; --beyond-loopback loads others";
        return Err(Invalid::new("coordinator", &args.coordinator, bound).into());
    }
    let token = match &args.token {
        Some(token) => token.clone(),
        None => token::read(&args.data_dir).context("no --token is given, and none is found in --data-dir")?,
    };
    let load = Load {
        swarm: Swarm {
            address,
            tls,
            token: token.into(),
            pool: args.pool.clone(),
            connections: args.connections as usize,
        },
        agents: args.agents as usize,
        rate: within("rate", args.rate, 0.001, 1e8)?,
        batch: args.batch as usize,
        duration: args.duration,
        churn: within("churn", args.churn, 0.0, 1e6)?,
        mischief: args.misbehave.clone(),
        share: within("misbehave-share", args.misbehave_share, 0.0, 1.0)?,
        seed: args.seed,
    };
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let report = runtime.block_on(async {
        let progress = Progress::default();
        let shown = show(&progress);
        let report = load.run(&progress).await;
        shown.abort();
        report.with_context(|| format!("the coordinator at {address}"))
    })?;
    print(&report);
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&report)? + "\n";
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    anyhow::ensure!(
        report.unexpected == 0,
        "{} answers were not as they should be: {}",
        report.unexpected,
        report.examples.join("; ")
    );
    Ok(())
}

/// The address in a URL such as `http://127.0.0.1:7600`, and how to speak https to it if that is what it says.
fn place(args: &SwarmArgs) -> anyhow::Result<(SocketAddr, Option<Tls>)> {
    let text = &args.coordinator;
    let bad = || Invalid::new("coordinator", format!("{text:?}"), "a URL such as http://127.0.0.1:7600 or https://...");
    let url = Url::parse(text).map_err(|_| bad())?;
    let host = url.host_str().filter(|_| ["http", "https"].contains(&url.scheme()) && url.path() == "/");
    let (Some(host), Some(port)) = (host, url.port_or_known_default()) else { return Err(bad().into()) };
    // Brackets belong to addresses in URLs only.
    let host = host.trim_matches(['[', ']']);
    let address = (host, port).to_socket_addrs().map_err(|_| bad())?.next().ok_or_else(bad)?;
    if url.scheme() == "http" {
        return Ok((address, None));
    }
    let trust = args.trust.read()?;
    let authorities = trust.authorities.ok_or_else(|| Invalid::new("ca-file", "none", "given, which https needs"))?;
    let tls = Tls::new(host, &authorities, trust.identity.as_deref());
    Ok((address, Some(tls.map_err(|error| Invalid::new("ca-file", error, "PEM with certificates"))?)))
}

/// A line that moves on a terminal, and nothing elsewhere, where the result is enough.
fn show(progress: &Progress) -> tokio::task::JoinHandle<()> {
    let (progress, terminal) = (progress.clone(), std::io::stderr().is_terminal());
    tokio::spawn(async move {
        if !terminal {
            return;
        }
        let bar = ProgressBar::new_spinner();
        let mut ticks = time::interval(Duration::from_millis(250));
        loop {
            ticks.tick().await;
            let (taken, refused, unexpected) = (progress.taken(), progress.refused(), progress.unexpected());
            bar.set_message(format!("{taken} taken, {refused} refused as they should be, {unexpected} unexpected"));
            bar.tick();
        }
    })
}

fn print(report: &Report) {
    let count = |number: u64| number.to_string();
    let rows = [
        ("agents", report.agents.to_string()),
        ("registering, s", format!("{:.2}", report.registering_seconds)),
        ("load, s", format!("{:.2}", report.seconds)),
        ("heartbeats taken", count(report.taken)),
        ("heartbeats taken a second", format!("{:.0}", report.rate)),
        ("of planned", format!("{:.0}", report.planned_rate)),
        ("bad ones refused", count(report.refused)),
        ("joined, left", format!("{}, {}", report.joined, report.left)),
        ("unexpected answers", count(report.unexpected)),
    ];
    let rows = rows.into_iter().map(|(name, value)| vec![name.to_owned(), value]).collect();
    say!("{}\n", table(vec!["swarm".to_owned(), String::new()], rows));
    let row = |name: &str, of: &Percentiles| {
        let figures = [of.p50, of.p90, of.p99, of.p999, of.max].map(|value| format!("{value:.3}"));
        [vec![name.to_owned()], figures.to_vec()].concat()
    };
    let header = ["latency, ms", "p50", "p90", "p99", "p99.9", "max"].map(str::to_owned);
    let rows = vec![row("from when it was due", &report.latency_ms), row("from when it was sent", &report.service_ms)];
    say!("{}", table(header.to_vec(), rows));
}
