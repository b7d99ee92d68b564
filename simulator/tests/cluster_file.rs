//! Clusters described in files: what they become, and why others are refused.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::{Path, PathBuf};

use meanfield_common::slo::Slo;
use meanfield_simulator::{
    anomaly::Kind,
    cluster::Sharing,
    cluster::Spec,
    cluster_file::ClusterFile,
    origin::Reason,
    scenario::{Scenario, Start},
};

fn manifest(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../manifests/simulator").join(name)
}

#[test]
fn the_standard_file_is_the_standard_scenario() {
    let (file, scenario) = (ClusterFile::read(&manifest("standard.toml")).unwrap(), Scenario::new(12, 60).unwrap());
    for seed in [1, 77] {
        let usual = Spec { seed, ..scenario.cluster() };
        assert_eq!(format!("{:?}", file.cluster(seed, 60).unwrap()), format!("{usual:?}"));
        for (place, (name, tenant)) in file.tenants(seed, 60).unwrap().into_iter().enumerate() {
            let usual = scenario.tenant(place, seed, Start::Sized).unwrap();
            assert_eq!(format!("{tenant:?}"), format!("{usual:?}"));
            assert_eq!(name, usual.workload.name);
        }
    }
    let (mut one, tenants) = file.build(5, 60).unwrap();
    let (mut other, others) = scenario.build(5, Start::Sized).unwrap();
    for _ in 0..20 {
        for ((id, ..), (other_id, _)) in tenants.iter().zip(&others) {
            assert_eq!(one.observe(*id), other.observe(*other_id));
        }
        one.advance();
        other.advance();
    }
}

#[test]
fn the_example_with_chains_and_anomalies_runs() {
    let file = ClusterFile::read(&manifest("chain.toml")).unwrap();
    let spec = file.cluster(3, 120).unwrap();
    assert_eq!(spec.sharing, Sharing::Throttled { period: 0.1 });
    assert_eq!((spec.nodes.len(), spec.nodes[2].disk, spec.seed), (3, 150.0, 3));
    assert!(spec.anomalies.len() > 5, "{}", spec.anomalies.len());
    assert_eq!((spec.anomalies[0].kind, spec.anomalies[1].kind), (Kind::Disk, Kind::Workload));

    let (mut cluster, tenants) = file.build(3, 120).unwrap();
    let id = |name: &str| tenants.iter().find(|(_, _, found)| found == name).unwrap().0;
    let mut asked = (0.0, 0.0);
    for _ in 0..60 {
        let front = cluster.observe(id("front")).unwrap();
        cluster.advance();
        let resize = cluster.observe(id("resize")).unwrap();
        asked = (asked.0 + front.throughput, asked.1 + resize.arrival_rate);
    }
    // Nobody but the front asks for pictures; injected surges of that tenant add some.
    assert!((0.095..0.2).contains(&(asked.1 / asked.0)), "{asked:?}");
    let store = tenants.iter().find(|(_, _, name)| name == "store").unwrap();
    assert!(matches!(store.1.slo, Slo::Throughput { .. }));
}

const NODE: &str = "[[nodes]]\ncores = 4\nmemory = \"8Gi\"\n";

fn refused(text: &str) -> String {
    match ClusterFile::parse(text, "c.toml").and_then(|file| file.build(1, 10).map(|_| ())) {
        Err(error) => error.to_string(),
        Ok(()) => panic!("accepted:\n{text}"),
    }
}

