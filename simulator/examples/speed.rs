//! How many requests per second the event engine runs on one core:
//! `cargo run --release -p meanfield-simulator --example speed`.
//!
//! Twelve tenants of three pods each on five nodes, 4000 requests per second each, half loaded. Once with pods that
//! cannot get into each other's way, and once with limits beyond the nodes' cores.

#![allow(clippy::unwrap_used)] // a measurement that cannot start has nothing to say

use std::{sync::Arc, time::Instant};

use meanfield_common::resources::{Bounds, Bytes, MilliCores, Resources, Scale};
use meanfield_simulator::{
    cluster::{Cluster, Model, Spec, TenantSpec},
    placement::Node,
    workload::{Workload, functions},
};

fn main() {
    for (name, limit) in [("apart", 1000), ("crowded", 1500)] {
        let node = Node::new(8.0, Bytes::mebi(32 * 1024));
        let spec = Spec { model: Model::Events, ..Spec::new(vec![node; 5], 15.0, 1.5) };
        let mut cluster = Cluster::new(spec).unwrap();
        let ids: Vec<_> = functions()
            .iter()
            .map(|function| {
                let workload = Workload {
                    cpu_ms: 0.375,
                    io_mb: 0.01,
                    network_mb: 0.0,
                    traffic_mb: 0.0,
                    slots: 32,
                    ..(**function).clone()
                };
                let bounds = Bounds::new(1..=9, MilliCores(1)..=MilliCores(8000), Bytes(1)..=Bytes::mebi(8192));
                let limit = Resources { cpu: MilliCores(limit), memory: Bytes::mebi(2500) };
                let tenant = TenantSpec {
                    slo: workload.slo().unwrap(),
                    workload: Arc::new(workload),
                    changes: Vec::new(),
                    bounds: bounds.unwrap(),
                    scale: Scale { replicas: 3, limit },
                    arrivals: Arc::from([4000.0]),
                };
                cluster.join(tenant).unwrap()
            })
            .collect();
        cluster.warm_up();
        cluster.advance();
        let begin = Instant::now();
        let mut answered = 0;
        for _ in 0..12 {
            cluster.advance();
            answered += ids.iter().map(|id| cluster.journal(*id).unwrap().totals.answered).sum::<u64>();
        }
        let seconds = begin.elapsed().as_secs_f64();
        let seen = cluster.observe(ids[0]).unwrap();
        println!("{name}: {answered} requests in {seconds:.2} s, {:.2} million/s", answered as f64 / seconds / 1e6);
        println!("  e.g. ready {}, p50 {:?} ms, p99 {:?} ms", seen.ready, seen.latency_p50, seen.latency_p99);
    }
}
