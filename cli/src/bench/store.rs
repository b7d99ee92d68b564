//! Recorded steps made durable per second, beside the stores themselves: the same bytes with as many flushes.
//!
//! Ours is the coordinator with its store of trajectories. Its agents hand in one batch after the other, each on its own;
//! while some wait for a flush, the others make their next batch ready. How many flushes that took is read from the store
//! afterwards, and the peers flush as often. They are given the chunks ready-made, keep no summaries and no orders, and
//! compare nothing.

use std::{ops::Range, path::Path, time::Instant};

use anyhow::Context;
use fjall::{Database, KeyspaceCreateOptions, PersistMode, config::CompressionPolicy};
use futures_util::future::join_all;
use meanfield_common::{
    action::Action,
    identity::{Category, PoolName},
    mean_field::Aspects,
    state::{LocalState, Unit},
    trajectory::{Append, Dropped, MOST_STEPS, Recorded, Verdicts},
    wire::{Register, Registered},
};
use meanfield_coordinator::{
    Clock, Coordinator, Options,
    trajectories::{keys, layout, store::Table},
};

use super::{Row, median, members};

/// Agents, and the steps of a batch.
const AGENTS: usize = 128;
const STEPS: u32 = 250;
/// Batches of each agent in one run.
const EACH: u32 = 4;
const RUNS: u32 = 9;

pub(super) fn run(many: usize) -> anyhow::Result<Vec<Row>> {
    let directory = tempfile::tempdir()?;
    let path = |name: &str| directory.path().join(name);
    let options = Options { data_dir: Some(path("ours")), max_agents: many + AGENTS, ..Options::default() };
    let coordinator = Coordinator::open(options.clone(), Clock::system())?;
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build()?;
    let agents = runtime.block_on(register(&coordinator))?;
    let (fjall, sled) = (Fjall::open(&path("fjall"))?, Sled::open(&path("sled"))?);
    let (mut ours, mut by_fjall, mut by_sled, mut shared) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
    for run in 0..RUNS {
        let episodes = run * EACH..(run + 1) * EACH;
        let batches: Vec<Vec<Append>> =
            agents.iter().enumerate().map(|agent| batches(agent, episodes.clone())).collect::<Result<_, _>>()?;
        let chunks: Vec<Chunk> =
            batches.iter().enumerate().flat_map(|(at, own)| own.iter().map(move |batch| chunk(at, batch))).collect();
        let steps = f64::from(EACH * STEPS) * AGENTS as f64;
        let rate = |started: Instant| steps / started.elapsed().as_secs_f64();

        let before = commits(&coordinator)?;
        let started = Instant::now();
        runtime.block_on(append(&coordinator, &agents, batches))?;
        ours.push(rate(started));
        let flushes = (commits(&coordinator)? - before).max(1) as usize;
        let flush = chunks.len().div_ceil(flushes);
        shared.push(flush as f64);
        let started = Instant::now();
        chunks.chunks(flush).try_for_each(|some| fjall.write(some))?;
        by_fjall.push(rate(started));
        let started = Instant::now();
        chunks.chunks(flush).try_for_each(|some| sled.write(some))?;
        by_sled.push(rate(started));
    }
    eprintln!("batches that shared a flush: {:.0} (median of {RUNS} runs)", median(shared));
    let row = |name, peer: &[f64]| {
        let ratios = ours.iter().zip(peer).map(|(ours, peer)| ours / peer).collect();
        let (ours, peer) = (median(ours.clone()), median(peer.to_vec()));
        Row { name, ours, peer: Some(peer), ratio: Some(median(ratios)), unit: "steps/s" }
    };
    let mut rows = vec![
        row("durable steps in batches of 250, peer: fjall, same bytes", &by_fjall),
        row("durable steps in batches of 250, peer: sled, same bytes", &by_sled),
    ];
    drop((fjall, sled));
    let filled = runtime.block_on(fill(&coordinator, &agents))?;
    rows.push(Row::alone("durable steps in batches of 1000, to 2 GB", filled, "steps/s"));
    runtime.block_on(members::register(&coordinator, many))?;
    drop(coordinator);
    let started = Instant::now();
    let coordinator = Coordinator::open(options, Clock::system())?;
    rows.push(Row::alone("start with 2 GB of steps and many members", started.elapsed().as_secs_f64(), "s"));
    anyhow::ensure!(coordinator.ready(), "it is not ready");
    Ok(rows)
}

/// How often its store of trajectories has flushed.
fn commits(coordinator: &Coordinator) -> anyhow::Result<u64> {
    let Some(bytes) = coordinator.trajectories().get(Table::Index, keys::COMMIT)? else { return Ok(0) };
    let bytes = bytes.as_slice().try_into().context("the number of the last commit is not a number")?;
    Ok(u64::from_le_bytes(bytes))
}

