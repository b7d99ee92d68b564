//! One tenant's pods: their life, their size, their memory.

use std::sync::Arc;

use meanfield_common::{
    observation::Observation,
    resources::{Bytes, MilliCores, Resources, Scale},
};

use crate::{
    cluster::{Measured, Outcome, Spec, TenantSpec},
    placement::{Ledger, place},
    workload::Workload,
};

/// Extra seconds before a killed pod starts again.
pub(crate) const RESTART_DELAY: f64 = 10.0;
/// The share of its limit from which a pod's page cache is squeezed.
const PRESSURE_FROM: f64 = 0.8;

#[derive(Debug, Clone)]
pub(crate) struct Pod {
    /// Counts up within a tenant.
    pub(crate) id: u64,
    pub(crate) node: Option<usize>,
    /// What it has reserved; in force once `settling` is over, and until then `before` is.
    pub(crate) limit: Resources,
    pub(crate) before: Resources,
    /// The request behind `limit`, which is what the node has set aside.
    pub(crate) request: Resources,
    pub(crate) settling: f64,
    /// Seconds until it is ready, and seconds since it has been.
    pub(crate) starting: f64,
    pub(crate) age: f64,
    /// Seconds that are left to finish its requests, once it is being stopped.
    pub(crate) leaving: Option<f64>,
    /// Memory in use over the limit, at the end of the last step.
    pub(crate) fullness: f64,
    /// This step, in the fluid model: the share of it that the pod is ready for, cores wanted, and cores it can have.
    pub(crate) ready: f64,
    pub(crate) want: f64,
    pub(crate) cores: f64,
}

#[derive(Debug, Clone)]
pub(crate) struct Tenant {
    pub(crate) spec: TenantSpec,
    pub(crate) scale: Scale,
    /// The CPU request of each pod; none follows from the limit.
    pub(crate) request: Option<MilliCores>,
    pub(crate) pods: Vec<Pod>,
    /// What was asked for when every pod was placed, sized and meant to stay, so that there is nothing to reconcile.
    settled: Option<(Scale, Option<MilliCores>)>,
    started: u64,
    pub(crate) backlog: f64,
    /// Requests per second that other tenants make.
    pub(crate) called: f64,
    pub(crate) measured: Measured,
    pub(crate) seen: Observation,
    pub(crate) outcome: Outcome,
}

impl Pod {
    /// How much more I/O a request needs because the page cache is squeezed: 1 to 4.
    pub(crate) fn squeeze(&self) -> f64 {
        squeeze(self.fullness)
    }

    /// The CPU limit in cores, as it is in force on average over the next `seconds`.
    pub(crate) fn cpu_limit(&self, seconds: f64) -> f64 {
        if self.settling <= 0.0 {
            return self.limit.cpu.cores();
        }
        let before = (self.settling / seconds).clamp(0.0, 1.0);
        self.before.cpu.cores() * before + self.limit.cpu.cores() * (1.0 - before)
    }

    /// How much of scarce cores it may claim, relative to others.
    pub(crate) fn weight(&self) -> f64 {
        self.request.cpu.cores()
    }

    /// Its own way with memory: a factor around 1, so that not all pods of a tenant are killed in the same step. A fixed
    /// pattern from 0.95 to 1.05; the golden ratio spreads any number of them evenly.
    pub(crate) fn appetite(&self) -> f64 {
        let turns = self.id as f64 * 0.618_033_988_75;
        0.95 + 0.1 * (turns - turns as u64 as f64)
    }

    /// Whether it takes in requests, now or later.
    pub(crate) fn stays(&self) -> bool {
        self.leaving.is_none()
    }

    /// Starts again after a kill.
    pub(crate) fn restart(&mut self, workload: &Workload) {
        self.starting = workload.startup + RESTART_DELAY;
        self.age = 0.0;
        self.fullness = 0.0;
    }
}

