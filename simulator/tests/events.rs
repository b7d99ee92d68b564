//! What the event engine does with requests and pods: balancing, kills, time-outs, starts, stops, resizes, neighbours.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)] // helpers of tests may fail as tests do

use std::sync::Arc;

use meanfield_common::{
    observation::Observation,
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
    slo::{Percentile, Slo},
};
use meanfield_simulator::{
    anomaly::{Anomaly, Kind},
    cluster::{Balancing, Cluster, Doubt, Model, Sharing, Spec, TenantId, TenantSpec},
    events::{MOST_REQUESTS, Totals, UNIT},
    placement::Node,
    workload::{Distribution, Workload, functions},
};
use proptest::prelude::*;

/// Ten milliseconds on the CPU, nothing else, and memory for every slot.
fn plain() -> Workload {
    Workload {
        cpu_ms: 10.0,
        distribution: Distribution::Exponential,
        io_mb: 0.0,
        network_mb: 0.0,
        traffic_mb: 0.0,
        warmup: 0.0,
        cold: 1.0,
        retries: 0,
        memory_idle: Bytes::mebi(64),
        memory_request: Bytes::mebi(1),
        slots: 16,
        startup: 3.0,
        timeout: 30.0,
        ..(*functions()[0]).clone()
    }
}

fn scale(replicas: u32, cpu: u64, mebi: u64) -> Scale {
    Scale { replicas, limit: Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(mebi) } }
}

fn tenant(workload: Workload, rate: f64, scale: Scale) -> TenantSpec {
    TenantSpec {
        workload: Arc::new(workload),
        changes: Vec::new(),
        slo: Slo::latency(Percentile::P99, 100.0).unwrap(),
        bounds: Bounds::new(1..=64, MilliCores(1)..=MilliCores(64_000), Bytes(1)..=Bytes::mebi(1 << 20)).unwrap(),
        scale,
        arrivals: Arc::from([rate]),
    }
}

fn spec(nodes: usize, cores: f64, seconds: f64) -> Spec {
    let node = Node::new(cores, Bytes::mebi(32 * 1024));
    Spec { model: Model::Events, seed: 3, ..Spec::new(vec![node; nodes], seconds, 1.0) }
}

/// A running cluster with one tenant.
fn alone(spec: Spec, tenant: TenantSpec) -> (Cluster, TenantId) {
    let mut cluster = Cluster::new(spec).unwrap();
    let id = cluster.join(tenant).unwrap();
    cluster.warm_up();
    (cluster, id)
}

fn next(cluster: &mut Cluster, id: TenantId) -> Observation {
    cluster.advance();
    cluster.observe(id).unwrap()
}

fn totals(cluster: &Cluster, id: TenantId) -> Totals {
    cluster.journal(id).unwrap().totals
}

/// Mean latency over some steps.
fn mean(cluster: &mut Cluster, id: TenantId, steps: usize) -> f64 {
    let (mut sum, mut count) = (0.0, 0);
    for _ in 0..steps {
        cluster.advance();
        let totals = totals(cluster, id);
        sum += totals.latency;
        count += totals.answered + totals.failed;
    }
    sum / count as f64
}

#[test]
fn the_better_informed_the_balancer_the_shorter_the_wait() {
    let latency = |balancing| {
        let workload = Workload { slots: 1, ..plain() };
        let spec = Spec { balancing, ..spec(4, 4.0, 100.0) };
        let (mut cluster, id) = alone(spec, tenant(workload, 320.0, scale(4, 1000, 512)));
        mean(&mut cluster, id, 10)
    };
    let least = latency(Balancing::LeastConnections);
    let rotating = latency(Balancing::RoundRobin);
    let random = latency(Balancing::Random);
    assert!(least < 0.8 * rotating && rotating < 0.95 * random, "{least} {rotating} {random}");
    // Arrivals that are split at random are Poisson again: four M/M/1 queues.
    assert!((random / 0.05 - 1.0).abs() < 0.05, "{random}");
}

