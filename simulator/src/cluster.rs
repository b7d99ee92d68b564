//! One shared cluster, step by step.
//!
//! The cluster does what an orchestrator does: it places, starts, resizes and stops pods, and reports what was measured.
//! How requests fare during a step is an engine's work: `fluid` computes it in closed form, [`crate::events`] runs every
//! request. Both see the same pods.

use std::sync::Arc;

use meanfield_common::{
    invalid::Invalid,
    observation::Observation,
    resources::{Bounds, MilliCores, Resources, Scale},
    slo::Slo,
};

pub use meanfield_common::queue::Balancing;

use crate::{
    anomaly::Anomaly,
    events::{Events, Journal},
    fluid::Fluid,
    placement::{Ledger, Node, place},
    tenant::{Tenant, release, request},
    workload::Workload,
};

/// Who runs in the cluster.
#[derive(Debug, Clone)]
pub struct TenantSpec {
    /// What its requests need.
    pub workload: Arc<Workload>,
    /// What they need from later steps on, in ascending order of steps.
    pub changes: Vec<(usize, Arc<Workload>)>,
    /// Its objective.
    pub slo: Slo,
    /// Within which it may be scaled.
    pub bounds: Bounds,
    /// How it starts.
    pub scale: Scale,
    /// Requests per second, step by step; repeated when it ends.
    pub arrivals: Arc<[f64]>,
}

/// How a step is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Model {
    /// In closed form from rates: fast, for training.
    #[default]
    Fluid,
    /// From every request: slow, for truth. Checked against queueing theory.
    Events,
}

/// How pods share a node's cores.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub enum Sharing {
    /// A pod never gets more than its limit, spread evenly over time.
    #[default]
    Quotas,
    /// A pod never gets more than its limit within each period of so many seconds, and nothing once that is used up.
    Throttled {
        /// Seconds of a period; Linux uses 0.1.
        period: f64,
    },
    /// No limits: whatever is idle is shared in proportion to requests.
    Weights,
}

/// A cluster's nodes and rules.
#[derive(Debug, Clone)]
pub struct Spec {
    /// The nodes.
    pub nodes: Vec<Node>,
    /// Seconds of a step.
    pub seconds: f64,
    /// CPU limits over CPU requests; memory requests equal their limits.
    pub overcommit: f64,
    /// How a step is computed.
    pub model: Model,
    /// How pods share cores.
    pub sharing: Sharing,
    /// How requests find a pod.
    pub balancing: Balancing,
    /// Seconds until a resize in place is in force.
    pub resize: f64,
    /// Seconds that a pod may take to finish its requests when it is stopped.
    pub grace: f64,
    /// Disturbances from outside.
    pub anomalies: Vec<Anomaly>,
    /// Whether the fluid model's percentiles stray as those of so few requests do; the event model's always do.
    pub noise: bool,
    /// Seed of what is random while the cluster runs.
    pub seed: u64,
}

impl Spec {
    /// So many nodes under the usual rules.
    #[must_use]
    pub fn new(nodes: Vec<Node>, seconds: f64, overcommit: f64) -> Self {
        Self {
            nodes,
            seconds,
            overcommit,
            model: Model::default(),
            sharing: Sharing::default(),
            balancing: Balancing::default(),
            resize: 2.0,
            grace: 30.0,
            anomalies: Vec::new(),
            noise: true,
            seed: 0,
        }
    }
}

/// A tenant's place in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TenantId(pub(crate) usize);

/// What a step was in truth: what the operator pays and the users feel, beyond what an agent can observe.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Requests that arrived.
    pub requests: f64,
    /// Requests that were slower than the objective or given up on. In the event model a request counts when it is over,
    /// so in one step these may be more than arrived.
    pub violating: f64,
    /// Whether the step's percentile missed the objective.
    pub violated: bool,
    /// Cores reserved by placed pods (requests).
    pub cores: f64,
    /// Memory reserved by placed pods.
    pub memory: f64,
    /// Why the step's latencies should not be taken at their word, if so.
    pub doubt: Option<Doubt>,
}

