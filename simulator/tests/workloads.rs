//! The workloads that come with the simulator: functions, segments, applications and their instabilities.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::Path,
    sync::Arc,
};

use meanfield_common::identity::Category;
use meanfield_simulator::{
    application::{self, COUNT, PARTS, TRAINING, applications},
    instability::Instability,
    origin::Reason,
    scenario::{Scenario, Start},
    workload::{Workload, functions, segments},
};

fn files(folder: &str) -> BTreeMap<String, String> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("data").join(folder);
    let paths = fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    paths
        .map(|path| (path.file_stem().unwrap().to_str().unwrap().to_owned(), fs::read_to_string(&path).unwrap()))
        .collect()
}

#[test]
fn every_file_is_embedded_and_named_as_it_calls_itself() {
    for (folder, embedded) in [("functions", functions()), ("segments", segments())] {
        let files = files(folder);
        assert_eq!(files.len(), embedded.len(), "{folder}");
        for workload in embedded {
            let text = &files[&workload.name];
            assert_eq!(Workload::parse(text, &workload.name).unwrap(), **workload);
        }
    }
}

#[test]
fn a_refusal_names_file_line_field_value_and_bound() {
    let good = &files("functions")["uploader"];
    let refused = |from: &str, to: &str| {
        assert!(good.contains(from), "{from}");
        Workload::parse(&good.replace(from, to), "mine.toml").unwrap_err().to_string()
    };
    let line = |wanted: &str| good.lines().position(|line| line.starts_with(wanted)).unwrap() + 1;
    assert_eq!(
        refused("cpu_ms = 20.0", "cpu_ms = -3.5"),
        format!("mine.toml:{}: request.cpu_ms: -3.5 is not within [0.001, 1000000]", line("cpu_ms"))
    );
    assert_eq!(
        refused("slots = 2 ", "slots = 0 "),
        format!("mine.toml:{}: pod.slots: 0 is not within [1, 10000]", line("slots"))
    );
    let memory = refused("\"64Mi\"", "\"64Mb\"");
    let memory_line = good.lines().position(|line| line == "memory = \"64Mi\"").unwrap() + 1;
    assert!(memory.starts_with(&format!("mine.toml:{memory_line}: pod.memory: \"64Mb\" is not a pos")), "{memory}");
    assert!(refused("cold = 1.2", "cold = nan").contains("pod.cold: NaN is not within [1, 100]"));
    assert!(refused("io_mb", "io_gb").contains("request.io_gb: unknown field `io_gb`, expected one of"));
    assert!(refused("name = \"uploader\"", "name = \"Up loader\"").contains("name: \"Up loader\" is not 1 to 63"));
    assert!(refused("\"lognormal\"", "\"fixed\"").contains("request.variation: 0.6 is not given with a lognormal"));
    let endless = good.replace("cpu_ms = 20.0", "cpu_ms = 1e6").replace("cores = 1.0", "cores = 0.001");
    assert!(Workload::parse(&endless, "mine.toml").unwrap_err().to_string().contains("slo: "), "longer than a day");
    let huge = "x".repeat(17 << 20);
    assert!(matches!(Workload::parse(&huge, "mine.toml").unwrap_err().reason, Reason::Unreadable(_)));
}

/// With few slots, more CPU for a pod does not help from some point on.
#[test]
fn slots_of_blocking_functions_fill_before_their_cpu_does() {
    for workload in functions().iter().filter(|workload| workload.category == Category::Io) {
        let inside = workload.cpu_seconds() + workload.elsewhere_seconds();
        let busy = f64::from(workload.slots) / inside * workload.cpu_seconds();
        assert!((1.0..4.0).contains(&busy), "{}: {busy} cores at most", workload.name);
    }
}

#[test]
fn a_thousand_applications_are_valid_unique_and_the_same_for_the_same_seed() {
    let all = application::generate(3);
    assert_eq!(all, application::generate(3));
    assert_ne!(applications(3), applications(4));
    assert_eq!(all.len(), COUNT);
    let names: BTreeSet<_> = all.iter().map(|application| &application.workload.name).collect();
    assert_eq!(names.len(), COUNT);
    for application in &all {
        application.workload.check().unwrap();
        let sum: f64 = application.segments().map(|_| 1.0).sum();
        assert!(application.workload.cpu_ms >= sum, "each segment takes its time");
    }
    for category in Category::ALL {
        let count = all.iter().filter(|application| application.workload.category == category).count();
        assert!(count >= COUNT / 20, "{category:?}: {count}");
    }
    let demands = |application: &application::Application| {
        format!("{:?}", Workload { name: String::new(), demand: 0.0, ..(*application.workload).clone() })
    };
    let different: BTreeSet<_> = all.iter().map(demands).collect();
    assert_eq!(different.len(), COUNT);
}

#[test]
fn the_split_is_disjoint_and_both_halves_know_every_segment() {
    let all = application::generate(1);
    let (training, testing) = application::split(&all);
    assert_eq!((training.len(), testing.len()), (TRAINING, COUNT - TRAINING));
    let names = |part: &[application::Application]| -> BTreeSet<_> {
        part.iter().map(|application| application.workload.name.clone()).collect()
    };
    assert!(names(training).is_disjoint(&names(testing)));
    let known: BTreeSet<_> = segments().iter().map(|segment| segment.name.as_str()).collect();
    for part in [training, testing] {
        let seen: BTreeSet<_> = part.iter().flat_map(application::Application::segments).collect();
        assert_eq!(seen, known);
    }
}

