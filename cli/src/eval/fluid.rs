//! `meanfield eval fluid`: how far the fluid model is from running every request.
//!
//! One function at a steady load, over a grid of loads, replicas, limits and neighbours; both models measure windows of
//! ten minutes, long enough that the luck of single requests no longer matters.

use std::{fmt::Write, fs, sync::Arc};

use anyhow::Context;
use meanfield_common::resources::{Bounds, Bytes, MilliCores, Resources, Scale};
use meanfield_simulator::{
    cluster::{Cluster, Model, Spec, TenantSpec},
    placement::Node,
    workload::{Workload, functions},
};
use serde::{Deserialize, Serialize};

use super::workers::{Store, compute};
use crate::{args::EvalArgs, table::table};

const LOADS: [f64; 6] = [0.2, 0.4, 0.6, 0.7, 0.8, 0.9];
const REPLICAS: [u32; 3] = [1, 2, 6];
const LIMITS: [u64; 4] = [500, 1000, 1500, 3000];
/// How full the neighbours keep the node.
const NEIGHBOURS: [f64; 3] = [0.0, 0.4, 0.7];
/// One of each category, and one whose slots are few.
const FUNCTIONS: [&str; 4] = ["base64", "page-rank", "compression", "uploader"];
/// Seconds of a window, and windows that count after one that does not.
const SECONDS: f64 = 600.0;
const WINDOWS: usize = 3;

/// A point of the grid.
#[derive(Debug, Clone, Copy, Serialize, Deserialize)]
struct Case {
    function: usize,
    load: f64,
    replicas: u32,
    limit: u64,
    neighbours: f64,
}

/// p50 and p99 in milliseconds, cores in use, and mebibytes of the fullest pod, by the fluid model and by requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Pair {
    fluid: [f64; 4],
    events: [f64; 4],
    /// Whether the fluid model itself has doubts.
    doubt: bool,
}

impl Pair {
    /// Relative errors of p50, p99, use and memory.
    fn errors(&self) -> [f64; 4] {
        std::array::from_fn(|which| self.fluid[which] / self.events[which].max(1e-9) - 1.0)
    }
}

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let store = Store::new(&args.report)?;
    let cases = grid(args.quick);
    let pairs = compute("cases", args.threads, &store, &cases, compare)?;
    let all: Vec<_> = cases.iter().zip(&pairs).collect();
    let markdown = summary(&all);
    say!("{}", terminal(&all));
    fs::write(args.report.join("fluid.csv"), csv(&all)).with_context(|| args.report.display().to_string())?;
    fs::write(args.report.join("fluid.md"), markdown).with_context(|| args.report.display().to_string())?;
    say!("\nReport: {}", args.report.join("fluid.md").display());
    Ok(())
}

fn grid(quick: bool) -> Vec<Case> {
    let mut cases = Vec::new();
    for function in FUNCTIONS.iter().filter_map(|name| functions().iter().position(|known| known.name == *name)) {
        for load in LOADS {
            for replicas in REPLICAS {
                for limit in LIMITS {
                    for neighbours in NEIGHBOURS {
                        cases.push(Case { function, load, replicas, limit, neighbours });
                    }
                }
            }
        }
    }
    if quick { cases.into_iter().step_by(7).collect() } else { cases }
}

fn compare(case: &Case) -> anyhow::Result<Pair> {
    let (fluid, doubt) = measure(case, Model::Fluid)?;
    let (events, _) = measure(case, Model::Events)?;
    Ok(Pair { fluid, events, doubt })
}

fn measure(case: &Case, model: Model) -> anyhow::Result<([f64; 4], bool)> {
    let node = Node::new(16.0, Bytes::mebi(1 << 20));
    // One node for all, so that neighbours are neighbours; it takes what the limits ask for.
    let spec = Spec { model, noise: false, seed: 1, ..Spec::new(vec![node], SECONDS, 4.0) };
    let mut cluster = Cluster::new(spec)?;
    let id = cluster.join(tenant(&functions()[case.function], case.load, case.replicas, case.limit)?)?;
    if case.neighbours > 0.0 {
        let cores = case.neighbours * node.cores;
        // Neighbours of four cores at 60 % each.
        let count = (cores / 2.4).round().max(1.0);
        for neighbour in 0..count as usize {
            let workload = &functions()[[1, 4, 8][neighbour % 3]];
            cluster.join(tenant(workload, cores / count / 4.0, 1, 4000)?)?;
        }
    }
    cluster.warm_up();
    let (mut sums, mut doubt) = ([0.0; 4], false);
    for window in 0..=WINDOWS {
        cluster.advance();
        let (Some(seen), Some(outcome)) = (cluster.observe(id), cluster.outcome(id)) else { continue };
        doubt |= outcome.doubt.is_some();
        if window > 0 {
            let now = [
                seen.latency_p50.unwrap_or(0.0),
                seen.latency_p99.unwrap_or(0.0),
                seen.cpu_used.cores(),
                seen.memory_peak.as_mebi(),
            ];
            sums.iter_mut().zip(now).for_each(|(sum, now)| *sum += now / WINDOWS as f64);
        }
    }
    Ok((sums, doubt))
}

