//! Simulated steps and requests per second on one core.

mod peer;

use std::{path::Path, sync::Arc, time::Instant};

use meanfield_common::resources::{Bounds, Bytes, MilliCores, Resources, Scale};
use meanfield_simulator::{
    cluster::{Cluster, Model, Spec, TenantId, TenantSpec},
    placement::Node,
    scenario::{Scenario, Start},
    workload::{Distribution, Workload, functions},
};

use super::{Row, median};

/// Runs of each figure; the median counts.
const RUNS: usize = 5;
/// Agent-steps of one run of the fluid model.
const AGENT_STEPS: usize = 600_000;
/// Steps of one run of the event model: 720 000 requests each.
const EVENT_STEPS: usize = 4;

/// One function whose requests never wait, as SimFaaS has it: a pod works on one request, and there are always enough.
#[derive(Debug, Clone, Copy)]
struct Function {
    /// Requests per second.
    rate: f64,
    /// Mean seconds of a request, exponential.
    service: f64,
    /// Seconds simulated.
    seconds: f64,
}

const FUNCTION: Function = Function { rate: 10.0, service: 0.2, seconds: 4000.0 };

pub(super) fn run(python: &Path) -> anyhow::Result<Vec<Row>> {
    // All figures alternate, so that noise falls on each of them.
    let mut fluids = [Vec::new(), Vec::new()];
    let mut events = [Vec::new(), Vec::new()];
    let (mut ours, mut peers) = (Vec::new(), Vec::new());
    let mut installed = true;
    for _ in 0..RUNS {
        for (speeds, tenants) in fluids.iter_mut().zip([12, 1000]) {
            speeds.push(fluid(tenants)?);
        }
        for (speeds, limit) in events.iter_mut().zip([MilliCores(1000), MilliCores(1500)]) {
            speeds.push(many_requests(limit)?);
        }
        ours.push(one_function(&FUNCTION)?);
        if installed {
            match peer::run(python, &FUNCTION)? {
                Some(speed) => peers.push(speed),
                None => installed = false,
            }
        }
    }
    if !installed {
        say!("no peer: simfaas is not installed");
    }
    let [few, many] = fluids.map(median);
    let [apart, crowded] = events.map(median);
    let ours = median(ours);
    let peer = installed.then(|| median(peers));
    Ok(vec![
        Row::alone("fluid, 12 workloads", few, "M agent-steps/s"),
        Row {
            peer: Some(few),
            ratio: Some(many / few),
            ..Row::alone("fluid, 1000 workloads (peer: 12)", many, "M agent-steps/s")
        },
        Row::alone("events, pods apart", apart, "M requests/s"),
        Row::alone("events, pods crowded", crowded, "M requests/s"),
        Row {
            peer,
            ratio: peer.map(|peer| ours / peer),
            ..Row::alone("events, one function (peer: SimFaaS)", ours, "k requests/s")
        },
    ])
}

/// Million agent-steps per second of the fluid model.
fn fluid(tenants: usize) -> anyhow::Result<f64> {
    let (mut cluster, _) = Scenario::new(tenants, 480)?.build(1, Start::Sized)?;
    let steps = AGENT_STEPS / tenants;
    let started = Instant::now();
    for _ in 0..steps {
        cluster.advance();
    }
    Ok((steps * tenants) as f64 / started.elapsed().as_secs_f64() / 1e6)
}

/// Million requests per second of the event model: twelve tenants of three pods each, half loaded. With limits of one
/// core the pods cannot get into each other's way; with more they can, and cores are shared anew every millisecond.
fn many_requests(limit: MilliCores) -> anyhow::Result<f64> {
    let node = Node::new(8.0, Bytes::mebi(32 * 1024));
    let mut cluster = Cluster::new(Spec { model: Model::Events, ..Spec::new(vec![node; 5], 15.0, 1.5) })?;
    let mut tenants = Vec::new();
    for function in functions() {
        let workload = Workload { cpu_ms: 0.375, io_mb: 0.01, slots: 32, ..only_cpu(function) };
        tenants.push(join(&mut cluster, workload, 4000.0, 3, limit)?);
    }
    cluster.warm_up();
    cluster.advance();
    let started = Instant::now();
    let requests = answered(&mut cluster, &tenants, EVENT_STEPS);
    Ok(requests as f64 / started.elapsed().as_secs_f64() / 1e6)
}

/// Thousand requests per second of the event model with one function.
fn one_function(function: &Function) -> anyhow::Result<f64> {
    const STEPS: usize = 40;
    let node = Node::new(8.0, Bytes::mebi(32 * 1024));
    let spec = Spec::new(vec![node; 2], function.seconds / STEPS as f64, 1.0);
    let mut cluster = Cluster::new(Spec { model: Model::Events, ..spec })?;
    let workload = Workload {
        cpu_ms: function.service * 1000.0,
        distribution: Distribution::Exponential,
        slots: 1,
        ..only_cpu(&functions()[0])
    };
    let tenant = join(&mut cluster, workload, function.rate, 16, MilliCores(1000))?;
    cluster.warm_up();
    let started = Instant::now();
    let requests = answered(&mut cluster, &[tenant], STEPS);
    Ok(requests as f64 / started.elapsed().as_secs_f64() / 1e3)
}

/// The function without what it does outside the CPU.
fn only_cpu(function: &Workload) -> Workload {
    Workload { io_mb: 0.0, network_mb: 0.0, traffic_mb: 0.0, ..function.clone() }
}

fn join(
    cluster: &mut Cluster,
    workload: Workload,
    rate: f64,
    replicas: u32,
    cpu: MilliCores,
) -> anyhow::Result<TenantId> {
    let bounds = Bounds::new(1..=16, MilliCores(1)..=MilliCores(8000), Bytes(1)..=Bytes::mebi(8192))?;
    let tenant = TenantSpec {
        slo: workload.slo()?,
        workload: Arc::new(workload),
        changes: Vec::new(),
        bounds,
        scale: Scale { replicas, limit: Resources { cpu, memory: Bytes::mebi(2500) } },
        arrivals: Arc::from([rate]),
    };
    Ok(cluster.join(tenant)?)
}

/// Runs so many steps and counts the requests that were answered.
fn answered(cluster: &mut Cluster, tenants: &[TenantId], steps: usize) -> u64 {
    let mut requests = 0;
    for _ in 0..steps {
        cluster.advance();
        let journals = tenants.iter().filter_map(|tenant| cluster.journal(*tenant));
        requests += journals.map(|journal| journal.totals.answered).sum::<u64>();
    }
    requests
}
