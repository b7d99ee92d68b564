//! One PPO update at the published sizes and one decision, beside PyTorch and LibTorch.
//!
//! Every figure is the median over rounds in which all engines take turns, each on one thread. What counts is CPU time: on a
//! busy machine our updates would slip in between interruptions that a peer's, a hundred times as long, cannot escape.

mod peer;
mod plan;

use std::{hint::black_box, path::Path};

use meanfield_learner::{ActScratch, ActorCritic, Batch, Config, Learner, Mode, Segment, Step};
use rustix::time::{ClockId, clock_gettime};

use self::peer::Peer;
use super::{Row, median};

/// Rounds of all engines.
const ROUNDS: usize = 15;
/// Updates of an engine in a round; their median counts.
const UPDATES: u32 = 20;
/// Decisions of an engine in a round; their median counts, but as one alone is too short for the clock, some are timed
/// together.
const DECISIONS: u32 = 5000;
const GROUP: u32 = 50;

/// Seconds by round of one engine.
#[derive(Debug, Default)]
struct Times {
    update: Vec<f64>,
    decision: Vec<f64>,
}

pub(super) fn run(python: &Path, tch: Option<&Path>) -> anyhow::Result<Vec<Row>> {
    let mut ours = Ours::new()?;
    let (published, preset) = (Config::paper(), Config::preset_default());
    let mut pytorch = Peer::pytorch(python)?;
    let mut libtorch = tch.map(Peer::libtorch).transpose()?;
    if pytorch.is_none() {
        say!("no peer: torch is not installed for {}", python.display());
    }
    if libtorch.is_none() {
        say!("no peer: no program was named by --tch");
    }
    let (mut times, mut of_preset) = (Times::default(), Vec::new());
    let (mut of_pytorch, mut of_libtorch) = (Times::default(), Times::default());
    for _ in 0..ROUNDS {
        times.update.push(ours.update()?);
        times.decision.push(decision(&published)?);
        of_preset.push(decision(&preset)?);
        for (peer, times) in [(&mut pytorch, &mut of_pytorch), (&mut libtorch, &mut of_libtorch)] {
            if let Some(peer) = peer {
                times.update.push(peer.ask("update", UPDATES)?);
                times.decision.push(peer.ask("decide", DECISIONS)?);
            }
        }
    }
    let (update, decision) = (median(times.update), median(times.decision));
    Ok(vec![
        beside("PPO update, published sizes (peer: PyTorch)", update * 1e3, of_pytorch.update, 1e3, "ms"),
        beside("PPO update, published sizes (peer: tch)", update * 1e3, of_libtorch.update, 1e3, "ms"),
        beside("decision, published sizes (peer: PyTorch)", decision * 1e6, of_pytorch.decision, 1e6, "us"),
        beside("decision, published sizes (peer: tch)", decision * 1e6, of_libtorch.decision, 1e6, "us"),
        Row::alone("decision, default sizes", median(of_preset) * 1e6, "us"),
        Row::alone("forecast", plan::forecast()? * 1e6, "us"),
        Row::alone("plan", plan::plan()? * 1e6, "us"),
    ])
}

fn beside(name: &'static str, ours: f64, peer: Vec<f64>, scale: f64, unit: &'static str) -> Row {
    let peer = (!peer.is_empty()).then(|| median(peer) * scale);
    Row { peer, ratio: peer.map(|peer| ours / peer), ..Row::alone(name, ours, unit) }
}

fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9
}

/// Inputs without a pattern that a network could learn; only their number matters here.
fn inputs(count: usize, shift: usize) -> Vec<f32> {
    (0..count).map(|index| (((index + 1) * (shift + 3)) as f32 * 0.618_034).fract() * 2.0 - 1.0).collect()
}

/// A learner with one trajectory over the horizon to learn from.
struct Ours {
    learner: Learner,
    batch: Batch,
}

impl Ours {
    fn new() -> anyhow::Result<Self> {
        let config = Config::paper();
        let learner = Learner::new(config.clone(), 1)?;
        let mut scratch = ActScratch::default();
        let mut segment = Segment::new(&config, config.horizon);
        for step in 0..config.horizon {
            let (observation, auxiliary) = (inputs(config.observation, step), inputs(config.auxiliary, step));
            let choice = learner.network().act(&observation, None, Mode::Greedy, &mut scratch)?;
            let value = learner.network().value(&observation, &auxiliary, &mut scratch)?;
            let (observation, auxiliary, reward) = (&observation, &auxiliary, (step % 7) as f32 / 7.0);
            segment.push(&Step { observation, auxiliary, mask: None, choice, reward, value, terminated: false })?;
        }
        let mut batch = Batch::new(&config, config.horizon);
        batch.push_segment(&segment, 0.0)?;
        Ok(Self { learner, batch })
    }

    fn update(&mut self) -> anyhow::Result<f64> {
        let mut times = Vec::new();
        for _ in 0..UPDATES {
            let started = cpu_seconds();
            self.learner.update(&self.batch, 0.0)?;
            times.push(cpu_seconds() - started);
        }
        Ok(median(times))
    }
}

fn decision(config: &Config) -> anyhow::Result<f64> {
    let network = ActorCritic::new(config.clone(), 1)?;
    let mut scratch = ActScratch::default();
    let observation = inputs(config.observation, 1);
    let mask = vec![true; config.logits()];
    let mut times = Vec::new();
    for _ in 0..DECISIONS / GROUP {
        let started = cpu_seconds();
        for _ in 0..GROUP {
            black_box(network.act(black_box(&observation), Some(&mask), Mode::Greedy, &mut scratch)?);
        }
        times.push((cpu_seconds() - started) / f64::from(GROUP));
    }
    Ok(median(times))
}
