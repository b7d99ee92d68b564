//! Fleets that learn: reproducibly, and for the better.

use std::num::NonZero;

use meanfield_agent::{
    Error,
    training::{Progress, Trainer},
};
use meanfield_common::identity::{Category, PoolName};
use meanfield_learner::{Config, Curriculum, Family, Sharing, Variant};
use meanfield_simulator::scenario::Scenario;

use crate::support::Coordinator;

fn trainer(config: &Config, tenants: usize, seed: u64, coordinator: &Coordinator) -> Trainer<Coordinator> {
    let pools: Vec<PoolName> = (0..config.environments).map(|pool| format!("pool-{pool}").parse().unwrap()).collect();
    Trainer::new(config.clone(), &Scenario::new(tenants, 1).unwrap(), seed, &pools, |_| coordinator.clone()).unwrap()
}

/// Every variant of both families, every way of sharing, and every way to see the others; small.
fn modes() -> Vec<Config> {
    let ours = Config::preset_default();
    let wide = |config: Config| Config { auxiliary: config.auxiliary_layout().width(), ..config };
    let mut modes: Vec<_> =
        Family::ALL.into_iter().flat_map(|family| Variant::ALL.map(|variant| variant.of(family))).collect();
    modes.extend([
        ours.clone(),
        Config { sharing: Sharing::Category, team_share: 0.5, ..ours.clone() },
        wide(Config { auxiliary_categories: true, auxiliary_percentiles: true, ..ours.clone() }),
        Config { auxiliary_in_actor: true, auxiliary: 0, observation: ours.observation + 12, ..ours.clone() },
    ]);
    let small = |config: Config| {
        let curriculum = config.curriculum.map(|all| Curriculum { first: 6, from: 1, to: 3, ..all });
        Config { horizon: 12, environments: 3, curriculum, ..config }
    };
    modes.into_iter().map(small).collect()
}

fn train(trainer: &mut Trainer<Coordinator>, iterations: usize) -> Vec<Progress> {
    (0..iterations).map(|iteration| trainer.iterate(iteration as f32 / iterations as f32).unwrap()).collect()
}

