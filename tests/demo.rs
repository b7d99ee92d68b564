//! The demo, in small: its output, its report, its model, and that a seed decides everything.

use std::{fs, path::Path};

use reqwest::Method;
use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Coordinator, Http, Process, eventually};

const SMALL: [&str; 5] = ["--quick", "--agents", "4", "--episodes", "3"];
const PLOTS: [&str; 4] = ["learning.svg", "latency.svg", "distribution.svg", "cores.svg"];
const FIGURES: [&str; 17] = [
    "slo_violation_rate_requests",
    "slo_violation_rate_windows",
    "p50_ms",
    "p99_ms",
    "p99_over_slo",
    "p99_over_slo_95th",
    "cpu_reserved_cores",
    "cpu_limit_cores",
    "cpu_used_cores",
    "memory_reserved_gib",
    "memory_used_gib",
    "cost_cores",
    "reward",
    "scaling_actions_per_hour",
    "oscillations_per_hour",
    "oom_kills_per_hour",
    "doubtful_rate_windows",
];

/// Runs the demo to its end and gives what it printed.
fn run(seed: &str, size: &[&str], report: &Path) -> String {
    let flags = ["demo", "--seed", seed, "--report", report.to_str().unwrap()];
    let mut demo = Process::start(&[&flags, size].concat());
    assert_eq!(demo.wait().code(), Some(0), "{}", demo.log());
    demo.output()
}

fn summary(report: &Path) -> Value {
    serde_json::from_slice(&fs::read(report.join("summary.json")).unwrap()).unwrap()
}

fn items(list: &Value) -> &[Value] {
    list.as_array().unwrap()
}

fn names(list: &Value) -> Vec<&str> {
    items(list).iter().map(|item| item["name"].as_str().unwrap()).collect()
}

fn assert_figures(figures: &Value) {
    for key in FIGURES {
        let figure = figures[key].as_f64().unwrap_or_else(|| panic!("{key} in {figures}"));
        let within = if key.contains("rate") { (0.0..=1.0).contains(&figure) } else { figure.is_finite() };
        assert!(within && (figure >= 0.0 || key == "reward"), "{key} in {figures}");
    }
    assert_eq!(figures.as_object().unwrap().len(), FIGURES.len(), "nothing undocumented: {figures}");
}

/// Checks a report of this many tenants, of whom one joins late.
fn assert_report(report: &Path, seed: u64, tenants: usize) {
    let summary = summary(report);
    assert_eq!((&summary["simulated"], summary["seed"].as_u64()), (&Value::Bool(true), Some(seed)));
    assert_eq!(items(&summary["training"]).len() as u64, summary["episodes"].as_u64().unwrap());
    assert_eq!(names(&summary["policies"]), ["meanfield", "ppo", "hpa-vpa", "plan", "clairvoyant"]);
    // Somebody yields, the most valuable hardly, and by weight it pays.
    let scarcity = &summary["scarcity"];
    assert!(items(&scarcity["rows"]).iter().any(|row| row["granted"].is_number()), "{scarcity}");
    let day = |how: &str| scarcity[how].as_f64().unwrap();
    assert!(day("day_coordinated") < 0.8 * day("day_alone"), "{scarcity}");
    for policy in items(&summary["policies"]) {
        assert_figures(&policy["total"]);
        assert_eq!(names(&policy["functions"]), names(&summary["policies"][0]["functions"]));
        assert_eq!(items(&policy["functions"]).len(), tenants + 1);
        for function in items(&policy["functions"]) {
            assert_figures(&function["figures"]);
            assert!(function["slo_ms"].as_f64().unwrap() > 0.0, "{function}");
        }
    }
    let page = fs::read_to_string(report.join("index.html")).unwrap();
    for plot in PLOTS {
        assert!(page.contains(&format!("src=\"{plot}\"")), "{plot}");
        assert_well_formed(&fs::read_to_string(report.join(plot)).unwrap());
    }
}

