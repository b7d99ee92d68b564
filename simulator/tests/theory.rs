//! The event engine against queueing theory.
//!
//! Each claim is an exact formula. The simulator's answer is a mean over independent replications with its confidence
//! interval (Student's t, 99.9 %); theory must lie within. Little's law is checked in every single run.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests may fail as tests do

use std::sync::Arc;

use meanfield_common::{
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
    slo::{Percentile, Slo},
};
use meanfield_simulator::{
    anomaly::{Anomaly, Kind},
    cluster::{Cluster, Model, Sharing, Spec, TenantId, TenantSpec},
    events::UNIT,
    placement::Node,
    workload::{Distribution, Workload, functions},
};

/// Independent runs of each claim, and the t-quantile that belongs to one fewer degrees of freedom.
const RUNS: u64 = 24;
const T: f64 = 3.768;

/// Mean CPU seconds of a request.
const SERVICE: f64 = 0.01;

/// Seconds of a step; the first one is not counted, so that the queue has filled.
const SECONDS: f64 = 500.0;
const STEPS: usize = 4;

fn workload(distribution: Distribution, slots: u32) -> Workload {
    let bare = (*functions()[0]).clone();
    Workload {
        cpu_ms: SERVICE * 1000.0,
        distribution,
        io_mb: 0.0,
        network_mb: 0.0,
        traffic_mb: 0.0,
        warmup: 0.0,
        cold: 1.0,
        retries: 0,
        slots,
        timeout: 1e6,
        memory_request: Bytes(1),
        ..bare
    }
}

fn tenant(workload: Workload, rate: f64, cores: f64) -> TenantSpec {
    let bounds = Bounds::new(1..=64, MilliCores(1)..=MilliCores(64_000), Bytes(1)..=Bytes::mebi(1 << 20)).unwrap();
    let limit = Resources { cpu: MilliCores((cores * 1000.0) as u64), memory: Bytes::mebi(1024) };
    TenantSpec {
        workload: Arc::new(workload),
        changes: Vec::new(),
        slo: Slo::latency(Percentile::P99, 100.0).unwrap(),
        bounds,
        scale: Scale { replicas: 1, limit },
        arrivals: Arc::from([rate]),
    }
}

fn spec(seed: u64, seconds: f64, cores: f64) -> Spec {
    let node = Node::new(cores, Bytes::mebi(64 * 1024));
    Spec { model: Model::Events, seed, ..Spec::new(vec![node], seconds, 1.0) }
}

/// What one run came to.
#[derive(Debug, Clone, Copy)]
struct Run {
    /// Mean time in the system, mean time before a slot, and the 99th percentile of the former.
    mean: f64,
    wait: f64,
    p99: f64,
    /// The share of requests that waited longer than one mean service time.
    waited_long: f64,
    /// Answers per second, and cores in use.
    throughput: f64,
    cores: f64,
}

/// Runs one pod alone; checks Little's law and the balance of requests at every step.
fn run(spec: Spec, tenant: &TenantSpec) -> Run {
    let seconds = spec.seconds;
    let mut cluster = Cluster::new(spec).unwrap();
    let id = cluster.join(tenant.clone()).unwrap();
    cluster.warm_up();
    cluster.advance();
    let mut latencies = cluster.journal(id).unwrap().latencies.clone();
    let mut waits = latencies.clone();
    latencies.reset();
    waits.reset();
    let (mut latency, mut waited, mut cores) = (0.0, 0.0, 0.0);
    let (mut answered, mut started) = (0, 0);
    let mut before = cluster.journal(id).unwrap().totals;
    for _ in 1..STEPS {
        cluster.advance();
        let journal = cluster.journal(id).unwrap();
        let now = journal.totals;
        // Requests: what came is gone or there. Little: the time that was spent in the system is the latency of those
        // that left, but for what they had spent before, and the age of those that are there.
        assert_eq!(before.in_system + now.arrived, now.answered + now.failed + now.in_system);
        let spent = now.latency - before.ages + now.ages;
        assert!((now.area / spent - 1.0).abs() < 1e-7, "Little's law: {} {spent}", now.area);
        latencies.add(&journal.latencies).unwrap();
        waits.add(&journal.waits).unwrap();
        latency += now.latency;
        waited += now.waited;
        answered += now.answered;
        started += now.started;
        cores += cluster.observe(id).unwrap().cpu_used.cores();
        before = now;
    }
    let service = (SERVICE / UNIT) as u64;
    Run {
        mean: latency / answered as f64,
        wait: waited / started as f64,
        p99: latencies.value_at_quantile(0.99) as f64 * UNIT,
        waited_long: waits.count_between(service, waits.high()) as f64 / waits.len() as f64,
        throughput: answered as f64 / (seconds * (STEPS - 1) as f64),
        cores: cores / (STEPS - 1) as f64,
    }
}

fn replicate(distribution: Distribution, slots: u32, cores: f64, load: f64) -> Vec<Run> {
    let tenant = tenant(workload(distribution, slots), load * cores / SERVICE, cores);
    (0..RUNS).map(|seed| run(spec(seed, SECONDS, 64.0), &tenant)).collect()
}

