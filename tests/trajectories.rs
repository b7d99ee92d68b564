//! What agents record reaches the coordinator's database: each step once, without gaps, whatever is killed meanwhile.

use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Coordinator, eventually};

const PATIENT: [&str; 4] = ["--suspect-after", "5s", "--gone-after", "10m"];

/// Every step of the export: epoch, episode, step, and the states before and after as they were written.
fn steps(coordinator: &Coordinator) -> Vec<(u64, u64, u64, String, String)> {
    let text = coordinator.text("/v1/trajectories/export?format=csv");
    let mut lines = text.lines();
    let header: Vec<_> = lines.next().unwrap().split(',').collect();
    let column = |name: &str| header.iter().position(|found| *found == name).unwrap_or_else(|| panic!("{header:?}"));
    let states = |prefix: &str| {
        let fields = ["slo_preservation", "cpu_utilisation", "memory_utilisation", "arrival_change"];
        let levers = ["cpu_limit", "memory_limit", "replicas"];
        fields.iter().chain(&levers).map(|name| column(&format!("{prefix}{name}"))).collect::<Vec<_>>()
    };
    let (before, after) = (states(""), states("next_"));
    let [epoch, episode, step] = ["epoch", "episode", "step"].map(column);
    let mut steps: Vec<_> = lines
        .map(|line| {
            let cells: Vec<_> = line.split(',').collect();
            let number = |at: usize| cells[at].parse::<u64>().unwrap();
            let joined = |at: &[usize]| at.iter().map(|at| cells[*at]).collect::<Vec<_>>().join(" ");
            (number(epoch), number(episode), number(step), joined(&before), joined(&after))
        })
        .collect();
    steps.sort();
    steps
}

/// Each place once, from the first one on, and each state is what the step before led to.
fn assert_contiguous(steps: &[(u64, u64, u64, String, String)]) {
    for (number, step) in steps.iter().enumerate() {
        let number = number as u64;
        assert_eq!((step.1, step.2), (1 + number / 240, number % 240), "in epoch {}", step.0);
    }
    for pair in steps.windows(2) {
        assert_eq!(pair[0].4, pair[1].3, "{:?} leads to {:?}", pair[0], pair[1]);
    }
}

#[test]
fn every_step_is_there_once_after_a_kill_and_the_last_ones_after_a_goodbye() {
    let data = tempdir().unwrap();
    let mut coordinator = Coordinator::start(data.path(), &PATIENT);
    let mut agent = coordinator.agent(&["--function", "primes"]);
    let off = coordinator.agent(&["--function", "base64", "--trajectories", "off"]);
    let stored = |coordinator: &Coordinator, least: usize| {
        eventually(&format!("{least} steps are stored"), || {
            let steps = steps(coordinator);
            (steps.len() >= least).then_some(steps)
        })
    };
    let before = stored(&coordinator, 30);
    assert_contiguous(&before);

    coordinator.process.kill();
    agent.logs("going on alone");
    let coordinator = coordinator.restart(data.path(), &PATIENT);
    let after = stored(&coordinator, before.len() + 60);
    assert_contiguous(&after);
    assert!(after.starts_with(&before), "what was acknowledged is still there, and there once");

    assert!(agent.terminate().success());
    agent.logs("handed in every recorded step");
    assert!(!agent.log().contains("dropped"), "{}", agent.log());
    let all = steps(&coordinator);
    assert_contiguous(&all);
    let told: u64 = {
        let log = agent.log();
        let line = log.lines().find(|line| line.contains("handed in every recorded step")).unwrap().to_owned();
        line.rsplit_once("stored=").unwrap().1.trim().parse().unwrap()
    };
    assert_eq!(told, all.len() as u64, "as many as the agent says");

    // A process that starts again counts from the beginning, under another registration.
    let mut again = coordinator.agent(&["--function", "primes"]);
    eventually("steps of the second registration", || {
        let both = steps(&coordinator);
        (both.len() > all.len()).then_some(both)
    });
    assert!(again.terminate().success());
    let both = steps(&coordinator);
    let (first, second): (Vec<_>, Vec<_>) = both.into_iter().partition(|step| step.0 == all[0].0);
    assert_eq!(first, all);
    assert_contiguous(&second);

    let page: Value = coordinator.get("/v1/trajectories");
    let agents: std::collections::BTreeSet<_> =
        page["episodes"].as_array().unwrap().iter().map(|episode| episode["agent"].to_string()).collect();
    assert_eq!(agents.len(), 1, "who has it off hands in nothing: {page}");
    drop(off);
}
