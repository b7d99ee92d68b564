//! One shared cluster, step by step.
//!
//! [`Cluster::advance`] is the whole physics: carry out what was asked for, share CPU and disk on each node, then
//! compute each tenant's queue, memory and latency. A tenant is slowed down by its neighbours in four ways, all of
//! which follow from sharing: CPU above the fair level, bursts that collide on a node's cores, a busy disk, and
//! nodes too full to place its pods.

use std::sync::Arc;

use meanfield_common::{
    invalid::Invalid,
    observation::Observation,
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
    slo::Slo,
};

use crate::{
    placement::{Ledger, Node, place},
    queue::{Part, Queue, backlog_delay, contention, mixture_percentiles, share_beyond},
    sharing::fair_level,
    tenant::{Pod, Tenant, release, request},
    workload::{DISK_MB_PER_SECOND, TIMEOUT_SECONDS, Workload},
};

/// The disk's utilisation beyond which its slow-down is no longer computed; a fuller disk limits throughput instead.
const FULLEST_DISK: f64 = 0.95;

/// Who runs in the cluster.
#[derive(Debug, Clone)]
pub struct TenantSpec {
    /// What its requests need.
    pub workload: Workload,
    /// Its objective.
    pub slo: Slo,
    /// Within which it may be scaled.
    pub bounds: Bounds,
    /// How it starts.
    pub scale: Scale,
    /// Requests per second, step by step; repeated when it ends.
    pub arrivals: Arc<[f64]>,
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
}

/// A tenant's place in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct TenantId(usize);

/// What a step was in truth: what the operator pays and the users feel, beyond what an agent can observe.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// Requests that arrived.
    pub requests: f64,
    /// Requests that were slower than the objective or given up on.
    pub violating: f64,
    /// Whether the step's percentile missed the objective.
    pub violated: bool,
    /// Cores reserved by placed pods (requests).
    pub cores: f64,
    /// Memory reserved by placed pods.
    pub memory: f64,
}

