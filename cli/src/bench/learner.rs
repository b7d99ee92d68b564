//! One PPO update at the published sizes, and one decision.

use std::{hint::black_box, time::Instant};

use meanfield_learner::{ActScratch, ActorCritic, Batch, Config, Learner, Mode, Segment, Step};

use super::{Row, median};

pub(super) fn run() -> anyhow::Result<Vec<Row>> {
    Ok(vec![
        Row::alone("PPO update, published sizes", update()? * 1e3, "ms"),
        Row::alone("decision, published sizes", decision(&Config::paper())? * 1e6, "us"),
        Row::alone("decision, default sizes", decision(&Config::preset_default())? * 1e6, "us"),
    ])
}

/// Inputs without a pattern that a network could learn; only their number matters here.
fn inputs(count: usize, shift: usize) -> Vec<f32> {
    (0..count).map(|index| (((index + 1) * (shift + 3)) as f32 * 0.618_034).fract() * 2.0 - 1.0).collect()
}

fn update() -> anyhow::Result<f64> {
    let config = Config::paper();
    let mut learner = Learner::new(config.clone(), 1)?;
    let mut scratch = ActScratch::default();
    let mut segment = Segment::new(&config, config.horizon);
    for step in 0..config.horizon {
        let observation = inputs(config.observation, step);
        let auxiliary = inputs(config.auxiliary, step);
        let choice = learner.network().act(&observation, None, Mode::Greedy, &mut scratch)?;
        let value = learner.network().value(&observation, &auxiliary, &mut scratch)?;
        let reward = (step % 7) as f32 / 7.0;
        segment.push(&Step {
            observation: &observation,
            auxiliary: &auxiliary,
            mask: None,
            choice,
            reward,
            value,
            terminated: false,
        })?;
    }
    let mut batch = Batch::new(&config, config.horizon);
    batch.push_segment(&segment, 0.0)?;
    let mut times = Vec::new();
    for _ in 0..400 {
        let started = Instant::now();
        learner.update(&batch, 0.0)?;
        times.push(started.elapsed().as_secs_f64());
    }
    Ok(median(times))
}

fn decision(config: &Config) -> anyhow::Result<f64> {
    const EACH: u32 = 2000;
    let network = ActorCritic::new(config.clone(), 1)?;
    let mut scratch = ActScratch::default();
    let observation = inputs(config.observation, 1);
    let mask = vec![true; config.logits()];
    let mut times = Vec::new();
    for _ in 0..200 {
        let started = Instant::now();
        for _ in 0..EACH {
            black_box(network.act(black_box(&observation), Some(&mask), Mode::Greedy, &mut scratch)?);
        }
        times.push(started.elapsed().as_secs_f64() / f64::from(EACH));
    }
    Ok(median(times))
}
