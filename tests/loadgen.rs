//! `meanfield loadgen swarm` against a real coordinator.

use std::fs;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Coordinator, Process};

/// Runs a swarm to its end: its exit code, its result and what it printed.
fn swarm(coordinator: &Coordinator, flags: &[&str]) -> (Option<i32>, Value, String) {
    let results = tempdir().unwrap();
    let path = results.path().join("result.json");
    let url = coordinator.url();
    let common = ["loadgen", "swarm", "--coordinator", &url, "--json", path.to_str().unwrap()];
    let mut process = Process::start_with(&[&common[..], flags].concat(), &[("MEANFIELD_TOKEN", coordinator.token())]);
    let code = process.wait().code();
    let result = fs::read_to_string(&path).map(|text| serde_json::from_str(&text).unwrap()).unwrap_or_default();
    (code, result, process.output() + &process.log())
}

#[test]
fn a_swarm_reports_churns_and_misbehaves_and_every_answer_is_as_it_should_be() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &[]);
    for batch in ["1", "50"] {
        let flags = ["--agents", "200", "--rate", "400", "--duration", "1500ms", "--connections", "4", "--churn", "20"];
        let bad = ["--misbehave", "nan,epoch,replay,flood", "--misbehave-share", "0.2", "--batch", batch];
        let (code, result, printed) = swarm(&coordinator, &[&flags[..], &bad[..]].concat());
        assert_eq!((code, &result["unexpected"]), (Some(0), &Value::from(0)), "{printed}\n{result}");
        let count = |name: &str| result[name].as_u64().unwrap();
        assert!(
            count("taken") > 400 && count("refused") > 50 && count("joined") > 10 && count("left") > 10,
            "{result}"
        );
        let requests = if batch == "1" { 600 } else { 12 };
        assert_eq!(result["latency_ms"]["count"], requests, "one for each planned request");
        assert!(result["latency_ms"]["p99"].as_f64() >= result["service_ms"]["p99"].as_f64(), "{result}");
        assert!(printed.contains("from when it was due"), "{printed}");
    }
    // Everybody has reported, and so has one more if the last to join has not left.
    let count = coordinator.mean_field_count();
    assert!((200..=202).contains(&count), "{count}");
}

#[test]
fn what_is_refused_although_it_is_good_makes_it_fail() {
    let data = tempdir().unwrap();
    // Agents that are gone after a moment, and report less often than that.
    let coordinator = Coordinator::start(data.path(), &["--suspect-after", "20ms", "--gone-after", "40ms"]);
    let flags = ["--agents", "50", "--rate", "50", "--duration", "3s", "--connections", "2"];
    let (code, result, printed) = swarm(&coordinator, &flags);
    assert_eq!(code, Some(1), "{printed}");
    assert!(result["unexpected"].as_u64() > Some(0) && printed.contains("unknown-agent"), "{printed}");
}

#[test]
fn only_this_machine_is_loaded_unless_told_otherwise() {
    let url = ["--coordinator", "http://192.0.2.1:7600", "--token", "not-that-anybody-would-ask-for-it"];
    let mut process = Process::start(&[&["loadgen", "swarm"][..], &url[..]].concat());
    assert_eq!(process.wait().code(), Some(64));
    assert!(process.log().contains("--beyond-loopback"), "{}", process.log());
}
