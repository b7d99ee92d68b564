//! The event engine: every request on its own, from arrival to answer.
//!
//! A request goes through the load balancer to a pod, waits there for a slot in the order of arrival, computes, and then
//! is outside (disk, network, a delay) while it keeps its slot. Requests that compute in the same pod share its cores,
//! at most one core each. So a pod with as many slots as cores is an M/G/k queue, and one with many slots on one core
//! shares its processor; the tests hold both against theory.
//!
//! What is exact and what is not: within a pod everything is exact. Pods of one node feel each other only at the ends of
//! quanta of at most [`QUANTUM`] seconds, and only where they could want more cores than there are; disk, network and memory bus
//! slow requests down by their mean use over the last second. Arrivals beyond [`MOST_REQUESTS`] per tenant and step are
//! not simulated but turned away, and the step says so ([`crate::cluster::Doubt::Capped`]).
//!
//! | module | holds |
//! |---|---|
//! | `front` | a tenant's arrivals, load balancer and event loop |
//! | `life` | a tenant's pods as the orchestrator starts, resizes and stops them |
//! | `server` | a pod's slots, queue and virtual time |
//! | `host` | a node's cores and bandwidths |
//! | `request` | a request and the CPU time that it needs |
//! | `journal` | what was counted |

use meanfield_common::invalid::Invalid;

use crate::{
    anomaly::{pressure, surge},
    cluster::{Sharing, Spec},
    tenant::Tenant,
    workload::Workload,
};

mod front;
mod host;
mod journal;
mod life;
mod request;
mod server;

use front::Front;
use host::Host;
pub use journal::{Journal, Totals, UNIT};

/// The most seconds after which a crowded node's cores are shared anew.
pub const QUANTUM: f64 = 0.01;

/// The least. In between it is the CPU time of the shortest requests: over a longer time they would come and go unseen.
const SHORTEST_QUANTUM: f64 = 0.001;

/// Seconds after which the use of disks, networks and buses is looked at where no cores are scarce.
const GLANCE: f64 = 0.1;

/// The most quanta in one step; longer steps have longer quanta.
const MOST_QUANTA: f64 = 1e5;

/// The most requests of one tenant that are simulated in one step.
pub const MOST_REQUESTS: f64 = 1_048_576.0;

/// The engine's state between steps.
#[derive(Debug, Clone)]
pub(crate) struct Events {
    fronts: Vec<Option<Front>>,
    hosts: Vec<Host>,
    /// Moments of this step at which limits or disturbances change.
    edges: Vec<f64>,
    /// When throttled pods get their next budgets.
    refill: f64,
}

impl Events {
    /// Refuses rules that would take for ever.
    pub(crate) fn new(spec: &Spec) -> Result<Self, Invalid> {
        if let Sharing::Throttled { period } = spec.sharing
            && spec.seconds / period > MOST_QUANTA
        {
            let bound = format!("at least a {MOST_QUANTA}th of a step in the event model");
            return Err(Invalid::new("sharing.period", period, bound));
        }
        Ok(Self {
            fronts: Vec::new(),
            hosts: spec.nodes.iter().map(Host::new).collect(),
            edges: Vec::new(),
            refill: 0.0,
        })
    }

    /// Refuses a workload whose requests would never get anywhere or be sent again without end.
    pub(crate) fn check(workload: &Workload) -> Result<(), Invalid> {
        let field = |name: &str| format!("{}.{name}", workload.name);
        if !(workload.timeout.is_finite() && workload.timeout >= 1e-3) {
            return Err(Invalid::new(field("timeout"), workload.timeout, "finite and at least 0.001"));
        }
        if workload.slots == 0 {
            return Err(Invalid::new(field("slots"), 0, "at least 1"));
        }
        if workload.retries > 100 {
            return Err(Invalid::new(field("retries"), workload.retries, "at most 100"));
        }
        Ok(())
    }

    /// What happened to a tenant's requests in the last step.
    pub(crate) fn journal(&self, tenant: usize) -> Option<&Journal> {
        self.fronts.get(tenant)?.as_ref().map(|front| &front.journal)
    }

    pub(crate) fn step(&mut self, spec: &Spec, tenants: &mut [Option<Tenant>], step: usize) {
        let (start, end) = (step as f64 * spec.seconds, (step + 1) as f64 * spec.seconds);
        self.enter(spec, tenants, step, start);
        self.find_edges(spec, start, end);
        let (mut from, mut edge) = (start, 0);
        let mut quantum = None;
        while from < end {
            let changes = self.edges.get(edge) == Some(&from);
            edge += usize::from(changes);
            let upcoming = self.edges.get(edge).copied().unwrap_or(end);
            if changes {
                self.change(spec, from, upcoming);
                quantum = self.quantum(spec);
            }
            let mut to = quantum.map_or(upcoming, |quantum| upcoming.min(following(from, quantum)));
            if let Sharing::Throttled { period } = spec.sharing {
                if from >= self.refill {
                    self.refill = following(from, period);
                    self.fronts.iter_mut().flatten().flat_map(|front| &mut front.pods).for_each(|pod| {
                        pod.budget = f64::INFINITY;
                    });
                }
                to = to.min(self.refill);
            }
            self.share(spec.sharing, from, to);
            for front in self.fronts.iter_mut().flatten() {
                front.run(from, to, &mut self.hosts);
                for pod in &mut front.pods {
                    pod.pass(to);
                    let used = pod.collect();
                    self.hosts[pod.node].use_cores(used);
                }
            }
            self.hosts.iter_mut().for_each(|host| host.settle(to - from));
            from = to;
        }
        for (tenant, front) in tenants.iter_mut().zip(&mut self.fronts) {
            if let (Some(tenant), Some(front)) = (tenant, front) {
                tenant.measured = front.report(spec, &self.hosts, end);
                front.hand_back(&mut tenant.pods, spec.seconds, end);
                tenant.backlog = tenant.measured.backlog;
            }
        }
    }