#[test]
fn an_impossible_cluster_is_refused_with_field_and_reason() {
    let base64 = "[[tenants]]\nfunction = \"base64\"\n";
    let pair = format!("{base64}[[tenants]]\nfunction = \"primes\"\n");
    for (text, wanted) in [
        (base64.to_owned(), "c.toml: nodes: 0 is not within [1, 10000]"),
        (NODE.to_owned(), "c.toml: tenants: 0 is not within [1, 10000]"),
        ("[[nodes]]\ncores = 0\nmemory = \"8Gi\"\n".to_owned(), "c.toml:2: nodes[0].cores: 0 is not within [0.001"),
        ("[[nodes]]\ncores = nan\nmemory = \"8Gi\"\n".to_owned(), "c.toml:2: nodes[0].cores: NaN is not within"),
        ("[[nodes]]\ncores = 1\nmemory = \"0\"\n".to_owned(), "c.toml:3: nodes[0].memory: \"0\" is not a positive"),
        (format!("{NODE}count = 0\n{base64}"), "c.toml:4: nodes[0].count: 0 is not within"),
        (format!("{NODE}disk_mb = -1\n{base64}"), "c.toml:4: nodes[0].disk_mb: -1 is not within"),
        (format!("{NODE}disc = 1\n{base64}"), "c.toml:4: nodes[0].disc: unknown field `disc`"),
        (format!("[rules]\nstep_seconds = 0\n{NODE}{base64}"), "c.toml:2: rules.step_seconds: 0 is not within"),
        (format!("[rules]\novercommit = 0.5\n{NODE}{base64}"), "c.toml:2: rules.overcommit: 0.5 is not within"),
        (
            format!("[rules]\nsharing = {{ throttled = {{ period_seconds = 0 }} }}\n{NODE}{base64}"),
            "c.toml:2: rules.sharing.throttled.period_seconds: 0 is not within",
        ),
        (format!("[rules]\nmodel = \"magic\"\n{NODE}{base64}"), "c.toml:2: rules.model: unknown variant `magic`"),
        (
            format!("{NODE}[[tenants]]\nfunction = \"base65\"\n"),
            "c.toml:5: tenants[0].function: \"base65\" is not one of base64",
        ),
        (format!("{NODE}[[tenants]]\nname = \"x\"\n"), "c.toml:4: tenants[0]: neither is not a tenant with either"),
        (format!("{NODE}[[tenants]]\nworkload = \"x.toml\"\n"), "x.toml: is looked for only beside a cluster file"),
        (
            format!("{NODE}{base64}{base64}"),
            "c.toml:6: tenants[1].name: \"base64\" is not another name than that of tenants[0]",
        ),
        (format!("{NODE}{base64}name = \"A b\"\n"), "c.toml:6: tenants[0].name: \"A b\" is not 1 to 63"),
        (format!("{NODE}{base64}load = -1\n"), "c.toml:6: tenants[0].load: -1 is not within"),
        (format!("{NODE}{base64}load = inf\n"), "c.toml:6: tenants[0].load: inf is not within"),
        (
            format!("{NODE}{base64}load = 1\narrivals = {{ mean = 1 }}\n"),
            "c.toml:6: tenants[0].load: 1 is not given together",
        ),
        (
            format!("{NODE}{base64}arrivals = {{ rates = [] }}\n"),
            "c.toml:6: tenants[0].arrivals.rates: [] is not a list",
        ),
        (
            format!("{NODE}{base64}arrivals = {{ rates = [1, 2,\n-3] }}\n"),
            "c.toml:7: tenants[0].arrivals.rates[2]: -3 is not within",
        ),
        (
            format!("{NODE}{base64}bounds.memory = {{ min = \"9Gi\", max = \"10Gi\" }}\n"),
            "c.toml:6: tenants[0].bounds.memory.min: 9216Mi is not small enough for the memory of any node",
        ),
        (
            format!("{NODE}{base64}bounds.cpu = {{ min = \"7\", max = \"8\" }}\n"),
            "c.toml:6: tenants[0].bounds.cpu.min: 7000m is not small enough for the cores of any node at an overcommit of 1.5",
        ),
        (
            format!(
                "{NODE}[[nodes]]\ncores = 8\nmemory = \"100Mi\"\n{base64}bounds.cpu = {{ min = \"7\", max = \"8\" }}\nbounds.memory = {{ min = \"1Gi\", max = \"2Gi\" }}\n"
            ),
            "tenants[0].bounds: a pod of 7000m and 1024Mi is not small enough for any one node",
        ),
        (
            format!("{NODE}{base64}bounds.replicas = {{ min = 3, max = 2 }}\n"),
            "c.toml:6: tenants[0].bounds.replicas.max: 2 is not at least the minimum 3",
        ),
        (
            format!("{NODE}{base64}bounds.replicas = {{ min = 1, max = 4000000000 }}\n"),
            "c.toml:6: tenants[0].bounds.replicas.max: 4000000000 is not at most 1000",
        ),
        (
            format!("{NODE}{base64}start.replicas = 17\n"),
            "c.toml:6: tenants[0].start.replicas: 17 is not within the bounds [1, 16]",
        ),
        (
            format!("{NODE}{base64}start.cpu = \"5\"\n"),
            "c.toml:6: tenants[0].start.cpu: 5000m is not within the bounds [250m, 4000m]",
        ),
        (
            format!("{NODE}{base64}slo = {{ latency = {{ percentile = \"p99\", milliseconds = 0 }} }}\n"),
            "c.toml:6: tenants[0].slo.latency: 0 is not within",
        ),
        (
            format!("{NODE}{pair}[[calls]]\nfrom = \"base64\"\nto = \"nobody\"\n"),
            "c.toml:10: calls[0].to: \"nobody\" is not a tenant of this file: base64, primes",
        ),
        (
            format!(
                "{NODE}{pair}[[calls]]\nfrom = \"base64\"\nto = \"primes\"\n[[calls]]\nfrom = \"primes\"\nto = \"base64\"\n"
            ),
            "c.toml:11: calls[1]: primes -> base64 is not without a way back",
        ),
        (
            format!("{NODE}{pair}[[calls]]\nfrom = \"primes\"\nto = \"primes\"\n"),
            "calls[0]: primes -> primes is not without",
        ),
        (
            format!("{NODE}{pair}[[calls]]\nfrom = \"base64\"\nto = \"primes\"\ntimes = nan\n"),
            "c.toml:11: calls[0].times: NaN is",
        ),
        (
            format!(
                "{NODE}{base64}[[anomalies]]\nkind = \"cpu\"\nnode = 1\nfrom_seconds = 0\nto_seconds = 1\nintensity = 1\n"
            ),
            "c.toml:8: anomalies[0].node: 1 is not within [0, 0]",
        ),
        (
            format!(
                "{NODE}{base64}[[anomalies]]\nkind = \"workload\"\nnode = 0\nfrom_seconds = 0\nto_seconds = 1\nintensity = 1\n"
            ),
            "c.toml:7: anomalies[0].kind: workload is not about a tenant",
        ),
        (
            format!(
                "{NODE}{base64}[[anomalies]]\nkind = \"disk\"\nnode = 0\nfrom_seconds = 5\nto_seconds = 1\nintensity = 1\n"
            ),
            "anomalies[0].to_seconds: 1 is not within [5,",
        ),
        (format!("{NODE}{base64}[injection]\nper_second = -1\n"), "c.toml:7: injection.per_second: -1 is not within"),
        (
            format!("{NODE}{base64}[injection]\nmost = 100000000\n"),
            "c.toml:7: injection.most: 100000000 is not at most",
        ),
    ] {
        let error = refused(&text);
        assert!(error.contains(wanted), "{error}\nwanted {wanted}");
    }
    let events = format!("[rules]\nmodel = \"events\"\n{NODE}{base64}");
    assert!(ClusterFile::parse(&events, "c.toml").is_ok(), "known, whichever engine there is");
    let file = ClusterFile::parse(&format!("{NODE}{base64}"), "c.toml").unwrap();
    for steps in [0, usize::MAX] {
        assert!(file.build(1, steps).unwrap_err().to_string().starts_with("c.toml: steps: "));
    }
    let missing = ClusterFile::read(Path::new("no/such/file.toml")).unwrap_err();
    assert!(matches!(missing.reason, Reason::Unreadable(_)), "{missing}");
}
