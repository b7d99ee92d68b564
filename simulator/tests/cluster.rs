//! The physics of a shared cluster, seen from outside: what neighbours, limits, memory and time do to a tenant.

#![allow(clippy::unwrap_used)] // helpers of tests may fail as tests do

use std::sync::Arc;

use meanfield_common::{
    observation::Observation,
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
};
use meanfield_simulator::{
    cluster::{Cluster, Model, Spec, TenantId, TenantSpec},
    placement::Node,
    scenario::{Scenario, Start},
    workload::{Workload, functions},
};
use proptest::prelude::*;

fn workload(name: &str) -> Arc<Workload> {
    functions().iter().find(|workload| workload.name == name).unwrap().clone()
}

/// A tenant with a steady load, in cores, that owns so many pods of so many milli-cores. Nobody asks twice.
fn tenant(name: &str, load: f64, replicas: u32, cpu: u64) -> TenantSpec {
    let workload = Arc::new(Workload { retries: 0, ..(*workload(name)).clone() });
    let bounds = Bounds::new(1..=64, MilliCores(1)..=MilliCores(64_000), Bytes(1)..=Bytes::mebi(1 << 20)).unwrap();
    let limit = Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(2048) };
    let (slo, arrivals) = (workload.slo().unwrap(), Arc::from([load / workload.cpu_seconds()]));
    TenantSpec { workload, changes: Vec::new(), slo, bounds, scale: Scale { replicas, limit }, arrivals }
}

/// What is claimed of both models is run with both.
const MODELS: [Model; 2] = [Model::Fluid, Model::Events];

fn cluster(model: Model, nodes: usize, cores: f64) -> Cluster {
    let node = Node::new(cores, Bytes::mebi(32 * 1024));
    // What is claimed here is claimed of the physics, not of a window's luck.
    Cluster::new(Spec { model, noise: false, ..Spec::new(vec![node; nodes], 15.0, 1.5) }).unwrap()
}

/// Requests in the system at the end of a step. In the fluid model those that do not wait are gone at once.
fn in_system(cluster: &Cluster, id: TenantId) -> f64 {
    let backlog = cluster.observe(id).unwrap().backlog;
    cluster.journal(id).map_or(backlog, |journal| journal.totals.in_system as f64)
}

fn after(cluster: &mut Cluster, steps: usize, id: TenantId) -> Observation {
    for _ in 0..steps {
        cluster.advance();
    }
    cluster.observe(id).unwrap()
}

fn p99(seen: &Observation) -> f64 {
    seen.latency_p99.unwrap()
}

#[test]
fn alone_and_half_loaded_the_objective_holds_with_its_margin() {
    for function in functions() {
        let mut cluster = cluster(Model::Fluid, 1, 8.0);
        let id = cluster.join(tenant(&function.name, 0.5, 1, 1000)).unwrap();
        cluster.warm_up();
        let seen = after(&mut cluster, 4, id);
        let excess = workload(&function.name).slo().unwrap().excess(&seen).unwrap();
        // The objective is that very percentile plus 15 %; only the workload's own disk traffic is new here.
        assert!((0.85..=1.0).contains(&excess), "{}: {excess}", function.name);
    }
}

#[test]
fn work_is_conserved() {
    for model in MODELS {
        let mut cluster = cluster(model, 1, 8.0);
        let id = cluster.join(tenant("base64", 1.5, 1, 1000)).unwrap();
        let mut balance = 0.0;
        for _ in 0..40 {
            cluster.advance();
            let seen = cluster.observe(id).unwrap();
            balance += seen.requests() - seen.throughput * seen.seconds - seen.dropped;
            let in_system = in_system(&cluster, id);
            assert!((balance - in_system).abs() < 1e-6, "{model:?}: {balance} {in_system}");
            assert!(seen.cpu_used <= MilliCores(1000));
        }
        // A core and a half of work on one core: a third is never served. Among single requests some are given up on when
        // they have been worked on already, and their work is lost as well.
        let seen = cluster.observe(id).unwrap();
        let served = seen.throughput / seen.arrival_rate;
        let expected = if model == Model::Fluid { 0.66..0.67 } else { 0.2..0.67 };
        assert!(expected.contains(&served), "{model:?}: {served}");
        assert_eq!(seen.cpu_used, MilliCores(1000));
        assert!(seen.dropped > 0.0);
    }
}

