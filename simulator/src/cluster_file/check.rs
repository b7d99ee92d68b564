//! From what is written to what can be built, or a refusal.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use meanfield_common::{
    invalid::{Invalid, within},
    resources::{self, Resources, Scale},
    slo::Slo,
};

use super::{Arrivals, Call, ClusterFile, Tenant, format};
use crate::{
    anomaly::{Anomaly, Injection, Kind},
    cluster::{Balancing, Sharing, Spec},
    origin::{Error, label},
    placement::Node,
    scenario::{self, MOST_TENANTS},
    tenant::request,
    workload::{Workload, named},
};

const MOST_NODES: usize = 10_000;
const MOST_CALLS: usize = 1000;
/// Pods of one tenant, and of all tenants when they start.
const MOST_REPLICAS: u32 = 1000;
const MOST_PODS: usize = 100_000;
/// Requests per second.
const MOST_RATE: f64 = 1e9;
/// Seconds of simulated time at which a disturbance may begin or end.
const LATEST: f64 = 1e12;

/// Finds a workload that stands in a file of its own.
pub(super) type Workloads<'a> = &'a dyn Fn(&str) -> Result<Workload, Error>;

pub(super) fn resolve(
    file: format::File,
    text: &str,
    origin: &str,
    workload: Workloads<'_>,
) -> Result<ClusterFile, Error> {
    let invalid = |error| Error::invalid(text, origin, error);
    let format::File { rules, nodes, tenants, calls, anomalies, injection } = file;
    let (model, seed) = (rules.model, rules.seed);
    let mut spec = spec(&rules, &nodes).map_err(invalid)?;

    count("tenants", tenants.len(), 1, MOST_TENANTS).map_err(invalid)?;
    let mut resolved = Vec::with_capacity(tenants.len());
    let mut names = BTreeMap::new();
    for (place, tenant) in tenants.into_iter().enumerate() {
        let at = |field: &str| format!("tenants[{place}].{field}");
        let workload = match (&tenant.function, &tenant.workload) {
            (Some(function), None) => named(function).map_err(|error| invalid(within_field(&at(""), error)))?,
            (None, Some(path)) => Arc::new(workload(path)?),
            (function, _) => {
                let both = if function.is_some() { "both" } else { "neither" };
                let bound = "a tenant with either a function or a workload";
                return Err(invalid(Invalid::new(format!("tenants[{place}]"), both, bound)));
            }
        };
        let tenant = self::tenant(tenant, workload, &spec).map_err(|error| invalid(within_field(&at(""), error)))?;
        if let Some(other) = names.insert(tenant.name.clone(), place) {
            let bound = format!("another name than that of tenants[{other}]");
            return Err(invalid(Invalid::new(at("name"), format!("{:?}", tenant.name), bound)));
        }
        resolved.push(tenant);
    }
    let pods = resolved.iter().map(|tenant| tenant.scale.replicas as usize).sum();
    count("tenants.start.replicas", pods, 1, MOST_PODS).map_err(invalid)?;

    let calls = self::calls(&calls, &names).map_err(invalid)?;
    count("anomalies", anomalies.len(), 0, Injection::MOST).map_err(invalid)?;
    spec.anomalies = self::anomalies(&anomalies, spec.nodes.len(), &names).map_err(invalid)?;
    let injection = injection.map(self::injection).transpose().map_err(invalid)?;
    Ok(ClusterFile { origin: origin.to_owned(), spec, model, seed, tenants: resolved, calls, injection })
}

/// The same refusal of a field further inside.
fn within_field(prefix: &str, error: Invalid) -> Invalid {
    Invalid { field: format!("{prefix}{}", error.field), ..error }
}

fn count(field: &str, value: usize, low: usize, high: usize) -> Result<(), Invalid> {
    if (low..=high).contains(&value) {
        return Ok(());
    }
    Err(Invalid::new(field, value, format!("within [{low}, {high}]")))
}

