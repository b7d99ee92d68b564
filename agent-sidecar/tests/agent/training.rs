//! Fleets that learn: reproducibly, and for the better.

use std::num::NonZero;

use meanfield_agent::{
    Error,
    training::{Progress, Trainer},
};
use meanfield_common::identity::PoolName;
use meanfield_learner::Config;
use meanfield_simulator::scenario::Scenario;

use crate::support::Coordinator;

fn trainer(config: &Config, tenants: usize, seed: u64, coordinator: &Coordinator) -> Trainer<Coordinator> {
    let pools: Vec<PoolName> = (0..config.environments).map(|pool| format!("pool-{pool}").parse().unwrap()).collect();
    Trainer::new(config.clone(), &Scenario::new(tenants, 1).unwrap(), seed, &pools, |_| coordinator.clone()).unwrap()
}

fn train(trainer: &mut Trainer<Coordinator>, iterations: usize) -> Vec<Progress> {
    (0..iterations).map(|iteration| trainer.iterate(iteration as f32 / iterations as f32).unwrap()).collect()
}

#[test]
fn the_same_seed_gives_the_same_networks_whatever_the_number_of_threads() {
    for config in
        [Config { horizon: 12, ..Config::preset_default() }, Config { horizon: 12, environments: 3, ..Config::paper() }]
    {
        let outcome = |seed: u64, threads: usize| {
            let trainer = trainer(&config, 3, seed, &Coordinator::default());
            let mut trainer = trainer.with_threads(NonZero::new(threads).unwrap());
            let curve = train(&mut trainer, 3);
            let networks: Vec<_> = (0..3).map(|place| trainer.network(place).clone()).collect();
            (curve, networks)
        };
        let one = outcome(1, 1);
        for threads in [2, 3, 64] {
            assert!(outcome(1, threads) == one, "{threads} threads");
        }
        assert!(outcome(2, 1) != one, "another seed");
    }
}

/// Mean reward of the first and of the last iterations.
fn ends(config: &Config, seed: u64) -> (f64, f64) {
    let curve = train(&mut trainer(config, 4, seed, &Coordinator::default()), 36);
    let mean = |part: &[Progress]| part.iter().map(|progress| progress.reward).sum::<f64>() / part.len() as f64;
    (mean(&curve[..6]), mean(&curve[30..]))
}

#[test]
fn agents_learn() {
    let config = Config::preset_default();
    let idle = Config { learning_rate: 1e-12, learning_rate_final: 0.0, ..config.clone() };
    for seed in [1, 2] {
        let (first, last) = ends(&config, seed);
        let (_, unlearnt) = ends(&idle, seed);
        assert!(last > first + 1.0, "seed {seed}: {first} became {last}");
        // The same days without learning: chance alone explains none of it.
        assert!(last > unlearnt + 1.0, "seed {seed}: {unlearnt} without learning, {last} with it");
    }
}

#[test]
fn the_published_setting_runs_to_its_end_with_a_network_for_each() {
    let coordinator = Coordinator::default();
    let mut trainer = trainer(&Config::paper(), 3, 1, &coordinator);
    let curve = train(&mut trainer, 2);
    assert!(curve.iter().all(|progress| progress.reward.is_finite() && progress.cores > 0.0));
    assert_ne!(trainer.network(0), trainer.network(1));
    assert_eq!(trainer.network(3), trainer.network(0), "a newcomer gets the network of a like one");
    assert_eq!(coordinator.members(), 3);
    trainer.leave().unwrap();
    assert_eq!(coordinator.members(), 0);
}

#[test]
fn a_trainer_needs_a_pool_for_each_environment() {
    let pools = ["one".parse().unwrap()];
    let trainer =
        Trainer::new(Config::preset_default(), &Scenario::new(3, 1).unwrap(), 1, &pools, |_| Coordinator::default());
    assert!(matches!(trainer.map(drop), Err(Error::Invalid(invalid)) if invalid.field == "pools"));
}
