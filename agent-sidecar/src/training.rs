//! Fleets that learn: several simulated clusters at once, one network (or one per agent).
//!
//! An iteration runs one episode on every cluster, then updates. Clusters run on several threads; their experience is
//! put together in a fixed order, so the result depends on the seed alone.

use std::{num::NonZero, sync::Arc, thread};

use meanfield_common::{identity::PoolName, invalid::Invalid};
use meanfield_learner::{ActorCritic, Batch, Config, Learner};
use meanfield_simulator::scenario::{Scenario, Start};

use crate::{
    Error,
    fleet::Fleet,
    link::Link,
    policy::ppo::{self, Episode, Ppo},
};

/// Streams of seeds by purpose; episodes take theirs from 0 upwards.
const NETWORKS: u64 = 1 << 48;
const AGENTS: u64 = 1 << 49;

/// What an iteration brought, over all agents and clusters.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Progress {
    /// Mean reward of a step.
    pub reward: f64,
    /// Share of steps that missed the objective.
    pub violations: f64,
    /// Mean cores reserved by one cluster.
    pub cores: f64,
}

/// Learners over a set of training clusters.
pub struct Trainer<L> {
    scenario: Scenario,
    fleets: Vec<Fleet<L, Ppo>>,
    /// One learner for all, or one for each place.
    learners: Vec<Learner>,
    batch: Batch,
    config: Config,
    seed: u64,
    iteration: u64,
    threads: NonZero<usize>,
}

/// Sums over the steps of an episode.
#[derive(Default, Clone, Copy)]
struct Tally {
    reward: f64,
    violations: f64,
    cores: f64,
    steps: f64,
}

impl<L: Link> Trainer<L> {
    /// A trainer for clusters of a kind, each with a pool of its own; `link` gives an agent its way to the coordinator.
    /// Arrivals are drawn for as many steps as an episode has.
    pub fn new(
        config: Config,
        scenario: &Scenario,
        seed: u64,
        pools: &[PoolName],
        mut link: impl FnMut(usize) -> L,
    ) -> Result<Self, Error> {
        config.validate()?;
        ppo::check(&config)?;
        let scenario = scenario.clone().with_steps(config.horizon + 1)?;
        let tenants = scenario.tenants();
        let count = if config.shared_network { 1 } else { tenants };
        let learners = (0..count).map(|index| Learner::new(config.clone(), mix(seed, NETWORKS + index as u64)));
        let learners = learners.collect::<Result<Vec<_>, _>>()?;
        let network = |place: usize| Arc::new(learners[if count == 1 { 0 } else { place }].network().clone());
        if pools.len() != config.environments {
            return Err(
                Invalid::new("pools", pools.len(), format!("{}, one an environment", config.environments)).into()
            );
        }
        let fleets = pools.iter().enumerate().map(|(environment, pool)| {
            let seed = mix(seed, AGENTS + environment as u64);
            Fleet::new(&scenario, seed, Start::Random, pool.clone(), config.reward, |place, _| {
                Ok((link(place), Ppo::exploring(network(place), mix(seed, place as u64))))
            })
        });
        let fleets = fleets.collect::<Result<Vec<_>, Error>>()?;
        let batch = Batch::new(&config, config.horizon * config.environments * tenants);
        let threads = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        Ok(Self { scenario, fleets, learners, batch, config, seed, iteration: 0, threads })
    }

