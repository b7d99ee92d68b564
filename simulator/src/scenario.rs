//! The standard clusters: who shares which nodes.

use std::sync::Arc;

use meanfield_common::{
    invalid::Invalid,
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
};
use meanfield_traces::synth::Preset;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    cluster::{Cluster, Model, Spec, TenantId, TenantSpec},
    placement::Node,
    workload::{Workload, functions},
};

/// Seconds of a step.
pub const STEP_SECONDS: f64 = 15.0;

/// Seconds of a simulated day: two hours, so that an evaluation sees a whole one.
pub const DAY_SECONDS: f64 = DAY_STEPS as f64 * STEP_SECONDS;

/// Steps in a simulated day.
pub const DAY_STEPS: usize = 480;

/// The most tenants that a scenario takes.
pub const MOST_TENANTS: usize = 10_000;

/// Nodes for so many tenants.
const NODES_PER_TENANTS: (usize, usize) = (5, 12);

/// The twelve functions, or any number of tenants running them or other workloads in turn, on a matching number of
/// nodes: five nodes of 8 cores and 32 GiB for twelve tenants. With the twelve functions the mean demand, bursts
/// included, is then 44 % of the cores.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    workloads: Vec<Arc<Workload>>,
    tenants: usize,
    steps: usize,
    load: Preset,
    model: Model,
}

/// How tenants are sized when an episode starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// As a careful operator would: twice the mean demand.
    Sized,
    /// Anywhere within reach, so that a learner sees every situation.
    Random,
}

impl Scenario {
    /// So many tenants that run the twelve functions in turn, with arrivals for so many steps.
    pub fn new(tenants: usize, steps: usize) -> Result<Self, Invalid> {
        Self::of(functions(), tenants, steps)
    }

    /// So many tenants that run the given workloads in turn, with arrivals for so many steps.
    pub fn of(workloads: &[Arc<Workload>], tenants: usize, steps: usize) -> Result<Self, Invalid> {
        if workloads.is_empty() {
            return Err(Invalid::new("workloads", 0, "at least 1"));
        }
        workloads.iter().try_for_each(|workload| workload.check())?;
        if !(1..=MOST_TENANTS).contains(&tenants) {
            return Err(Invalid::new("agents", tenants, format!("within [1, {MOST_TENANTS}]")));
        }
        Self { workloads: workloads.to_vec(), tenants, steps, load: Preset::Diurnal, model: Model::Fluid }
            .with_steps(steps)
    }

    /// The same under another shape of load.
    #[must_use]
    pub fn with_load(self, load: Preset) -> Self {
        Self { load, ..self }
    }

    /// The same with arrivals for so many steps.
    pub fn with_steps(self, steps: usize) -> Result<Self, Invalid> {
        if steps == 0 {
            return Err(Invalid::new("steps", steps, "at least 1"));
        }
        Ok(Self { steps, ..self })
    }

    /// The same, computed in another way.
    #[must_use]
    pub fn with_model(self, model: Model) -> Self {
        Self { model, ..self }
    }

    /// How many tenants it starts with.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.tenants
    }

    /// How many steps of arrivals it has.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// The nodes and rules.
    #[must_use]
    pub fn cluster(&self) -> Spec {
        let node = Node::new(8.0, Bytes::mebi(32 * 1024));
        let (nodes, tenants) = NODES_PER_TENANTS;
        let count = (self.tenants * nodes).div_ceil(tenants);
        Spec { model: self.model, ..Spec::new(vec![node; count], STEP_SECONDS, 1.5) }
    }

    /// The tenant at a place, with arrivals drawn from a seed.
    pub fn tenant(&self, place: usize, seed: u64, start: Start) -> Result<TenantSpec, Invalid> {
        let workload = self.workloads[place % self.workloads.len()].clone();
        let mut rng = stream(seed, place);
        let arrivals =
            self.load.generate_with_day(workload.mean_rate(), self.steps, STEP_SECONDS, DAY_SECONDS, &mut rng);
        let bounds = bounds(&workload)?;
        let scale = bounds.clamp(&match start {
            Start::Sized => sized(&workload, 2.0, 1500),
            Start::Random => sized(&workload, 1.0 + 3.0 * rng.random::<f64>(), rng.random_range(500..=2000)),
        });
        let slo = workload.slo()?;
        Ok(TenantSpec { workload, changes: Vec::new(), slo, bounds, scale, arrivals: Arc::from(arrivals) })
    }

    /// A running cluster with all its tenants, after one step, so that there is something to observe.
    pub fn build(&self, seed: u64, start: Start) -> Result<(Cluster, Vec<(TenantId, TenantSpec)>), Invalid> {
        let mut cluster = Cluster::new(Spec { seed, ..self.cluster() })?;
        let mut tenants = Vec::with_capacity(self.tenants);
        for place in 0..self.tenants {
            let spec = self.tenant(place, seed, start)?;
            tenants.push((cluster.join(spec.clone())?, spec));
        }
        cluster.warm_up();
        cluster.advance();
        Ok((cluster, tenants))
    }
}

/// The random numbers of the tenant at a place: one stream each, so that adding one changes nobody else's arrivals.
pub(crate) fn stream(seed: u64, place: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(place as u64);
    rng
}

/// Within which a function may be scaled, unless somebody says otherwise.
pub(crate) fn bounds(workload: &Workload) -> Result<Bounds, Invalid> {
    // Some pods use up to a twentieth more than others; none may be killed for being idle.
    let (idle, request) = (workload.memory_idle.0, workload.memory_request.0);
    let least = Bytes((idle + 2 * request).max(idle + idle / 16));
    let most = Bytes(2 * (idle + u64::from(workload.slots) * request));
    Bounds::new(1..=16, MilliCores(250)..=MilliCores(4000), least..=most)
}

/// So many times the mean demand, in pods of so many milli-cores, with memory for all their slots: whoever takes in more
/// requests than its memory holds is killed when it matters most.
pub(crate) fn sized(workload: &Workload, times: f64, cpu: u64) -> Scale {
    let cpu = MilliCores(cpu);
    // A pod whose slots fill first cannot use all of its cores.
    let inside = workload.cpu_seconds() + workload.elsewhere_seconds();
    let usable = cpu.cores().min(f64::from(workload.slots) * workload.cpu_seconds() / inside);
    let replicas = (workload.demand * times / usable).ceil() as u32;
    Scale { replicas, limit: Resources { cpu, memory: workload.full_memory() } }
}