#[test]
fn a_kill_costs_the_requests_in_flight_once_and_the_time_to_start_again() {
    let mut cluster = cluster(Model::Fluid, 1, 8.0);
    let mut spec = tenant("image-resize", 0.8, 2, 1000);
    // Too little for what is in flight on average.
    spec.scale.limit.memory = Bytes::mebi(130);
    let id = cluster.join(spec).unwrap();
    cluster.warm_up();
    let (mut balance, mut kills, mut killed_before) = (0.0, 0, 0);
    for _ in 0..40 {
        cluster.advance();
        let seen = cluster.observe(id).unwrap();
        balance += seen.requests() - seen.throughput * seen.seconds - seen.dropped;
        assert!((balance - seen.backlog).abs() < 1e-6, "{balance} {}", seen.backlog);
        if killed_before == 2 {
            // Ten seconds of delay and five of start-up fill the step after the kill.
            assert_eq!((seen.ready, seen.throughput), (0, 0.0));
        }
        killed_before = seen.oom_kills;
        kills += seen.oom_kills;
    }
    assert!(kills > 2, "{kills}");
}

#[test]
fn neighbours_on_the_same_node_slow_a_tenant_down_and_elsewhere_do_not() {
    for model in MODELS {
        let latency = |nodes, neighbour: Option<f64>| {
            let mut cluster = cluster(model, nodes, 4.0);
            let id = cluster.join(tenant("base64", 0.5, 1, 1000)).unwrap();
            if let Some(load) = neighbour {
                cluster.join(tenant("primes", load, 1, 4000)).unwrap();
            }
            p99(&after(&mut cluster, 4, id))
        };
        let alone = latency(1, None);
        assert!(latency(1, Some(1.0)) < latency(1, Some(2.5)), "the busier the neighbour, the slower");
        assert!(latency(1, Some(2.5)) > 1.1 * alone);
        assert_eq!(latency(2, Some(2.5)), alone, "the scheduler spreads, so the neighbour stands elsewhere");
    }
}

#[test]
fn a_busy_disk_slows_io_but_not_pure_cpu() {
    for model in MODELS {
        let latency = |name, neighbour: bool| {
            let mut cluster = cluster(model, 1, 16.0);
            let id = cluster.join(tenant(name, 0.5, 1, 1000)).unwrap();
            if neighbour {
                // 1.2 cores of uploads are 240 MB/s, more than half of what the disk can do.
                cluster.join(tenant("uploader", 1.2, 4, 1000)).unwrap();
            }
            after(&mut cluster, 4, id).latency_p50.unwrap()
        };
        assert!(latency("compression", true) > 1.1 * latency("compression", false));
        assert!(latency("primes", true) < 1.01 * latency("primes", false));
    }
}

#[test]
fn more_of_either_lever_is_faster() {
    for model in MODELS {
        let latency = |replicas, cpu| {
            let mut cluster = cluster(model, 4, 8.0);
            let id = cluster.join(tenant("image-resize", 1.6, replicas, cpu)).unwrap();
            p99(&after(&mut cluster, 4, id))
        };
        assert!(latency(3, 1000) < latency(2, 1000));
        assert!(latency(2, 1500) < latency(2, 1000));
        // Below one core a request runs slower, however many replicas there are.
        assert!(latency(16, 500) > 1.5 * latency(8, 1000));
    }
}

#[test]
fn pods_take_their_time_to_start() {
    for model in MODELS {
        let mut cluster = cluster(model, 2, 8.0);
        let slow_starter = TenantSpec {
            workload: Arc::new(Workload { startup: 40.0, ..(*workload("primes")).clone() }),
            ..tenant("primes", 0.5, 1, 1000)
        };
        let id = cluster.join(slow_starter).unwrap();
        // 40 s at 15 s a step: not in the first two, part of the third.
        let ready: Vec<_> = (0..4).map(|_| after(&mut cluster, 1, id).ready).collect();
        assert_eq!(ready, [0, 0, 1, 1]);
        assert!(after(&mut cluster, 10, id).latency_p50.unwrap() < 500.0, "once it is there, it serves");
    }
}

#[test]
fn too_little_memory_kills_and_counts_as_unused() {
    for model in MODELS {
        let mut cluster = cluster(model, 1, 8.0);
        let mut spec = tenant("page-rank", 0.8, 1, 1000);
        spec.scale.limit.memory = Bytes::mebi(310);
        let id = cluster.join(spec).unwrap();
        let kills: u32 = (0..10).map(|_| after(&mut cluster, 1, id).oom_kills).sum();
        assert!(kills >= 2, "it is killed again and again: {kills}");
        for _ in 0..10 {
            let seen = after(&mut cluster, 1, id);
            if seen.oom_kills > 0 {
                assert_eq!(seen.memory_used, Bytes(0));
            }
        }
        let mut fixed = cluster.observe(id).unwrap().scale;
        // Enough for all slots: what waited while it was down comes in at once.
        fixed.limit.memory = Bytes::mebi(4096);
        cluster.set_scale(id, fixed).unwrap();
        after(&mut cluster, 5, id);
        assert_eq!(after(&mut cluster, 5, id).oom_kills, 0);
    }
}

