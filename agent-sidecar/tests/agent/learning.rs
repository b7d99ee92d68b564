//! A policy that learns while it acts.

use meanfield_agent::{agent::Agent, environment::Alone, policy::learning::Learning};
use meanfield_learner::{ActorCritic, Config, Learner};

use crate::support::{Coordinator, Scripted, now, pool, preserving, target, unreachable};

fn agent(config: &Config, coordinator: &Coordinator) -> Agent<Alone, Coordinator, Learning> {
    let (environment, target) = Alone::new("cart".parse().unwrap(), 0, 200, 1).unwrap();
    let learning = Learning::new(Learner::new(config.clone(), 1).unwrap(), 1).unwrap();
    Agent::new(target, environment, coordinator.clone(), pool(), learning, config.reward)
}

#[test]
fn the_network_changes_after_each_horizon_and_only_then() {
    let coordinator = Coordinator::default();
    let config = Config { horizon: 10, ..Config::preset_default() };
    let mut agent = agent(&config, &coordinator);
    let mut updates = Vec::new();
    let mut network: ActorCritic = agent.policy_mut().learner().network().clone();
    for step in 0..45 {
        // An outage changes nothing about learning.
        coordinator.fails_with((15..25).contains(&step).then(unreachable));
        now(agent.step(None)).unwrap();
        let now = agent.policy_mut().learner().network();
        if *now != network {
            updates.push(step);
            network = now.clone();
        }
    }
    // The reward of a decision is known one step later.
    assert_eq!(updates, [10, 20, 30, 40]);
}

#[test]
fn what_was_learnt_decides_from_then_on() {
    let reports = |learning_rate_final| {
        let config = Config { horizon: 10, learning_rate_final, ..Config::preset_default() };
        let mut agent = agent(&config, &Coordinator::default());
        (0..60).map(|_| format!("{:?}", now(agent.step(None)).unwrap())).collect::<Vec<_>>()
    };
    let (learns, stays) = (reports(0.05), reports(0.0));
    // The first update comes after the decision of step 10.
    assert_eq!(learns[..=10], stays[..=10]);
    assert_ne!(learns, stays);
}

#[test]
fn in_lock_step_with_a_team_each_decision_waits_one_round_more() {
    let config = Config { horizon: 10, ..Config::paper() };
    let mut agent = agent(&config, &Coordinator::default());
    let before = agent.policy_mut().learner().network().clone();
    for round in 0..11 {
        now(agent.step(Some(round))).unwrap();
    }
    assert_eq!(*agent.policy_mut().learner().network(), before);
    now(agent.step(Some(11))).unwrap();
    assert_ne!(*agent.policy_mut().learner().network(), before);
}

#[test]
fn a_configuration_that_does_not_fit_is_refused() {
    let config = Config { observation: 9, ..Config::paper() };
    let error = Learning::new(Learner::new(config, 1).unwrap(), 1).map(drop).unwrap_err();
    assert!(matches!(error, meanfield_agent::Error::Invalid(invalid) if invalid.field == "observation"));
}

#[test]
fn what_is_learnt_on_top_of_a_shared_network_is_shown_now_and_then_and_stays_personal() {
    let shared = ActorCritic::new(Config { horizon: 5, ..Config::preset_default() }, 3).unwrap();
    let seen = std::sync::Arc::new(parking_lot::Mutex::new(Vec::new()));
    let keep = seen.clone();
    let learning = Learning::from_shared(shared.clone(), 1).unwrap();
    assert_eq!(*learning.learner().network(), shared);
    let two = std::num::NonZero::new(2).unwrap();
    let learning = learning.kept_every(two, Box::new(move |learner| keep.lock().push(learner.save().unwrap())));
    let coordinator = Coordinator::default();
    let environment = Scripted::new(&coordinator.log, |step| preserving(1.0 / (1 + step % 3) as f64));
    let mut agent = Agent::new(target(), environment, coordinator, pool(), learning, Config::default().reward);
    for _ in 0..24 {
        now(agent.step(None)).unwrap();
    }
    let kept = seen.lock().clone();
    assert_eq!(kept.len(), 2, "24 steps are four updates");
    assert_eq!(kept[1], agent.policy_mut().learner().save().unwrap());
    assert_ne!(*agent.policy_mut().learner().network(), shared);
}
