//! What an agent observes and scales.

use std::{future::Future, sync::Arc};

use meanfield_common::{
    identity::{AgentName, Category},
    invalid::Invalid,
    observation::Observation,
    resources::{Bounds, MilliCores, Scale},
    scarcity::{Amount, Cores, Gibibytes, Node, NodeId, Weight},
    slo::Slo,
};
use meanfield_simulator::{
    cluster::{Cluster, TenantId},
    scenario::{Scenario, Start},
};
use parking_lot::Mutex;

/// Why a workload could not be observed or scaled.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// It is no longer there.
    #[error("the workload {0} is gone")]
    Gone(AgentName),
    /// The environment refused the scale.
    #[error(transparent)]
    Refused(#[from] Invalid),
}

/// A workload and what its operator asked for.
#[derive(Debug, Clone)]
pub struct Target {
    /// Its name.
    pub name: AgentName,
    /// What it needs most.
    pub category: Category,
    /// The objective.
    pub slo: Slo,
    /// Within which it may be scaled.
    pub bounds: Bounds,
    /// What the objective is worth beside those of others, when there is not enough for all.
    pub weight: Weight,
}

/// A workload that can be observed and scaled, step by step.
pub trait Environment: Send {
    /// What was measured since the last call.
    fn observe(&mut self) -> impl Future<Output = Result<Observation, Error>> + Send;

    /// Brings the workload to a scale, or starts to; `request` is the CPU request of each replica where it shall not
    /// follow from the limit.
    fn actuate(&mut self, scale: Scale, request: Option<MilliCores>) -> impl Future<Output = Result<(), Error>> + Send;

    /// What the nodes have on which its replicas run; none where that is not known. Asked for only where the coordinator
    /// wants to know.
    fn nodes(&self) -> Vec<Node> {
        Vec::new()
    }
}

/// The nodes of a tenant of a simulated cluster, known by their places.
fn simulated_nodes(cluster: &Cluster, id: TenantId) -> Vec<Node> {
    let node = |(place, node): (usize, meanfield_simulator::placement::Node)| {
        let memory_gib = Gibibytes::clamped(node.memory.as_mebi() / 1024.0);
        let allocatable = Amount { cores: Cores::clamped(node.cores), memory_gib };
        Node { id: NodeId::of(&format!("node-{place}")), allocatable }
    };
    cluster.nodes_of(id).into_iter().map(node).collect()
}

/// A cluster that several agents share; whoever runs the agents advances it.
pub type SharedCluster = Arc<Mutex<Cluster>>;

/// One tenant of a shared simulated cluster.
#[derive(Debug, Clone)]
pub struct Tenant {
    cluster: SharedCluster,
    id: TenantId,
    name: AgentName,
}

impl Tenant {
    /// The tenant `id` of a cluster.
    #[must_use]
    pub fn new(cluster: SharedCluster, id: TenantId, name: AgentName) -> Self {
        Self { cluster, id, name }
    }

    /// The tenant's place in its cluster.
    #[must_use]
    pub fn id(&self) -> TenantId {
        self.id
    }
}

impl Environment for Tenant {
    async fn observe(&mut self) -> Result<Observation, Error> {
        self.cluster.lock().observe(self.id).ok_or_else(|| Error::Gone(self.name.clone()))
    }

    async fn actuate(&mut self, scale: Scale, request: Option<MilliCores>) -> Result<(), Error> {
        let mut cluster = self.cluster.lock();
        cluster.set_scale(self.id, scale)?;
        Ok(cluster.set_request(self.id, request)?)
    }

    fn nodes(&self) -> Vec<Node> {
        simulated_nodes(&self.cluster.lock(), self.id)
    }
}

/// One function alone on a simulated cluster of its own, which advances one step with each observation.
#[derive(Debug)]
pub struct Alone {
    cluster: Cluster,
    id: TenantId,
    name: AgentName,
}

impl Alone {
    /// The function at `place` of the standard scenario, with arrivals from a seed.
    pub fn new(name: AgentName, place: usize, steps: usize, seed: u64) -> Result<(Self, Target), Invalid> {
        let scenario = Scenario::new(1, steps)?;
        let spec = scenario.tenant(place, seed, Start::Sized)?;
        let (category, slo, bounds) = (spec.workload.category, spec.slo, spec.bounds.clone());
        let mut cluster = Cluster::new(scenario.cluster())?;
        let id = cluster.join(spec)?;
        let target = Target { name: name.clone(), category, slo, bounds, weight: Weight::default() };
        Ok((Self { cluster, id, name }, target))
    }
}

impl Environment for Alone {
    async fn observe(&mut self) -> Result<Observation, Error> {
        self.cluster.advance();
        self.cluster.observe(self.id).ok_or_else(|| Error::Gone(self.name.clone()))
    }

    async fn actuate(&mut self, scale: Scale, request: Option<MilliCores>) -> Result<(), Error> {
        self.cluster.set_scale(self.id, scale)?;
        Ok(self.cluster.set_request(self.id, request)?)
    }

    fn nodes(&self) -> Vec<Node> {
        simulated_nodes(&self.cluster, self.id)
    }
}
