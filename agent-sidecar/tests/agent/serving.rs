//! A network that decides: the same way every time when it serves, and at its own cost when it picks what is illegal.

use std::sync::Arc;

use meanfield_agent::{
    agent::Agent,
    environment::Alone,
    policy::{Policy, ppo::Ppo},
};
use meanfield_common::{action::Action, reward::Shape};
use meanfield_learner::{ActorCritic, Config};

use crate::support::{Coordinator, Event, Log, Scripted, now, pinned, pool, preserving};

fn network(config: Config, seed: u64) -> Arc<ActorCritic> {
    Arc::new(ActorCritic::new(config, seed).unwrap())
}

#[test]
fn serving_decides_the_same_way_every_time_and_records_nothing() {
    let day = |policy: Ppo| {
        let (environment, target) = Alone::new("cart".parse().unwrap(), 0, 60, 3).unwrap();
        let mut agent = Agent::new(target, environment, Coordinator::default(), pool(), policy, Shape::BALANCED);
        let reports: Vec<_> = (0..60).map(|_| format!("{:?}", now(agent.step(None)).unwrap())).collect();
        (reports, agent.policy_mut().take_episode().unwrap().is_some())
    };
    for config in [Config::preset_default(), Config::paper()] {
        let network = network(config, 5);
        let (first, recorded) = day(Ppo::serving(network.clone()));
        assert!(!recorded);
        assert_eq!(day(Ppo::serving(network.clone())), (first.clone(), false));
        assert_ne!(day(Ppo::exploring(network.clone(), 1)).0, first);
        assert_eq!(day(Ppo::exploring(network.clone(), 1)), day(Ppo::exploring(network, 1)));
    }
}

#[test]
fn without_masks_an_illegal_pick_changes_nothing_and_costs_the_penalty() {
    let log = Log::default();
    let environment = Scripted::new(&log, |_| preserving(1.0));
    let policy = Ppo::exploring(network(Config::paper(), 1), 1);
    let shape = Shape::Paper { alpha: 1.0 };
    // Six of seven actions would move a lever, and none can move.
    let mut agent = Agent::new(pinned(), environment, Coordinator::default(), pool(), policy, shape);
    let reports: Vec<_> = (0..200).map(|_| now(agent.step(None)).unwrap()).collect();
    assert!(reports.iter().all(|report| report.action == Action::HOLD));
    assert!(!log.lock().iter().any(|event| matches!(event, Event::Actuated(_))));
    let fined = reports.iter().filter(|report| report.reward == 0.0).count();
    assert_eq!(reports.iter().filter(|report| report.reward == 1.0).count(), 200 - fined);
    assert!((150..195).contains(&fined), "{fined} of 200 near 6/7");
}

#[test]
fn with_masks_nothing_illegal_is_ever_picked() {
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let policy = Ppo::exploring(network(Config::preset_default(), 1), 1);
    let shape = Shape::Paper { alpha: 1.0 };
    let mut agent = Agent::new(pinned(), environment, Coordinator::default(), pool(), policy, shape);
    assert!((0..200).all(|_| now(agent.step(None)).unwrap().reward == 1.0));
}

#[test]
fn a_network_of_another_configuration_starts_a_new_record() {
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let policy = Ppo::exploring(network(Config::paper(), 1), 1);
    let mut agent = Agent::new(pinned(), environment, Coordinator::default(), pool(), policy, Shape::PAPER);
    let mut steps = |count: usize, network: Option<Arc<ActorCritic>>| {
        for _ in 0..count {
            now(agent.step(None)).unwrap();
        }
        if let Some(network) = network {
            agent.policy_mut().set_network(network);
        }
        agent.policy_mut().settled()
    };
    assert_eq!(steps(5, Some(network(Config::paper(), 2))), 4, "the same shape goes on");
    assert_eq!(steps(1, Some(network(Config::preset_default(), 1))), 0);
    assert_eq!(steps(5, None), 4);
    assert_eq!(agent.policy_mut().take_episode().unwrap().unwrap().segment.len(), 4);
    assert_eq!(agent.policy_mut().name(), "ppo");
}
