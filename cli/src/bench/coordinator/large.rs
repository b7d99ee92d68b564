//! A coordinator with many agents: how soon it starts, what each costs in memory, how fast it is then.

use std::{path::Path, time::Instant};

use meanfield_common::{batch::binary, wire::Registered};
use meanfield_coordinator::{Clock, Coordinator, Options};
use meanfield_loadgen::{
    client::post,
    swarm::{Swarm, step},
};
use rand::seq::SliceRandom;
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use tokio::runtime::{Builder, Runtime};

use super::{CONNECTIONS, median, rate};
use crate::bench::{Row, child::Running, members};

/// A multiple of [`CONNECTIONS`]: heartbeats of one agent that travel on several overtake each other, and are refused.
const FEW: usize = 1008;
/// Heartbeats of one run, each of another agent where there are so many.
const BEATS: usize = 20_000;
const RUNS: usize = 5;
/// Heartbeats in a request, and connections that bring them.
const BATCH: usize = 2048;
const BRINGERS: usize = 4;

/// A coordinator with so many members.
struct Populated {
    coordinator: Running,
    swarm: Swarm,
    agents: Vec<Registered>,
    sequence: u64,
    started_in: f64,
}

pub(super) fn run(many: usize) -> anyhow::Result<Vec<Row>> {
    let runtime = Builder::new_current_thread().enable_all().build()?;
    let dirs = [tempfile::tempdir()?, tempfile::tempdir()?, tempfile::tempdir()?];
    let empty = Running::start(dirs[0].path())?.memory()?;
    let mut few = Populated::start(&runtime, dirs[1].path(), FEW)?;
    let mut large = Populated::start(&runtime, dirs[2].path(), many)?;
    large.report_once(&runtime)?;
    few.report_once(&runtime)?;
    let bytes = (large.coordinator.memory()? - empty) / many as f64;
    let rates = compare(&runtime, &mut large, &mut few)?;
    let batch = large.batches(&runtime)?;
    large.agents.shuffle(&mut ChaCha8Rng::seed_from_u64(1));
    let shuffled = large.batches(&runtime)?;
    Ok(vec![
        rates,
        Row::alone("updates in batches, compact form, many agents in the order in which they registered", batch, "1/s"),
        Row::alone("the same in another order", shuffled, "1/s"),
        Row::alone("memory an agent, many agents that have reported", bytes, "bytes"),
        Row::alone("start with many members", large.started_in, "s"),
    ])
}

/// Heartbeats one by one with many agents, beside few.
fn compare(runtime: &Runtime, large: &mut Populated, few: &mut Populated) -> anyhow::Result<Row> {
    let (mut ours, mut peers, mut ratios) = (Vec::new(), Vec::new(), Vec::new());
    for _ in 0..RUNS {
        let requests = [large.requests()?, few.requests()?];
        let (our, its) = (rate(runtime, &large.swarm, &requests[0])?, rate(runtime, &few.swarm, &requests[1])?);
        ours.push(our);
        peers.push(its);
        ratios.push(our / its);
    }
    let name = "heartbeats by HTTP with many agents, peer: with 1,008";
    Ok(Row { name, ours: median(ours), peer: Some(median(peers)), ratio: Some(median(ratios)), unit: "1/s" })
}

impl Populated {
    /// Registers the agents in a first run, and measures the start of a second one.
    fn start(runtime: &Runtime, data: &Path, count: usize) -> anyhow::Result<Self> {
        let began = Instant::now();
        let options = Options { data_dir: Some(data.to_owned()), max_agents: count, ..Options::default() };
        let coordinator = Coordinator::open(options, Clock::system())?;
        let agents = runtime.block_on(members::register(&coordinator, count))?;
        drop(coordinator);
        let registered_in = began.elapsed().as_secs_f64();
        let began = Instant::now();
        let coordinator = Running::start(data)?;
        let started_in = began.elapsed().as_secs_f64();
        eprintln!("{count} agents: registered in {registered_in:.1} s, started again in {started_in:.2} s");
        let swarm = coordinator.swarm(CONNECTIONS)?;
        Ok(Self { coordinator, swarm, agents, sequence: 0, started_in })
    }

    /// Everybody's next heartbeat, in prepared batches.
    fn round(&mut self) -> anyhow::Result<Vec<Vec<u8>>> {
        self.sequence += 1;
        let mut requests = Vec::with_capacity(self.agents.len().div_ceil(BATCH));
        for agents in self.agents.chunks(BATCH) {
            let beats = agents.iter().map(|one| Ok((one.agent, step(one.epoch, self.sequence)?)));
            let beats: Vec<_> = beats.collect::<std::io::Result<_>>()?;
            let mut body = Vec::new();
            binary::write(&mut body, beats.iter().map(|(agent, beat)| (*agent, beat)));
            requests.push(post("/v1/heartbeats", &self.swarm.token, binary::HEARTBEATS, &body));
        }
        Ok(requests)
    }

    /// Everybody reports, and every answer is looked at.
    fn report_once(&mut self, runtime: &Runtime) -> anyhow::Result<()> {
        let requests = self.round()?;
        runtime.block_on(async {
            let mut link = self.swarm.connect().await?;
            for request in &requests {
                let answer = link.send(request).await?;
                anyhow::ensure!(answer.status == 200, "{}", String::from_utf8_lossy(answer.body));
                let refused = binary::answers(answer.body)?.into_iter().find_map(Result::err);
                anyhow::ensure!(refused.is_none(), "{refused:?}");
            }
            Ok(())
        })
    }

    fn batches(&mut self, runtime: &Runtime) -> anyhow::Result<f64> {
        let swarm = Swarm { connections: BRINGERS, ..self.swarm.clone() };
        let mut rates = Vec::new();
        for _ in 0..RUNS {
            let requests = self.round()?;
            let each = self.agents.len() as f64 / requests.len() as f64;
            rates.push(rate(runtime, &swarm, &requests)? * each);
        }
        Ok(median(rates))
    }

    /// Heartbeats of agents from all over the membership.
    fn requests(&mut self) -> anyhow::Result<Vec<Vec<u8>>> {
        let mut requests = Vec::with_capacity(BEATS);
        let stride = (self.agents.len() / BEATS).max(1);
        while requests.len() < BEATS {
            self.sequence += 1;
            for one in self.agents.iter().step_by(stride).take(BEATS - requests.len()) {
                requests.push(self.swarm.heartbeat(one.agent, one.epoch, self.sequence)?);
            }
        }
        Ok(requests)
    }
}