#[test]
fn a_full_cluster_leaves_pods_pending_until_somebody_leaves() {
    for model in MODELS {
        let mut cluster = cluster(model, 1, 4.0);
        // Requests are limits over 1.5: six cores of limits fill four cores.
        let first = cluster.join(tenant("primes", 0.5, 4, 1500)).unwrap();
        cluster.advance();
        let second = cluster.join(tenant("base64", 0.5, 1, 1500)).unwrap();
        let seen = after(&mut cluster, 3, second);
        assert_eq!((seen.pending, seen.ready), (1, 0));
        cluster.leave(first);
        let seen = after(&mut cluster, 2, second);
        assert_eq!((seen.pending, seen.ready), (0, 1));
        assert!(cluster.observe(first).is_none());
    }
}

#[test]
fn a_resize_happens_in_place_and_waits_for_room() {
    for model in MODELS {
        let mut cluster = cluster(model, 1, 4.0);
        let one = cluster.join(tenant("primes", 0.9, 1, 1000)).unwrap();
        let other = cluster.join(tenant("base64", 0.5, 1, 4000)).unwrap();
        let before = p99(&after(&mut cluster, 4, one));
        let grown = |cpu| Scale { replicas: 1, limit: Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(2048) } };
        cluster.set_scale(one, grown(1900)).unwrap();
        let after_growth = after(&mut cluster, 1, one);
        assert_eq!(after_growth.ready, 1, "no restart");
        assert!(p99(&after_growth) < before);
        cluster.set_scale(one, grown(4000)).unwrap();
        let deferred = cluster.outcome(one).unwrap().cores;
        cluster.advance();
        assert_eq!(cluster.outcome(one).unwrap().cores, deferred, "no room");
        cluster.set_scale(other, grown(1000)).unwrap();
        cluster.advance();
        assert!(cluster.outcome(one).unwrap().cores > deferred, "room was made");
    }
}

