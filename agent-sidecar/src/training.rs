//! Fleets that learn: several simulated clusters at once; one network for all agents, for each category or for each agent.
//!
//! An iteration runs one episode on every cluster, then updates. Clusters run on several threads; their experience is
//! put together in a fixed order, so the result depends on the seed alone.

use std::{collections::BTreeSet, num::NonZero, sync::Arc, thread};

use meanfield_common::{
    identity::{Category, PoolName},
    invalid::Invalid,
};
use meanfield_learner::{ActorCritic, Batch, Config, Learner, Sharing};
use meanfield_simulator::scenario::{Scenario, Start};
use meanfield_traces::synth::Preset;

use crate::{
    Error,
    fleet::{Fleet, tenant_name},
    link::Link,
    policy::{
        ppo::{self, Episode, Ppo},
        residual::{self, Base},
    },
};

mod episode;
mod saved;
pub mod streams;
mod threads;

use episode::{Course, Tally};
pub use saved::Saved;
pub use streams::mix;
use streams::{AGENTS, BASES, NETWORKS, OVERCOMMITS};
use threads::on_threads;

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

/// Gives the agent at a place the policy that its network corrects.
pub type Bases = Arc<dyn Fn(usize) -> Result<Box<dyn Base>, Error> + Send + Sync>;

/// Learners over a set of training clusters.
pub struct Trainer<L> {
    scenario: Scenario,
    pools: Vec<PoolName>,
    fleets: Vec<Fleet<L, Ppo>>,
    /// One for all, one a category, or one for each place.
    learners: Vec<Learner>,
    /// What agents that join start from: one a category.
    bases: Vec<ActorCritic>,
    /// The category of each place.
    categories: Vec<Category>,
    batches: Vec<Batch>,
    config: Config,
    seed: u64,
    iteration: u64,
    threads: NonZero<usize>,
    /// Shapes of the load that clusters take in turn; none leaves the scenario's own.
    loads: Vec<Preset>,
    /// How many times the usual arrivals come, in turn; none leaves the scenario's own.
    demands: Vec<f64>,
    /// How many times the requests CPU limits are, of which each episode draws one; none leaves the scenario's own.
    overcommits: Vec<f64>,
    /// What the networks correct, where they correct something.
    corrected: Option<Bases>,
}

impl<L: Link> Trainer<L> {
    /// A trainer for clusters of a kind, each with a pool of its own; `link` gives an agent its way to the coordinator.
    /// Arrivals are drawn for as many steps as an episode has.
    pub fn new(
        config: Config,
        scenario: &Scenario,
        seed: u64,
        pools: &[PoolName],
        link: impl FnMut(usize) -> L,
    ) -> Result<Self, Error> {
        Self::built(None, config, scenario, seed, pools, link)
    }

    /// The same for networks that correct other policies' wishes; they start by leaving those as they are.
    pub fn on(
        bases: Bases,
        config: Config,
        scenario: &Scenario,
        seed: u64,
        pools: &[PoolName],
        link: impl FnMut(usize) -> L,
    ) -> Result<Self, Error> {
        Self::built(Some(bases), config, scenario, seed, pools, link)
    }

    fn built(
        corrected: Option<Bases>,
        config: Config,
        scenario: &Scenario,
        seed: u64,
        pools: &[PoolName],
        link: impl FnMut(usize) -> L,
    ) -> Result<Self, Error> {
        config.validate()?;
        ppo::check(&config)?;
        if ppo::is_residual(&config) != corrected.is_some() {
            let bound = "that of the preset `residual` exactly where there is a policy to correct";
            return Err(Invalid::new("observation", config.observation, bound).into());
        }
        if pools.len() != config.environments {
            return Err(
                Invalid::new("pools", pools.len(), format!("{}, one an environment", config.environments)).into()
            );
        }
        let threads = thread::available_parallelism().unwrap_or(NonZero::<usize>::MIN);
        let mut trainer = Self {
            scenario: scenario.clone(),
            pools: pools.to_vec(),
            fleets: Vec::new(),
            learners: Vec::new(),
            bases: Vec::new(),
            categories: Vec::new(),
            batches: Vec::new(),
            config,
            seed,
            iteration: 0,
            threads,
            loads: Vec::new(),
            demands: Vec::new(),
            overcommits: Vec::new(),
            corrected,
        };
        trainer.restart(scenario, link)?;
        Ok(trainer)
    }

