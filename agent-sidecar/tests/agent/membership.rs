//! Losing the coordinator, coming back, and being told to stop.

use std::{
    future::{pending, ready},
    sync::Arc,
    time::Duration,
};

use meanfield_agent::{
    Error,
    agent::Agent,
    daemon,
    environment::{self, Environment},
    link,
    policy::{Decision, ppo::Ppo},
};
use meanfield_common::{
    identity::{Epoch, Sequence},
    observation::Observation,
    resources::{MilliCores, Scale},
    reward::Shape,
};
use meanfield_learner::{ActorCritic, Batch, Config};

use crate::support::{Coordinator, Event, Log, Scripted, Wishes, now, pool, preserving, refused, target, unreachable};

const SP: Shape = Shape::Paper { alpha: 1.0 };

fn agent(coordinator: &Coordinator, policy: Wishes) -> Agent<Scripted, Coordinator, Wishes> {
    let environment = Scripted::new(&coordinator.log, |_| preserving(1.0));
    Agent::new(target(), environment, coordinator.clone(), pool(), policy, SP)
}

/// The error as an operator reads it.
fn told(error: &Error) -> String {
    let source = std::error::Error::source(error).map(|source| format!(": {source}")).unwrap_or_default();
    format!("{error}{source}")
}

#[test]
fn an_exploring_agent_loses_no_step_of_its_episode_while_the_coordinator_is_away() {
    let config = Config { gamma: 0.0, team_share: 1.0, mask_actions: true, ..Config::paper() };
    let policy = Ppo::exploring(Arc::new(ActorCritic::new(config.clone(), 1).unwrap()), 1);
    let environment = Scripted::new(&Log::default(), |step| preserving(1.0 / (step + 1) as f64));
    let coordinator = Coordinator::default();
    // No lever can move, so no penalty ever joins the reward.
    let target = crate::support::pinned();
    let mut agent = Agent::new(target, environment, coordinator.clone(), pool(), policy, SP);
    for step in 0..13_u32 {
        coordinator.fails_with((4..10).contains(&step).then(unreachable));
        let report = now(agent.step(None)).unwrap();
        assert_eq!(report.connected, !(4..10).contains(&step));
    }
    let episode = agent.policy_mut().take_episode().unwrap().unwrap();
    let mut batch = Batch::new(&config, 12);
    batch.push_segment(&episode.segment, episode.bootstrap).unwrap();
    // Alone in its pool the team's reward is its own, so that nothing shows where it stood in for the team's.
    let expected: Vec<f32> = (1..13).map(|step| 1.0 / (step + 1) as f32).collect();
    assert_eq!(batch.len(), 12);
    for (got, expected) in batch.returns().iter().zip(expected) {
        assert!((got - expected).abs() < 1e-6, "{:?}", batch.returns());
    }
}

#[test]
fn what_was_heard_last_holds_while_the_coordinator_is_away() {
    let coordinator = Coordinator::default();
    let heard = Arc::new(parking_lot::Mutex::new(Vec::new()));
    let sink = heard.clone();
    let policy = Wishes::new(&Log::default(), move |view| {
        sink.lock().push(view.auxiliary.clone());
        Decision::wish(view.seen.scale)
    });
    let mut first = agent(&coordinator, policy);
    let mut other = {
        let environment = Scripted::new(&Log::default(), |_| preserving(0.5));
        let target = environment::Target { name: "shop/other".parse().unwrap(), ..target() };
        Agent::new(target, environment, coordinator.clone(), pool(), Wishes::hold(), SP)
    };
    now(other.step(None)).unwrap();
    now(first.step(None)).unwrap();
    coordinator.fails_with(Some(unreachable()));
    for _ in 0..3 {
        now(first.step(None)).unwrap();
    }
    let heard = heard.lock();
    assert_eq!((heard[0].others, heard[0].slo_preservation.mean), (1, 0.5));
    assert_eq!(heard.len(), 4);
    assert!(heard.iter().all(|g| g == &heard[0]));
}

#[test]
fn a_forgotten_agent_registers_again_within_the_step_and_counts_from_one() {
    let coordinator = Coordinator::default();
    let mut agent = agent(&coordinator, Wishes::hold());
    for _ in 0..3 {
        now(agent.step(None)).unwrap();
    }
    coordinator.forgets_everybody();
    assert!(now(agent.step(None)).unwrap().connected);
    assert_eq!(agent.membership().epoch(), Some(Epoch(2)));
    let beats: Vec<_> = coordinator.heard().iter().map(|beat| (beat.epoch, beat.sequence)).collect();
    let expected = [(1, 1), (1, 2), (1, 3), (2, 1)].map(|(epoch, sequence)| (Epoch(epoch), Sequence(sequence)));
    assert_eq!(beats, expected);
}