#[test]
fn no_requests_no_latency() {
    for model in MODELS {
        let mut cluster = cluster(model, 1, 8.0);
        let id = cluster.join(tenant("base64", 0.0, 1, 1000)).unwrap();
        let seen = after(&mut cluster, 3, id);
        assert_eq!((seen.latency_p99, seen.cpu_used, seen.backlog), (None, MilliCores(0), 0.0));
        assert!(!workload("base64").slo().unwrap().violated(&seen));
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_another_does_not() {
    let run = |seed| {
        let (mut cluster, tenants) = Scenario::new(14, 60).unwrap().build(seed, Start::Random).unwrap();
        let mut seen = Vec::new();
        for _ in 0..60 {
            cluster.advance();
            seen.extend(tenants.iter().map(|(id, _)| (cluster.observe(*id).unwrap(), cluster.outcome(*id).unwrap())));
        }
        format!("{seen:?}")
    };
    assert_eq!(run(7), run(7));
    assert_ne!(run(7), run(8));
}

#[test]
fn impossible_clusters_are_refused_before_anything_runs() {
    let node = Node::new(4.0, Bytes::mebi(1024));
    let field = |spec: Spec| Cluster::new(spec).unwrap_err().field;
    let good = || Spec::new(vec![node], 15.0, 1.5);
    assert_eq!(field(Spec { nodes: vec![], ..good() }), "nodes");
    assert_eq!(field(Spec { nodes: vec![Node { cores: f64::NAN, ..node }], ..good() }), "nodes[0].cores");
    assert_eq!(field(Spec { seconds: 0.0, ..good() }), "seconds");
    assert_eq!(field(Spec { overcommit: 0.5, ..good() }), "overcommit");
    let mut cluster = Cluster::new(good()).unwrap();
    let mut huge = tenant("base64", 1.0, 1, 8000);
    huge.bounds = Bounds::new(1..=2, MilliCores(8000)..=MilliCores(9000), Bytes(1)..=Bytes::mebi(4096)).unwrap();
    assert_eq!(cluster.join(huge).unwrap_err().field, "bounds");
    let negative = TenantSpec { arrivals: Arc::from([-1.0]), ..tenant("base64", 1.0, 1, 1000) };
    assert_eq!(cluster.join(negative).unwrap_err().field, "arrivals");
    assert!(Scenario::new(0, 10).is_err() && Scenario::new(12, 0).is_err());
}

proptest! {
    /// Whatever is asked for and however much arrives, every figure stays finite and within its meaning.
    #[test]
    fn nothing_is_ever_infinite_negative_or_nan(
        loads in prop::collection::vec(prop_oneof![Just(0.0), 0.0..3.0_f64, 1e3..1e12_f64], 1..6),
        scales in prop::collection::vec((1..20_u32, 1..9000_u64, 1..4000_u64), 30),
    ) {
        let mut cluster = cluster(Model::Fluid, 2, 8.0);
        let ids: Vec<_> = loads.iter().enumerate()
            .map(|(place, load)| cluster.join(tenant(&functions()[place].name, *load, 2, 1000)).unwrap())
            .collect();
        for (step, (replicas, cpu, memory)) in scales.into_iter().enumerate() {
            let limit = Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(memory) };
            cluster.set_scale(ids[step % ids.len()], Scale { replicas, limit }).unwrap();
            cluster.advance();
            for id in &ids {
                let seen = cluster.observe(*id).unwrap();
                let outcome = cluster.outcome(*id).unwrap();
                let figures = [
                    seen.throughput, seen.dropped, seen.backlog, seen.node_utilisation,
                    seen.latency_p50.unwrap_or(0.0), seen.latency_p99.unwrap_or(0.0),
                    outcome.violating, outcome.cores, outcome.memory,
                ];
                prop_assert!(figures.iter().all(|figure| figure.is_finite() && *figure >= 0.0), "{seen:?} {outcome:?}");
                prop_assert!(seen.node_utilisation <= 1.0 + 1e-9);
                prop_assert!(outcome.violating <= outcome.requests);
                prop_assert!(seen.latency_p50 <= seen.latency_p99);
            }
        }
    }
}

#[test]
fn a_pod_starts_when_it_has_a_node_and_not_before() {
    for model in MODELS {
        let mut cluster = cluster(model, 1, 4.0);
        let first = cluster.join(tenant("primes", 0.5, 1, 4000)).unwrap();
        let slow = Workload { startup: 40.0, ..(*workload("primes")).clone() };
        let waiting = TenantSpec { workload: Arc::new(slow), ..tenant("primes", 0.5, 1, 3000) };
        let second = cluster.join(waiting).unwrap();
        cluster.warm_up();
        let seen = after(&mut cluster, 4, second);
        assert_eq!((seen.pending, seen.ready), (1, 0), "{model:?}");
        cluster.leave(first);
        // Forty seconds of start-up end in the third step of fifteen.
        let ready: Vec<_> = (0..3).map(|_| after(&mut cluster, 1, second).ready).collect();
        assert_eq!(ready, [0, 0, 1], "{model:?}");
    }
}

#[test]
fn calls_end_with_their_caller() {
    for model in MODELS {
        let mut cluster = cluster(model, 2, 8.0);
        let from = cluster.join(tenant("base64", 0.5, 1, 2000)).unwrap();
        let to = cluster.join(TenantSpec { arrivals: Arc::from([0.0]), ..tenant("primes", 0.5, 1, 4000) }).unwrap();
        cluster.warm_up();
        cluster.call(from, to, 2.0).unwrap();
        assert!(cluster.call(to, from, 1.0).is_err(), "a circle");
        let seen = after(&mut cluster, 4, to);
        assert!((seen.arrival_rate / (2.0 * 0.5 / 0.04) - 1.0).abs() < 0.3, "{model:?}: {seen:?}");
        cluster.leave(from);
        assert_eq!(after(&mut cluster, 2, to).arrival_rate, 0.0, "{model:?}");
    }
}

#[test]
fn a_request_apart_from_its_limit_is_what_is_reserved_while_the_limit_is_what_may_be_used() {
    for model in MODELS {
        let mut cluster = cluster(model, 1, 8.0);
        let id = cluster.join(tenant("base64", 1.5, 1, 3000)).unwrap();
        cluster.warm_up();
        let (usual, before) = (after(&mut cluster, 4, id), cluster.outcome(id).unwrap());
        assert_eq!((usual.request.cpu, before.cores), (MilliCores(2000), 2.0), "three cores over an overcommit of 1.5");
        cluster.set_request(id, Some(MilliCores(500))).unwrap();
        let (seen, outcome) = (after(&mut cluster, 4, id), cluster.outcome(id).unwrap());
        assert_eq!((seen.request.cpu, outcome.cores), (MilliCores(500), 0.5));
        assert!(seen.cpu_used.cores() > 1.2, "{model:?}: it still bursts to its limit: {}", seen.cpu_used);
        // Nobody may reserve more than the limit, and nobody nothing.
        cluster.set_request(id, Some(MilliCores(9000))).unwrap();
        assert_eq!(after(&mut cluster, 1, id).request.cpu, MilliCores(3000));
        assert!(cluster.set_request(id, Some(MilliCores(0))).unwrap_err().to_string().contains("request.cpu"));
        cluster.set_request(id, None).unwrap();
        assert_eq!(after(&mut cluster, 1, id).request.cpu, MilliCores(2000));
    }
}
