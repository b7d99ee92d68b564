//! Running agents go over to the version of their base model that is served to them, and back.

use meanfield_common::digest::Digest;
use meanfield_learner::{ActorCritic, Config};
use reqwest::Method;
use serde_json::{Value, json};
use tempfile::tempdir;

use crate::support::{Coordinator, Process, eventually};

const PATIENT: [&str; 4] = ["--suspect-after", "5s", "--gone-after", "10m"];

fn file(version: u64) -> Vec<u8> {
    ActorCritic::new(Config::preset_default(), version).unwrap().save().unwrap()
}

fn serve(coordinator: &Coordinator, serving: &Value) {
    coordinator.order(Method::PUT, "/v1/models/cpu/serving", serving);
}

/// The version that an agent has said last that it decides with.
fn version(agent: &Process) -> Option<u64> {
    let log = agent.log();
    let says = |line: &&str| line.contains("starting from the base model") || line.contains("going over to");
    let last = log.lines().rfind(says)?.rsplit_once("version=")?.1;
    last.split_whitespace().next()?.parse().ok()
}

#[track_caller]
fn all_have(agents: &[(String, Process)], wanted: impl Fn(&str) -> u64) {
    for (name, agent) in agents {
        let wanted = wanted(name);
        eventually(&format!("{name} has version {wanted}"), || (version(agent) == Some(wanted)).then_some(()));
    }
}

/// Whether an agent is among the canaries of a share, computed apart from the coordinator.
fn tries(name: &str, share: f64) -> bool {
    let [a, b, c, d, ..] = *Digest::of(format!("default/{name}").as_bytes()).bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / 2_f64.powi(32) < share
}

#[test]
fn running_agents_follow_promotion_canary_and_roll_back_but_for_those_that_are_pinned() {
    let (data, kept) = (tempdir().unwrap(), tempdir().unwrap());
    let mut coordinator = Coordinator::start(data.path(), &PATIENT);
    for version in 1..=3 {
        coordinator.upload(Method::POST, "/v1/models/cpu", file(version));
    }
    let ppo = |name: &str, more: &[&str]| {
        let flags = ["--function", "primes", "--policy", "ppo", "--name", name];
        coordinator.agent(&[flags.as_slice(), more].concat())
    };
    let agents: Vec<_> =
        (0..4).map(|one| format!("follower-{one}")).map(|name| (name.clone(), ppo(&name, &[]))).collect();
    let path = kept.path().join("own.safetensors");
    std::fs::write(&path, file(1)).unwrap();
    let others = [
        ppo("pinned", &["--base-version", "1"]),
        ppo("own", &["--model", path.to_str().unwrap()]),
        ppo("class", &["--class", "checkout"]),
    ];
    all_have(&agents, |_| 1);
    others[0].logs("version=1");
    others[2].logs("version=1");

    serve(&coordinator, &json!({"version": 2}));
    all_have(&agents, |_| 2);
    let share = 0.35;
    let canaries = agents.iter().filter(|(name, _)| tries(name, share)).count();
    assert!((1..4).contains(&canaries), "names that tell the share apart: {canaries}");
    serve(&coordinator, &json!({"version": 2, "canary": {"version": 3, "share": share}}));
    all_have(&agents, |name| if tries(name, share) { 3 } else { 2 });

    // A coordinator that is killed says the same afterwards, so nobody changes anything.
    coordinator.process.kill();
    agents[0].1.logs("going on alone");
    let coordinator = coordinator.restart(data.path(), &PATIENT);
    agents[0].1.logs("the coordinator is back");
    all_have(&agents, |name| if tries(name, share) { 3 } else { 2 });

    coordinator.post("/v1/models/cpu/rollback");
    all_have(&agents, |_| 2);
    serve(&coordinator, &json!({"version": 1}));
    all_have(&agents, |_| 1);

    // A model of the class counts more than that of the category as soon as there is one.
    coordinator.upload(Method::POST, "/v1/models/checkout", file(4));
    others[2].logs("model=checkout");
    for stays in &others[..2] {
        assert!(!stays.log().contains("going over to"), "{}", stays.log());
    }
}