#[test]
fn equals_are_asked_in_turn() {
    // Hardly ever more than one request at a time, and the way to one of two pods takes 100 ms longer.
    let delay = Anomaly { target: 0, from: 0.0, to: 1e9, kind: Kind::NetworkDelay, intensity: 1.0 };
    let workload = Workload { distribution: Distribution::Fixed, cpu_ms: 1.0, ..plain() };
    for balancing in [Balancing::LeastConnections, Balancing::RoundRobin] {
        let rules = Spec { anomalies: vec![delay], balancing, ..spec(2, 8.0, 2000.0) };
        let (mut cluster, id) = alone(rules, tenant(workload.clone(), 0.2, scale(2, 1000, 512)));
        let mean = mean(&mut cluster, id, 2);
        assert!((mean - 0.051).abs() < 0.002, "{balancing:?}: {mean}");
    }
}

#[test]
fn a_nearly_full_pod_reads_more_from_disk() {
    let median = |idle| {
        // 10 ms on an idle disk.
        let workload = Workload { distribution: Distribution::Fixed, cpu_ms: 1.0, io_mb: 4.0, ..plain() };
        let workload = Workload { memory_idle: Bytes::mebi(idle), ..workload };
        let (mut cluster, id) = alone(spec(1, 8.0, 500.0), tenant(workload, 0.5, scale(1, 1000, 1000)));
        next(&mut cluster, id).latency_p50.unwrap()
    };
    assert!((median(500) - 11.0).abs() < 0.3, "{}", median(500));
    // The first pod takes 1.2 % more than stated: 95 % of its limit, so 1 + 3 * 0.75^2 times as much to read.
    assert!((median(938) - 27.9).abs() < 1.0, "{}", median(938));
}

#[test]
fn a_pod_above_its_memory_is_killed_and_its_requests_fail_or_are_sent_again() {
    let run = |retries| {
        // Room for four requests in flight; now and then there are five.
        let workload = Workload { memory_request: Bytes::mebi(20), startup: 1.0, retries, ..plain() };
        let spec = Spec { balancing: Balancing::Random, ..spec(2, 8.0, 100.0) };
        let (mut cluster, id) = alone(spec, tenant(workload, 60.0, scale(6, 1000, 150)));
        let (mut kills, mut failed, mut in_system) = (0, 0, 0);
        for _ in 0..100 {
            let seen = next(&mut cluster, id);
            let now = totals(&cluster, id);
            assert_eq!(in_system + now.arrived, now.answered + now.failed + now.in_system);
            assert!(seen.memory_peak <= Bytes::mebi(150));
            in_system = now.in_system;
            kills += seen.oom_kills;
            failed += now.failed;
        }
        (kills, failed)
    };
    let (kills, failed) = run(0);
    assert!(kills > 5);
    assert_eq!(failed, 5 * u64::from(kills), "the five in flight, once");
    let (kills, failed) = run(1);
    assert!(kills > 5 && failed <= 5, "{kills} {failed}");
}

#[test]
fn a_killed_pod_counts_as_unused_until_it_is_ready_again() {
    // Not even an idle pod fits: it starts, is killed, and starts again after ten seconds and its start-up.
    let (mut cluster, id) = alone(spec(1, 8.0, 1.0), tenant(plain(), 1.0, scale(1, 1000, 32)));
    let seen: Vec<_> = (0..30).map(|_| next(&mut cluster, id)).collect();
    let kills: Vec<_> = (0..30).filter(|step| seen[*step].oom_kills > 0).collect();
    assert_eq!(kills, [0, 13, 26]);
    assert!(seen.iter().all(|seen| seen.memory_used == Bytes(0) && seen.throughput == 0.0));
}

