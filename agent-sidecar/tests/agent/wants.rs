//! What an agent's network wants to know of the others: agreed on at registration, or asked for each time where the
//! coordinator is an older one.

use meanfield_agent::{
    agent::Agent,
    link,
    policy::{Decision, Feedback, Policy, View},
};
use meanfield_common::{mean_field::Aspects, reward::Shape, wire::Problem};

use crate::support::{Coordinator, Log, Scripted, now, pool, preserving, target};

/// Holds, and wants to know things.
struct Curious(Aspects);

impl Policy for Curious {
    fn name(&self) -> &'static str {
        "curious"
    }
    fn decide(&mut self, view: &View<'_>) -> Result<Decision, meanfield_agent::Error> {
        Ok(Decision::wish(view.seen.scale))
    }
    fn feedback(&mut self, _: Feedback) -> Result<(), meanfield_agent::Error> {
        Ok(())
    }
    fn wants(&self) -> Aspects {
        self.0
    }
    fn reset(&mut self) {}
}

fn agent(wants: Aspects) -> (Agent<Scripted, Coordinator, Curious>, Coordinator) {
    let coordinator = Coordinator::default();
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let shape = Shape::Paper { alpha: 1.0 };
    (Agent::new(target(), environment, coordinator.clone(), pool(), Curious(wants), shape), coordinator)
}

fn flags(coordinator: &Coordinator) -> Vec<bool> {
    coordinator.heard().iter().map(|beat| beat.detail).collect()
}

fn unknown(field: &str) -> link::Error {
    link::Error::Refused(Box::new(Problem {
        kind: "/problems/unknown-field".to_owned(),
        title: String::new(),
        status: 422,
        detail: "unknown field".to_owned(),
        field: Some(field.to_owned()),
        bound: None,
        trace_id: None,
    }))
}

#[test]
fn what_was_agreed_on_is_not_asked_for_again_and_the_rest_is() {
    let wants = Aspects::CATEGORIES | Aspects::PERCENTILES;
    for (agreed, asks) in [(wants, false), (Aspects::ALL, false), (Aspects::CATEGORIES, true), (Aspects::NONE, true)] {
        let (mut agent, coordinator) = agent(wants);
        coordinator.agrees_on(agreed);
        for _ in 0..2 {
            now(agent.step(None)).unwrap();
        }
        assert_eq!(flags(&coordinator), [asks; 2], "{agreed:?}");
        assert_eq!(coordinator.wanted(), [wants]);
    }
}

#[test]
fn who_wants_nothing_says_nothing() {
    let (mut agent, coordinator) = agent(Aspects::NONE);
    coordinator.refuses_wants(Some(unknown("wants")));
    assert!(now(agent.step(None)).unwrap().connected);
    assert_eq!((flags(&coordinator), coordinator.wanted()), (vec![false], vec![Aspects::NONE]));
}

#[test]
fn an_older_coordinator_is_asked_each_time_and_a_newer_one_at_registration() {
    let (mut agent, coordinator) = agent(Aspects::STATES);
    coordinator.refuses_wants(Some(unknown("wants")));
    for _ in 0..2 {
        assert!(now(agent.step(None)).unwrap().connected);
    }
    assert_eq!(flags(&coordinator), [true, true]);
    // It is replaced by a newer one, which has forgotten the agent.
    coordinator.refuses_wants(None);
    coordinator.agrees_on(Aspects::STATES);
    coordinator.forgets_everybody();
    assert!(now(agent.step(None)).unwrap().connected);
    assert_eq!(flags(&coordinator), [true, true, false]);
    assert_eq!(coordinator.wanted(), [Aspects::NONE, Aspects::STATES]);
}
