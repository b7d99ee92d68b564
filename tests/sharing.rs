//! A forecast network that an operator gives to a pool reaches its agents, and stays.

use meanfield_learner::forecast::Network;
use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Coordinator, Process};

const PATH: &str = "/v1/pools/default/forecast";
const PATIENT: [&str; 4] = ["--suspect-after", "5s", "--gone-after", "10m"];

/// What the coordinator shows of the pool's network.
fn shown(coordinator: &Coordinator) -> Value {
    coordinator.get::<Value>("/v1/pools/default")["forecast"].clone()
}

#[track_caller]
fn logs_use_of(agent: &Process, network: &Value) {
    agent.logs("using the forecast network of the pool");
    agent.logs(network["digest"].as_str().unwrap());
}

#[test]
fn a_network_reaches_the_agents_and_outlives_the_coordinator() {
    let data = tempdir().unwrap();
    let mut coordinator = Coordinator::start(data.path(), &PATIENT);
    let mut agent = coordinator.agent(&["--function", "primes"]);
    let other = coordinator.agent(&["--function", "base64", "--policy", "plan"]);
    coordinator.await_members(&["primes", "base64"], 3);
    assert_eq!(shown(&coordinator), Value::Null);

    let mut network = Network::new(7);
    network.provenance = "made in a test".to_owned();
    coordinator.put(PATH, network.save().unwrap());
    let before = shown(&coordinator);
    assert_eq!(before["provenance"], "made in a test");
    logs_use_of(&agent, &before);

    coordinator.process.kill();
    agent.logs("going on alone");
    let coordinator = coordinator.restart(data.path(), &PATIENT);
    assert_eq!(shown(&coordinator), before);
    let late = coordinator.agent(&["--function", "uploader"]);
    logs_use_of(&late, &before);

    coordinator.delete(PATH);
    for agent in [&agent, &late] {
        agent.logs("using the shipped one");
    }
    assert!(agent.is_running());
    assert!(!other.log().contains("forecast network"), "who does not forecast does not ask");
}
