//! Training and serving, as all four experiments do it.

use std::{num::NonZero, sync::Arc, time::Instant};

use futures_executor::block_on;
use meanfield_agent::{
    fleet::{Fleet, Step},
    link::Nobody,
    policy::{Policy, ppo::Ppo},
    training::{Trainer, mix, streams::HELD_OUT_DAY},
    turns::Rounds,
};
use meanfield_common::{identity::PoolName, reward::Shape};
use meanfield_learner::{ActorCritic, Config, Family, Variant};
use meanfield_simulator::{
    cluster::{Spec, TenantSpec},
    scenario::{DAY_STEPS, Scenario, Start},
};
use serde::{Deserialize, Serialize};

use super::super::contestant::{Contestant, Kind};
use crate::{in_process::InProcess, train::coordinator};

/// A variant in a family, by the name of its preset.
pub fn preset(variant: Variant, family: Family) -> String {
    let before = if family == Family::Paper { "paper-" } else { "" };
    format!("{before}{}", variant.name())
}

/// What a served day brought.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Served {
    pub reward: f64,
    pub violations: f64,
    pub cores: f64,
    pub functions: Vec<Function>,
}

/// One agent's day.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Function {
    /// p99 of the median window, and over the SLO.
    pub p99_ms: f64,
    pub p99_over_slo: f64,
    pub violations: f64,
    pub reward: f64,
    pub cpu_utilisation: f64,
}

/// A training that goes on.
pub struct Session {
    trainer: Trainer<InProcess>,
    link: InProcess,
    pub curve: Vec<f64>,
    pub seconds: f64,
}

impl Session {
    pub fn new(config: &Config, scenario: &Scenario, seed: u64, threads: usize) -> anyhow::Result<Self> {
        let (coordinator, pools) = coordinator(config.environments)?;
        let link = InProcess(coordinator);
        let trainer = Trainer::new(config.clone(), scenario, mix(seed, 1), &pools, |_| link.clone())?
            .with_threads(NonZero::new(threads).unwrap_or(NonZero::<usize>::MIN));
        Ok(Self { trainer, link, curve: Vec::new(), seconds: 0.0 })
    }

    /// So many episodes, at a learning rate that goes from one share of the training to another.
    pub fn train(&mut self, episodes: usize, from: f32, to: f32) -> anyhow::Result<&[f64]> {
        let (begun, started) = (self.curve.len(), Instant::now());
        for episode in 0..episodes {
            let share = from + (to - from) * episode as f32 / episodes as f32;
            self.curve.push(self.trainer.iterate(share)?.reward);
        }
        self.seconds += started.elapsed().as_secs_f64();
        Ok(&self.curve[begun..])
    }

    /// Others join or leave.
    pub fn change(&mut self, scenario: &Scenario) -> anyhow::Result<()> {
        let link = self.link.clone();
        Ok(self.trainer.restart(scenario, |_| link.clone())?)
    }

    /// The networks of so many agents.
    pub fn networks(&self, agents: usize) -> Vec<Arc<ActorCritic>> {
        (0..agents).map(|place| Arc::new(self.trainer.network(place).clone())).collect()
    }

    /// The same training again from here on, apart.
    pub fn fork(&self, config: &Config, scenario: &Scenario, seed: u64) -> anyhow::Result<Self> {
        let mut fork = Self::new(config, scenario, seed, 1)?;
        let link = fork.link.clone();
        fork.trainer.resume(&self.trainer.save()?, |_| link.clone())?;
        Ok(fork)
    }
}

/// A day of networks on arrivals that nobody trained on.
pub fn serve(config: &Config, networks: &[Arc<ActorCritic>], scenario: &Scenario, seed: u64) -> anyhow::Result<Served> {
    let equip = |place: usize, _: &TenantSpec, _: &Spec| {
        let network = networks[place % networks.len()].clone();
        // Without masks the best action may be one that the bounds forbid, and then it stays the best one for ever.
        let stuck = !config.mask_actions;
        Ok(if stuck { Ppo::exploring(network, mix(seed, place as u64)) } else { Ppo::serving(network) })
    };
    let mut rounds = Rounds::new(config.turns);
    day(config.reward, scenario, seed, equip, |fleet| Ok(block_on(rounds.next(fleet))?))
}

/// A day of a rule-based policy on the same arrivals.
pub fn serve_rules(kind: Kind, shape: Shape, scenario: &Scenario, seed: u64) -> anyhow::Result<Served> {
    let contestant = Contestant::default_of(kind);
    let equip = |place: usize, tenant: &TenantSpec, cluster: &Spec| {
        Ok(kind.policy(contestant.setting(place), tenant, cluster)?)
    };
    day(shape, scenario, seed, equip, |fleet: &mut Fleet<Nobody, Box<dyn Policy>>| Ok(block_on(fleet.round_in_turn())?))
}

fn day<P: Policy>(
    shape: Shape,
    scenario: &Scenario,
    seed: u64,
    equip: impl Fn(usize, &TenantSpec, &Spec) -> anyhow::Result<P>,
    mut round: impl FnMut(&mut Fleet<Nobody, P>) -> anyhow::Result<Vec<Step>>,
) -> anyhow::Result<Served> {
    let scenario = scenario.clone().with_steps(DAY_STEPS)?;
    let (pool, cluster): (PoolName, _) = ("eval".parse()?, scenario.cluster());
    let seed = mix(seed, HELD_OUT_DAY);
    let mut policies = Vec::new();
    for place in 0..scenario.tenants() {
        policies.push(equip(place, &scenario.tenant(place, seed, Start::Sized)?, &cluster)?);
    }
    let mut policies = policies.into_iter();
    let mut fleet = Fleet::new(&scenario, seed, Start::Sized, pool, shape, |place, _| {
        let none = || meanfield_common::invalid::Invalid::new("place", place, "equipped");
        Ok((Nobody, policies.next().ok_or_else(none)?))
    })?;
    let mut days: Vec<Vec<Step>> = vec![Vec::with_capacity(DAY_STEPS); scenario.tenants()];
    for step in 0..DAY_STEPS {
        for one in round(&mut fleet)? {
            // The first round reports what the starting size did.
            if step > 0 {
                days[one.place].push(one);
            }
        }
    }
    let functions: Vec<_> = days.iter().map(|steps| function(steps)).collect();
    let cores = days.iter().flatten().map(|step| step.outcome.cores).sum::<f64>() / (DAY_STEPS - 1) as f64;
    let over = |value: fn(&Function) -> f64| functions.iter().map(value).sum::<f64>() / functions.len() as f64;
    Ok(Served { reward: over(|one| one.reward), violations: over(|one| one.violations), cores, functions })
}

fn function(steps: &[Step]) -> Function {
    let count = steps.len() as f64;
    let median = |mut values: Vec<f64>| {
        values.sort_unstable_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or(0.0)
    };
    Function {
        p99_ms: median(steps.iter().filter_map(|step| step.report.seen.latency_p99).collect()),
        p99_over_slo: median(steps.iter().filter_map(|step| step.report.excess).collect()),
        violations: steps.iter().filter(|step| step.outcome.violated).count() as f64 / count,
        reward: steps.iter().map(|step| step.report.reward).sum::<f64>() / count,
        cpu_utilisation: steps.iter().map(|step| step.report.seen.cpu_utilisation()).sum::<f64>() / count,
    }
}
