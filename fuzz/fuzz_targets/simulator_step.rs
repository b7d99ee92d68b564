//! A small cluster of extremes, under both models: what it accepts runs, and every figure stays a finite number.
//!
//! Numbers span the ranges that a cluster file may use, ends included. Only the requests of a step are fewer in the event
//! model, which takes time for each of them.

#![no_main]

use std::sync::Arc;

use libfuzzer_sys::fuzz_target;
use meanfield_common::{
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
    slo::{Percentile, Slo},
};
use meanfield_simulator::{
    anomaly::{Anomaly, Kind},
    cluster::{Balancing, Cluster, Model, Sharing, Spec, TenantId, TenantSpec},
    placement::Node,
    workload::{Distribution, Workload, functions},
};

/// The most requests of a tenant in a step of the event model.
const REQUESTS: f64 = 2000.0;

/// Bytes read as decisions; zeros once they are used up.
#[derive(Clone, Copy)]
struct Input<'a>(&'a [u8]);

impl Input<'_> {
    fn byte(&mut self) -> u8 {
        let Some((&first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        first
    }

    fn index(&mut self, count: usize) -> usize {
        usize::from(self.byte()) % count
    }

    /// Evenly in the logarithm, both ends included.
    fn between(&mut self, low: f64, high: f64) -> f64 {
        match self.byte() {
            0 => low,
            255 => high,
            share => (low * (high / low).powf(f64::from(share) / 255.0)).clamp(low, high),
        }
    }

    /// As [`Self::between`], or nothing at all.
    fn up_to(&mut self, high: f64) -> f64 {
        if self.byte() % 4 == 0 { 0.0 } else { self.between(high * 1e-9, high) }
    }

    fn workload(&mut self) -> Workload {
        let known = &functions()[self.index(functions().len())];
        Workload {
            cpu_ms: self.between(1e-3, 1e6),
            distribution: match self.index(3) {
                0 => Distribution::Fixed,
                1 => Distribution::Exponential,
                _ => Distribution::Lognormal { variation: self.up_to(10.0) },
            },
            io_mb: self.up_to(1e5),
            network_mb: self.up_to(1e5),
            traffic_mb: self.up_to(1e6),
            memory_idle: Bytes(self.between(1.0, 1e12) as u64),
            memory_request: Bytes(self.between(1.0, 1e12) as u64),
            slots: self.between(1.0, 10_000.0) as u32,
            startup: self.up_to(3600.0),
            warmup: self.up_to(3600.0),
            cold: self.between(1.0, 100.0),
            timeout: self.between(1e-3, 86_400.0),
            retries: self.index(11) as u32,
            ..known.as_ref().clone()
        }
    }

    fn scale(&mut self, bounds: &Bounds) -> Scale {
        let replicas = self.between(1.0, 100.0) as u32;
        let cpu = MilliCores(self.between(1.0, 1e8) as u64);
        let memory = Bytes(self.between(1.0, 1e13) as u64);
        bounds.clamp(&Scale { replicas, limit: Resources { cpu, memory } })
    }

    fn tenant(&mut self, most: f64) -> Option<TenantSpec> {
        let (workload, later) = (self.workload(), self.workload());
        workload.check().and_then(|()| later.check()).ok()?;
        let cpu = MilliCores(1)..=MilliCores(self.between(1.0, 1e8) as u64);
        let memory = Bytes(1)..=Bytes(self.between(1.0, 1e13) as u64);
        let bounds = Bounds::new(1..=self.between(1.0, 100.0) as u32, cpu, memory).ok()?;
        let slo = match self.index(3) {
            0 => workload.slo().ok()?,
            1 => Slo::latency(Percentile::P50, self.between(1e-6, 1e9)).ok()?,
            _ => Slo::throughput(self.between(1e-6, 1e9)).ok()?,
        };
        Some(TenantSpec {
            workload: Arc::new(workload),
            changes: if self.byte() % 4 == 0 { vec![(1, Arc::new(later))] } else { Vec::new() },
            slo,
            scale: self.scale(&bounds),
            bounds,
            arrivals: [self.up_to(most), self.up_to(most), self.up_to(most)].into(),
        })
    }

    fn node(&mut self) -> Node {
        Node {
            cores: self.between(1e-3, 1e5),
            memory: Bytes(self.between(1.0, 1e15) as u64),
            disk: self.between(1e-3, 1e9),
            network: self.between(1e-3, 1e9),
            bus: self.between(1e-3, 1e9),
        }
    }

    fn spec(&mut self, model: Model) -> Spec {
        let seconds = self.between(1e-3, 3600.0);
        let nodes: Vec<_> = (0..=self.index(3)).map(|_| self.node()).collect();
        let anomaly = |input: &mut Self, nodes| Anomaly {
            target: input.index(nodes),
            from: 0.0,
            to: input.up_to(seconds * 3.0),
            kind: Kind::ALL[input.index(Kind::ALL.len())],
            intensity: input.up_to(1.0),
        };
        let anomalies = (0..self.index(3)).map(|_| anomaly(self, nodes.len())).collect();
        Spec {
            model,
            sharing: match self.index(3) {
                0 => Sharing::Quotas,
                1 => Sharing::Weights,
                _ => Sharing::Throttled { period: (seconds * self.between(1e-3, 10.0)).max(1e-4) },
            },
            balancing: [Balancing::LeastConnections, Balancing::RoundRobin, Balancing::Random][self.index(3)],
            resize: self.up_to(86_400.0),
            grace: self.up_to(86_400.0),
            anomalies,
            noise: self.byte() % 2 == 0,
            seed: u64::from(self.byte()),
            ..Spec::new(nodes, seconds, self.between(1.0, 100.0))
        }
    }
}

fn demand_finite(cluster: &Cluster, id: TenantId) {
    let seen = cluster.observe(id).expect("the tenant has not left");
    let outcome = cluster.outcome(id).expect("the tenant has not left");
    let figures = [
        seen.arrival_rate,
        seen.throughput,
        seen.dropped,
        seen.backlog,
        seen.concurrency,
        seen.node_utilisation,
        seen.latency_p50.unwrap_or(0.0),
        seen.latency_p99.unwrap_or(0.0),
        outcome.requests,
        outcome.violating,
        outcome.cores,
        outcome.memory,
    ];
    assert!(figures.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{seen:?} {outcome:?}");
}

fn run(mut input: Input<'_>, model: Model) {
    let spec = input.spec(model);
    let most = if model == Model::Events { REQUESTS / spec.seconds } else { 1e9 };
    let Ok(mut cluster) = Cluster::new(spec) else { return };
    let mut tenants = Vec::new();
    for _ in 0..=input.index(4) {
        let Some(tenant) = input.tenant(most) else { continue };
        let bounds = tenant.bounds.clone();
        if let Ok(id) = cluster.join(tenant) {
            tenants.push((id, bounds));
        }
    }
    if let [(from, _), .., (to, _)] = tenants[..] {
        let _ = cluster.call(from, to, input.between(1e-6, 2.0));
    }
    if input.byte() % 2 == 0 {
        cluster.warm_up();
    }
    for _ in 0..3 {
        for (id, bounds) in &tenants {
            cluster.set_scale(*id, input.scale(bounds)).expect("within the bounds");
        }
        cluster.advance();
        tenants.iter().for_each(|(id, _)| demand_finite(&cluster, *id));
    }
}

fuzz_target!(|bytes: &[u8]| {
    for model in [Model::Fluid, Model::Events] {
        run(Input(bytes), model);
    }
});
