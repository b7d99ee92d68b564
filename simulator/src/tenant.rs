//! One tenant's pods: their life, their size, their memory.

use meanfield_common::{
    observation::Observation,
    resources::{MilliCores, Resources, Scale},
};

use crate::{
    cluster::{Outcome, TenantSpec},
    placement::{Ledger, place},
    queue::Service,
    workload::Workload,
};

/// Extra seconds before a killed pod starts again.
const RESTART_DELAY: f64 = 10.0;
/// The share of its limit from which a pod's page cache is squeezed.
const PRESSURE_FROM: f64 = 0.8;

#[derive(Debug, Clone)]
pub(crate) struct Pod {
    pub(crate) node: Option<usize>,
    pub(crate) limit: Resources,
    /// Seconds until it is ready.
    pub(crate) starting: f64,
    /// Its own way with memory: a factor around 1, so that not all pods of a tenant are killed in the same step.
    appetite: f64,
    /// Memory in use over the limit, at the end of the last step.
    fullness: f64,
    /// This step: the share of it that the pod is ready for, cores wanted, and cores it can have.
    pub(crate) ready: f64,
    pub(crate) want: f64,
    pub(crate) cores: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) spec: TenantSpec,
    pub(crate) service: Service,
    pub(crate) scale: Scale,
    pub(crate) pods: Vec<Pod>,
    started: u64,
    pub(crate) backlog: f64,
    pub(crate) seen: Observation,
    pub(crate) outcome: Outcome,
}

impl Pod {
    /// How much more I/O a request needs because the page cache is squeezed: 1 to 4.
    pub(crate) fn squeeze(&self) -> f64 {
        let pressure = ((self.fullness - PRESSURE_FROM) / (1.0 - PRESSURE_FROM)).clamp(0.0, 1.0);
        1.0 + 3.0 * pressure * pressure
    }

    /// Takes memory for the requests in flight; a pod above its limit is killed and starts again. Adds to
    /// (bytes used, fullest pod, kills), a killed pod counting as unused, and returns the requests lost.
    pub(crate) fn use_memory(&mut self, workload: &Workload, in_flight: f64, used: &mut (f64, f64, u32)) -> f64 {
        if self.ready <= 0.0 {
            self.fullness = 0.0;
            return 0.0;
        }
        let limit = self.limit.memory.0 as f64;
        let bytes = (workload.memory_idle.0 as f64 + workload.memory_request.0 as f64 * in_flight) * self.appetite;
        used.1 = used.1.max(bytes.min(limit));
        if bytes > limit {
            used.2 += 1;
            self.starting = workload.startup + RESTART_DELAY;
            self.fullness = 0.0;
            return in_flight;
        }
        used.0 += bytes;
        self.fullness = bytes / limit;
        0.0
    }
}

impl Tenant {
    pub(crate) fn new(spec: TenantSpec) -> Self {
        Self {
            service: Service::new(spec.workload.variation),
            scale: spec.scale,
            pods: Vec::new(),
            started: 0,
            backlog: 0.0,
            seen: Observation { scale: spec.scale, ready: 0, ..Observation::default() },
            outcome: Outcome::default(),
            spec,
        }
    }

    pub(crate) fn rate(&self, step: usize) -> f64 {
        self.spec.arrivals[step % self.spec.arrivals.len()]
    }

    /// Cores that arrivals and backlog could keep busy.
    pub(crate) fn offered_cores(&mut self, step: usize, seconds: f64) -> f64 {
        for pod in &mut self.pods {
            pod.ready = if pod.node.is_some() { (1.0 - pod.starting / seconds).clamp(0.0, 1.0) } else { 0.0 };
        }
        (self.rate(step) + self.backlog / seconds) * self.spec.workload.cpu_seconds()
    }

    /// Removes surplus pods (waiting ones first) and lowers limits where that is asked for.
    pub(crate) fn shrink(&mut self, ledgers: &mut [Ledger], overcommit: f64) {
        let surplus = self.pods.len().saturating_sub(self.scale.replicas as usize);
        if surplus > 0 {
            // Pending, then still starting, then the youngest: they stand last already.
            self.pods.sort_by_key(|pod| (pod.node.is_none(), pod.starting > 0.0));
            for pod in self.pods.split_off(self.pods.len() - surplus) {
                release(ledgers, overcommit, &pod);
            }
        }
        let wanted = self.scale.limit;
        for pod in &mut self.pods {
            let in_use = (pod.fullness * pod.limit.memory.0 as f64) as u64;
            let memory = if wanted.memory.0 < in_use { pod.limit.memory } else { wanted.memory.min(pod.limit.memory) };
            pod.resize(ledgers, overcommit, Resources { cpu: wanted.cpu.min(pod.limit.cpu), memory });
        }
    }

    /// Raises limits in place, then starts missing pods, where the nodes have room.
    pub(crate) fn grow(&mut self, ledgers: &mut [Ledger], overcommit: f64) {
        let wanted = self.scale.limit;
        for pod in &mut self.pods {
            let cpu = Resources { cpu: wanted.cpu.max(pod.limit.cpu), memory: pod.limit.memory };
            pod.resize(ledgers, overcommit, cpu);
            let memory = Resources { cpu: pod.limit.cpu, memory: wanted.memory.max(pod.limit.memory) };
            pod.resize(ledgers, overcommit, memory);
        }
        while self.pods.len() < self.scale.replicas as usize {
            // A fixed pattern of appetites from 0.95 to 1.05; the golden ratio spreads any number of them evenly.
            self.started += 1;
            let appetite = 0.95 + 0.1 * (self.started as f64 * 0.618_033_988_75).fract();
            self.pods.push(Pod {
                node: None,
                limit: wanted,
                starting: self.spec.workload.startup,
                appetite,
                fullness: 0.0,
                ready: 0.0,
                want: 0.0,
                cores: 0.0,
            });
        }
        for pod in self.pods.iter_mut().filter(|pod| pod.node.is_none()) {
            pod.limit = wanted;
            pod.node = place(ledgers, request(wanted, overcommit));
        }
    }
}

impl Pod {
    /// Changes the limits in place; keeps the old ones when the node has no room (the resize is deferred).
    fn resize(&mut self, ledgers: &mut [Ledger], overcommit: f64, limit: Resources) {
        if limit == self.limit {
            return;
        }
        let Some(node) = self.node else { return };
        if ledgers[node].swap(request(self.limit, overcommit), request(limit, overcommit)) {
            self.fullness *= self.limit.memory.0 as f64 / limit.memory.0 as f64;
            self.limit = limit;
        }
    }
}

pub(crate) fn release(ledgers: &mut [Ledger], overcommit: f64, pod: &Pod) {
    if let Some(node) = pod.node {
        ledgers[node].give_back(request(pod.limit, overcommit));
    }
}

/// The request behind a limit: CPU is overcommitted, memory never.
pub(crate) fn request(limit: Resources, overcommit: f64) -> Resources {
    Resources { cpu: MilliCores((limit.cpu.0 as f64 / overcommit).ceil() as u64), memory: limit.memory }
}