#[test]
fn a_request_that_takes_too_long_fails_at_its_time_out() {
    let workload = Workload { cpu_ms: 2000.0, distribution: Distribution::Fixed, timeout: 0.5, ..plain() };
    let (mut cluster, id) = alone(spec(1, 8.0, 100.0), tenant(workload.clone(), 5.0, scale(1, 1000, 512)));
    cluster.advance();
    let journal = cluster.journal(id).unwrap();
    assert_eq!(journal.totals.answered, 0);
    assert_eq!(journal.totals.violating, journal.totals.failed);
    let all_at = |latency: f64| {
        let units = latency / UNIT;
        (journal.latencies.min() as f64 / units - 1.0).abs() < 1e-3
            && (journal.latencies.max() as f64 / units - 1.0).abs() < 1e-3
    };
    assert!(all_at(0.5), "{} {}", journal.latencies.min(), journal.latencies.max());

    // Sent again twice, each is in the system for three time-outs.
    let (mut cluster, id) =
        alone(spec(1, 8.0, 100.0), tenant(Workload { retries: 2, ..workload }, 5.0, scale(1, 1000, 512)));
    let totals = {
        cluster.advance();
        totals(&cluster, id)
    };
    assert!((totals.latency / totals.failed as f64 - 1.5).abs() < 1e-6, "{totals:?}");
}

#[test]
fn overload_is_served_at_capacity_and_the_rest_times_out() {
    let workload = Workload { timeout: 2.0, ..plain() };
    let (mut cluster, id) = alone(spec(1, 8.0, 50.0), tenant(workload, 200.0, scale(1, 1000, 512)));
    cluster.advance();
    let seen = next(&mut cluster, id);
    // Slots are given in the order of arrival, so some of the work goes into requests that time out after all.
    // Five thousand exponential demands differ from their mean by 1.4 % or so.
    assert!((80.0..=104.0).contains(&seen.throughput), "{seen:?}");
    assert_eq!(seen.cpu_used, MilliCores(1000));
    assert!((seen.backlog / 400.0 - 1.0).abs() < 0.15, "two seconds of arrivals wait: {}", seen.backlog);
    assert!(seen.latency_p99.unwrap() <= 2002.0);
}

#[test]
fn a_cold_pod_is_slower_and_warms_up_in_a_straight_line() {
    let workload =
        Workload { distribution: Distribution::Fixed, cpu_ms: 1.0, warmup: 10.0, cold: 3.0, startup: 0.5, ..plain() };
    let mut cluster = Cluster::new(spec(1, 8.0, 1.0)).unwrap();
    let id = cluster.join(tenant(workload, 20.0, scale(1, 4000, 512))).unwrap();
    // Ready half a second into the first step.
    let medians: Vec<_> = (0..14).map(|_| next(&mut cluster, id).latency_p50.unwrap()).collect();
    for (step, median) in medians.iter().enumerate().skip(1) {
        let age = step as f64;
        let factor = 1.0 + 2.0 * (1.0 - age / 10.0).max(0.0);
        assert!((median / factor - 1.0).abs() < 0.15, "{step}: {median} {factor}");
    }
    assert!((medians[13] - 1.0).abs() < 0.01);
}