    /// The same trainer on at most so many threads, instead of as many as the machine has.
    #[must_use]
    pub fn with_threads(mut self, threads: NonZero<usize>) -> Self {
        self.threads = threads;
        self
    }

    /// The same trainer with several shapes of load, of which each cluster takes another one in each episode.
    #[must_use]
    pub fn with_loads(mut self, loads: Vec<Preset>) -> Self {
        self.loads = loads;
        self
    }

    /// The same trainer with several multiples of the usual arrivals, which clusters take in turn as they do loads.
    pub fn with_demands(mut self, demands: Vec<f64>) -> Result<Self, Invalid> {
        demands.iter().try_for_each(|times| self.scenario.clone().with_demand(*times).map(drop))?;
        self.demands = demands;
        Ok(self)
    }

    /// The same trainer with CPU limits of several multiples of the requests, of which each episode draws one.
    pub fn with_overcommits(mut self, overcommits: Vec<f64>) -> Result<Self, Invalid> {
        overcommits.iter().try_for_each(|times| self.scenario.clone().with_overcommit(*times).map(drop))?;
        self.overcommits = overcommits;
        Ok(self)
    }

    /// All agents leave, and those of a scenario join: the same ones with their networks, newcomers from their category's
    /// base model, from the network that they share, or from scratch. What follows depends on nothing but the networks
    /// and the number of episodes done.
    pub fn restart(&mut self, scenario: &Scenario, mut link: impl FnMut(usize) -> L) -> Result<(), Error> {
        self.leave()?;
        let scenario = scenario.clone().with_steps(self.config.horizon + 1)?;
        let category = |place| scenario.tenant(place, 0, Start::Sized).map(|tenant| tenant.workload.category);
        self.categories = (0..scenario.tenants()).map(category).collect::<Result<_, _>>()?;
        self.scenario = scenario;
        self.enrol()?;
        let (seed, iteration) = (self.seed, self.iteration);
        let mut fleets = Vec::with_capacity(self.pools.len());
        for (environment, pool) in self.pools.iter().enumerate() {
            let seed = mix(seed, AGENTS + (iteration << 16) + environment as u64);
            let networks = self.learners.iter().map(|learner| Arc::new(learner.network().clone()));
            let networks: Vec<_> = networks.collect();
            let shape = self.config.reward;
            fleets.push(Fleet::new(&self.scenario, seed, Start::Random, pool.clone(), shape, |place, _| {
                let network = networks[self.index(place)].clone();
                let policy = Ppo::exploring(network, mix(seed, place as u64));
                let policy = match &self.corrected {
                    Some(bases) => policy.on(bases(place)?),
                    None => policy,
                };
                Ok((link(place), policy))
            })?);
        }
        self.fleets = fleets;
        Ok(())
    }

    /// As many learners as the sharing and the places ask for; those that exist stay.
    fn enrol(&mut self) -> Result<(), Error> {
        let (config, seed) = (&self.config, self.seed);
        let fresh = |index: usize| -> Result<Learner, Error> {
            let seed = mix(seed, NETWORKS + index as u64);
            if ppo::is_residual(config) {
                return Ok(Learner::from_network(residual::untrained(config.clone(), seed)?, seed));
            }
            Ok(Learner::new(config.clone(), seed)?)
        };
        let wanted = match config.sharing {
            Sharing::Pool => 1,
            Sharing::Category => Category::ALL.len(),
            Sharing::None | Sharing::Base => self.categories.len(),
        };
        if config.sharing == Sharing::Base && self.bases.is_empty() {
            let base = |index| Ok::<_, Error>(fresh(BASES + index)?.network().clone());
            self.bases = (0..Category::ALL.len()).map(base).collect::<Result<_, _>>()?;
        }
        self.learners.truncate(wanted);
        for index in self.learners.len()..wanted {
            let learner = match self.bases.get(self.categories[index % self.categories.len()] as usize) {
                Some(base) => Learner::from_network(base.clone(), mix(seed, NETWORKS + index as u64)),
                None => fresh(index)?,
            };
            self.learners.push(learner);
        }
        self.batches = self.learners.iter().map(|_| Batch::new(config, 0)).collect();
        Ok(())
    }