    /// Takes over what the orchestrator did between steps.
    fn enter(&mut self, spec: &Spec, tenants: &mut [Option<Tenant>], step: usize, start: f64) {
        self.fronts.resize(tenants.len(), None);
        for (index, (tenant, front)) in tenants.iter_mut().zip(&mut self.fronts).enumerate() {
            let Some(tenant) = tenant else {
                *front = None;
                continue;
            };
            tenant.change(step);
            let front = front.get_or_insert_with(|| Front::new(&tenant.spec.workload, spec.seed, index, start));
            front.enter(spec, tenant, tenant.rate(step), start);
        }
        self.hosts.iter_mut().for_each(|host| host.total = 0.0);
    }

    fn find_edges(&mut self, spec: &Spec, start: f64, end: f64) {
        self.edges.clear();
        self.edges.extend(spec.anomalies.iter().flat_map(|anomaly| [anomaly.from, anomaly.to]));
        for pod in self.fronts.iter().flatten().flat_map(|front| &front.pods) {
            self.edges.extend([pod.settles, pod.gone]);
        }
        self.edges.retain(|edge| (start..end).contains(edge));
        self.edges.push(start);
        self.edges.sort_unstable_by(f64::total_cmp);
        self.edges.dedup();
    }

    /// Brings what holds until `to` into force: disturbances, limits, the ends of pods.
    fn change(&mut self, spec: &Spec, from: f64, to: f64) {
        for (index, (host, node)) in self.hosts.iter_mut().zip(&spec.nodes).enumerate() {
            host.press(node, pressure(&spec.anomalies, index, from, to));
        }
        for (index, front) in self.fronts.iter_mut().enumerate() {
            let Some(front) = front else { continue };
            front.change(surge(&spec.anomalies, index, from, to), spec.seconds, from, to, &mut self.hosts);
        }
        for front in self.fronts.iter().flatten() {
            for pod in &front.pods {
                let host = &mut self.hosts[pod.node];
                host.expect(host.most(spec.sharing, pod.limit), f64::from(front.workload.slots));
            }
        }
        self.hosts.iter_mut().for_each(Host::crowd);
    }

    /// Seconds between two looks at the nodes, if any are needed.
    fn quantum(&self, spec: &Spec) -> Option<f64> {
        let crowded = self.hosts.iter().any(|host| host.contended);
        let moves = |front: &Front| {
            let Workload { io_mb, network_mb, traffic_mb, .. } = *front.workload;
            io_mb > 0.0 || network_mb > 0.0 || traffic_mb > 0.0
        };
        let busy = || self.fronts.iter().flatten().any(moves);
        let demands = self.fronts.iter().flatten().map(|front| front.workload.cpu_seconds());
        let shortest = || demands.fold(QUANTUM, f64::min).max(SHORTEST_QUANTUM);
        let quantum = if crowded { Some(shortest()) } else { busy().then_some(GLANCE) };
        quantum.map(|quantum| quantum.max(spec.seconds / MOST_QUANTA))
    }

    /// Shares the cores of crowded nodes for one quantum.
    fn share(&mut self, sharing: Sharing, from: f64, to: f64) {
        self.hosts.iter_mut().for_each(Host::open_quantum);
        for pod in self.fronts.iter_mut().flatten().flat_map(|front| &mut front.pods) {
            if let Sharing::Throttled { period } = sharing
                && pod.budget.is_infinite()
            {
                pod.pass(from);
                pod.budget = pod.limit * period;
            }
            let host = &mut self.hosts[pod.node];
            if host.contended {
                host.want(pod.threads().min(host.most(sharing, pod.limit)), pod.weight);
            }
        }
        self.hosts.iter_mut().filter(|host| host.contended).for_each(|host| host.share(to - from));
        for front in self.fronts.iter_mut().flatten() {
            for index in 0..front.pods.len() {
                let pod = &front.pods[index];
                let host = &self.hosts[pod.node];
                let mut cores = host.most(sharing, pod.limit);
                if host.contended {
                    cores = cores.min(host.grant(pod.threads().min(cores), pod.weight));
                }
                front.grant(index, cores, from);
            }
        }
    }
}

/// The next multiple of a period after a moment. One that is due within rounding has just been.
fn following(from: f64, period: f64) -> f64 {
    let next = ((from / period).floor() + 1.0) * period;
    if next - from > period * 1e-6 { next } else { next + period }
}
