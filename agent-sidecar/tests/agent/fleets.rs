//! Many agents on one simulated cluster.

use meanfield_agent::{
    Error,
    fleet::{Fleet, Step, tenant_name},
    policy::{Policy, reactive::Reactive},
};
use meanfield_common::{action::Action, reward::Shape, scarcity::Weight};
use meanfield_simulator::scenario::{Scenario, Start};

use crate::support::{Coordinator, Wishes, now, pool, unreachable};

fn fleet<P: Policy>(tenants: usize, seed: u64, coordinator: &Coordinator, policy: fn() -> P) -> Fleet<Coordinator, P> {
    let scenario = Scenario::new(tenants, 60).unwrap();
    Fleet::new(&scenario, seed, Start::Random, pool(), Shape::BALANCED, |_, _| Ok((coordinator.clone(), policy())))
        .unwrap()
}

/// All that was seen, done and true, to the last bit.
fn bytes(rounds: &[Vec<Step>]) -> String {
    format!("{rounds:?}")
}

fn run(tenants: usize, seed: u64, rounds: usize) -> Vec<Vec<Step>> {
    let mut fleet = fleet(tenants, seed, &Coordinator::default(), Reactive::default);
    (0..rounds).map(|_| now(fleet.round_in_turn()).unwrap()).collect()
}

#[test]
fn the_same_seed_gives_the_same_bytes_at_once_or_in_turn() {
    let in_turn = run(5, 1, 40);
    assert_eq!(bytes(&run(5, 1, 40)), bytes(&in_turn));
    assert_ne!(bytes(&run(5, 2, 40)), bytes(&in_turn));
    let coordinator = Coordinator::default();
    let mut fleet = fleet(5, 1, &coordinator, Reactive::default);
    let at_once: Vec<_> = (0..40).map(|_| now(fleet.round()).unwrap()).collect();
    let rounds: Vec<_> = coordinator.heard().iter().filter_map(|beat| beat.round).collect();
    assert_eq!(rounds, (0..200).map(|beat| beat / 5).collect::<Vec<u64>>(), "five agents report in each round");
    assert_eq!(bytes(&at_once), bytes(&in_turn));
    assert!(in_turn.iter().flatten().any(|step| step.report.action != Action::HOLD), "something happened");
}

#[test]
fn another_tenant_changes_nobody_elses_arrivals() {
    let arrivals = |rounds: Vec<Vec<Step>>| -> Vec<Vec<f64>> {
        let first_three = |round: &Vec<Step>| round[..3].iter().map(|step| step.report.seen.arrival_rate).collect();
        rounds.iter().map(first_three).collect()
    };
    assert_eq!(arrivals(run(3, 1, 20)), arrivals(run(4, 1, 20)));
}

#[test]
fn a_tenant_that_leaves_frees_its_capacity_and_its_membership() {
    let coordinator = Coordinator::default();
    let mut fleet = fleet(2, 1, &coordinator, Wishes::hold);
    let scenario = Scenario::new(2, 60).unwrap();
    let mut spec = scenario.tenant(2, 1, Start::Sized).unwrap();
    spec.scale.replicas = 16;
    let heavy = Weight::clamped(3.0);
    assert_eq!(fleet.join(2, spec, heavy, coordinator.clone(), Wishes::hold()).unwrap().as_str(), "markdown2html");
    assert!(fleet.agents_mut().any(|(place, agent)| place == 2 && agent.target().weight == heavy));
    let rounds = |fleet: &mut Fleet<_, _>| {
        let mut last = Vec::new();
        (0..4).for_each(|_| last = now(fleet.round()).unwrap());
        last.iter().find(|step| step.place == 2).unwrap().report.seen
    };
    let crowded = rounds(&mut fleet);
    assert!(crowded.pending > 0, "sixteen replicas do not fit beside two tenants");
    assert_eq!(now(fleet.leave(1)).unwrap().unwrap().as_str(), "primes");
    assert_eq!(coordinator.members(), 2);
    let after = rounds(&mut fleet);
    assert!(after.pending < crowded.pending && after.ready > crowded.ready, "{crowded:?} {after:?}");
    assert!(now(fleet.leave(1)).unwrap().is_none(), "it is not there any more");
}

#[test]
fn a_newcomer_keeps_its_memory_until_it_has_run() {
    let coordinator = Coordinator::default();
    let mut fleet = fleet(2, 1, &coordinator, Reactive::default);
    let spec = Scenario::new(2, 60).unwrap().tenant(2, 1, Start::Sized).unwrap();
    fleet.join(2, spec, Weight::default(), coordinator, Reactive::default()).unwrap();
    assert_eq!(now(fleet.round()).unwrap()[2].report.action, Action::HOLD);
}

#[test]
fn a_new_episode_puts_every_agent_back_to_its_own_place() {
    let mut fleet = fleet(4, 1, &Coordinator::default(), Wishes::hold);
    now(fleet.leave(1)).unwrap();
    let scenario = Scenario::new(4, 60).unwrap();
    fleet.reset(&scenario, 9, Start::Sized).unwrap();
    for step in now(fleet.round()).unwrap() {
        let spec = scenario.tenant(step.place, 9, Start::Sized).unwrap();
        assert_eq!(step.report.seen.arrival_rate, spec.arrivals[0], "{}", tenant_name(step.place));
    }
    let small = Scenario::new(3, 60).unwrap();
    assert!(matches!(fleet.reset(&small, 9, Start::Sized), Err(Error::Invalid(_))), "no place for the fourth");
}

#[test]
fn a_fleet_survives_its_coordinator_and_leaves_as_one() {
    let coordinator = Coordinator::default();
    let mut fleet = fleet(3, 1, &coordinator, Reactive::default);
    for round in 0..10 {
        coordinator.fails_with((3..6).contains(&round).then(unreachable));
        let steps = now(fleet.round()).unwrap();
        assert!(steps.iter().all(|step| step.report.connected != (3..6).contains(&round)));
    }
    assert_eq!(coordinator.members(), 3);
    now(fleet.disband()).unwrap();
    assert_eq!(coordinator.members(), 0);
}

#[test]
fn names_are_numbered_from_the_second_of_a_function_on() {
    assert_eq!([0, 12, 24].map(tenant_name), ["base64", "base64-2", "base64-3"]);
}