impl Tenant {
    pub(crate) fn new(spec: TenantSpec) -> Self {
        Self {
            scale: spec.scale,
            request: None,
            pods: Vec::new(),
            settled: None,
            started: 0,
            backlog: 0.0,
            called: 0.0,
            measured: Measured::default(),
            seen: Observation { scale: spec.scale, ready: 0, ..Observation::default() },
            outcome: Outcome::default(),
            spec,
        }
    }

    /// Requests per second that arrive in a step.
    pub(crate) fn rate(&self, step: usize) -> f64 {
        self.spec.arrivals[step % self.spec.arrivals.len()] + self.called
    }

    /// Switches to what requests need from this step on.
    pub(crate) fn change(&mut self, step: usize) {
        if let Some((_, workload)) = self.spec.changes.iter().rfind(|(from, _)| *from <= step)
            && !Arc::ptr_eq(workload, &self.spec.workload)
        {
            self.spec.workload = Arc::clone(workload);
        }
    }

    /// Removes pods that have finished, stops surplus ones (waiting ones first) and lowers limits where asked for.
    pub(crate) fn shrink(&mut self, ledgers: &mut [Ledger], spec: &Spec) {
        if self.settled == Some((self.scale, self.request)) {
            return;
        }
        self.pods.retain(|pod| {
            let gone = pod.leaving.is_some_and(|left| left <= 0.0);
            if gone {
                release(ledgers, pod);
            }
            !gone
        });
        let staying = self.pods.iter().filter(|pod| pod.stays()).count();
        let surplus = staying.saturating_sub(self.scale.replicas as usize);
        if surplus > 0 {
            // Pending, then still starting, then the youngest: they stand last already.
            self.pods.sort_by_key(|pod| (!pod.stays(), pod.node.is_none(), pod.starting > 0.0));
            for pod in &mut self.pods[staying - surplus..staying] {
                pod.leaving = Some(spec.grace);
            }
            // What never ran has nothing to finish.
            self.pods.retain(|pod| {
                let gone = !pod.stays() && (pod.node.is_none() || pod.starting > 0.0);
                if gone {
                    release(ledgers, pod);
                }
                !gone
            });
        }
        let (wanted, asked) = (self.scale.limit, self.request);
        for pod in self.pods.iter_mut().filter(|pod| pod.stays()) {
            let in_use = (pod.fullness * pod.limit.memory.0 as f64) as u64;
            let memory = if wanted.memory.0 < in_use { pod.limit.memory } else { wanted.memory.min(pod.limit.memory) };
            let limit = Resources { cpu: wanted.cpu.min(pod.limit.cpu), memory };
            // Only downwards here, so that others find the room: what grows comes afterwards.
            let less = request(limit, asked, spec.overcommit).cpu.min(pod.request.cpu);
            pod.resize(ledgers, spec, limit, Some(less));
        }
    }

    /// Raises limits in place, then starts missing pods, where the nodes have room.
    pub(crate) fn grow(&mut self, ledgers: &mut [Ledger], spec: &Spec) {
        if self.settled == Some((self.scale, self.request)) {
            return;
        }
        let (wanted, asked) = (self.scale.limit, self.request);
        let reserved = request(wanted, asked, spec.overcommit);
        for pod in self.pods.iter_mut().filter(|pod| pod.stays()) {
            let cpu = Resources { cpu: wanted.cpu.max(pod.limit.cpu), memory: pod.limit.memory };
            pod.resize(ledgers, spec, cpu, asked);
            let memory = Resources { cpu: pod.limit.cpu, memory: wanted.memory.max(pod.limit.memory) };
            pod.resize(ledgers, spec, memory, asked);
        }
        let staying = self.pods.iter().filter(|pod| pod.stays()).count();
        for _ in staying..self.scale.replicas as usize {
            self.started += 1;
            self.pods.push(Pod {
                id: self.started,
                node: None,
                limit: wanted,
                before: wanted,
                request: reserved,
                settling: 0.0,
                starting: self.spec.workload.startup,
                age: 0.0,
                leaving: None,
                fullness: 0.0,
                ready: 0.0,
                want: 0.0,
                cores: 0.0,
            });
        }
        for pod in self.pods.iter_mut().filter(|pod| pod.node.is_none()) {
            pod.limit = wanted;
            pod.before = wanted;
            pod.request = reserved;
            pod.node = place(ledgers, reserved);
        }
        let settled = |pod: &Pod| pod.stays() && pod.node.is_some() && pod.limit == wanted && pod.request == reserved;
        self.settled = self.pods.iter().all(settled).then_some((self.scale, asked));
    }

