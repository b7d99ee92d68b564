//! The coordinator over HTTP, beside a bare handler that parses the same bytes and answers the same bytes; and with
//! many agents, beside itself with few.
//!
//! Server and load run on a thread each, so that both have a core of this kind of machine to themselves.

mod large;

use std::{net::SocketAddr, sync::Arc, thread, time::Instant};

use anyhow::Context;
use axum::{
    Json, Router,
    http::StatusCode,
    response::{IntoResponse, Response},
    routing::post,
    serve::ListenerExt,
};
use bytes::Bytes;
use meanfield_common::{
    identity::PoolName,
    wire::{Answer, Heartbeat, Registered},
};
use meanfield_coordinator::{Clock, Coordinator, Options, serve};
use meanfield_loadgen::swarm::{Swarm, step};
use tokio::{
    net::TcpListener,
    runtime::{Builder, Runtime},
    sync::oneshot,
};

use super::{Row, median};

const AGENTS: usize = 1024;
const CONNECTIONS: usize = 16;
/// Heartbeats of one run: so many of each agent.
const EACH: u64 = 20;
const RUNS: usize = 9;
/// Runs at half the load.
const PACED: usize = 5;

pub(super) fn run(many: usize) -> anyhow::Result<Vec<Row>> {
    let mut rows = beside_bare()?;
    rows.extend(large::run(many)?);
    Ok(rows)
}

/// The two servers.
struct Contest {
    runtime: Runtime,
    ours: Swarm,
    bare: Swarm,
    agents: Vec<Registered>,
    sequence: u64,
}

fn beside_bare() -> anyhow::Result<Vec<Row>> {
    let coordinator = Coordinator::open(Options::default(), Clock::system())?;
    let (token, asked) = (coordinator.token().to_owned(), coordinator.clone());
    let (ours, _stop_ours) = server("coordinator", move |listener, stopped| async move {
        serve(coordinator, listener, async { drop(stopped.await) }).await.map_err(Into::into)
    })?;
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let pool: PoolName = "default".parse()?;
    let swarm = |address| Swarm {
        address,
        tls: None,
        token: token.as_str().into(),
        pool: pool.clone(),
        connections: CONNECTIONS,
    };
    let ours = swarm(ours);
    let agents = runtime.block_on(ours.register(AGENTS))?;
    // An answer as everybody gets it once all have reported.
    for agent in &agents {
        asked.heartbeat(agent.agent, &step(agent.epoch, 1)?)?;
    }
    let first = agents.first().context("nobody registered")?;
    let answer = Arc::new(asked.heartbeat(first.agent, &step(first.epoch, 2)?)?);
    let (bare, _stop_bare) = server("bare", move |listener, stopped| async move {
        let handler = move |body: Bytes| parse_and_answer(body, Arc::clone(&answer));
        let router = Router::new().route("/v1/agents/{agent}/heartbeat", post(handler));
        // As ours does: small answers go out at once.
        let listener = listener.tap_io(|stream| drop(stream.set_nodelay(true)));
        Ok(axum::serve(listener, router).with_graceful_shutdown(async { drop(stopped.await) }).await?)
    })?;
    let mut contest = Contest { runtime, ours, bare: swarm(bare), agents, sequence: 2 };
    let throughput = contest.throughput()?;
    let latency = contest.latency(throughput.ours / 2.0)?;
    Ok(vec![throughput, latency])
}

impl Contest {
    fn throughput(&mut self) -> anyhow::Result<Row> {
        let (mut our_rates, mut bare_rates, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..RUNS {
            let requests = self.requests(EACH)?;
            let (ours, bare) =
                (rate(&self.runtime, &self.ours, &requests)?, rate(&self.runtime, &self.bare, &requests)?);
            our_rates.push(ours);
            bare_rates.push(bare);
            ratios.push(ours / bare);
        }
        let (low, high) = (least(&our_rates), least(&bare_rates));
        eprintln!("heartbeats/s over {RUNS} runs: at least {low:.0} of ours, at least {high:.0} of the bare one");
        let name = "heartbeats by HTTP, peer: bare axum that parses and answers the same bytes";
        Ok(Row {
            name,
            ours: median(our_rates),
            peer: Some(median(bare_rates)),
            ratio: Some(median(ratios)),
            unit: "1/s",
        })
    }

    /// Open-loop, from the planned times.
    fn latency(&mut self, load: f64) -> anyhow::Result<Row> {
        let (mut ours, mut bare, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
        for _ in 0..PACED {
            let requests = self.requests(EACH)?;
            let p99 = |swarm: &Swarm| -> anyhow::Result<f64> {
                let latencies = self.runtime.block_on(swarm.paced(requests.clone(), load))?;
                Ok(latencies.percentiles().p99)
            };
            let (our, its) = (p99(&self.ours)?, p99(&self.bare)?);
            ours.push(our);
            bare.push(its);
            ratios.push(our / its);
        }
        let name = "p99 at half that load, peer: the same bare axum";
        Ok(Row { name, ours: median(ours), peer: Some(median(bare)), ratio: Some(median(ratios)), unit: "ms" })
    }

    /// Round by round, so that each agent's sequence grows and always travels on the same connection.
    fn requests(&mut self, each: u64) -> anyhow::Result<Vec<Vec<u8>>> {
        let sequences = self.sequence + 1..=self.sequence + each;
        self.sequence += each;
        let all = sequences.flat_map(|sequence| self.agents.iter().map(move |one| (one, sequence)));
        Ok(all.map(|(one, sequence)| self.ours.heartbeat(one.agent, one.epoch, sequence)).collect::<Result<_, _>>()?)
    }
}

/// Requests a second, all of which must be taken.
fn rate(runtime: &Runtime, swarm: &Swarm, requests: &[Vec<u8>]) -> anyhow::Result<f64> {
    let (count, requests) = (requests.len() as u64, requests.to_vec());
    let started = Instant::now();
    let good = runtime.block_on(swarm.drive(requests))?;
    anyhow::ensure!(good == count, "only {good} of {count} requests were taken");
    Ok(count as f64 / started.elapsed().as_secs_f64())
}

fn least(rates: &[f64]) -> f64 {
    rates.iter().copied().fold(f64::INFINITY, f64::min)
}

async fn parse_and_answer(body: Bytes, answer: Arc<Answer>) -> Response {
    match serde_json::from_slice::<Heartbeat>(&body) {
        Ok(_) => Json(&*answer).into_response(),
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
