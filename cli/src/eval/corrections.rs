//! Networks that correct the plan, trained before a policy with one of them takes part.
//!
//! A network starts as one that changes nothing, so the plan itself is what training starts from. It then plays the fluid
//! model under loads of every kind, from little to as much as fits, with several ratios of limits to requests, and under a
//! coordinator that knows the capacity: whoever serves under grants must have met them.

use std::{
    num::NonZero,
    sync::{Arc, OnceLock},
    time::Duration,
};

use meanfield_agent::{
    policy::{
        forecast::{Care, Forecast},
        plan::{Options, Plan},
        residual::Base,
    },
    training::{Bases, Trainer},
};
use meanfield_common::{identity::PoolName, invalid::Invalid, scarcity::Capacity};
use meanfield_coordinator::{Clock, Coordinator};
use meanfield_learner::{ActorCritic, Config};
use meanfield_simulator::scenario::Scenario;
use meanfield_traces::synth::Preset;

use super::{networks, tuning};
use crate::in_process::InProcess;

/// Trainings, of which days take one after the other: no figure hangs on the luck of a single one.
const TRAININGS: usize = 5;
/// Episodes on each cluster of a training.
const ITERATIONS: u64 = 48;
/// Tenants of a cluster: the twelve functions.
const TENANTS: usize = 12;
/// How many times the usual arrivals come.
const DEMANDS: [f64; 4] = [0.6, 0.8, 1.0, 1.2];
/// How many times the requests CPU limits are.
const OVERCOMMITS: [f64; 3] = [1.2, 1.5, 2.0];
/// The part of the nodes that pods can be packed into; the coordinator is told no more.
const PACKED: f64 = 0.97;

/// The plan that is corrected.
pub fn base(options: Options, tune: bool) -> Result<Box<dyn Base>, Invalid> {
    let care = Care { tune, ..Care::default() };
    Ok(Box::new(Plan::new(options, Forecast::new(networks::shipped()?, care))?))
}

/// The network for a day, by its seed. Each is trained once a process; days for tuning share one.
pub fn of_day(seed: u64) -> Result<Arc<ActorCritic>, Invalid> {
    static MADE: [OnceLock<Result<Arc<ActorCritic>, String>>; TRAININGS] = [const { OnceLock::new() }; TRAININGS];
    let training = if seed < tuning::SEEDS { (seed % TRAININGS as u64) as usize } else { 1 };
    let made = MADE[training].get_or_init(|| trained(training as u64).map_err(|error| format!("{error:#}")));
    made.clone().map_err(|error| Invalid::new("corrections", error, "trainable"))
}

fn trained(seed: u64) -> anyhow::Result<Arc<ActorCritic>> {
    let config = Config::residual();
    let pools = (0..config.environments).map(|cluster| format!("training-{cluster}").parse());
    let pools = pools.collect::<Result<Vec<PoolName>, _>>()?;
    let scenario = Scenario::new(TENANTS, 1)?;
    let coordinator = coordinator(&scenario, &pools)?;
    // Tuning takes hours of a workload, and an episode has minutes.
    let bases: Bases = Arc::new(|_| Ok(base(Options::default(), false)?));
    let link = |_| InProcess(coordinator.clone());
    let mut trainer = Trainer::on(bases, config, &scenario, seed, &pools, link)?
        .with_loads(Preset::ALL.to_vec())
        .with_demands(DEMANDS.to_vec())?
        .with_overcommits(OVERCOMMITS.to_vec())?
        // Days run side by side, and each of them may be waiting for a training.
        .with_threads(NonZero::<usize>::MIN);
    for iteration in 0..ITERATIONS {
        trainer.iterate(iteration as f32 / ITERATIONS as f32)?;
    }
    trainer.leave()?;
    Ok(Arc::new(trainer.network(0).clone()))
}

/// A coordinator that knows what the nodes of each pool hold.
fn coordinator(scenario: &Scenario, pools: &[PoolName]) -> anyhow::Result<Coordinator> {
    let nodes = scenario.cluster().nodes;
    let cores: f64 = nodes.iter().map(|node| node.cores).sum();
    let memory: f64 = nodes.iter().map(|node| node.memory.as_mebi() / 1024.0).sum();
    let capacity = Capacity::new(PACKED * cores, PACKED * memory)?;
    let capacities = pools.iter().map(|pool| (pool.clone(), capacity)).collect();
    // Simulated agents are never silent.
    let (suspect_after, gone_after) = (Duration::from_hours(1), Duration::from_hours(24));
    let options = meanfield_coordinator::Options {
        pools: pools.to_vec(),
        capacities,
        suspect_after,
        gone_after,
        ..meanfield_coordinator::Options::default()
    };
    Ok(Coordinator::open(options, Clock::manual())?)
}
