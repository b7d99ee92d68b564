//! Whatever a file says, it is refused with a reason or it runs.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use meanfield_simulator::{
    cluster::{Cluster, TenantId},
    cluster_file::ClusterFile,
    scenario::{Scenario, Start},
    workload::Workload,
};
use proptest::prelude::*;

/// Five steps, after each of which every figure is a finite number of at least 0.
fn run(mut cluster: Cluster, tenants: &[TenantId]) -> Result<(), TestCaseError> {
    for _ in 0..5 {
        cluster.advance();
        for id in tenants {
            let (seen, outcome) = (cluster.observe(*id).unwrap(), cluster.outcome(*id).unwrap());
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
            let fine = figures.iter().all(|figure| figure.is_finite() && *figure >= 0.0);
            prop_assert!(fine, "{seen:?} {outcome:?}");
        }
    }
    Ok(())
}

/// A file of keys and values, some of which are replaced.
fn text(template: &[(&str, &str)], changes: &[(usize, String)]) -> String {
    let mut values: Vec<&str> = template.iter().map(|(_, value)| *value).collect();
    for (place, value) in changes {
        values[*place] = value;
    }
    template.iter().zip(values).map(|((key, _), value)| format!("{key}{value}")).collect()
}

/// A value as TOML would have it, and often one that makes no sense.
fn value() -> impl Strategy<Value = String> {
    prop_oneof![
        3 => prop::sample::select(vec![
            "0",
            "-1",
            "1",
            "2",
            "0.5",
            "-0.0",
            "1e12",
            "1e308",
            "-1e308",
            "5e-324",
            "1e-3",
            "1e-6",
            "nan",
            "inf",
            "-inf",
            "true",
            "9223372036854775807",
            "4294967295",
            "\"\"",
            "\"1\"",
            "\"1Gi\"",
            "\"1024Gi\"",
            "\"250m\"",
            "\"8Gi\"",
            "\"1e9\"",
            "\"999999999999G\"",
            "\"base64\"",
            "\"primes\"",
            "\"p99\"",
            "\"cpu\"",
            "\"workload\"",
            "[]",
            "{}",
            "[1, 2.5]",
        ])
        .prop_map(str::to_owned),
        3 => (0.0..20.0_f64).prop_map(|number| format!("{number:?}")),
        3 => (-4.0..13.0_f64).prop_map(|power| format!("{:e}", 10_f64.powf(power))),
        1 => (0..100_000_usize).prop_map(|length| format!("\"{}\"", "x".repeat(length))),
        1 => any::<i64>().prop_map(|number| number.to_string()),
        1 => "\\PC{0,12}",
    ]
}

/// A whole cluster file, each place of which can hold anything.
const CLUSTER: [(&str, &str); 30] = [
    ("[rules]\nstep_seconds = ", "15.0"),
    ("\novercommit = ", "1.5"),
    ("\nsharing = ", "\"weights\""),
    ("\nresize_seconds = ", "2.0"),
    ("\ngrace_seconds = ", "30"),
    ("\nseed = ", "1"),
    ("\n[[nodes]]\ncount = ", "2"),
    ("\ncores = ", "8"),
    ("\nmemory = ", "\"32Gi\""),
    ("\ndisk_mb = ", "400"),
    ("\nbus_mb = ", "20000"),
    ("\n[[tenants]]\nfunction = ", "\"base64\""),
    ("\nload = ", "1"),
    ("\nslo.throughput.per_second = ", "4"),
    ("\nbounds.replicas.min = ", "1"),
    ("\nbounds.replicas.max = ", "9"),
    ("\nstart.replicas = ", "3"),
    ("\nstart.memory = ", "\"100Mi\""),
    ("\n[[tenants]]\nfunction = ", "\"uploader\""),
    ("\nname = ", "\"primes\""),
    ("\narrivals.rates = ", "[1, 30, 400.5]"),
    ("\nbounds.cpu = ", "{ min = \"100m\", max = \"4\" }"),
    ("\n[[calls]]\nfrom = ", "\"base64\""),
    ("\nto = ", "\"primes\""),
    ("\ntimes = ", "0.5"),
    ("\n[[anomalies]]\nkind = \"cpu\"\nfrom_seconds = 3\nto_seconds = 50\nnode = ", "1"),
    ("\nintensity = ", "0.9"),
    ("\n[injection]\nper_second = ", "0.33"),
    ("\nduration_seconds = ", "10"),
    ("\nmost = ", "100"),
];

/// A whole workload file, likewise.
const WORKLOAD: [(&str, &str); 21] = [
    ("name = ", "\"mine\""),
    ("\ncategory = ", "\"cpu\""),
    ("\ninput = ", "\"file\""),
    ("\n[request]\ncpu_ms = ", "20"),
    ("\ndistribution = ", "\"lognormal\""),
    ("\nvariation = ", "0.5"),
    ("\nio_mb = ", "1"),
    ("\nnetwork_mb = ", "1"),
    ("\nmemory = ", "\"8Mi\""),
    ("\nmemory_traffic_mb = ", "10"),
    ("\n[pod]\nmemory = ", "\"64Mi\""),
    ("\nslots = ", "8"),
    ("\nstartup_seconds = ", "3"),
    ("\nwarmup_seconds = ", "3"),
    ("\ncold = ", "1.5"),
    ("\n[client]\ntimeout_seconds = ", "30"),
    ("\nretries = ", "1"),
    ("\n[load]\ncores = ", "1"),
    ("\n[slo]\npercentile = ", "\"p99\"\ncores = 1.0"),
    ("\nload = ", "0.5"),
    ("\nmargin = ", "0.15"),
];

#[test]
fn unchanged_they_run() {
    ClusterFile::parse(&text(&CLUSTER, &[]), "any").unwrap().build(1, 5).unwrap();
    Workload::parse(&text(&WORKLOAD, &[]), "any").unwrap();
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(1500))]

    #[test]
    fn any_cluster_is_refused_or_runs(
        changes in prop::collection::vec((0..CLUSTER.len(), value()), 1..3),
        seed in any::<u64>(),
    ) {
        match ClusterFile::parse(&text(&CLUSTER, &changes), "any").and_then(|file| file.build(seed, 5)) {
            Err(error) => prop_assert!(error.to_string().len() < 4000),
            Ok((cluster, tenants)) => run(cluster, &tenants.iter().map(|(id, ..)| *id).collect::<Vec<_>>())?,
        }
    }

    #[test]
    fn any_workload_is_refused_or_runs(
        changes in prop::collection::vec((0..WORKLOAD.len(), value()), 1..3),
        seed in any::<u64>(),
    ) {
        match Workload::parse(&text(&WORKLOAD, &changes), "any") {
            Err(error) => prop_assert!(error.to_string().len() < 4000),
            Ok(workload) => {
                let scenario = Scenario::of(&[Arc::new(workload)], 3, 5).unwrap();
                // Its pods may be too large for the standard nodes, which is no fault of the workload.
                if let Ok((cluster, tenants)) = scenario.build(seed, Start::Random) {
                    run(cluster, &tenants.iter().map(|(id, _)| *id).collect::<Vec<_>>())?;
                }
            }
        }
    }

    #[test]
    fn no_text_makes_a_parser_panic(text in "\\PC{0,200}") {
        let _ = ClusterFile::parse(&text, "any");
        let _ = Workload::parse(&text, "any");
    }
}
