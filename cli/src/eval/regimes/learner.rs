//! Learners: one network for all agents, trained in the regime in which it is judged.

use std::{num::NonZero, sync::Arc};

use meanfield_agent::{policy::ppo::Ppo, training::Trainer};
use meanfield_common::{identity::PoolName, mean_field, scarcity};
use meanfield_learner::Config;
use meanfield_simulator::scenario::DAY_STEPS;
use serde::{Deserialize, Serialize};

use super::{
    Job, day,
    link::{Coordination, Twist, Way},
    player::Player,
    regime::Regime,
};
use crate::{
    args::EvalArgs,
    eval::{
        cell::Result,
        workers::{Store, compute},
    },
    in_process::InProcess,
};

/// Steps before a counted day: the network looks back on minutes only.
const HISTORY: usize = 240;

/// A training, and the days on which its network is judged.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Training {
    regime: Regime,
    coordination: Coordination,
    /// Seed of the training.
    seed: u64,
    episodes: u64,
    days: u64,
    events: bool,
}

/// All trainings that are asked for, with their days.
pub fn compute_all(
    args: &EvalArgs,
    regimes: &[Regime],
    days: u64,
    events: bool,
    store: &Store,
) -> anyhow::Result<Vec<(Job, Result)>> {
    let (episodes, trainings) = if args.quick { (10, 1) } else { (300, 1) };
    let mut jobs = Vec::new();
    // A hundred and ten agents make ten times the experience in an episode.
    for &regime in regimes {
        let episodes = if regime == Regime::Many { episodes / 4 } else { episodes };
        for coordination in [Coordination::None, Coordination::Headroom, Coordination::Grants] {
            for seed in 1..=trainings {
                jobs.push(Training { regime, coordination, seed, episodes, days, events });
            }
        }
    }
    let results = compute("learners", args.threads, store, &jobs, run)?;
    let mut played = Vec::new();
    for (training, results) in jobs.iter().zip(results) {
        played.extend((1..).zip(results).map(|(seed, result)| (training.day(seed), result)));
    }
    Ok(played)
}

impl Training {
    fn day(&self, seed: u64) -> Job {
        let Self { regime, coordination, events, .. } = *self;
        Job { regime, player: Player::Learner { coordination }, twist: Twist::default(), seed, events }
    }
}

/// Trains, and plays every day.
fn run(training: &Training) -> anyhow::Result<Vec<Result>> {
    let Training { regime, coordination, .. } = *training;
    let mut config = Config::preset_default();
    if coordination == Coordination::Headroom {
        config.auxiliary = mean_field::FEATURES + scarcity::FEATURES;
    }
    let pools = (0..config.environments).map(|cluster| format!("training-{cluster}").parse());
    let pools = pools.collect::<std::result::Result<Vec<PoolName>, _>>()?;
    let coordinator = day::coordinator(regime, &pools, coordination)?;
    let way = |_| Way::new(InProcess(coordinator.clone()), coordination, 0, None);
    let mut trainer = Trainer::new(config, &regime.scenario(1)?, training.seed, &pools, way)?
        // The cells themselves run side by side.
        .with_threads(NonZero::<usize>::MIN);
    for episode in 0..training.episodes {
        trainer.iterate(episode as f32 / training.episodes as f32)?;
    }
    trainer.leave()?;
    let network = Arc::new(trainer.network(0).clone());
    let scenario = regime.scenario(HISTORY + DAY_STEPS)?;
    let day = |seed: u64| {
        day::play(&training.day(seed), coordination, &scenario, HISTORY, |_, _| Ok(Ppo::serving(network.clone())))
    };
    (1..=training.days).map(day).collect()
}