    /// The learner of the agent at a place.
    fn index(&self, place: usize) -> usize {
        match self.config.sharing {
            Sharing::Pool => 0,
            Sharing::Category => self.categories.get(place).map_or(0, |category| *category as usize),
            Sharing::None | Sharing::Base => place % self.learners.len(),
        }
    }

    /// What clusters take in turn: every load with every demand.
    fn scenarios(&self) -> Result<Vec<Scenario>, Invalid> {
        let loads = self.loads.iter().map(|load| self.scenario.clone().with_load(*load));
        let loads: Vec<_> = if self.loads.is_empty() { vec![self.scenario.clone()] } else { loads.collect() };
        if self.demands.is_empty() {
            return Ok(loads);
        }
        let every = self.demands.iter().flat_map(|times| loads.iter().map(|load| load.clone().with_demand(*times)));
        every.collect()
    }

    /// A scenario as an episode has it.
    fn drawn(&self, scenario: &Scenario, episode: u64) -> Result<Scenario, Invalid> {
        let count = self.overcommits.len().max(1) as u64;
        let drawn = (mix(self.seed, OVERCOMMITS + episode) % count) as usize;
        let scenario = scenario.clone();
        self.overcommits.get(drawn).map_or(Ok(scenario.clone()), |times| scenario.with_overcommit(*times))
    }

    /// One episode on every cluster and one update; `share` is how much of the training is done, within [0, 1].
    pub fn iterate(&mut self, share: f32) -> Result<Progress, Error> {
        let (seed, iteration) = (self.seed, self.iteration);
        let course = Course {
            horizon: self.config.horizon_at(iteration),
            patience: self.config.patience_at(iteration),
            turns: self.config.turns,
            weighted: self.config.team_weighted,
        };
        let scenarios = self.scenarios()?;
        let episode = |environment: u64| (iteration << 16) + environment;
        let mut taken = Vec::with_capacity(self.fleets.len());
        for environment in 0..self.fleets.len() as u64 {
            let turn = ((environment + iteration) % scenarios.len() as u64) as usize;
            taken.push(self.drawn(&scenarios[turn], episode(environment))?);
        }
        let chunk = self.fleets.len().div_ceil(self.threads.get());
        let tallies = on_threads(self.fleets.chunks_mut(chunk).enumerate(), |(worker, fleets)| {
            let runs = fleets.iter_mut().enumerate().map(|(index, fleet)| {
                let environment = worker * chunk + index;
                course.episode(fleet, &taken[environment], mix(seed, episode(environment as u64)))
            });
            runs.collect::<Result<Vec<Tally>, Error>>()
        })?;
        self.learn(share)?;
        self.iteration += 1;
        let total = tallies.into_iter().flatten().fold(Tally::default(), |sum, one| Tally {
            reward: sum.reward + one.reward,
            violations: sum.violations + one.violations,
            cores: sum.cores + one.cores,
            steps: sum.steps + one.steps,
            rounds: sum.rounds + one.rounds,
        });
        Ok(Progress {
            reward: total.reward / total.steps.max(1.0),
            violations: total.violations / total.steps.max(1.0),
            cores: total.cores / total.rounds.max(1.0),
        })
    }