/// Why a step's figures are only rough.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Doubt {
    /// More work than capacity: latency follows from the backlog alone.
    Saturated,
    /// Nearly as much work as capacity: small errors of the load are large errors of latency.
    Busy,
    /// A node's cores, disk, network or memory bus are nearly used up: how neighbours' bursts collide is only estimated.
    Crowded,
    /// The engine does not know the kind of sharing that was asked for.
    Sharing,
    /// More requests than are simulated one by one: the surplus was turned away.
    Capped,
}

/// What an engine found out about a tenant in one step; times in seconds.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Measured {
    /// Requests that arrived, were answered, were given up on or lost, and still wait.
    pub(crate) requests: f64,
    pub(crate) served: f64,
    pub(crate) dropped: f64,
    pub(crate) backlog: f64,
    /// Requests slower than the objective, those given up on included.
    pub(crate) violating: f64,
    /// Median and 99th percentile, if anything arrived or was answered.
    pub(crate) percentiles: Option<[f64; 2]>,
    /// Mean requests in flight, waiting ones included.
    pub(crate) concurrency: f64,
    /// Mean cores in use.
    pub(crate) cores: f64,
    /// Bytes in use at the end, most in use by one pod, and kills for want of memory.
    pub(crate) memory: f64,
    pub(crate) memory_peak: f64,
    pub(crate) oom_kills: u32,
    /// Mean utilisation of the nodes it runs on.
    pub(crate) node_utilisation: f64,
    pub(crate) doubt: Option<Doubt>,
}

/// The cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    spec: Spec,
    ledgers: Vec<Ledger>,
    tenants: Vec<Option<Tenant>>,
    calls: Vec<Call>,
    engine: Engine,
    step: usize,
}

#[derive(Debug, Clone)]
enum Engine {
    Fluid(Box<Fluid>),
    Events(Events),
}

impl Engine {
    fn new(spec: &Spec) -> Result<Self, Invalid> {
        Ok(match spec.model {
            Model::Fluid => Self::Fluid(Box::new(Fluid::new(spec))),
            Model::Events => Self::Events(Events::new(spec)?),
        })
    }
}

/// Each answered request of one tenant makes so many requests to another.
#[derive(Debug, Clone, Copy)]
struct Call {
    from: usize,
    to: usize,
    times: f64,
}

impl Cluster {
    /// An empty cluster. Refuses nodes and rules under which nothing can run.
    pub fn new(spec: Spec) -> Result<Self, Invalid> {
        let positive = |field: &str, value: f64| {
            if value.is_finite() && value > 0.0 {
                Ok(())
            } else {
                Err(Invalid::new(field, value, "finite and positive"))
            }
        };
        positive("seconds", spec.seconds)?;
        if !(spec.overcommit.is_finite() && spec.overcommit >= 1.0) {
            return Err(Invalid::new("overcommit", spec.overcommit, "finite and at least 1"));
        }
        if let Sharing::Throttled { period } = spec.sharing {
            positive("sharing.period", period)?;
        }
        for (field, value) in [("resize", spec.resize), ("grace", spec.grace)] {
            if !(value.is_finite() && value >= 0.0) {
                return Err(Invalid::new(field, value, "finite and at least 0"));
            }
        }
        if spec.nodes.is_empty() {
            return Err(Invalid::new("nodes", 0, "at least 1"));
        }
        for (index, node) in spec.nodes.iter().enumerate() {
            positive(&format!("nodes[{index}].cores"), node.cores)?;
            positive(&format!("nodes[{index}].memory"), node.memory.0 as f64)?;
            positive(&format!("nodes[{index}].disk"), node.disk)?;
            positive(&format!("nodes[{index}].network"), node.network)?;
            positive(&format!("nodes[{index}].bus"), node.bus)?;
        }
        let engine = Engine::new(&spec)?;
        let ledgers = spec.nodes.iter().copied().map(Ledger::new).collect();
        Ok(Self { ledgers, spec, tenants: Vec::new(), calls: Vec::new(), engine, step: 0 })
    }