#[test]
fn a_stopped_pod_finishes_its_requests_within_the_grace() {
    let run = |grace| {
        let workload = Workload { distribution: Distribution::Fixed, cpu_ms: 5000.0, ..plain() };
        let spec = Spec { grace, ..spec(1, 32.0, 2.0) };
        let (mut cluster, id) = alone(spec, tenant(workload, 2.0, scale(4, 8000, 512)));
        for _ in 0..10 {
            cluster.advance();
        }
        let reserved = cluster.outcome(id).unwrap().cores;
        cluster.set_scale(id, scale(2, 8000, 512)).unwrap();
        let mut failed = Vec::new();
        let mut held = Vec::new();
        for _ in 0..6 {
            let seen = next(&mut cluster, id);
            failed.push(totals(&cluster, id).failed);
            assert_eq!(seen.ready, 2, "what is being stopped takes no requests");
            held.push(cluster.outcome(id).unwrap().cores / reserved);
        }
        (failed, held)
    };
    let (failed, held) = run(30.0);
    assert_eq!(failed, [0; 6]);
    // Five seconds at most are left to do, so the pods are gone after three steps of two seconds, some before.
    assert!(held[0] == 1.0 && held[1] > 0.5 && held[3..] == [0.5; 3], "{held:?}");
    let (failed, held) = run(1.0);
    assert!(failed[0] > 0, "one second is not enough, and it is over within the step");
    assert_eq!(failed[1..], [0; 5]);
    assert_eq!(held, [1.0, 0.5, 0.5, 0.5, 0.5, 0.5]);
    let (failed, _) = run(0.0);
    assert!(failed[0] > 0);
}

#[test]
fn a_resize_is_in_force_after_its_delay_even_within_a_step() {
    let used = |resize: f64| {
        let (mut cluster, id) =
            alone(Spec { resize, ..spec(1, 8.0, 1.0) }, tenant(plain(), 1000.0, scale(1, 1000, 512)));
        cluster.advance();
        cluster.set_scale(id, scale(1, 3000, 512)).unwrap();
        (0..4).map(|_| next(&mut cluster, id).cpu_used.0).collect::<Vec<_>>()
    };
    assert_eq!(used(0.0), [3000, 3000, 3000, 3000]);
    assert_eq!(used(2.0), [1000, 1000, 3000, 3000]);
    assert_eq!(used(1.25), [1000, 2500, 3000, 3000]);
}

#[test]
fn without_a_ready_pod_requests_are_refused_at_once() {
    let mut cluster = Cluster::new(spec(1, 8.0, 10.0)).unwrap();
    let workload = Workload { startup: 14.0, distribution: Distribution::Fixed, retries: 1, ..plain() };
    let id = cluster.join(tenant(workload, 20.0, scale(1, 4000, 512))).unwrap();
    let seen = next(&mut cluster, id);
    assert_eq!((seen.ready, seen.throughput, seen.backlog, seen.dropped), (0, 0.0, 0.0, seen.requests()));
    assert!((seen.latency_p50.unwrap() / 30_000.0 - 1.0).abs() < 1e-2, "no answer counts as the slowest: {seen:?}");
    let seen = next(&mut cluster, id);
    // Ready after 4 of 10 seconds.
    assert!((0.3..0.5).contains(&(seen.dropped / seen.requests())), "{seen:?}");
    assert_eq!((seen.ready, seen.backlog), (1, 0.0));
}

#[test]
fn a_pending_pod_answers_nobody() {
    let (mut cluster, first) = alone(spec(1, 4.0, 10.0), tenant(plain(), 10.0, scale(2, 2000, 512)));
    let second = cluster.join(tenant(plain(), 10.0, scale(1, 2000, 512))).unwrap();
    cluster.advance();
    let seen = next(&mut cluster, second);
    assert_eq!((seen.pending, seen.ready, seen.throughput, seen.dropped), (1, 0, 0.0, seen.requests()));
    cluster.leave(first);
    assert!(cluster.journal(first).is_none());
    cluster.advance();
    let seen = next(&mut cluster, second);
    assert_eq!((seen.pending, seen.ready, seen.dropped), (0, 1, 0.0));
}

/// Mean latency of a victim next to a neighbour on one node.
fn beside(victim: Workload, neighbour: Option<(Workload, f64)>, anomalies: Vec<Anomaly>) -> f64 {
    let mut cluster = Cluster::new(Spec { anomalies, ..spec(1, 8.0, 20.0) }).unwrap();
    let id = cluster.join(tenant(victim, 50.0, scale(1, 1000, 2048))).unwrap();
    if let Some((workload, rate)) = neighbour {
        cluster.join(tenant(workload, rate, scale(1, 4000, 8192))).unwrap();
    }
    cluster.warm_up();
    cluster.advance();
    mean(&mut cluster, id, 5)
}