fn spec(rules: &format::Rules, nodes: &[format::Nodes]) -> Result<Spec, Invalid> {
    within("rules.step_seconds", rules.step_seconds, 1e-3, 86_400.0)?;
    within("rules.overcommit", rules.overcommit, 1.0, 100.0)?;
    within("rules.resize_seconds", rules.resize_seconds, 0.0, 86_400.0)?;
    within("rules.grace_seconds", rules.grace_seconds, 0.0, 86_400.0)?;
    count("nodes", nodes.len(), 1, MOST_NODES)?;
    let mut all = Vec::new();
    for (place, kind) in nodes.iter().enumerate() {
        let at = |field: &str| format!("nodes[{place}].{field}");
        count(&at("count"), kind.count as usize, 1, MOST_NODES)?;
        count("nodes", all.len() + kind.count as usize, 1, MOST_NODES)?;
        let (cores, disk, network, bus) = (kind.cores, kind.disk_mb, kind.network_mb, kind.bus_mb);
        within(&at("cores"), cores, 1e-3, 1e5)?;
        for (field, value) in [("disk_mb", disk), ("network_mb", network), ("bus_mb", bus)] {
            within(&at(field), value, 1e-3, 1e9)?;
        }
        all.resize(all.len() + kind.count as usize, Node { cores, memory: kind.memory, disk, network, bus });
    }
    let mut spec = Spec::new(all, rules.step_seconds, rules.overcommit);
    spec.sharing = match rules.sharing {
        format::Sharing::Quotas => Sharing::Quotas,
        format::Sharing::Weights => Sharing::Weights,
        format::Sharing::Throttled { period_seconds } => {
            Sharing::Throttled { period: within("rules.sharing.throttled.period_seconds", period_seconds, 1e-4, 1e4)? }
        }
    };
    spec.balancing = match rules.balancing {
        format::Balancing::LeastConnections => Balancing::LeastConnections,
        format::Balancing::RoundRobin => Balancing::RoundRobin,
        format::Balancing::Random => Balancing::Random,
    };
    (spec.resize, spec.grace) = (rules.resize_seconds, rules.grace_seconds);
    Ok(spec)
}

fn tenant(tenant: format::Tenant, workload: Arc<Workload>, spec: &Spec) -> Result<Tenant, Invalid> {
    let name = tenant.name.unwrap_or_else(|| workload.name.clone());
    label("name", &name)?;
    let bounds = bounds(&tenant.bounds, &workload)?;
    let smallest = Resources { cpu: *bounds.cpu().start(), memory: *bounds.memory().start() };
    fits("bounds", ".min", smallest, spec)?;
    let scale = scale(&tenant.start, &bounds, &workload)?;
    fits("start", "", scale.limit, spec)?;
    let slo = match tenant.slo {
        None => workload.slo(),
        Some(format::Slo::Latency { percentile, milliseconds }) => Slo::latency(percentile, milliseconds),
        Some(format::Slo::Throughput { per_second }) => Slo::throughput(per_second),
    }?;
    let arrivals = arrivals(tenant.load, tenant.arrivals, &workload)?;
    Ok(Tenant { name, workload, slo, bounds, scale, arrivals })
}

fn bounds(given: &format::Bounds, workload: &Workload) -> Result<resources::Bounds, Invalid> {
    let usual = scenario::bounds(workload)?;
    let replicas = given.replicas.as_ref().map_or(usual.replicas().clone(), |range| range.min..=range.max);
    let cpu = given.cpu.as_ref().map_or(usual.cpu().clone(), |range| range.min..=range.max);
    let memory = given.memory.as_ref().map_or(usual.memory().clone(), |range| range.min..=range.max);
    if *replicas.end() > MOST_REPLICAS {
        return Err(Invalid::new("bounds.replicas.max", replicas.end(), format!("at most {MOST_REPLICAS}")));
    }
    resources::Bounds::new(replicas, cpu, memory).map_err(|error| within_field("bounds.", error))
}

/// What is given, which has to be within the bounds, and for the rest twice the mean demand.
fn scale(given: &format::Start, bounds: &resources::Bounds, workload: &Workload) -> Result<Scale, Invalid> {
    let usual = bounds.clamp(&scenario::sized(workload, 2.0, 1500));
    let cpu = given.cpu.map_or(usual.limit.cpu, |cpu| cpu.0);
    let memory = given.memory.map_or(usual.limit.memory, |memory| memory.0);
    let scale = Scale { replicas: given.replicas.unwrap_or(usual.replicas), limit: Resources { cpu, memory } };
    fn inside<T: PartialOrd + std::fmt::Display>(
        field: &str,
        value: T,
        range: &std::ops::RangeInclusive<T>,
    ) -> Result<(), Invalid> {
        if range.contains(&value) {
            return Ok(());
        }
        Err(Invalid::new(field, value, format!("within the bounds [{}, {}]", range.start(), range.end())))
    }
    inside("start.replicas", scale.replicas, bounds.replicas())?;
    inside("start.cpu", cpu, bounds.cpu())?;
    inside("start.memory", memory, bounds.memory())?;
    Ok(scale)
}

/// Whether a pod with these limits has room on an empty node.
fn fits(field: &str, end: &str, limit: Resources, spec: &Spec) -> Result<(), Invalid> {
    let asked = request(limit, None, spec.overcommit);
    let cores = |node: &Node| asked.cpu.0 as f64 <= (node.cores * 1000.0).floor();
    let memory = |node: &Node| asked.memory <= node.memory;
    if spec.nodes.iter().any(|node| cores(node) && memory(node)) {
        return Ok(());
    }
    Err(if !spec.nodes.iter().any(memory) {
        Invalid::new(format!("{field}.memory{end}"), limit.memory, "small enough for the memory of any node")
    } else if !spec.nodes.iter().any(cores) {
        let bound = format!("small enough for the cores of any node at an overcommit of {}", spec.overcommit);
        Invalid::new(format!("{field}.cpu{end}"), limit.cpu, bound)
    } else {
        let pod = format!("a pod of {} and {}", limit.cpu, limit.memory);
        Invalid::new(field, pod, "small enough for any one node, though each of the two is")
    })
}