/// The cluster.
#[derive(Debug, Clone)]
pub struct Cluster {
    spec: Spec,
    ledgers: Vec<Ledger>,
    tenants: Vec<Option<Tenant>>,
    step: usize,
    /// Scratch, by node: CPU wants, what is granted, the fair level, the disk's load; by pod: latency and pace.
    wants: Vec<Vec<f64>>,
    granted: Vec<f64>,
    level: Vec<f64>,
    disk: Vec<f64>,
    parts: Vec<Part>,
    paces: Vec<Pace>,
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
        if spec.nodes.is_empty() {
            return Err(Invalid::new("nodes", 0, "at least 1"));
        }
        for (index, node) in spec.nodes.iter().enumerate() {
            positive(&format!("nodes[{index}].cores"), node.cores)?;
            positive(&format!("nodes[{index}].memory"), node.memory.0 as f64)?;
        }
        let count = spec.nodes.len();
        Ok(Self {
            ledgers: spec.nodes.iter().copied().map(Ledger::new).collect(),
            spec,
            tenants: Vec::new(),
            step: 0,
            wants: vec![Vec::new(); count],
            granted: vec![0.0; count],
            level: vec![f64::INFINITY; count],
            disk: vec![0.0; count],
            parts: Vec::new(),
            paces: Vec::new(),
        })
    }

    /// Adds a tenant; its pods are placed and started in the next step.
    pub fn join(&mut self, spec: TenantSpec) -> Result<TenantId, Invalid> {
        if !spec.bounds.contains(&spec.scale) {
            let bound = format!("within the bounds of {}", spec.workload.name);
            return Err(Invalid::new("scale", format!("{:?}", spec.scale), bound));
        }
        if spec.arrivals.is_empty() || spec.arrivals.iter().any(|rate| !rate.is_finite() || *rate < 0.0) {
            let bound = "a non-empty list of finite rates of at least 0";
            return Err(Invalid::new("arrivals", spec.workload.name, bound));
        }
        let smallest =
            self.request(Resources { cpu: *spec.bounds.cpu().start(), memory: *spec.bounds.memory().start() });
        if place(&mut self.ledgers.iter().map(|ledger| Ledger::new(ledger.node)).collect::<Vec<_>>(), smallest)
            .is_none()
        {
            return Err(Invalid::new("bounds", spec.workload.name, "small enough for any node"));
        }
        self.tenants.push(Some(Tenant::new(spec)));
        Ok(TenantId(self.tenants.len() - 1))
    }

    /// Takes a tenant and its pods away.
    pub fn leave(&mut self, id: TenantId) {
        if let Some(tenant) = self.tenants.get_mut(id.0).and_then(Option::take) {
            for pod in &tenant.pods {
                release(&mut self.ledgers, self.spec.overcommit, pod);
            }
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

    /// What could be measured of a tenant in the last step; `None` once it has left.
    #[must_use]
    pub fn observe(&self, id: TenantId) -> Option<Observation> {
        self.tenants.get(id.0)?.as_ref().map(|tenant| tenant.seen)
    }

    /// What the last step was in truth; `None` once the tenant has left.
    #[must_use]
    pub fn outcome(&self, id: TenantId) -> Option<Outcome> {
        self.tenants.get(id.0)?.as_ref().map(|tenant| tenant.outcome)
    }

    /// Steps since the start.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.step
    }

    fn request(&self, limit: Resources) -> Resources {
        request(limit, self.spec.overcommit)
    }

    /// Places the pods of all tenants and has them ready at once, as in a cluster that has run for long.
    pub fn warm_up(&mut self) {
        self.reconcile();
        for pod in self.tenants.iter_mut().flatten().flat_map(|tenant| &mut tenant.pods) {
            pod.starting = 0.0;
        }
    }

    /// One step.
    pub fn advance(&mut self) {
        self.reconcile();
        self.share_cpu();
        self.share_disk();
        for index in 0..self.tenants.len() {
            if let Some(mut tenant) = self.tenants[index].take() {
                self.serve(&mut tenant);
                self.tenants[index] = Some(tenant);
            }
        }
        self.step += 1;
    }

    /// Brings pods to what was asked for. Who goes first rotates with the step, so nobody is favoured for long.
    fn reconcile(&mut self) {
        let count = self.tenants.len();
        let overcommit = self.spec.overcommit;
        let ledgers = &mut self.ledgers;
        for tenant in self.tenants.iter_mut().flatten() {
            tenant.shrink(ledgers, overcommit);
        }
        for offset in 0..count {
            let index = (self.step + offset) % count;
            if let Some(tenant) = &mut self.tenants[index] {
                tenant.grow(ledgers, overcommit);
            }
        }
    }

    /// Shares each node's CPU among its pods, max-min fair under their quotas.
    fn share_cpu(&mut self) {
        self.wants.iter_mut().for_each(Vec::clear);
        let (step, seconds) = (self.step, self.spec.seconds);
        for tenant in self.tenants.iter_mut().flatten() {
            let offered = tenant.offered_cores(step, seconds);
            let able: f64 = tenant.pods.iter().map(|pod| pod.limit.cpu.cores() * pod.ready).sum();
            for pod in &mut tenant.pods {
                let Some(node) = pod.node else { continue };
                let part = pod.limit.cpu.cores() * pod.ready;
                pod.want = if able > 0.0 { part.min(offered * part / able) } else { 0.0 };
                self.wants[node].push(pod.want);
            }
        }
        for (node, ledger) in self.ledgers.iter().enumerate() {
            let wanted: f64 = self.wants[node].iter().sum();
            self.granted[node] = wanted.min(ledger.node.cores);
            self.level[node] = fair_level(&mut self.wants[node], ledger.node.cores);
        }
        for pod in self.tenants.iter_mut().flatten().flat_map(|tenant| &mut tenant.pods) {
            let Some(node) = pod.node else { continue };
            let most = if self.level[node].is_finite() {
                self.level[node]
            } else {
                pod.want + self.ledgers[node].node.cores - self.granted[node]
            };
            pod.cores = pod.limit.cpu.cores().min(most);
        }
    }

    /// Adds up what each node's disk is asked for.
    fn share_disk(&mut self) {
        self.disk.iter_mut().for_each(|load| *load = 0.0);
        for tenant in self.tenants.iter().flatten() {
            let workload = &tenant.spec.workload;
            for pod in &tenant.pods {
                let Some(node) = pod.node else { continue };
                let rate = pod.want.min(pod.cores) / workload.cpu_seconds();
                self.disk[node] += rate * workload.io_mb * pod.squeeze() / DISK_MB_PER_SECOND;
            }
        }
    }

    /// One tenant's requests, latency and memory.
    fn serve(&mut self, tenant: &mut Tenant) {
        let seconds = self.spec.seconds;
        let rate = tenant.rate(self.step);
        let workload = tenant.spec.workload;

        // How each pod runs: seconds on the CPU, seconds of I/O, and requests per second at most.
        let mut paces = std::mem::take(&mut self.paces);
        paces.clear();
        paces.extend(tenant.pods.iter().map(|pod| self.pace(pod, &workload)));
        let capacity: f64 = paces.iter().map(|pace| pace.capacity).sum();

        // The backlog moves in a straight line over the step; what would wait too long is given up on.
        let before = tenant.backlog;
        let unserved = (before + (rate - capacity) * seconds).max(0.0);
        let most = if capacity > 0.0 { capacity * TIMEOUT_SECONDS } else { rate * TIMEOUT_SECONDS };
        let after = unserved.min(most);
        let dropped = unserved - after;
        let served = before + rate * seconds - unserved;
        let delay = if capacity > 0.0 {
            let busy = if unserved > 0.0 { 1.0 } else { before / (capacity - rate).max(1e-9) / seconds };
            backlog_delay(before / capacity, after / capacity, busy)
        } else {
            [TIMEOUT_SECONDS; 2]
        };

        // Latency of each pod; traffic follows capacity, so all pods are equally loaded.
        let utilisation = if capacity > 0.0 { rate / capacity } else { 0.0 };
        self.parts.clear();
        let mut used = (0.0, 0.0_f64, 0_u32);
        let mut lost = 0.0;
        for (pod, pace) in tenant.pods.iter_mut().zip(&paces) {
            let queue = Queue::stationary(&tenant.service, pace.cpu, pod.cores, pace.io, utilisation);
            let mut in_flight = 0.0;
            if pace.capacity > 0.0 {
                let percentiles = [0, 1].map(|which| (queue.percentiles[which] + delay[which]).min(TIMEOUT_SECONDS));
                self.parts.push(Part { weight: pace.capacity, percentiles });
                let share = pace.capacity / capacity;
                in_flight = (rate * share * queue.mean + after * share).min(f64::from(workload.slots));
            }
            // This step has passed; a kill at its end starts the clock anew.
            pod.starting = (pod.starting - seconds).max(0.0);
            lost += pod.use_memory(&workload, in_flight, &mut used);
        }
        let (memory_used, memory_peak, oom_kills) = used;
        // What a killed pod held had waited, or else would have been served.
        let waiting = lost.min(after);
        let (after, served) = (after - waiting, (served - (lost - waiting)).max(0.0));
        tenant.backlog = after;
        self.paces = paces;
        if self.parts.is_empty() {
            self.parts.push(Part { weight: 1.0, percentiles: [TIMEOUT_SECONDS; 2] });
        }

        let requests = rate * seconds;
        let any = requests > 0.0 || served > 0.0;
        let [median, high] = if any { mixture_percentiles(&self.parts) } else { [0.0; 2] };
        let milliseconds = |latency: f64| any.then_some(latency * 1000.0);
        let objective = match tenant.spec.slo {
            Slo::Latency { milliseconds, .. } => milliseconds / 1000.0,
            Slo::Throughput { .. } => f64::INFINITY,
        };
        tenant.seen = Observation {
            seconds,
            arrival_rate: rate,
            throughput: served / seconds,
            dropped: dropped + lost,
            backlog: after,
            latency_p50: milliseconds(median),
            latency_p99: milliseconds(high),
            cpu_used: MilliCores((served / seconds * workload.cpu_ms).round() as u64),
            memory_used: Bytes(memory_used as u64),
            memory_peak: Bytes(memory_peak as u64),
            scale: tenant.scale,
            request: self.request(tenant.scale.limit),
            ready: tenant.pods.iter().filter(|pod| pod.ready > 0.0).count() as u32,
            pending: tenant.pods.iter().filter(|pod| pod.node.is_none()).count() as u32,
            oom_kills,
            node_utilisation: self.node_utilisation(&tenant.pods),
        };
        let slow = requests * share_beyond(&self.parts, objective);
        let placed = || tenant.pods.iter().filter(|pod| pod.node.is_some()).map(|pod| self.request(pod.limit));
        tenant.outcome = Outcome {
            requests,
            violating: (slow + dropped + lost).min(requests),
            violated: tenant.spec.slo.violated(&tenant.seen),
            cores: placed().map(|request| request.cpu.cores()).sum(),
            memory: placed().map(|request| request.memory.0 as f64).sum(),
        };
    }

    fn pace(&self, pod: &Pod, workload: &Workload) -> Pace {
        let Some(node) = pod.node.filter(|_| pod.ready > 0.0 && pod.cores > 0.0) else {
            return Pace { cpu: 0.0, io: 0.0, capacity: 0.0 };
        };
        let cores = self.ledgers[node].node.cores;
        // The pod's own waiting is in its own queue, so only what the neighbours use collides with it here.
        let neighbours = (self.granted[node] - pod.want.min(pod.cores)) / cores;
        let cpu = workload.cpu_seconds() * (1.0 + contention(cores, neighbours)) / pod.cores.min(1.0);
        let disk = self.disk[node];
        let io = workload.io_seconds() * pod.squeeze() / (1.0 - disk.min(FULLEST_DISK));
        let by_cpu = pod.cores / workload.cpu_seconds();
        let by_slots = f64::from(workload.slots) / (cpu + io);
        let by_disk = if disk > 1.0 && workload.io_mb > 0.0 { by_cpu / disk } else { f64::INFINITY };
        Pace { cpu, io, capacity: by_cpu.min(by_slots).min(by_disk) * pod.ready }
    }

    fn node_utilisation(&self, pods: &[Pod]) -> f64 {
        let placed = pods.iter().filter_map(|pod| pod.node);
        let (sum, count) = placed.fold((0.0, 0.0_f64), |(sum, count), node| {
            (sum + self.granted[node] / self.ledgers[node].node.cores, count + 1.0)
        });
        if count > 0.0 { sum / count } else { 0.0 }
    }
}

/// How one pod runs during a step.
#[derive(Debug, Clone, Copy)]
struct Pace {
    cpu: f64,
    io: f64,
    capacity: f64,
}