/// Hands in long batches until there are two gigabytes, and says how many steps a second that were.
async fn fill(coordinator: &Coordinator, agents: &[Registered]) -> anyhow::Result<f64> {
    const FULL: usize = 2_000_000_000;
    /// The steps of one batch in bytes, nearly.
    const BYTES: usize = 66 * MOST_STEPS;
    let steps: Vec<_> = (0..MOST_STEPS as u32).map(|at| step(0, 0, at)).collect::<Result<_, _>>()?;
    let rounds = FULL / (BYTES * agents.len());
    let started = Instant::now();
    for round in 0..rounds {
        let batch = |agent: &Registered| -> anyhow::Result<Vec<Append>> {
            let episode = u64::from(RUNS * EACH) + round as u64;
            let steps: Vec<_> = steps.iter().map(|one| Recorded { episode, ..one.clone() }).collect();
            Ok(vec![Append { epoch: agent.epoch, steps: steps.try_into()?, dropped: Dropped::default() }])
        };
        let batches = agents.iter().map(batch).collect::<Result<_, _>>()?;
        append(coordinator, agents, batches).await?;
    }
    Ok((rounds * agents.len() * MOST_STEPS) as f64 / started.elapsed().as_secs_f64())
}

async fn register(coordinator: &Coordinator) -> anyhow::Result<Vec<Registered>> {
    let pool: PoolName = "default".parse()?;
    let mut agents = Vec::new();
    for agent in 0..AGENTS {
        let (name, wants) = (format!("agent-{agent}").parse()?, Aspects::NONE);
        let register = Register { name, pool: pool.clone(), category: Category::Cpu, wants };
        agents.push(coordinator.register(register).await?);
    }
    Ok(agents)
}

/// The batches of an agent: an episode each.
fn batches((at, agent): (usize, &Registered), episodes: Range<u32>) -> anyhow::Result<Vec<Append>> {
    let batch = |episode: u32| -> anyhow::Result<Append> {
        let steps: Vec<_> = (0..STEPS).map(|number| step(at as u32, episode, number)).collect::<Result<_, _>>()?;
        Ok(Append { epoch: agent.epoch, steps: steps.try_into()?, dropped: Dropped::default() })
    };
    episodes.map(batch).collect()
}

/// A step whose numbers are like no other's, so that no store can make them smaller.
fn step(agent: u32, episode: u32, step: u32) -> anyhow::Result<Recorded> {
    let level = |at: u32| Unit::clamped(f64::from(at * 31 + episode * 7 + agent).sin());
    let state = |at: u32| LocalState {
        slo_preservation: level(at),
        cpu_utilisation: level(at + 1000),
        memory_utilisation: level(at + 2000),
        arrival_change: level(at + 3000),
        cpu_limit: level(at + 4000),
        memory_limit: level(at + 5000),
        replicas: level(at + 6000),
    };
    Ok(Recorded {
        episode: episode.into(),
        step,
        state: state(step),
        action: Action::HOLD,
        reward: level(step).get().try_into()?,
        next_state: state(step + 1),
        verdicts: Verdicts::default(),
    })
}

/// Each agent hands in its batches, the next one when one is durable.
async fn append(coordinator: &Coordinator, agents: &[Registered], batches: Vec<Vec<Append>>) -> anyhow::Result<()> {
    let all = agents.iter().zip(batches).map(|(agent, batches)| async move {
        for batch in batches {
            let appended = coordinator.append(agent.agent, batch).await?;
            anyhow::ensure!(appended.known == 0, "a step was known before");
        }
        anyhow::Ok(())
    });
    join_all(all).await.into_iter().collect()
}

/// The key and the bytes that our store writes for a batch.
type Chunk = (Vec<u8>, Vec<u8>);

fn chunk(agent: usize, batch: &Append) -> Chunk {
    let steps = batch.steps.as_slice();
    let (episode, last) = steps.last().map_or((0, 0), Recorded::place);
    // As long and as scattered as a real one.
    let name = (agent as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    let key = [&name.to_be_bytes()[..], &[0; 16], &episode.to_be_bytes(), &last.to_be_bytes()].concat();
    (key, layout::encode(0, steps))
}

struct Fjall(Database, fjall::Keyspace);

impl Fjall {
    fn open(path: &Path) -> anyhow::Result<Self> {
        let database = Database::builder(path).worker_threads(1).open()?;
        let options = || KeyspaceCreateOptions::default().data_block_compression_policy(CompressionPolicy::disabled());
        let keyspace = database.keyspace("chunks", options)?;
        Ok(Self(database, keyspace))
    }

    fn write(&self, chunks: &[Chunk]) -> anyhow::Result<()> {
        let mut batch = self.0.batch().durability(Some(PersistMode::SyncData));
        chunks.iter().for_each(|(key, value)| batch.insert(&self.1, key.as_slice(), value.as_slice()));
        Ok(batch.commit()?)
    }
}

struct Sled(sled::Db);

impl Sled {
    fn open(path: &Path) -> anyhow::Result<Self> {
        Ok(Self(sled::Config::new().path(path).flush_every_ms(None).open()?))
    }

    fn write(&self, chunks: &[Chunk]) -> anyhow::Result<()> {
        let mut batch = sled::Batch::default();
        chunks.iter().for_each(|(key, value)| batch.insert(key.as_slice(), value.as_slice()));
        self.0.apply_batch(batch)?;
        self.0.flush()?;
        Ok(())
    }
}