/// A tenant that keeps so much of its limits busy.
fn tenant(workload: &Arc<Workload>, load: f64, replicas: u32, limit: u64) -> anyhow::Result<TenantSpec> {
    let bounds = Bounds::new(1..=64, MilliCores(1)..=MilliCores(64_000), Bytes(1)..=Bytes::mebi(1 << 20))?;
    let rate = load * f64::from(replicas) * MilliCores(limit).cores() / workload.cpu_seconds();
    let limit = Resources { cpu: MilliCores(limit), memory: Bytes::mebi(16 << 10) };
    Ok(TenantSpec {
        workload: workload.clone(),
        changes: Vec::new(),
        slo: workload.slo()?,
        bounds,
        scale: Scale { replicas, limit },
        arrivals: Arc::from([rate]),
    })
}

/// Median and largest size of the errors, in per cent: p50, p99, use, memory.
fn sizes(pairs: &[&Pair]) -> [[f64; 2]; 4] {
    std::array::from_fn(|which| {
        let mut errors: Vec<f64> = pairs.iter().map(|pair| 100.0 * pair.errors()[which].abs()).collect();
        errors.sort_unstable_by(f64::total_cmp);
        [errors.get(errors.len() / 2).copied().unwrap_or(0.0), errors.last().copied().unwrap_or(0.0)]
    })
}

/// Groups of cases, by what they have in common.
fn groups<'a>(all: &[(&'a Case, &'a Pair)]) -> Vec<(String, Vec<&'a Pair>)> {
    let pick = |name: String, keep: &dyn Fn(&Case, &Pair) -> bool| {
        (name, all.iter().filter(|(case, pair)| keep(case, pair)).map(|(_, pair)| *pair).collect::<Vec<_>>())
    };
    let mut groups = vec![
        pick("all without doubt".to_owned(), &|_, pair| !pair.doubt),
        pick("in doubt".to_owned(), &|_, pair| pair.doubt),
    ];
    for load in LOADS {
        groups.push(pick(format!("load {load}"), &|case, pair| case.load == load && !pair.doubt));
    }
    for replicas in REPLICAS {
        groups.push(pick(format!("{replicas} replica(s)"), &|case, pair| case.replicas == replicas && !pair.doubt));
    }
    for limit in LIMITS {
        groups.push(pick(format!("limit {limit}m"), &|case, pair| case.limit == limit && !pair.doubt));
    }
    for neighbours in NEIGHBOURS {
        let name = format!("neighbours {:.0} % of the node", 100.0 * neighbours);
        groups.push(pick(name, &|case, pair| case.neighbours == neighbours && !pair.doubt));
    }
    for name in FUNCTIONS {
        groups.push(pick(name.to_owned(), &|case, pair| functions()[case.function].name == name && !pair.doubt));
    }
    groups.retain(|(_, pairs)| !pairs.is_empty());
    groups
}

fn rows(all: &[(&Case, &Pair)]) -> Vec<Vec<String>> {
    let row = |(name, pairs): (String, Vec<&Pair>)| {
        let sizes = sizes(&pairs).into_iter().flatten().map(|size| format!("{size:.1}"));
        [name, pairs.len().to_string()].into_iter().chain(sizes).collect()
    };
    groups(all).into_iter().map(row).collect()
}

const HEADER: [&str; 10] = [
    "cases",
    "number",
    "p50 median %",
    "most",
    "p99 median %",
    "most",
    "CPU median %",
    "most",
    "memory peak median %",
    "most",
];

fn terminal(all: &[(&Case, &Pair)]) -> String {
    table(HEADER.map(str::to_owned).to_vec(), rows(all)).to_string()
}

fn summary(all: &[(&Case, &Pair)]) -> String {
    let mut text = format!("| {} |\n|{}\n", HEADER.join(" | "), "---|".repeat(HEADER.len()));
    for row in rows(all) {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    text
}

fn csv(all: &[(&Case, &Pair)]) -> String {
    let mut text = String::from(
        "function,load,replicas,limit_m,neighbours,doubt,p50_fluid_ms,p99_fluid_ms,cores_fluid,memory_fluid_mib,p50_events_ms,p99_events_ms,cores_events,memory_events_mib\n",
    );
    for (case, pair) in all {
        let name = &functions()[case.function].name;
        let Case { load, replicas, limit, neighbours, .. } = case;
        let _ = write!(text, "{name},{load},{replicas},{limit},{neighbours},{}", pair.doubt);
        for figure in pair.fluid.iter().chain(&pair.events) {
            let _ = write!(text, ",{figure:.4}");
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What docs/simulator.md promises of cases without doubt, on a sample of the grid.
    #[test]
    fn the_fluid_model_is_as_near_as_promised() {
        let cases: Vec<_> = grid(true).into_iter().step_by(5).collect();
        let pairs: Vec<_> = cases.iter().map(|case| (case, compare(case).unwrap())).collect();
        let trusted: Vec<_> = pairs.iter().filter(|(_, pair)| !pair.doubt).collect();
        assert!(trusted.len() >= 8, "{} of {}", trusted.len(), pairs.len());
        for (case, pair) in trusted {
            let [median, high, usage, memory] = pair.errors();
            assert!(
                median.abs() < 0.25 && high.abs() < 0.35 && usage.abs() < 0.04 && memory.abs() < 0.4,
                "{case:?}: {pair:?}"
            );
        }
    }
}