/// Theory must lie within the confidence interval of the runs' mean.
fn agrees(what: &str, theory: f64, runs: &[Run], figure: impl Fn(&Run) -> f64) {
    let count = runs.len() as f64;
    let mean = runs.iter().map(&figure).sum::<f64>() / count;
    let variance = runs.iter().map(|run| (figure(run) - mean).powi(2)).sum::<f64>() / (count - 1.0);
    let half = T * (variance / count).sqrt();
    let (off, width) = (100.0 * (mean / theory - 1.0), 100.0 * half / theory);
    println!("{what}: theory {theory:.6}, simulated {mean:.6} ({off:+.2} %, interval +-{width:.2} %)");
    assert!((mean - theory).abs() <= half, "{what}: theory {theory}, simulated {mean} +- {half}");
    assert!(width < 5.0, "{what}: too few requests to tell, +-{width} %");
}

#[test]
fn one_slot_and_exponential_demand_is_mm1() {
    for load in [0.5, 0.8] {
        let runs = replicate(Distribution::Exponential, 1, 1.0, load);
        let mean = SERVICE / (1.0 - load);
        agrees("M/M/1 mean", mean, &runs, |run| run.mean);
        agrees("M/M/1 wait", mean * load, &runs, |run| run.wait);
        // The time in the system is exponential.
        agrees("M/M/1 p99", mean * 100.0_f64.ln(), &runs, |run| run.p99);
        agrees("M/M/1 P(W > s)", load * (load - 1.0).exp(), &runs, |run| run.waited_long);
        agrees("M/M/1 cores", load, &runs, |run| run.cores);
    }
}

/// The probability of having to wait in M/M/k.
fn erlang_c(servers: u32, load: f64) -> f64 {
    let offered = load * f64::from(servers);
    let blocking = (1..=servers).fold(1.0, |b, k| offered * b / (f64::from(k) + offered * b));
    blocking / (1.0 - load * (1.0 - blocking))
}

#[test]
fn as_many_slots_as_cores_is_mmk() {
    for (servers, load) in [(2_u32, 0.7), (4, 0.8)] {
        let runs = replicate(Distribution::Exponential, servers, f64::from(servers), load);
        let waits = erlang_c(servers, load);
        let spare = f64::from(servers) * (1.0 - load);
        agrees("M/M/k wait", waits * SERVICE / spare, &runs, |run| run.wait);
        agrees("M/M/k mean", SERVICE + waits * SERVICE / spare, &runs, |run| run.mean);
        agrees("M/M/k P(W > s)", waits * (-spare).exp(), &runs, |run| run.waited_long);
    }
}

/// Pollaczek-Khinchine: mean wait = rho s (1 + cv^2) / (2 (1 - rho)).
#[test]
fn one_slot_is_mg1() {
    for (name, distribution, load) in [
        ("M/D/1", Distribution::Fixed, 0.8),
        ("M/G/1 lognormal", Distribution::Lognormal { variation: 0.5 }, 0.8),
        ("M/G/1 lognormal", Distribution::Lognormal { variation: 1.5 }, 0.6),
    ] {
        let runs = replicate(distribution, 1, 1.0, load);
        let wait = load * SERVICE * (1.0 + distribution.variation().powi(2)) / (2.0 * (1.0 - load));
        agrees(&format!("{name} wait"), wait, &runs, |run| run.wait);
        agrees(&format!("{name} mean"), SERVICE + wait, &runs, |run| run.mean);
    }
}

/// With processor sharing the mean does not depend on the distribution.
#[test]
fn many_slots_on_one_core_share_it() {
    let load = 0.7;
    for distribution in [Distribution::Fixed, Distribution::Exponential, Distribution::Lognormal { variation: 1.5 }] {
        let runs = replicate(distribution, 100_000, 1.0, load);
        agrees(&format!("M/G/1-PS {distribution:?}"), SERVICE / (1.0 - load), &runs, |run| run.mean);
        assert!(runs.iter().all(|run| run.wait == 0.0), "there is a slot for everybody");
    }
    // A pod with a fraction of a core is a slower one.
    let runs = replicate(Distribution::Exponential, 100_000, 0.25, load);
    agrees("M/M/1-PS on 0.25 cores", 4.0 * SERVICE / (1.0 - load), &runs, |run| run.mean);
}

/// Slots that are always full are a closed network of that many customers: a core that they share, and a delay outside.
/// Exact mean value analysis: R(n) = s (1 + Q(n-1)), X(n) = n / (R(n) + Z), Q(n) = X(n) R(n).
#[test]
fn full_slots_are_a_closed_network() {
    let outside = 0.05;
    for (customers, distribution) in [(4_u32, Distribution::Exponential), (8, Distribution::Fixed)] {
        let (mut queue, mut throughput) = (0.0, 0.0);
        for n in 1..=customers {
            let response = SERVICE * (1.0 + queue);
            throughput = f64::from(n) / (response + outside);
            queue = throughput * response;
        }
        let tenant = tenant(workload(distribution, customers), 1.5 * throughput, 1.0);
        let delay = Anomaly { target: 0, from: 0.0, to: 1e9, kind: Kind::NetworkDelay, intensity: outside / 0.1 };
        let runs: Vec<_> =
            (0..RUNS).map(|seed| run(Spec { anomalies: vec![delay], ..spec(seed, SECONDS, 64.0) }, &tenant)).collect();
        agrees(&format!("closed network of {customers}, throughput"), throughput, &runs, |run| run.throughput);
        agrees(&format!("closed network of {customers}, cores"), throughput * SERVICE, &runs, |run| run.cores);
    }
}