#[test]
fn every_number_of_segments_is_as_likely() {
    let (mut counts, mut parts) = (BTreeMap::<usize, usize>::new(), BTreeMap::<String, usize>::new());
    let seeds = 5;
    for application in (0..seeds).flat_map(application::generate) {
        *counts.entry(application.segments().count()).or_default() += 1;
        application.segments().for_each(|name| *parts.entry(name.to_owned()).or_default() += 1);
    }
    assert!(counts.keys().copied().eq(PARTS));
    let total = seeds as f64 * COUNT as f64;
    for (count, found) in counts {
        // Four standard deviations of a share of a quarter.
        assert!((found as f64 / total - 0.25).abs() < 4.0 * (0.1875 / total).sqrt(), "{count}: {found}");
    }
    let drawn: usize = parts.values().sum();
    for (name, found) in parts {
        let share = found as f64 / drawn as f64;
        assert!((share - 0.0625).abs() < 5.0 * (0.0625 * 0.9375 / drawn as f64).sqrt(), "{name}: {share}");
    }
}

#[test]
fn payloads_grow_as_their_sizes_say() {
    let growth = |instability: Instability, name: &str| {
        let before = segments().iter().find(|segment| segment.name == name).unwrap();
        let after = instability.after(before).unwrap();
        after.check().unwrap();
        ((after.cpu_ms - 1.0) / (before.cpu_ms - 1.0), after.memory_request.0 as f64 / before.memory_request.0 as f64)
    };
    for (instability, name, cpu, memory) in [
        (Instability::FileSize, "file-read", 3.0, 3.0),
        (Instability::FileSize, "object-stream", 3.0, 3.0),
        (Instability::FileSize, "data-compression", 3.0, 3.0),
        (Instability::TableSize, "table-scan", 10.0, 10.0),
        (Instability::FloatOperations, "floating-point", 20.0, 1.0),
        (Instability::ImageSize, "image-rotation", 16.0, 16.0),
        (Instability::TextSize, "text-processing", 10_000.0 / 1750.0, 10_000.0 / 1750.0),
        (Instability::MatrixSize, "model-serving", 27.0, 9.0),
    ] {
        let (seen_cpu, seen_memory) = growth(instability, name);
        assert!((seen_cpu / cpu - 1.0).abs() < 1e-9 && (seen_memory / memory - 1.0).abs() < 1e-5, "{name}");
    }
    // Each segment with an input is concerned by exactly one of them.
    for segment in segments() {
        let concerned = Instability::ALL.iter().filter(|instability| instability.after(segment).is_some()).count();
        assert_eq!(concerned, usize::from(segment.input.is_some()), "{}", segment.name);
    }
}

#[test]
fn an_instability_happens_at_its_step() {
    let scenario = Scenario::of(segments(), segments().len(), 40).unwrap();
    let place = |name: &str| segments().iter().position(|segment| segment.name == name).unwrap();
    let spec = |name: &str| scenario.tenant(place(name), 5, Start::Sized).unwrap();

    let mut images = spec("image-scaling");
    Instability::ImageSize.apply(&mut images, 20).unwrap();
    assert_eq!(images.changes.len(), 1);
    assert_eq!(images.changes[0].0, 20);
    assert!(images.changes[0].1.cpu_ms > 10.0 * images.workload.cpu_ms);
    let refused = Instability::MatrixSize.apply(&mut images, 20).unwrap_err();
    assert_eq!((refused.field.as_str(), refused.value.as_str()), ("instability", "matrix-size"));

    let usual = spec("web-serving");
    for (instability, before, after) in [(Instability::LoadFalls, 1.6, 0.4), (Instability::LoadRises, 0.4, 1.6)] {
        let mut changed = usual.clone();
        instability.apply(&mut changed, 20).unwrap();
        for (step, (rate, was)) in changed.arrivals.iter().zip(usual.arrivals.iter()).enumerate() {
            let times = if step < 20 { before } else { after };
            assert!((rate - was * times).abs() < 1e-9);
        }
    }
    let (files, application) =
        application::generate(2).into_iter().find_map(|one| Some((one.after(Instability::FileSize)?, one))).unwrap();
    assert!(files.cpu_ms > application.workload.cpu_ms && files.name == application.workload.name);
    assert!((files.mean_rate() / application.workload.mean_rate() - 1.0).abs() < 1e-12);
}

#[test]
fn segments_and_applications_run() {
    let applications = applications(1);
    let workloads: Vec<Arc<Workload>> = segments().iter().chain(&applications[..24]).cloned().collect();
    let scenario = Scenario::of(&workloads, workloads.len(), 40).unwrap();
    let (mut cluster, tenants) = scenario.build(1, Start::Sized).unwrap();
    let (mut served, mut held) = (0, 0);
    for _ in 0..39 {
        cluster.advance();
        for (id, _) in &tenants {
            let (seen, outcome) = (cluster.observe(*id).unwrap(), cluster.outcome(*id).unwrap());
            assert_eq!(seen.pending, 0);
            served += usize::from(seen.throughput > 0.9 * seen.arrival_rate);
            held += usize::from(!outcome.violated);
        }
    }
    // Sized with care, they serve nearly everything and hold their objectives most of the time.
    let all = 39 * tenants.len();
    assert!(served > all * 95 / 100 && held > all * 7 / 10, "{served} and {held} of {all}");
    assert!(Scenario::of(&[], 3, 3).is_err());
}