    /// Turns what the engine measured into what is seen and what was true.
    pub(crate) fn report(&mut self, spec: &Spec) {
        let Measured { requests, served, dropped, backlog, violating, percentiles, .. } = self.measured;
        let pods = || self.pods.iter().filter(|pod| pod.stays());
        let milliseconds = |which: usize| percentiles.map(|percentiles: [f64; 2]| percentiles[which] * 1000.0);
        self.seen = Observation {
            seconds: spec.seconds,
            arrival_rate: requests / spec.seconds,
            throughput: served / spec.seconds,
            dropped,
            backlog,
            latency_p50: milliseconds(0),
            latency_p99: milliseconds(1),
            concurrency: self.measured.concurrency,
            cpu_used: MilliCores((self.measured.cores * 1000.0).round() as u64),
            cpu_allowed: MilliCores(pods().filter(|pod| pod.ready > 0.0).map(|pod| pod.limit.cpu.0).sum()),
            memory_used: Bytes(self.measured.memory as u64),
            memory_peak: Bytes(self.measured.memory_peak as u64),
            scale: self.scale,
            request: request(self.scale.limit, self.request, spec.overcommit),
            ready: pods().filter(|pod| pod.ready > 0.0).count() as u32,
            pending: pods().filter(|pod| pod.node.is_none()).count() as u32,
            oom_kills: self.measured.oom_kills,
            node_utilisation: self.measured.node_utilisation,
        };
        let placed = self.pods.iter().filter(|pod| pod.node.is_some());
        let (cores, memory) = placed.fold((0.0, 0.0), |(cores, memory), pod| {
            (cores + pod.request.cpu.cores(), memory + pod.request.memory.0 as f64)
        });
        let violated = self.spec.slo.violated(&self.seen);
        self.outcome = Outcome { requests, violating, violated, cores, memory, doubt: self.measured.doubt };
    }
}

impl Pod {
    /// Changes the limits in place; keeps the old ones when the node has no room (the resize is deferred).
    fn resize(&mut self, ledgers: &mut [Ledger], spec: &Spec, limit: Resources, asked: Option<MilliCores>) {
        let request = request(limit, asked, spec.overcommit);
        if limit == self.limit && request == self.request {
            return;
        }
        let Some(node) = self.node else { return };
        if ledgers[node].swap(self.request, request) {
            self.fullness *= self.limit.memory.0 as f64 / limit.memory.0 as f64;
            // Another resize while one is under way goes along with it.
            if self.settling <= 0.0 && limit != self.limit {
                self.before = self.limit;
                self.settling = spec.resize;
            }
            (self.limit, self.request) = (limit, request);
        }
    }
}

pub(crate) fn release(ledgers: &mut [Ledger], pod: &Pod) {
    if let Some(node) = pod.node {
        ledgers[node].give_back(pod.request);
    }
}

/// How much more I/O a request needs in a pod that is so full.
pub(crate) fn squeeze(fullness: f64) -> f64 {
    let pressure = ((fullness - PRESSURE_FROM) / (1.0 - PRESSURE_FROM)).clamp(0.0, 1.0);
    1.0 + 3.0 * pressure * pressure
}

/// The request behind a limit: CPU as asked for, or overcommitted; memory never is.
pub(crate) fn request(limit: Resources, asked: Option<MilliCores>, overcommit: f64) -> Resources {
    let usual = MilliCores((limit.cpu.0 as f64 / overcommit).ceil() as u64);
    Resources { cpu: asked.unwrap_or(usual).min(limit.cpu), memory: limit.memory }
}