/// One `<svg>` in which every element that begins also ends.
fn assert_well_formed(svg: &str) {
    assert!(svg.starts_with("<svg ") && svg.trim_end().ends_with("</svg>"));
    let mut open = Vec::new();
    for tag in svg.split('<').skip(1) {
        let (tag, _) = tag.split_once('>').unwrap();
        if let Some(name) = tag.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name));
        } else if !tag.ends_with('/') {
            open.push(tag.split_whitespace().next().unwrap());
        }
    }
    assert!(open.is_empty(), "{open:?}");
}

#[test]
fn the_report_is_whole_and_the_seed_decides_it() {
    let (first, again, other) = (tempdir().unwrap(), tempdir().unwrap(), tempdir().unwrap());
    let output = run("3", &SMALL, first.path());
    for part in [
        "http://127.0.0.1:",
        "function",
        "SLO ms",
        "base64",
        "Meanfield (mf)",
        "PPO alone (ppo)",
        "One minute of scarcity",
        "yields",
        "clairvoyant plan",
        "Simulated",
        "index.html",
    ] {
        assert!(output.contains(part), "{part} is missing:\n{output}");
    }
    assert_report(first.path(), 3, 4);

    run("3", &SMALL, again.path());
    let mut files: Vec<_> = fs::read_dir(first.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
    files.sort();
    assert_eq!(files.len(), PLOTS.len() + 3, "{files:?}");
    for file in files {
        let [first, again] = [&first, &again].map(|report| fs::read(report.path().join(&file)).unwrap());
        assert!(first == again, "{file:?} differs for the same seed");
    }

    run("4", &SMALL, other.path());
    assert_ne!(summary(first.path())["policies"], summary(other.path())["policies"]);
}

#[test]
fn the_trained_network_serves_as_an_agent() {
    let (report, data) = (tempdir().unwrap(), tempdir().unwrap());
    run("3", &SMALL, report.path());
    let coordinator = Coordinator::start(data.path(), &[]);
    let model = report.path().join("model.safetensors");
    let mut agent = coordinator.agent(&["--policy", "ppo", "--model", model.to_str().unwrap(), "--steps", "3"]);
    assert_eq!(agent.wait().code(), Some(0));
    assert!(coordinator.metrics().contains("meanfield_coordinator_heartbeats_total 3"));
}

#[test]
fn the_coordinator_can_be_watched_while_the_demo_runs() {
    let demo = Process::start(&["demo", "--agents", "2", "--episodes", "100000"]);
    let url = eventually("the demo prints its coordinator's address", || {
        let output = demo.output();
        let (_, rest) = output.split_once("try ")?;
        Some(rest.split_once(' ')?.0.to_owned())
    });
    let http = Http::new();
    let heartbeats = || -> Option<u64> {
        let metrics = http.request(Method::GET, &url);
        metrics.lines().find_map(|line| line.strip_prefix("meanfield_coordinator_heartbeats_total ")?.parse().ok())
    };
    let first = eventually("training begins", || heartbeats().filter(|&count| count > 0));
    eventually("training goes on", || heartbeats().filter(|&count| count > first));
}

#[test]
#[ignore = "minutes long in a debug build: tests/run starts it with a release build"]
fn the_quick_demo_ends_with_a_whole_report() {
    let report = tempdir().unwrap();
    println!("{}", run("1", &["--quick"], report.path()));
    assert_report(report.path(), 1, 12);

    // And the agents have learnt: an untrained network misses about a third of the windows.
    let summary: Value = serde_json::from_slice(&fs::read(report.path().join("summary.json")).unwrap()).unwrap();
    let rewards: Vec<f64> =
        summary["training"].as_array().unwrap().iter().map(|point| point["reward"].as_f64().unwrap()).collect();
    let mean = |rewards: &[f64]| rewards.iter().sum::<f64>() / rewards.len() as f64;
    let (first, last) = (mean(&rewards[..10]), mean(&rewards[rewards.len() - 10..]));
    assert!(last > first + 1.0, "reward went from {first} to {last}");
    let missed = |policy: usize| summary["policies"][policy]["total"]["slo_violation_rate_windows"].as_f64().unwrap();
    assert!(missed(1) < 0.05, "the network that learnt: {}", missed(1));
    assert!(missed(0) < 0.01, "Meanfield: {}", missed(0));
}
