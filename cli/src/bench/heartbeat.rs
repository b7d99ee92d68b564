//! Heartbeats per second over HTTP, beside a bare handler that parses and echoes the same bytes.
//!
//! Server and load run on a thread each, so that both have a core of this kind of machine to themselves.

use std::{net::SocketAddr, thread, time::Instant};

use anyhow::Context;
use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::{IntoResponse, Response},
    routing::post,
};
use bytes::Bytes;
use meanfield_common::{
    identity::PoolName,
    wire::{Heartbeat, Registered},
};
use meanfield_coordinator::{Clock, Coordinator, Options, serve};
use meanfield_loadgen::swarm::Swarm;
use tokio::{net::TcpListener, runtime::Builder, sync::oneshot};

use super::{Row, median};

const AGENTS: usize = 1024;
const CONNECTIONS: usize = 16;
/// Heartbeats of one run: so many of each agent.
const EACH: u64 = 20;
const RUNS: usize = 9;

pub(super) fn run() -> anyhow::Result<Vec<Row>> {
    let coordinator = Coordinator::open(Options::default(), Clock::system())?;
    let token = coordinator.token().to_owned();
    let (ours, _stop_ours) = server("coordinator", move |listener, stopped| async move {
        serve(coordinator, listener, async { drop(stopped.await) }).await.map_err(Into::into)
    })?;
    let (bare, _stop_bare) = server("bare", |listener, stopped| async move {
        let router = Router::new().route("/v1/agents/{agent}/heartbeat", post(echo));
        Ok(axum::serve(listener, router).with_graceful_shutdown(async { drop(stopped.await) }).await?)
    })?;

    let runtime = Builder::new_current_thread().enable_all().build()?;
    let pool: PoolName = "default".parse()?;
    let swarm = |address| Swarm { address, token: token.as_str().into(), pool: pool.clone(), connections: CONNECTIONS };
    let (ours, bare) = (swarm(ours), swarm(bare));
    let agents = runtime.block_on(ours.register(AGENTS))?;
    let (mut our_rates, mut bare_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS as u64 {
        let requests = requests(&ours, &agents, run)?;
        let rate = |swarm: &Swarm| -> anyhow::Result<f64> {
            let count = requests.len() as u64;
            let started = Instant::now();
            let good = runtime.block_on(swarm.drive(requests.clone()))?;
            anyhow::ensure!(good == count, "only {good} of {count} heartbeats were taken");
            Ok(count as f64 / started.elapsed().as_secs_f64())
        };
        let (ours, bare) = (rate(&ours)?, rate(&bare)?);
        our_rates.push(ours);
        bare_rates.push(bare);
        ratios.push(ours / bare);
    }
    let spread = |rates: &[f64]| {
        let (low, high) =
            rates.iter().fold((f64::INFINITY, 0.0_f64), |(low, high), rate| (low.min(*rate), high.max(*rate)));
        format!("{low:.0} to {high:.0}")
    };
    eprintln!("heartbeats/s over {RUNS} runs: ours {}, bare {}", spread(&our_rates), spread(&bare_rates));
    let (ours, peer, ratio) = (median(our_rates), median(bare_rates), median(ratios));
    let name = "heartbeats by HTTP, peer: bare axum echo";
    Ok(vec![Row { name, ours, peer: Some(peer), ratio: Some(ratio), unit: "1/s" }])
}

/// Round by round, so that each agent's sequence grows and always travels on the same connection.
fn requests(swarm: &Swarm, agents: &[Registered], run: u64) -> anyhow::Result<Vec<Vec<u8>>> {
    let sequences = run * EACH + 1..=(run + 1) * EACH;
    let all =
        sequences.flat_map(|sequence| agents.iter().map(move |one| swarm.heartbeat(one.agent, one.epoch, sequence)));
    Ok(all.collect::<Result<_, _>>()?)
}

async fn echo(body: Bytes) -> Response {
    match serde_json::from_slice::<Heartbeat>(&body) {
        Ok(_) => ([(CONTENT_TYPE, "application/json")], body).into_response(),
        Err(_) => StatusCode::BAD_REQUEST.into_response(),
    }
}

/// Runs a server on a thread of its own; it stops when the returned sender is dropped.
fn server<F>(
    name: &str,
    run: impl FnOnce(TcpListener, oneshot::Receiver<()>) -> F + Send + 'static,
) -> anyhow::Result<(SocketAddr, oneshot::Sender<()>)>
where
    F: Future<Output = anyhow::Result<()>>,
{
    let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
    listener.set_nonblocking(true)?;
    let address = listener.local_addr()?;
    let (stop, stopped) = oneshot::channel();
    let work = move || -> anyhow::Result<()> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        runtime.block_on(async { run(TcpListener::from_std(listener)?, stopped).await })
    };
    let failed = move || {
        if let Err(error) = work() {
            eprintln!("meanfield: a server under measurement failed: {error:#}");
        }
    };
    thread::Builder::new().name(name.to_owned()).spawn(failed).context("cannot start a thread")?;
    Ok((address, stop))
}