    /// Updates each learner from its agents' episodes, in the order of clusters and places, and hands the networks out.
    fn learn(&mut self, share: f32) -> Result<(), Error> {
        let places: Vec<usize> = (0..self.categories.len()).map(|place| self.index(place)).collect();
        self.batches.iter_mut().for_each(Batch::clear);
        for fleet in &mut self.fleets {
            for (place, agent) in fleet.agents_mut() {
                if let Some(Episode { segment, bootstrap }) = agent.policy_mut().take_episode()? {
                    self.batches[places[place]].push_segment(&segment, bootstrap)?;
                }
            }
        }
        // Learners know nothing of each other, so it does not matter who updates when.
        let chunk = self.learners.len().div_ceil(self.threads.get());
        let chunks = self.learners.chunks_mut(chunk).zip(self.batches.chunks(chunk)).enumerate();
        let outcome = on_threads(chunks, |(worker, (learners, batches))| {
            for (index, (learner, batch)) in learners.iter_mut().zip(batches).enumerate() {
                // A category without agents, or an agent without a turn, has nothing to learn from.
                if !batch.is_empty() {
                    learner.update(batch, share).map_err(|error| (worker * chunk + index, error))?;
                }
            }
            Ok(())
        });
        outcome.map_err(|(index, source)| {
            let of = match self.config.sharing {
                Sharing::Pool => "all agents".to_owned(),
                Sharing::Category => format!("the category {}", Category::ALL[index].name()),
                Sharing::None | Sharing::Base => tenant_name(index),
            };
            Error::Training { episode: self.iteration, of, source }
        })?;
        self.follow()?;
        let networks: Vec<_> = self.learners.iter().map(|learner| Arc::new(learner.network().clone())).collect();
        for fleet in &mut self.fleets {
            for (place, agent) in fleet.agents_mut() {
                agent.policy_mut().set_network(networks[places[place]].clone());
            }
        }
        Ok(())
    }

    /// Base models go a little of the way to the mean of their category's networks.
    fn follow(&mut self) -> Result<(), Error> {
        for (base, category) in self.bases.iter_mut().zip(Category::ALL) {
            let places = self.categories.iter().enumerate().filter(|(_, of)| **of == category);
            let networks: Vec<_> = places.map(|(place, _)| self.learners[place].network()).collect();
            if networks.is_empty() {
                continue;
            }
            let rate = self.config.base_rate / networks.len() as f32;
            let (mut actor, mut critic) = (base.parameters().0.to_vec(), base.parameters().1.to_vec());
            for network in &networks {
                let (theirs, ours) = (network.parameters(), base.parameters());
                for (mine, (their, our)) in actor.iter_mut().zip(theirs.0.iter().zip(ours.0)) {
                    *mine += rate * (their - our);
                }
                for (mine, (their, our)) in critic.iter_mut().zip(theirs.1.iter().zip(ours.1)) {
                    *mine += rate * (their - our);
                }
            }
            base.set_parameters(&actor, &critic)?;
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

    /// Episodes done.
    #[must_use]
    pub fn iteration(&self) -> u64 {
        self.iteration
    }

    /// The category of each place.
    #[must_use]
    pub fn categories(&self) -> &[Category] {
        &self.categories
    }

    /// The network of the agent at `place`; a newcomer beyond the trained places gets that of a like one.
    #[must_use]
    pub fn network(&self, place: usize) -> &ActorCritic {
        self.learner(place).network()
    }

    /// The learner of the agent at `place`, for a checkpoint.
    #[must_use]
    pub fn learner(&self, place: usize) -> &Learner {
        &self.learners[self.index(place % self.categories.len())]
    }

    /// What an agent of a category starts from that joins: the base model, or the network that it will share; none where
    /// everybody starts from scratch.
    #[must_use]
    pub fn start_of(&self, category: Category) -> Option<&ActorCritic> {
        match self.config.sharing {
            Sharing::None => None,
            Sharing::Base => self.bases.get(category as usize),
            Sharing::Category => self.learners.get(category as usize).map(Learner::network),
            Sharing::Pool => self.learners.first().map(Learner::network),
        }
    }

    /// The learners of all agents with the names that files may have: of places, of categories, or `shared`. A category
    /// without agents has learnt nothing and is left out.
    pub fn learners(&self) -> impl Iterator<Item = (String, &Learner)> {
        let used: BTreeSet<usize> = (0..self.categories.len()).map(|place| self.index(place)).collect();
        let used = self.learners.iter().enumerate().filter(move |(index, _)| used.contains(index));
        used.map(|(index, learner)| {
            let name = match self.config.sharing {
                Sharing::Pool => "shared".to_owned(),
                Sharing::Category => Category::ALL[index].name().to_owned(),
                Sharing::None | Sharing::Base => tenant_name(index),
            };
            (name, learner)
        })
    }
}