#[test]
fn the_same_seed_gives_the_same_networks_whatever_the_number_of_threads() {
    for config in modes() {
        let outcome = |seed: u64, threads: usize| {
            let trainer = trainer(&config, 3, seed, &Coordinator::default());
            let mut trainer = trainer.with_threads(NonZero::new(threads).unwrap());
            let curve = train(&mut trainer, 3);
            let networks: Vec<_> = (0..3).map(|place| trainer.network(place).clone()).collect();
            (curve, networks)
        };
        let one = outcome(1, 1);
        for threads in [2, 3, 64] {
            assert!(outcome(1, threads) == one, "{threads} threads: {config:?}");
        }
        assert!(outcome(2, 1) != one, "another seed: {config:?}");
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
    let unshared = Config { sharing: Sharing::None, ..Config::paper() };
    let mut trainer = trainer(&unshared, 3, 1, &coordinator);
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

#[test]
fn a_resumed_training_is_that_of_an_uninterrupted_one() {
    for config in modes() {
        let coordinator = Coordinator::default();
        let scenario = Scenario::new(3, 1).unwrap();
        let mut through = trainer(&config, 3, 1, &coordinator);
        train(&mut through, 2);
        let saved = through.save().unwrap();
        through.restart(&scenario, |_| coordinator.clone()).unwrap();
        let curve = train(&mut through, 2);

        let elsewhere = Coordinator::default();
        let mut resumed = trainer(&config, 3, 1, &elsewhere);
        resumed.resume(&saved, |_| elsewhere.clone()).unwrap();
        assert_eq!(resumed.iteration(), 2);
        assert_eq!(train(&mut resumed, 2), curve, "{config:?}");
        assert!(resumed.save().unwrap() == through.save().unwrap(), "{config:?}");
    }
}

#[test]
fn what_was_saved_by_another_kind_of_training_is_refused_in_words() {
    let coordinator = Coordinator::default();
    let saved = trainer(&Config::preset_default(), 3, 1, &coordinator).save().unwrap();
    let refusal = |config: &Config| {
        let error = trainer(config, 3, 1, &Coordinator::default()).resume(&saved, |_| coordinator.clone()).unwrap_err();
        let Error::Invalid(invalid) = error else { panic!("{error}") };
        invalid.to_string()
    };
    let shapes = refusal(&Config::paper());
    assert!(shapes.contains("29+12 inputs") && shapes.contains("7+12 inputs, hidden [64, 64], heads [7]"), "{shapes}");
    assert!(refusal(&Config { gamma: 0.5, ..Config::preset_default() }).contains("settings"));
}

#[test]
fn newcomers_start_from_what_is_shared() {
    let (few, many) = (Scenario::new(4, 1).unwrap(), Scenario::new(7, 1).unwrap());
    for (sharing, networks) in [(Sharing::None, 7), (Sharing::Base, 7), (Sharing::Category, 3), (Sharing::Pool, 1)] {
        let config = Config { horizon: 10, environments: 2, sharing, base_rate: 0.5, ..Config::preset_default() };
        let coordinator = Coordinator::default();
        let mut trainer = trainer(&config, 4, 1, &coordinator);
        train(&mut trainer, 2);
        let start = |trainer: &Trainer<Coordinator>, category| trainer.start_of(category).cloned();
        let starts = Category::ALL.map(|category| start(&trainer, category));
        let kept = trainer.network(2).clone();
        trainer.restart(&many, |_| coordinator.clone()).unwrap();
        assert_eq!(coordinator.members(), 0, "they join with their first step");
        assert_eq!(trainer.learners().count(), networks, "{sharing:?}");
        assert_eq!(*trainer.network(2), kept, "who stays keeps its network");
        for place in 4..7 {
            let from = &starts[trainer.categories()[place] as usize];
            assert!(from.as_ref().is_none_or(|from| from == trainer.network(place)), "{sharing:?} {place}");
            assert_eq!(from.is_none(), sharing == Sharing::None);
        }
        train(&mut trainer, 1);
        assert_eq!(coordinator.members(), 2 * 7);
        trainer.restart(&few, |_| coordinator.clone()).unwrap();
        train(&mut trainer, 1);
        assert_eq!(coordinator.members(), 2 * 4);
    }
}

#[test]
fn a_base_model_follows_its_agents() {
    let config = Config { horizon: 10, base_rate: 0.25, curriculum: None, ..Config::paper() };
    let mut trainer = trainer(&config, 12, 1, &Coordinator::default());
    for category in Category::ALL {
        let before = trainer.start_of(category).unwrap().parameters().0.to_vec();
        train(&mut trainer, 1);
        let places: Vec<_> = (0..12).filter(|place| trainer.categories()[*place] == category).collect();
        for (index, now) in trainer.start_of(category).unwrap().parameters().0.iter().enumerate().step_by(97) {
            let of = |place: &usize| trainer.network(*place).parameters().0[index];
            let mean = places.iter().map(of).sum::<f32>() / places.len() as f32;
            assert!((now - (0.75 * before[index] + 0.25 * mean)).abs() < 1e-6);
        }
    }
}

#[test]
fn a_loss_that_is_no_number_names_the_network_and_leaves_it() {
    let config =
        Config { value_weight: 1e38, sharing: Sharing::Category, max_gradient_norm: None, ..Config::default() };
    let mut trainer = trainer(&config, 3, 1, &Coordinator::default());
    let before = trainer.save().unwrap();
    let error = trainer.iterate(0.0).unwrap_err();
    let Error::Training { episode: 0, of, source } = &error else { panic!("{error}") };
    assert!(of.starts_with("the category") && source.to_string().contains("critic gradient"), "{of}: {source}");
    let after = trainer.save().unwrap();
    let left = |category: Category| after.learners[category as usize] == before.learners[category as usize];
    assert!(Category::ALL.into_iter().any(left));
}