#[test]
fn a_busy_disk_network_or_bus_slows_down_who_uses_it() {
    let none = || Workload { distribution: Distribution::Fixed, ..plain() };
    // 50 requests per second use 12.5 % of each; the neighbour another 50 %.
    let cases = [
        ("disk", Workload { io_mb: 1.0, ..none() }, Workload { io_mb: 2.0, cpu_ms: 0.1, ..none() }),
        ("network", Workload { network_mb: 3.125, ..none() }, Workload { network_mb: 6.25, cpu_ms: 0.1, ..none() }),
        ("bus", Workload { traffic_mb: 50.0, ..none() }, Workload { traffic_mb: 100.0, cpu_ms: 0.1, ..none() }),
    ];
    for (name, victim, neighbour) in cases {
        let quiet = beside(victim.clone(), None, Vec::new());
        let busy = beside(victim, Some((neighbour.clone(), 100.0)), Vec::new());
        // Alone 2.5 ms / (1 - 0.125), with the neighbour 2.5 ms / (1 - 0.625): 3.8 ms more outside the CPU. Waiting for
        // memory happens on the CPU, whose load rises from 0.52 to 0.71.
        let expected = if name == "bus" { 0.0142 / (1.0 - 0.71) - 0.0104 / (1.0 - 0.52) } else { 0.0038 };
        assert!(((busy - quiet) / expected - 1.0).abs() < 0.3, "{name}: {quiet} {busy} {expected}");
        let immune = beside(none(), None, Vec::new());
        let beside = beside(none(), Some((neighbour, 100.0)), Vec::new());
        assert!((beside / immune - 1.0).abs() < 1e-9, "{name}: who does not use it does not notice");
    }
}

#[test]
fn a_disk_gives_no_more_than_it_has() {
    // 8 MB each, 100 a second: twice what the disk can do.
    let workload = Workload { io_mb: 8.0, cpu_ms: 1.0, slots: 64, timeout: 1e3, ..plain() };
    let (mut cluster, id) = alone(spec(1, 8.0, 30.0), tenant(workload, 100.0, scale(2, 1000, 2048)));
    cluster.advance();
    let seen = next(&mut cluster, id);
    assert!((seen.throughput * 8.0 / Node::DISK_MB - 1.0).abs() < 0.1, "{seen:?}");
}

#[test]
fn every_disturbance_is_felt_and_then_over() {
    let workload = Workload { io_mb: 1.0, network_mb: 1.0, traffic_mb: 20.0, ..plain() };
    let quiet = beside(workload.clone(), None, Vec::new());
    let kinds = [Kind::NetworkDelay, Kind::Cpu, Kind::Cache, Kind::MemoryBandwidth, Kind::Disk, Kind::NetworkBandwidth];
    for kind in kinds {
        // A node of eight cores does not miss four of them; with hardly any left, everybody does.
        let disturbed = Anomaly { target: 0, from: 0.0, to: 1e6, kind, intensity: 0.94 };
        let felt = beside(workload.clone(), None, vec![disturbed]);
        assert!(felt > 1.05 * quiet, "{kind:?}: {quiet} {felt}");
        let elsewhere = beside(workload.clone(), None, vec![Anomaly { target: 1, ..disturbed }]);
        assert_eq!(elsewhere, quiet, "{kind:?}");
        let over = beside(workload.clone(), None, vec![Anomaly { to: 5.0, ..disturbed }]);
        assert!((over / quiet - 1.0).abs() < 0.05, "{kind:?}: {quiet} {over}");
    }
}