#[test]
fn sequences_go_on_after_an_outage_without_a_new_registration() {
    let coordinator = Coordinator::default();
    let mut agent = agent(&coordinator, Wishes::hold());
    for away in [false, true, true, false] {
        coordinator.fails_with(away.then(unreachable));
        assert_eq!(now(agent.step(None)).unwrap().connected, !away);
    }
    assert_eq!(agent.membership().epoch(), Some(Epoch(1)));
    assert_eq!(coordinator.heard()[1].sequence, Sequence(4));
}

#[test]
fn a_coordinator_that_is_away_from_the_start_is_joined_when_it_comes() {
    let coordinator = Coordinator::default();
    coordinator.fails_with(Some(unreachable()));
    let mut agent = agent(&coordinator, Wishes::hold());
    assert!(!now(agent.step(None)).unwrap().connected);
    assert_eq!(agent.membership().epoch(), None);
    coordinator.fails_with(None);
    assert!(now(agent.step(None)).unwrap().connected);
}

#[test]
fn a_refusal_ends_the_loop_and_says_why() {
    for (trouble, text) in [
        (link::Error::Superseded, "superseded by a newer registration of the same name"),
        (refused("pool: \"x\" is not known"), "refused: pool: \"x\" is not known"),
    ] {
        let coordinator = Coordinator::default();
        let mut agent = agent(&coordinator, Wishes::hold());
        now(agent.step(None)).unwrap();
        coordinator.fails_with(Some(trouble));
        let error = now(agent.step(None)).unwrap_err();
        assert_eq!(told(&error), format!("the coordinator will not have this agent: {text}"));
    }
}

#[test]
fn a_second_process_of_the_same_name_supersedes_the_first() {
    let coordinator = Coordinator::default();
    let (mut first, mut second) = (agent(&coordinator, Wishes::hold()), agent(&coordinator, Wishes::hold()));
    now(first.step(None)).unwrap();
    now(second.step(None)).unwrap();
    assert!(matches!(now(first.step(None)), Err(Error::Link(link::Error::Superseded))));
    now(second.step(None)).unwrap();
}

#[test]
fn leaving_works_with_the_coordinator_away_and_without_having_joined() {
    let coordinator = Coordinator::default();
    let mut agent = agent(&coordinator, Wishes::hold());
    now(agent.leave()).unwrap();
    now(agent.step(None)).unwrap();
    coordinator.fails_with(Some(unreachable()));
    now(agent.leave()).unwrap();
    coordinator.fails_with(None);
    now(agent.step(None)).unwrap();
    now(agent.leave()).unwrap();
    assert_eq!(coordinator.members(), 0);
}

#[tokio::test]
async fn a_daemon_steps_so_often_then_leaves() {
    let coordinator = Coordinator::default();
    let mut agent = agent(&coordinator, Wishes::hold());
    daemon::run(&mut agent, Duration::from_millis(1), Some(3), pending()).await.unwrap();
    assert_eq!(coordinator.heard().len(), 3);
    assert_eq!(coordinator.log.lock().last(), Some(&Event::Left));
}

#[tokio::test]
async fn a_daemon_that_is_told_to_stop_takes_no_further_step() {
    let coordinator = Coordinator::default();
    let mut agent = agent(&coordinator, Wishes::hold());
    daemon::run(&mut agent, Duration::from_millis(1), None, ready(())).await.unwrap();
    assert_eq!(*coordinator.log.lock(), []);
    let error = daemon::run(&mut agent, Duration::ZERO, None, ready(())).await.unwrap_err();
    assert_eq!(told(&error), "invalid input: interval: 0s is not above 0");
}

/// A workload that is deleted after its first step.
struct Deleted(bool);

impl Environment for Deleted {
    async fn observe(&mut self) -> Result<Observation, environment::Error> {
        let gone = std::mem::replace(&mut self.0, true);
        if gone { Err(environment::Error::Gone("shop/cart".parse().unwrap())) } else { Ok(preserving(1.0)) }
    }

    async fn actuate(&mut self, _: Scale, _: Option<MilliCores>) -> Result<(), environment::Error> {
        Ok(())
    }
}

#[tokio::test]
async fn a_daemon_whose_workload_is_gone_leaves_the_pool_and_fails() {
    let coordinator = Coordinator::default();
    let mut agent = Agent::new(target(), Deleted(false), coordinator.clone(), pool(), Wishes::hold(), SP);
    let error = daemon::run(&mut agent, Duration::from_millis(1), None, pending()).await.unwrap_err();
    assert_eq!(told(&error), "the environment failed: the workload shop/cart is gone");
    assert_eq!(coordinator.members(), 0);
}