    /// Adds a tenant; its pods are placed and started in the next step.
    pub fn join(&mut self, spec: TenantSpec) -> Result<TenantId, Invalid> {
        if !spec.bounds.contains(&spec.scale) {
            let bound = format!("within the bounds of {}", spec.workload.name);
            return Err(Invalid::new("scale", format!("{:?}", spec.scale), bound));
        }
        if spec.arrivals.is_empty() || spec.arrivals.iter().any(|rate| !rate.is_finite() || *rate < 0.0) {
            let bound = "a non-empty list of finite rates of at least 0";
            return Err(Invalid::new("arrivals", spec.workload.name.as_str(), bound));
        }
        let smallest =
            self.request(Resources { cpu: *spec.bounds.cpu().start(), memory: *spec.bounds.memory().start() });
        if place(&mut self.ledgers.iter().map(|ledger| Ledger::new(ledger.node)).collect::<Vec<_>>(), smallest)
            .is_none()
        {
            return Err(Invalid::new("bounds", spec.workload.name.as_str(), "small enough for any node"));
        }
        if spec.changes.windows(2).any(|pair| pair[0].0 >= pair[1].0) {
            return Err(Invalid::new("changes", spec.workload.name.as_str(), "in ascending order of steps"));
        }
        for workload in std::iter::once(&spec.workload).chain(spec.changes.iter().map(|(_, workload)| workload)) {
            if !(workload.cpu_ms.is_finite() && workload.cpu_ms > 0.0) {
                return Err(Invalid::new(format!("{}.cpu_ms", workload.name), workload.cpu_ms, "finite and positive"));
            }
        }
        if self.spec.model == Model::Events {
            Events::check(&spec.workload)?;
            spec.changes.iter().try_for_each(|(_, workload)| Events::check(workload))?;
        }
        self.tenants.push(Some(Tenant::new(spec)));
        Ok(TenantId(self.tenants.len() - 1))
    }

    /// From now on each answered request of `from` makes so many requests to `to`, in the step after.
    pub fn call(&mut self, from: TenantId, to: TenantId, times: f64) -> Result<(), Invalid> {
        for id in [from, to] {
            if self.tenants.get(id.0).and_then(Option::as_ref).is_none() {
                return Err(Invalid::new("call", id.0, "between tenants of this cluster"));
            }
        }
        if !(times.is_finite() && times > 0.0) {
            return Err(Invalid::new("call.times", times, "finite and positive"));
        }
        // Whoever `to` reaches must not lead back: requests would multiply for ever.
        let mut reached = vec![to.0];
        let mut next = 0;
        while let Some(&at) = reached.get(next) {
            if at == from.0 {
                return Err(Invalid::new("call", format!("{} -> {}", from.0, to.0), "part of no circle"));
            }
            for call in self.calls.iter().filter(|call| call.from == at) {
                if !reached.contains(&call.to) {
                    reached.push(call.to);
                }
            }
            next += 1;
        }
        self.calls.push(Call { from: from.0, to: to.0, times });
        Ok(())
    }

    /// Takes a tenant and its pods away.
    pub fn leave(&mut self, id: TenantId) {
        if let Some(tenant) = self.tenants.get_mut(id.0).and_then(Option::take) {
            for pod in &tenant.pods {
                release(&mut self.ledgers, pod);
            }
            self.calls.retain(|call| call.from != id.0 && call.to != id.0);
        }
    }

    /// Asks for a scale, carried out in the next step as far as the nodes allow.
    pub fn set_scale(&mut self, id: TenantId, scale: Scale) -> Result<(), Invalid> {
        let tenant = self.tenants.get_mut(id.0).and_then(Option::as_mut);
        let tenant = tenant.ok_or_else(|| Invalid::new("tenant", id.0, "a tenant of this cluster"))?;
        if !tenant.spec.bounds.contains(&scale) {
            let bound = format!("within the bounds of {}", tenant.spec.workload.name);
            return Err(Invalid::new("scale", format!("{scale:?}"), bound));
        }
        tenant.scale = scale;
        Ok(())
    }

    /// Asks for a CPU request of each pod apart from its limit, which it never exceeds; none lets it follow from the
    /// limit again. Carried out in the next step as far as the nodes allow.
    pub fn set_request(&mut self, id: TenantId, request: Option<MilliCores>) -> Result<(), Invalid> {
        let tenant = self.tenants.get_mut(id.0).and_then(Option::as_mut);
        let tenant = tenant.ok_or_else(|| Invalid::new("tenant", id.0, "a tenant of this cluster"))?;
        if request == Some(MilliCores(0)) {
            return Err(Invalid::new("request.cpu", 0, "at least 1m"));
        }
        tenant.request = request;
        Ok(())
    }