#[test]
fn a_surge_lasts_as_long_as_it_says_even_within_a_step() {
    let surge = Anomaly { target: 0, from: 50.0, to: 100.0, kind: Kind::Workload, intensity: 1.0 };
    let spec = Spec { anomalies: vec![surge], ..spec(1, 8.0, 200.0) };
    let (mut cluster, id) = alone(spec, tenant(plain(), 100.0, scale(1, 8000, 512)));
    let requests = next(&mut cluster, id).requests();
    assert!((requests / 25_000.0 - 1.0).abs() < 0.025, "{requests}");
    let requests = next(&mut cluster, id).requests();
    assert!((requests / 20_000.0 - 1.0).abs() < 0.025, "{requests}");
}

#[test]
fn throttling_hurts_short_bursts_that_an_even_limit_does_not() {
    // 40 ms of work at 0.2 cores: an even limit takes 200 ms. A period's 20 ms are used up at once, so the request runs
    // 20 ms, stands still for 80 ms, and is done early in the next period.
    let latency = |sharing| {
        let workload = Workload { distribution: Distribution::Fixed, cpu_ms: 40.0, ..plain() };
        let (mut cluster, id) =
            alone(Spec { sharing, ..spec(1, 8.0, 1000.0) }, tenant(workload, 0.05, scale(1, 200, 512)));
        mean(&mut cluster, id, 4)
    };
    assert!((latency(Sharing::Quotas) - 0.2).abs() < 0.003);
    let throttled = latency(Sharing::Throttled { period: 0.1 });
    assert!((0.09..0.14).contains(&throttled), "{throttled}");
    assert!((latency(Sharing::Weights) - 0.04).abs() < 0.001);
}

#[test]
fn answers_call_other_tenants() {
    let (mut cluster, from) = alone(spec(2, 8.0, 50.0), tenant(plain(), 100.0, scale(2, 2000, 512)));
    let to = cluster.join(tenant(plain(), 0.0, scale(4, 2000, 512))).unwrap();
    cluster.call(from, to, 2.0).unwrap();
    cluster.warm_up();
    assert_eq!(next(&mut cluster, to).requests(), 0.0);
    let seen = next(&mut cluster, to);
    assert!((seen.arrival_rate / 200.0 - 1.0).abs() < 0.05, "{seen:?}");
}

#[test]
fn a_workload_that_changes_takes_effect_at_its_step() {
    let mut spec_of = tenant(Workload { distribution: Distribution::Fixed, ..plain() }, 5.0, scale(1, 2000, 512));
    let slower = Workload { distribution: Distribution::Fixed, cpu_ms: 30.0, ..plain() };
    spec_of.changes.push((2, Arc::new(slower)));
    let (mut cluster, id) = alone(spec(1, 8.0, 60.0), spec_of);
    let medians: Vec<_> = (0..4).map(|_| next(&mut cluster, id).latency_p50.unwrap().round()).collect();
    assert_eq!(medians, [10.0, 10.0, 30.0, 30.0]);
}

/// Everything that can be read of a cluster.
fn everything(cluster: &Cluster, ids: &[TenantId]) -> String {
    let each = ids.iter().map(|id| {
        let journal = cluster.journal(*id).unwrap();
        let quantiles: Vec<_> = (1..100).map(|q| journal.latencies.value_at_quantile(f64::from(q) / 100.0)).collect();
        format!("{:?} {:?} {:?} {quantiles:?}", cluster.observe(*id), cluster.outcome(*id), journal.totals)
    });
    each.collect::<Vec<_>>().join("\n")
}

