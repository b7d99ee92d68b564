//! LibTorch's side of `meanfield bench learner`: the published sizes on the engine of the feature `tch`.
//!
//! Each line on standard input asks for a figure, and each line of the answer is one in seconds of CPU time: `update 20` the median of
//! 20 updates, `decide 2000` that of 2000 decisions, taken 50 at a time. So a benchmark can alternate between us and others
//! without counting the start of anybody's process. The Python peer speaks the same (cli/src/bench/learner/ppo.py).
#![allow(clippy::print_stdout)]

use std::error::Error;
use std::hint::black_box;
use std::io::{BufRead, stdin};

use meanfield_learner::{ActScratch, Batch, Config, Learner, Mode, Segment, Step, torch};
use rustix::time::{ClockId, clock_gettime};

/// Decisions timed together: one alone is too short for the clock.
const GROUP: u32 = 50;

fn main() -> Result<(), Box<dyn Error>> {
    // More only get into each other's way with arrays of this size.
    tch::set_num_threads(1);
    let config = Config::paper();
    let native = Learner::new(config.clone(), 1)?;
    let batch = experience(&native)?;
    let observation = inputs(config.observation, 1);
    let mut learner = torch::Learner::from_native(&native)?;
    for line in stdin().lock().lines() {
        let line = line?;
        let (what, count) = line.split_once(' ').ok_or("expected `update N` or `decide N`")?;
        let count: u32 = count.parse()?;
        let seconds = match what {
            "update" => median(count, 1, || learner.update(&batch, 0.0).map(drop))?,
            "decide" => median(count / GROUP, GROUP, || learner.greedy(black_box(&observation), None).map(drop))?,
            other => return Err(format!("unknown figure `{other}`").into()),
        };
        println!("{seconds:e}");
    }
    Ok(())
}

/// Seconds of one piece of work, the median of `times` measurements over `each` pieces.
fn median<E>(times: u32, each: u32, mut work: impl FnMut() -> Result<(), E>) -> Result<f64, E> {
    let mut seconds = Vec::new();
    for _ in 0..times {
        let started = cpu_seconds();
        for _ in 0..each {
            work()?;
        }
        seconds.push((cpu_seconds() - started) / f64::from(each));
    }
    seconds.sort_unstable_by(f64::total_cmp);
    Ok(seconds.get(seconds.len() / 2).copied().unwrap_or(f64::NAN))
}

fn cpu_seconds() -> f64 {
    let used = clock_gettime(ClockId::ProcessCPUTime);
    used.tv_sec as f64 + used.tv_nsec as f64 * 1e-9
}

/// Inputs without a pattern that a network could learn; only their number matters here.
fn inputs(count: usize, shift: usize) -> Vec<f32> {
    (0..count).map(|index| (((index + 1) * (shift + 3)) as f32 * 0.618_034).fract() * 2.0 - 1.0).collect()
}

/// One trajectory over the horizon.
fn experience(learner: &Learner) -> Result<Batch, meanfield_learner::Error> {
    let config = learner.network().config();
    let mut scratch = ActScratch::default();
    let mut segment = Segment::new(config, config.horizon);
    for step in 0..config.horizon {
        let (observation, auxiliary) = (inputs(config.observation, step), inputs(config.auxiliary, step));
        let choice = learner.network().act(&observation, None, Mode::Greedy, &mut scratch)?;
        let value = learner.network().value(&observation, &auxiliary, &mut scratch)?;
        let (observation, auxiliary, reward) = (&observation, &auxiliary, (step % 7) as f32 / 7.0);
        segment.push(&Step { observation, auxiliary, mask: None, choice, reward, value, terminated: false })?;
    }
    let mut batch = Batch::new(config, config.horizon);
    batch.push_segment(&segment, 0.0)?;
    Ok(batch)
}
