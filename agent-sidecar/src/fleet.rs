//! Many agents on one simulated cluster, in lock-step.
//!
//! All agents step, then the cluster advances: one round. Agents report with the round's number, so what the
//! coordinator answers does not depend on who came first.

use std::sync::Arc;

use futures_util::future::try_join_all;
use meanfield_common::{
    identity::{AgentName, PoolName},
    invalid::Invalid,
    reward::Shape,
    scarcity::Weight,
};
use meanfield_simulator::{
    cluster::{Cluster, Outcome, TenantSpec},
    scenario::{Scenario, Start},
    workload::functions,
};
use parking_lot::Mutex;

use crate::{
    Error,
    agent::{Agent, Report},
    environment::{SharedCluster, Target, Tenant},
    link::Link,
    policy::Policy,
};

/// One tenant's step: what its agent saw, and what it was in truth.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The place of the tenant in the scenario.
    pub place: usize,
    /// What the agent saw and did.
    pub report: Report,
    /// What operator and users felt.
    pub outcome: Outcome,
}

/// Agents of one kind on one cluster.
pub struct Fleet<L, P> {
    cluster: SharedCluster,
    agents: Vec<(usize, Agent<Tenant, L, P>)>,
    pool: PoolName,
    shape: Shape,
    round: u64,
}

impl<L: Link, P: Policy> Fleet<L, P> {
    /// A fleet for a scenario: `equip` gives each place its way to the coordinator and its policy.
    pub fn new(
        scenario: &Scenario,
        seed: u64,
        start: Start,
        pool: PoolName,
        shape: Shape,
        mut equip: impl FnMut(usize, &TenantSpec) -> Result<(L, P), Error>,
    ) -> Result<Self, Error> {
        let (cluster, tenants) = scenario.build(seed, start)?;
        let cluster = Arc::new(Mutex::new(cluster));
        let mut fleet = Self { cluster, agents: Vec::with_capacity(tenants.len()), pool, shape, round: 0 };
        for (place, (id, spec)) in tenants.into_iter().enumerate() {
            let (link, policy) = equip(place, &spec)?;
            let target = target(place, &spec, scenario.weight(place))?;
            let environment = Tenant::new(fleet.cluster.clone(), id, target.name.clone());
            let agent = Agent::new(target, environment, link, fleet.pool.clone(), policy, shape);
            fleet.agents.push((place, agent));
        }
        Ok(fleet)
    }

    /// A tenant joins the running cluster; its objective is worth so much.
    pub fn join(
        &mut self,
        place: usize,
        spec: TenantSpec,
        weight: Weight,
        link: L,
        policy: P,
    ) -> Result<AgentName, Error> {
        let target = target(place, &spec, weight)?;
        let name = target.name.clone();
        let id = self.cluster.lock().join(spec)?;
        let environment = Tenant::new(self.cluster.clone(), id, target.name.clone());
        let agent = Agent::new(target, environment, link, self.pool.clone(), policy, self.shape);
        self.agents.push((place, agent));
        Ok(name)
    }

    /// The tenant at `place` leaves the cluster, and its agent the pool; says who, if there was one.
    pub async fn leave(&mut self, place: usize) -> Result<Option<AgentName>, Error> {
        let Some(index) = self.agents.iter().position(|(at, _)| *at == place) else { return Ok(None) };
        let (_, mut agent) = self.agents.remove(index);
        self.cluster.lock().leave(agent.environment().id());
        agent.leave().await?;
        Ok(Some(agent.target().name.clone()))
    }

    /// All agents leave the pool, also when one of them cannot.
    pub async fn disband(&mut self) -> Result<(), Error> {
        let mut outcome = Ok(());
        for (_, mut agent) in self.agents.drain(..) {
            outcome = outcome.and(agent.leave().await);
        }
        outcome
    }

    /// The same fleet, counting rounds from `round`: a pool's rounds never go back.
    #[must_use]
    pub fn from_round(mut self, round: u64) -> Self {
        self.round = round;
        self
    }

    /// One round: all agents step at once, then the cluster advances. The outcome of a step is that of the simulated
    /// time before the round.
    pub async fn round(&mut self) -> Result<Vec<Step>, Error> {
        let round = Some(self.round);
        let reports = try_join_all(self.agents.iter_mut().map(|(_, agent)| agent.step(round))).await?;
        self.round += 1;
        Ok(self.settle(reports))
    }

    /// The same as [`Self::round`], one agent after the other: cheaper where nobody waits for a network.
    pub async fn round_in_turn(&mut self) -> Result<Vec<Step>, Error> {
        let mut reports = Vec::with_capacity(self.agents.len());
        for (_, agent) in &mut self.agents {
            reports.push(agent.step(Some(self.round)).await?);
        }
        self.round += 1;
        Ok(self.settle(reports))
    }

    fn settle(&mut self, reports: Vec<Report>) -> Vec<Step> {
        let mut cluster = self.cluster.lock();
        let agents = self.agents.iter().zip(reports);
        let steps = agents.map(|((place, agent), report)| {
            let outcome = cluster.outcome(agent.environment().id()).unwrap_or_default();
            Step { place: *place, report, outcome }
        });
        let steps = steps.collect();
        cluster.advance();
        steps
    }

    /// Puts the same agents onto a fresh cluster: a new episode. The scenario must have a place for each of them.
    pub fn reset(&mut self, scenario: &Scenario, seed: u64, start: Start) -> Result<(), Error> {
        self.agents.iter_mut().for_each(|(_, agent)| agent.policy_mut().reset());
        self.move_to(scenario, seed, start)
    }

    /// The same, but the policies keep what they have learnt about their workloads.
    pub fn move_to(&mut self, scenario: &Scenario, seed: u64, start: Start) -> Result<(), Error> {
        let (cluster, tenants) = scenario.build(seed, start)?;
        self.cluster = Arc::new(Mutex::new(cluster));
        for (place, agent) in &mut self.agents {
            let bound = || format!("below {}", tenants.len());
            let (id, _) = tenants.get(*place).ok_or_else(|| Invalid::new("place", *place, bound()))?;
            let name = agent.target().name.clone();
            agent.move_to(Tenant::new(self.cluster.clone(), *id, name));
        }
        Ok(())
    }

    /// The agents with their places.
    pub fn agents_mut(&mut self) -> impl Iterator<Item = (usize, &mut Agent<Tenant, L, P>)> {
        self.agents.iter_mut().map(|(place, agent)| (*place, agent))
    }

    /// The cluster.
    #[must_use]
    pub fn cluster(&self) -> &Mutex<Cluster> {
        &self.cluster
    }
}

/// The name of the tenant at `place`: its function, numbered from the second one on.
#[must_use]
pub fn tenant_name(place: usize) -> String {
    let name = functions()[place % functions().len()].name.as_str();
    let turn = place / functions().len();
    if turn == 0 { name.to_owned() } else { format!("{name}-{}", turn + 1) }
}

/// What an agent of the tenant at `place` is told about it.
fn target(place: usize, spec: &TenantSpec, weight: Weight) -> Result<Target, Error> {
    let (category, slo, bounds) = (spec.workload.category, spec.slo, spec.bounds.clone());
    Ok(Target { name: tenant_name(place).parse()?, category, slo, bounds, weight })
}