#[test]
fn the_same_seed_gives_the_same_bytes_also_in_a_copy() {
    let run = |seed, copy: bool| {
        let mut cluster = Cluster::new(Spec { seed, ..spec(2, 4.0, 5.0) }).unwrap();
        let ids: Vec<_> = (0..5)
            .map(|place| {
                let workload = Workload { retries: 1, timeout: 1.0, ..(*functions()[place]).clone() };
                cluster.join(tenant(workload, 30.0, scale(2, 1500, 400))).unwrap()
            })
            .collect();
        let mut seen = String::new();
        for step in 0..12 {
            if copy && step == 6 {
                cluster = cluster.clone();
            }
            cluster.set_scale(ids[step % 5], scale(1 + step as u32 % 3, 700 + 100 * step as u64, 300)).unwrap();
            cluster.advance();
            seen += &everything(&cluster, &ids);
        }
        seen
    };
    assert_eq!(run(1, false), run(1, false));
    assert_eq!(run(1, false), run(1, true));
    assert_ne!(run(1, false), run(2, false));
}

#[test]
fn another_tenant_changes_nobodys_draws() {
    let run = |more: usize| {
        let mut cluster = Cluster::new(spec(4, 4.0, 20.0)).unwrap();
        let ids: Vec<_> =
            (0..1 + more).map(|_| cluster.join(tenant(plain(), 60.0, scale(1, 1000, 512))).unwrap()).collect();
        cluster.warm_up();
        cluster.advance();
        cluster.advance();
        let of = |id: &TenantId| cluster.journal(*id).unwrap().totals;
        ids.iter().map(of).collect::<Vec<_>>()
    };
    let (one, three) = (run(0), run(2));
    assert_eq!(one[0], three[0]);
    assert!(three[0] != three[1] && three[1] != three[2], "each has its own");
}