    /// The same trainer on at most so many threads, instead of as many as the machine has.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZero<usize>) -> Self {
        self.threads = threads;
        self
    }

    /// One episode on every cluster and one update; `share` is how much of the training is done, within [0, 1].
    pub fn iterate(&mut self, share: f32) -> Result<Progress, Error> {
        let (seed, iteration, horizon) = (self.seed, self.iteration, self.config.horizon);
        let scenario = &self.scenario;
        let chunk = self.fleets.len().div_ceil(self.threads.get());
        let tallies = thread::scope(|scope| {
            let workers: Vec<_> = (self.fleets.chunks_mut(chunk).enumerate())
                .map(|(worker, fleets)| {
                    scope.spawn(move || -> Result<Vec<Tally>, Error> {
                        let runs = fleets.iter_mut().enumerate().map(|(index, fleet)| {
                            let environment = (worker * chunk + index) as u64;
                            episode(fleet, scenario, mix(seed, (iteration << 16) + environment), horizon)
                        });
                        runs.collect()
                    })
                })
                .collect();
            let joined = workers
                .into_iter()
                .map(|worker| worker.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)));
            joined.collect::<Result<Vec<_>, _>>()
        })?;
        self.learn(share)?;
        self.iteration += 1;
        let environments = self.fleets.len() as f64;
        let total = tallies.into_iter().flatten().fold(Tally::default(), |sum, one| Tally {
            reward: sum.reward + one.reward,
            violations: sum.violations + one.violations,
            cores: sum.cores + one.cores,
            steps: sum.steps + one.steps,
        });
        Ok(Progress {
            reward: total.reward / total.steps,
            violations: total.violations / total.steps,
            cores: total.cores / (environments * horizon as f64),
        })
    }

    /// Updates each learner from its agents' episodes, in the order of clusters and places, and hands the networks out.
    fn learn(&mut self, share: f32) -> Result<(), Error> {
        let shared = self.learners.len() == 1;
        for (index, learner) in self.learners.iter_mut().enumerate() {
            self.batch.clear();
            let mine = |place: usize| shared || place == index;
            for fleet in &mut self.fleets {
                for (_, agent) in fleet.agents_mut().filter(|(place, _)| mine(*place)) {
                    if let Some(Episode { segment, bootstrap }) = agent.policy_mut().take_episode()? {
                        self.batch.push_segment(&segment, bootstrap)?;
                    }
                }
            }
            learner.update(&self.batch, share)?;
            let network = Arc::new(learner.network().clone());
            for fleet in &mut self.fleets {
                for (_, agent) in fleet.agents_mut().filter(|(place, _)| mine(*place)) {
                    agent.policy_mut().set_network(network.clone());
                }
            }
        }
        Ok(())
    }

    /// All agents leave their pools: the training is over.
    pub fn leave(&mut self) -> Result<(), Error> {
        futures_executor::block_on(async {
            for fleet in &mut self.fleets {
                fleet.disband().await?;
            }
            Ok(())
        })
    }

    /// The network of the agent at `place`; a newcomer beyond the trained places gets that of a like one.
    #[must_use]
    pub fn network(&self, place: usize) -> &ActorCritic {
        self.learners[place % self.learners.len()].network()
    }

    /// The learner of the agent at `place`, for a checkpoint.
    #[must_use]
    pub fn learner(&self, place: usize) -> &Learner {
        &self.learners[place % self.learners.len()]
    }
}

/// One episode on a fresh cluster.
fn episode<L: Link>(fleet: &mut Fleet<L, Ppo>, scenario: &Scenario, seed: u64, horizon: usize) -> Result<Tally, Error> {
    fleet.reset(scenario, seed, Start::Random)?;
    let mut tally = Tally::default();
    // Simulated agents never wait for anything, so each future is ready at its first poll.
    futures_executor::block_on(async {
        for step in 0..=horizon {
            for taken in fleet.round_in_turn().await? {
                // The first observation is not the doing of this episode's actions.
                if step > 0 {
                    tally.reward += taken.report.reward;
                    tally.violations += f64::from(u8::from(taken.report.violated));
                    tally.cores += taken.outcome.cores;
                    tally.steps += 1.0;
                }
            }
        }
        Ok(tally)
    })
}

/// Independent seeds from one seed (SplitMix64).
#[must_use]
pub fn mix(seed: u64, stream: u64) -> u64 {
    let mut z = seed.wrapping_add(stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