/// Several tenants on a node of four cores, each with far more work than it can do; their cores over some seconds.
fn shares(sharing: Sharing, pods: &[(f64, f64)]) -> Vec<f64> {
    let mut cluster = Cluster::new(Spec { sharing, ..spec(1, 30.0, 4.0) }).unwrap();
    let ids: Vec<TenantId> = pods
        .iter()
        .map(|(limit, wanted)| {
            let mut workload = workload(Distribution::Exponential, 16);
            workload.timeout = 10.0;
            cluster.join(tenant(workload, wanted / SERVICE, *limit)).unwrap()
        })
        .collect();
    cluster.warm_up();
    cluster.advance();
    cluster.advance();
    ids.iter().map(|id| cluster.observe(*id).unwrap().cpu_used.cores()).collect()
}

#[test]
fn a_throttled_pod_gets_its_limit_and_no_more() {
    for limit in [0.05, 0.2, 1.0, 2.5] {
        let used = shares(Sharing::Throttled { period: 0.1 }, &[(limit, 4.0)]);
        println!("throttled to {limit}: {}", used[0]);
        assert!((used[0] / limit - 1.0).abs() < 0.01, "{limit}: {used:?}");
    }
}

#[test]
fn a_limit_is_kept() {
    for limit in [0.05, 0.2, 1.0, 2.5] {
        let used = shares(Sharing::Quotas, &[(limit, 4.0)]);
        assert!((used[0] / limit - 1.0).abs() < 0.005, "{limit}: {used:?}");
    }
}

#[test]
fn without_quotas_busy_pods_share_by_weight_and_what_the_modest_leave() {
    let near = |used: &[f64], expected: &[f64]| {
        println!("shares {used:?}, max-min {expected:?}");
        let all = used.iter().zip(expected).all(|(used, expected)| (used / expected - 1.0).abs() < 0.02);
        assert!(all, "{used:?} {expected:?}");
    };
    near(&shares(Sharing::Weights, &[(1.0, 8.0)]), &[4.0]);
    near(&shares(Sharing::Weights, &[(1.0, 8.0), (3.0, 8.0)]), &[1.0, 3.0]);
    near(&shares(Sharing::Weights, &[(0.5, 8.0), (1.0, 8.0), (0.5, 8.0)]), &[1.0, 2.0, 1.0]);
    // A third that wants less than its part gets just that, within the noise of its arrivals.
    let used = shares(Sharing::Weights, &[(1.0, 8.0), (2.0, 8.0), (1.0, 0.4)]);
    assert!((used[2] - 0.4).abs() < 0.04, "{used:?}");
    near(&used[..2], &[(4.0 - used[2]) / 3.0, (4.0 - used[2]) * 2.0 / 3.0]);
}

/// Pods that share a node without quotas are one queue: whoever is served, with exponential demands the number of
/// requests on the node is that of M/M/k. Cores are shared by quanta, so this is the one claim that holds only roughly.
#[test]
fn pods_on_one_node_are_together_mmk() {
    let mut worst = 0.0_f64;
    for (tenants, cores, load) in [(2_u32, 1_u32, 0.8), (4, 1, 0.5), (8, 1, 0.9), (2, 4, 0.8), (8, 4, 0.9)] {
        let rate = load * f64::from(cores) / SERVICE / f64::from(tenants);
        let (mut latency, mut answered) = (0.0, 0);
        for seed in 0..16 {
            let rules = Spec { sharing: Sharing::Weights, ..spec(seed, SECONDS, f64::from(cores)) };
            let mut cluster = Cluster::new(rules).unwrap();
            let workload = workload(Distribution::Exponential, 1000);
            let small = || tenant(workload.clone(), rate, f64::from(cores) / 8.0);
            let ids: Vec<_> = (0..tenants).map(|_| cluster.join(small()).unwrap()).collect();
            cluster.warm_up();
            cluster.advance();
            for _ in 1..STEPS {
                cluster.advance();
                let totals = ids.iter().map(|id| cluster.journal(*id).unwrap().totals);
                (latency, answered) = totals
                    .fold((latency, answered), |(sum, count), totals| (sum + totals.latency, count + totals.answered));
            }
        }
        let wait = erlang_c(cores, load) * SERVICE / (f64::from(cores) * (1.0 - load));
        let off = latency / answered as f64 / (SERVICE + wait) - 1.0;
        println!("{tenants} tenants on {cores} cores at {load}: {:+.2} %", 100.0 * off);
        worst = worst.max(off.abs());
    }
    assert!(worst < 0.06, "{worst}");
}