#[test]
fn extremes_end_soon_and_say_so() {
    let tiny = Workload { cpu_ms: 1e-9, ..plain() };
    let wild = Workload { cpu_ms: 1e-9, distribution: Distribution::Lognormal { variation: 2.0 }, ..plain() };
    let huge = Workload { cpu_ms: 1e12, io_mb: 1e12, network_mb: 1e12, traffic_mb: 1e12, retries: 3, ..plain() };
    let weightless = Workload { memory_idle: Bytes(0), memory_request: Bytes(0), startup: 0.0, ..plain() };
    for (name, workload) in [("tiny", tiny), ("wild", wild), ("huge", huge), ("weightless", weightless)] {
        let byte = Resources { cpu: MilliCores(1), memory: Bytes(1) };
        for scale in [Scale { replicas: 3, limit: byte }, scale(3, 4000, 4096)] {
            let (mut cluster, id) = alone(spec(2, 8.0, 15.0), tenant(workload.clone(), 1e12, scale));
            for _ in 0..3 {
                let seen = next(&mut cluster, id);
                let now = totals(&cluster, id);
                assert_eq!(cluster.outcome(id).unwrap().doubt, Some(Doubt::Capped));
                assert!((seen.arrival_rate / 1e12 - 1.0).abs() < 1e-6);
                assert!((now.arrived - now.turned_away) as f64 <= 1.01 * MOST_REQUESTS, "{name}");
                let figures = [seen.throughput, seen.dropped, seen.backlog, seen.concurrency, seen.node_utilisation];
                assert!(figures.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{name}: {seen:?}");
            }
        }
    }
}

#[test]
fn rules_that_would_take_for_ever_are_refused() {
    let throttled = Spec { sharing: Sharing::Throttled { period: 1e-9 }, ..spec(1, 4.0, 15.0) };
    assert_eq!(Cluster::new(throttled).unwrap_err().field, "sharing.period");
    let mut cluster = Cluster::new(spec(1, 4.0, 15.0)).unwrap();
    let mut field = |workload| cluster.join(tenant(workload, 1.0, scale(1, 1000, 512))).unwrap_err().field;
    assert_eq!(field(Workload { timeout: 0.0, ..plain() }), "base64.timeout");
    assert_eq!(field(Workload { cpu_ms: 0.0, ..plain() }), "base64.cpu_ms");
    assert_eq!(field(Workload { cpu_ms: f64::NAN, ..plain() }), "base64.cpu_ms");
    assert_eq!(field(Workload { slots: 0, ..plain() }), "base64.slots");
    assert_eq!(field(Workload { retries: u32::MAX, ..plain() }), "base64.retries");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    /// However pods come, go, grow, shrink and are killed: no request is lost or made up, no core is used twice, and
    /// Little's law holds.
    #[test]
    fn requests_and_cores_are_conserved(
        rates in prop::collection::vec(0.0..120.0_f64, 1..5),
        scales in prop::collection::vec((1..8_u32, 50..3000_u64, 60..300_u64), 12),
        sharing in prop_oneof![
            Just(Sharing::Quotas), Just(Sharing::Weights), Just(Sharing::Throttled { period: 0.1 }),
        ],
        balancing in prop_oneof![
            Just(Balancing::LeastConnections), Just(Balancing::RoundRobin), Just(Balancing::Random),
        ],
        (retries, timeout, grace, resize) in (0..3_u32, 0.05..8.0_f64, 0.0..9.0_f64, 0.0..9.0_f64),
        seed in 0..1000_u64,
    ) {
        let rules = Spec { sharing, balancing, grace, resize, seed, ..spec(2, 4.0, 5.0) };
        let nodes = 8.0;
        let mut cluster = Cluster::new(rules).unwrap();
        let ids: Vec<_> = rates.iter().enumerate().map(|(place, rate)| {
            let workload = Workload { retries, timeout, cold: 2.0, warmup: 3.0, ..(*functions()[place]).clone() };
            let workload = Workload { memory_idle: Bytes::mebi(70), ..workload };
            cluster.join(tenant(workload, *rate, scale(2, 1000, 200))).unwrap()
        }).collect();
        let mut before = vec![Totals::default(); ids.len()];
        let mut cores = 0.0;
        for (step, (replicas, cpu, memory)) in scales.into_iter().enumerate() {
            cluster.set_scale(ids[step % ids.len()], scale(replicas, cpu, memory)).unwrap();
            cluster.advance();
            for (id, before) in ids.iter().zip(&mut before) {
                let seen = cluster.observe(*id).unwrap();
                let journal = cluster.journal(*id).unwrap();
                let now = journal.totals;
                prop_assert_eq!(before.in_system + now.arrived, now.answered + now.failed + now.in_system);
                prop_assert_eq!(journal.latencies.len(), now.answered + now.failed);
                prop_assert_eq!(journal.waits.len(), now.started);
                prop_assert!(now.waiting <= now.in_system);
                let spent = now.latency - before.ages + now.ages;
                prop_assert!((now.area - spent).abs() < 1e-6 * (1.0 + now.area + before.ages), "{} {}", now.area, spent);
                prop_assert!(seen.node_utilisation <= 1.0 + 1e-9);
                prop_assert!(seen.latency_p50 <= seen.latency_p99);
                prop_assert!((seen.requests() - now.arrived as f64).abs() < 1e-6);
                cores += seen.cpu_used.cores();
                *before = now;
            }
            // A quantum's excess is owed, so it can never grow.
            let most = nodes * (step + 1) as f64;
            prop_assert!(cores <= most + 0.3, "{cores} of {most}");
        }
    }
}

#[test]
fn a_shorter_time_out_does_not_turn_the_clock_back() {
    let slow = Workload { cpu_ms: 1000.0, distribution: Distribution::Fixed, ..plain() };
    let hasty = Workload { timeout: 0.5, ..slow.clone() };
    let mut spec = tenant(slow, 40.0, scale(1, 1000, 512));
    spec.changes = vec![(2, Arc::new(hasty))];
    let (mut cluster, id) = alone(self::spec(1, 4.0, 10.0), spec);
    for _ in 0..5 {
        let seen = next(&mut cluster, id);
        assert!(seen.concurrency >= 0.0 && seen.concurrency < 1e4, "{seen:?}");
    }
    // Whoever was overdue when the change came was given up on at once.
    assert!(next(&mut cluster, id).concurrency < 100.0);
}