fn arrivals(load: Option<f64>, arrivals: Option<format::Arrivals>, workload: &Workload) -> Result<Arrivals, Invalid> {
    match (load, arrivals) {
        (Some(load), Some(_)) => Err(Invalid::new("load", load, "given together with arrivals, which say it already")),
        (load, None) => {
            let load = within("load", load.unwrap_or(1.0), 0.0, 1e6)?;
            Ok(Arrivals::Mean(within("load", load * workload.mean_rate(), 0.0, MOST_RATE)?))
        }
        (None, Some(format::Arrivals::Mean(mean))) => {
            Ok(Arrivals::Mean(within("arrivals.mean", mean, 0.0, MOST_RATE)?))
        }
        (None, Some(format::Arrivals::Rates(rates))) => {
            if rates.is_empty() {
                return Err(Invalid::new("arrivals.rates", "[]", "a list of at least one rate"));
            }
            for (place, rate) in rates.iter().enumerate() {
                within(&format!("arrivals.rates[{place}]"), *rate, 0.0, MOST_RATE)?;
            }
            Ok(Arrivals::Rates(Arc::from(rates)))
        }
    }
}

fn known(field: String, name: &str, names: &BTreeMap<String, usize>) -> Result<usize, Invalid> {
    names.get(name).copied().ok_or_else(|| {
        let some: Vec<_> = names.keys().take(20).map(String::as_str).collect();
        let more = if names.len() > some.len() { ", ..." } else { "" };
        Invalid::new(field, format!("{name:?}"), format!("a tenant of this file: {}{more}", some.join(", ")))
    })
}

/// Calls between tenants, none of which leads back to where it came from.
fn calls(given: &[format::Call], names: &BTreeMap<String, usize>) -> Result<Vec<Call>, Invalid> {
    count("calls", given.len(), 0, MOST_CALLS)?;
    let mut calls: Vec<Call> = Vec::with_capacity(given.len());
    for (place, call) in given.iter().enumerate() {
        let at = |field: &str| format!("calls[{place}].{field}");
        let (from, to) = (known(at("from"), &call.from, names)?, known(at("to"), &call.to, names)?);
        let times = within(&at("times"), call.times, 1e-6, 100.0)?;
        let (mut reached, mut waiting) = (BTreeSet::from([to]), vec![to]);
        while let Some(at) = waiting.pop() {
            let next = calls.iter().filter(|call| call.from == at).map(|call| call.to);
            waiting.extend(next.filter(|to| reached.insert(*to)));
        }
        if reached.contains(&from) {
            let value = format!("{} -> {}", call.from, call.to);
            return Err(Invalid::new(format!("calls[{place}]"), value, "without a way back: requests would go round"));
        }
        calls.push(Call { from, to, times });
    }
    Ok(calls)
}

fn anomalies(
    given: &[format::Anomaly],
    nodes: usize,
    names: &BTreeMap<String, usize>,
) -> Result<Vec<Anomaly>, Invalid> {
    let resolve = |(place, anomaly): (usize, &format::Anomaly)| {
        let at = |field: &str| format!("anomalies[{place}].{field}");
        let (kind, from, to) = (anomaly.kind, anomaly.from_seconds, anomaly.to_seconds);
        let target = match (kind, &anomaly.tenant, anomaly.node) {
            (Kind::Workload, Some(tenant), None) => known(at("tenant"), tenant, names)?,
            (Kind::Workload, ..) => return Err(Invalid::new(at("kind"), "workload", "about a tenant, which it needs")),
            (_, None, Some(node)) => {
                count(&at("node"), node, 0, nodes - 1)?;
                node
            }
            _ => return Err(Invalid::new(at("kind"), format!("{kind:?}"), "about a node, which it needs")),
        };
        within(&at("from_seconds"), from, 0.0, LATEST)?;
        within(&at("to_seconds"), to, from, LATEST)?;
        let intensity = within(&at("intensity"), anomaly.intensity, 0.0, 1.0)?;
        Ok(Anomaly { target, from, to, kind, intensity })
    };
    given.iter().enumerate().map(resolve).collect()
}

fn injection(given: format::Injection) -> Result<Injection, Invalid> {
    let format::Injection { per_second, duration_seconds, intensity, most } = given;
    let injection =
        Injection { per_second, duration: duration_seconds, intensity: (intensity.min, intensity.max), most };
    injection.check().map_err(|error| within_field("injection.", error))?;
    Ok(injection)
}
