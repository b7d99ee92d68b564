//! Agents and coordinators that are killed, stopped, restarted and paused.

use std::process::ExitStatus;

use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Coordinator, Process, eventually};

const FUNCTIONS: [&str; 3] = ["base64", "primes", "uploader"];

/// Nobody is gone by accident, however slow the machine is.
const PATIENT: [&str; 4] = ["--suspect-after", "5s", "--gone-after", "10m"];

fn agents(coordinator: &Coordinator) -> Vec<Process> {
    FUNCTIONS.iter().map(|function| coordinator.agent(&["--function", function])).collect()
}

/// Kills a coordinator and waits until the agents have noticed; they do not stop.
fn kill(coordinator: &mut Coordinator, agents: &mut [Process]) {
    coordinator.process.kill();
    for agent in agents {
        agent.logs("going on alone");
        assert!(agent.is_running());
    }
}

fn assert_clean(status: ExitStatus) {
    assert_eq!(status.code(), Some(0), "{status}");
}

#[test]
fn a_killed_coordinator_goes_on_where_it_was() {
    let data = tempdir().unwrap();
    let mut coordinator = Coordinator::start(data.path(), &PATIENT);
    let mut agents = agents(&coordinator);
    let before = coordinator.await_members(&FUNCTIONS, 5);
    kill(&mut coordinator, &mut agents);

    let coordinator = coordinator.restart(data.path(), &PATIENT);
    let further = before.values().filter_map(|member| member.sequence).max().unwrap() + 5;
    let after = coordinator.await_members(&FUNCTIONS, further);
    for (name, member) in after {
        let before = &before[&name];
        assert_eq!((&member.id, member.epoch), (&before.id, before.epoch), "{name} did not have to register again");
    }
    for agent in &mut agents {
        agent.logs("the coordinator is back");
        assert!(agent.is_running());
    }
}

#[test]
fn agents_register_again_with_a_coordinator_that_forgot_them() {
    let (data, empty) = (tempdir().unwrap(), tempdir().unwrap());
    let mut coordinator = Coordinator::start(data.path(), &PATIENT);
    let mut agents = agents(&coordinator);
    coordinator.await_members(&FUNCTIONS, 5);
    kill(&mut coordinator, &mut agents);

    let coordinator = coordinator.restart(empty.path(), &PATIENT);
    let members = coordinator.await_members(&FUNCTIONS, 5);
    assert!(members.values().all(|member| member.epoch == 1), "{members:?}");
    for agent in &mut agents {
        agent.logs("not a member any more: registering again");
        assert!(agent.is_running());
    }
}

#[test]
fn those_that_are_asked_to_stop_say_goodbye() {
    let data = tempdir().unwrap();
    let mut coordinator = Coordinator::start(data.path(), &PATIENT);
    let mut agents = agents(&coordinator);
    coordinator.await_members(&FUNCTIONS, 1);

    assert_clean(agents[0].terminate());
    agents[0].logs("left");
    let members = coordinator.members();
    assert!(!members.contains_key(FUNCTIONS[0]) && members.len() == 2, "it has left when it ends: {members:?}");

    assert_clean(coordinator.process.terminate());
    for line in ["SIGTERM", "shutting down", "all requests have finished", "the store is flushed"] {
        coordinator.process.logs(line);
    }
    assert!(!coordinator.process.log().contains('\x1b'), "colours are for terminals");
    for agent in &mut agents[1..] {
        agent.logs("going on alone");
        assert_clean(agent.terminate());
    }
}

#[test]
fn a_killed_agent_is_suspect_and_then_gone() {
    let data = tempdir().unwrap();
    let coordinator = Coordinator::start(data.path(), &["--suspect-after", "1s", "--gone-after", "5s"]);
    let mut agents = agents(&coordinator);
    coordinator.await_members(&FUNCTIONS, 1);
    agents[0].kill();
    coordinator.await_members(&FUNCTIONS[1..], 1);
    for state in ["suspect", "gone"] {
        eventually(&format!("{} is {state}", FUNCTIONS[0]), || {
            let log = coordinator.process.log();
            log.lines().any(|line| line.contains(FUNCTIONS[0]) && line.contains(&format!("is {state}"))).then_some(())
        });
    }
}

/// Whether an agent changes something within its next heartbeats. Awaits twenty of them, or a change.
fn changes(coordinator: &Coordinator, name: &str) -> bool {
    let mut seen = coordinator.member(name).unwrap();
    let last = seen.sequence.unwrap_or_default() + 20;
    loop {
        let next = eventually(&format!("a heartbeat of {name} after {:?}", seen.sequence), || {
            coordinator.member(name).filter(|member| member.sequence > seen.sequence)
        });
        let limits = |key: &str| [&seen, &next].map(|member| member.local.as_ref().map(|local| local[key]));
        let held = ["cpu_limit", "memory_limit", "replicas"].iter().all(|key| {
            let [before, after] = limits(key);
            before.is_none() || before == after
        });
        if !held || next.action.iter().flatten().any(|(_, &step)| step != 0) {
            return true;
        }
        if next.sequence >= Some(last) {
            return false;
        }
        seen = next;
    }
}

/// Waits until an agent changes something, or until it changes nothing any more.
fn await_changes(coordinator: &Coordinator, name: &str, wanted: bool) {
    eventually(&format!("{name} changes something: {wanted}"), || (changes(coordinator, name) == wanted).then_some(()));
}

#[test]
fn a_pause_reaches_the_agents_and_outlives_the_coordinator() {
    let data = tempdir().unwrap();
    let mut coordinator = Coordinator::start(data.path(), &PATIENT);
    let (all_paused, [name, ..]) = (|c: &Coordinator| c.get::<Value>("/v1/pools")["paused"] == true, FUNCTIONS);
    let mut agents = agents(&coordinator);
    coordinator.await_members(&FUNCTIONS, 1);
    await_changes(&coordinator, name, true);

    coordinator.post("/v1/pause");
    await_changes(&coordinator, name, false);
    kill(&mut coordinator, &mut agents);

    let coordinator = coordinator.restart(data.path(), &PATIENT);
    coordinator.await_members(&FUNCTIONS, 1);
    assert!(all_paused(&coordinator) && coordinator.members().values().all(|member| member.paused));
    assert!(!changes(&coordinator, name), "nobody took a breath in between");

    coordinator.post("/v1/resume");
    assert!(!all_paused(&coordinator) && coordinator.members().values().all(|member| !member.paused));
    await_changes(&coordinator, name, true);
}
