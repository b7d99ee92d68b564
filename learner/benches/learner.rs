//! How long an update and a decision take. The targets: 3 ms for an update at the paper's sizes, 1 us for a decision at
//! the default preset's. Run with `cargo bench -p meanfield-learner`.
#![allow(missing_docs, clippy::unwrap_used)]

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use meanfield_learner::{ActScratch, ActorCritic, Batch, ChaCha8Rng, Config, Learner, Mode, Segment, Step};
use rand::{RngExt, SeedableRng};

/// Trajectories of `agents` agents over one horizon, made up but of realistic size.
fn batch(config: &Config, network: &ActorCritic, agents: usize) -> Batch {
    let rng = &mut ChaCha8Rng::seed_from_u64(7);
    let mut batch = Batch::new(config, agents * config.horizon);
    let mut segment = Segment::new(config, config.horizon);
    let mut scratch = ActScratch::default();
    for _ in 0..agents {
        segment.clear();
        for _ in 0..config.horizon {
            let observation: Vec<f32> = (0..config.observation).map(|_| rng.random_range(-1.0..1.0)).collect();
            let auxiliary: Vec<f32> = (0..config.auxiliary).map(|_| rng.random_range(-1.0..1.0)).collect();
            let choice = network.act(&observation, None, Mode::Sample(rng), &mut scratch).unwrap();
            let value = network.value(&observation, &auxiliary, &mut scratch).unwrap();
            let reward = rng.random_range(0.0..1.0);
            segment
                .push(&Step {
                    observation: &observation,
                    auxiliary: &auxiliary,
                    mask: None,
                    choice,
                    reward,
                    value,
                    terminated: false,
                })
                .unwrap();
        }
        batch.push_segment(&segment, 0.5).unwrap();
    }
    batch
}

fn updates(criterion: &mut Criterion) {
    for (name, config, agents) in [
        ("update/paper (50 steps, minibatch 5)", Config::paper(), 1),
        ("update/default (2400 steps, minibatch 200)", Config::default(), 48),
    ] {
        let mut learner = Learner::new(config.clone(), 1).unwrap();
        let batch = batch(&config, learner.network(), agents);
        criterion.bench_function(name, |bencher| bencher.iter(|| learner.update(black_box(&batch), 0.5).unwrap()));
    }
}

fn decisions(criterion: &mut Criterion) {
    for (name, config) in [("decide/default", Config::default()), ("decide/paper", Config::paper())] {
        let network = ActorCritic::new(config.clone(), 1).unwrap();
        let observation = vec![0.3; config.observation];
        let mask = vec![true; config.logits()];
        let mut scratch = ActScratch::default();
        criterion.bench_function(name, |bencher| {
            bencher.iter(|| network.act(black_box(&observation), Some(&mask), Mode::Greedy, &mut scratch).unwrap());
        });
    }
}

criterion_group!(benches, updates, decisions);
criterion_main!(benches);