    /// What could be measured of a tenant in the last step; `None` once it has left.
    #[must_use]
    pub fn observe(&self, id: TenantId) -> Option<Observation> {
        self.tenants.get(id.0)?.as_ref().map(|tenant| tenant.seen)
    }

    /// The nodes on which a tenant's pods are placed, each once, with their places in the cluster.
    #[must_use]
    pub fn nodes_of(&self, id: TenantId) -> Vec<(usize, Node)> {
        let tenant = self.tenants.get(id.0).and_then(Option::as_ref);
        let mut places: Vec<_> =
            tenant.into_iter().flat_map(|tenant| tenant.pods.iter().filter_map(|pod| pod.node)).collect();
        places.sort_unstable();
        places.dedup();
        places.into_iter().filter_map(|place| Some((place, *self.spec.nodes.get(place)?))).collect()
    }

    /// What the last step was in truth; `None` once the tenant has left.
    #[must_use]
    pub fn outcome(&self, id: TenantId) -> Option<Outcome> {
        self.tenants.get(id.0)?.as_ref().map(|tenant| tenant.outcome)
    }

    /// Every latency of a tenant in the last step; `None` once it has left, and unless the model runs every request.
    #[must_use]
    pub fn journal(&self, id: TenantId) -> Option<&Journal> {
        self.tenants.get(id.0)?.as_ref()?;
        match &self.engine {
            Engine::Fluid(_) => None,
            Engine::Events(events) => events.journal(id.0),
        }
    }

    /// Steps since the start.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.step
    }

    fn request(&self, limit: Resources) -> Resources {
        request(limit, None, self.spec.overcommit)
    }

    /// Computes steps in another way from now on. Pods stay as they are; requests that wait are forgotten.
    pub fn switch(&mut self, model: Model) -> Result<(), Invalid> {
        if model == Model::Events {
            for spec in self.tenants.iter().flatten().map(|tenant| &tenant.spec) {
                Events::check(&spec.workload)?;
                spec.changes.iter().try_for_each(|(_, workload)| Events::check(workload))?;
            }
        }
        self.engine = Engine::new(&Spec { model, ..self.spec.clone() })?;
        self.spec.model = model;
        self.tenants.iter_mut().flatten().for_each(|tenant| tenant.backlog = 0.0);
        Ok(())
    }

    /// Places the pods of all tenants and has them ready at once, as in a cluster that has run for long.
    pub fn warm_up(&mut self) {
        self.reconcile();
        for tenant in self.tenants.iter_mut().flatten() {
            let warm = tenant.spec.workload.warmup;
            let placed = tenant.pods.iter_mut().filter(|pod| pod.node.is_some());
            placed.for_each(|pod| (pod.starting, pod.age) = (0.0, warm));
        }
    }

    /// One step.
    pub fn advance(&mut self) {
        self.reconcile();
        self.pass_calls_on();
        match &mut self.engine {
            Engine::Fluid(fluid) => fluid.step(&self.spec, &mut self.tenants, self.step),
            Engine::Events(events) => events.step(&self.spec, &mut self.tenants, self.step),
        }
        for tenant in self.tenants.iter_mut().flatten() {
            tenant.report(&self.spec);
        }
        self.step += 1;
    }

    /// What was answered in the last step arrives elsewhere in this one.
    fn pass_calls_on(&mut self) {
        self.tenants.iter_mut().flatten().for_each(|tenant| tenant.called = 0.0);
        for call in &self.calls {
            let answered = self.tenants[call.from].as_ref().map_or(0.0, |tenant| tenant.measured.served);
            if let Some(to) = &mut self.tenants[call.to] {
                to.called += call.times * answered / self.spec.seconds;
            }
        }
    }

    /// Brings pods to what was asked for. Who goes first rotates with the step, so nobody is favoured for long.
    fn reconcile(&mut self) {
        let spec = &self.spec;
        let ledgers = &mut self.ledgers;
        for tenant in self.tenants.iter_mut().flatten() {
            tenant.shrink(ledgers, spec);
        }
        let first = self.step % self.tenants.len().max(1);
        let (late, early) = self.tenants.split_at_mut(first);
        for tenant in early.iter_mut().chain(late).flatten() {
            tenant.grow(ledgers, spec);
        }
    }
}
