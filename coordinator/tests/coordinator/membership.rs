//! Epochs, sequences, deadlines, pauses and views, in process.

use std::time::Duration;

use meanfield_common::{
    identity::{Epoch, Sequence},
    mean_field::Sums,
    wire::Leave,
};
use meanfield_coordinator::{
    Clock, Coordinator, Error, Options,
    coordinator::Swept,
    view::{Filter, State},
};

use crate::support::*;

#[tokio::test]
async fn so_many_may_register_and_no_more() {
    let coordinator = Coordinator::open(Options { max_agents: 2, ..Options::default() }, Clock::manual()).unwrap();
    let a = member(&coordinator, "a").await;
    member(&coordinator, "b").await;
    let refused = coordinator.register(register("c")).await.unwrap_err();
    assert!(matches!(refused, Error::TooManyAgents(2)), "{refused}");
    // Who leaves is not forgotten, and who is known may come back.
    coordinator.leave(a.agent, Leave { epoch: a.epoch }).await.unwrap();
    assert!(coordinator.register(register("c")).await.is_err());
    assert_eq!(member(&coordinator, "a").await.agent, a.agent);
}

#[tokio::test]
async fn the_same_name_keeps_its_id_and_gets_a_new_epoch() {
    let coordinator = in_memory();
    let first = member(&coordinator, "a").await;
    let again = member(&coordinator, "a").await;
    let other = member(&coordinator, "b").await;
    assert_eq!((first.agent, first.epoch), (again.agent, Epoch(1)));
    assert_eq!(again.epoch, Epoch(2));
    assert_ne!(other.agent, first.agent);
    assert_eq!(first.heartbeat_within_ms, 45_000);
    assert_eq!(coordinator.agents().len(), 2);
}

#[tokio::test]
async fn epochs_grow_through_leaving_removal_and_silence() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(Options::default(), clock.clone()).unwrap();
    let first = member(&coordinator, "a").await;
    coordinator.leave(first.agent, Leave { epoch: first.epoch }).await.unwrap();
    assert_eq!(member(&coordinator, "a").await.epoch, Epoch(2));
    coordinator.remove(first.agent).await.unwrap();
    assert_eq!(member(&coordinator, "a").await.epoch, Epoch(3));
    clock.advance(Duration::from_secs(120));
    assert_eq!(coordinator.sweep().await.unwrap().gone, 1);
    let last = member(&coordinator, "a").await;
    assert_eq!((last.agent, last.epoch), (first.agent, Epoch(4)));
}

#[tokio::test]
async fn an_unknown_pool_is_refused_with_the_known_ones() {
    let coordinator = in_memory();
    let mut stray = register("a");
    stray.pool = pool("elsewhere");
    let Err(Error::Invalid(invalid)) = coordinator.register(stray).await else { panic!("taken") };
    assert_eq!(invalid.to_string(), "pool: elsewhere is not one of default");
}

#[tokio::test]
async fn other_epochs_are_fenced_off() {
    let coordinator = in_memory();
    let old = member(&coordinator, "a").await;
    let new = member(&coordinator, "a").await;
    let both = async |epoch| {
        let heartbeat = coordinator.heartbeat(new.agent, &beat(epoch, 1, 50)).unwrap_err();
        [heartbeat, coordinator.leave(new.agent, Leave { epoch }).await.unwrap_err()]
    };
    for refused in both(old.epoch).await {
        assert!(matches!(refused, Error::StaleEpoch { given, current } if given == old.epoch && current == new.epoch));
    }
    for refused in both(new.epoch.next()).await {
        assert!(matches!(refused, Error::UnknownAgent(agent) if agent == new.agent), "it has to register again");
    }
    assert_eq!(coordinator.pools()[0].mean_field.count, 0);
    coordinator.heartbeat(new.agent, &beat(new.epoch, 1, 50)).unwrap();
}

#[tokio::test]
async fn a_retry_is_answered_again_and_changes_nothing() {
    let coordinator = in_memory();
    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    coordinator.heartbeat(b.agent, &beat(b.epoch, 1, 20)).unwrap();
    let first = coordinator.heartbeat(a.agent, &beat(a.epoch, 5, 50)).unwrap();
    let before = coordinator.pools();
    assert_eq!(coordinator.heartbeat(a.agent, &beat(a.epoch, 5, 50)).unwrap(), first);
    let lower = coordinator.heartbeat(a.agent, &beat(a.epoch, 4, 50));
    assert!(matches!(lower, Err(Error::Replayed { given: Sequence(4), last: Sequence(5) })));
    let other = coordinator.heartbeat(a.agent, &beat(a.epoch, 5, 51));
    assert!(matches!(other, Err(Error::Conflict(Sequence(5)))));
    assert_eq!(coordinator.pools(), before);
    coordinator.heartbeat(a.agent, &beat(a.epoch, 6, 51)).unwrap();
    assert_ne!(coordinator.pools(), before);
}

#[tokio::test]
async fn real_time_answers_are_the_latest_of_the_others() {
    let coordinator = in_memory();
    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    let alone = coordinator.heartbeat(a.agent, &beat(a.epoch, 1, 80)).unwrap();
    assert_eq!((alone.auxiliary.others, alone.team_reward), (0, Some(50.0)));
    let of_b = coordinator.heartbeat(b.agent, &beat(b.epoch, 1, 40)).unwrap();
    let mut only_a = Sums::default();
    only_a.add(&contribution(&beat(a.epoch, 1, 80)));
    assert_eq!(of_b.auxiliary, only_a.auxiliary());
    assert_eq!(of_b.team_reward, Some(30.0));
    // A new epoch starts afresh.
    member(&coordinator, "b").await;
    let of_a = coordinator.heartbeat(a.agent, &beat(a.epoch, 2, 80)).unwrap();
    assert_eq!(of_a.auxiliary.others, 0);
}

#[tokio::test]
async fn silence_makes_suspect_then_gone() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(Options::default(), clock.clone()).unwrap();
    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    coordinator.heartbeat(a.agent, &beat(a.epoch, 1, 50)).unwrap();
    coordinator.heartbeat(b.agent, &beat(b.epoch, 1, 50)).unwrap();

    clock.advance(Duration::from_millis(44_999));
    assert_eq!(coordinator.sweep().await.unwrap(), Swept::default());
    clock.advance(Duration::from_millis(1));
    assert_eq!(coordinator.sweep().await.unwrap(), Swept { suspect: 2, gone: 0 });
    assert_eq!(coordinator.sweep().await.unwrap(), Swept::default(), "told once");
    assert_eq!(coordinator.agent(a.agent).unwrap().state, State::Suspect);
    assert_eq!(coordinator.agent(a.agent).unwrap().silent_ms, 45_000);
    assert_eq!(coordinator.pools()[0].mean_field.count, 2, "suspects still count");

    coordinator.heartbeat(a.agent, &beat(a.epoch, 2, 50)).unwrap();
    assert_eq!(coordinator.agent(a.agent).unwrap().state, State::Active);
    clock.advance(Duration::from_secs(45));
    assert_eq!(coordinator.sweep().await.unwrap(), Swept { suspect: 1, gone: 0 });
    coordinator.heartbeat(a.agent, &beat(a.epoch, 2, 50)).unwrap();
    let alive = coordinator.agent(a.agent).unwrap();
    assert_eq!((alive.state, alive.silent_ms), (State::Active, 0), "a retry is a sign of life");
    clock.advance(Duration::from_secs(75));
    assert_eq!(coordinator.sweep().await.unwrap(), Swept { suspect: 1, gone: 1 });
    assert!(matches!(coordinator.agent(b.agent), Err(Error::UnknownAgent(_))));
    assert!(matches!(coordinator.heartbeat(b.agent, &beat(b.epoch, 2, 50)), Err(Error::UnknownAgent(_))));
    assert_eq!(coordinator.pools()[0].mean_field.count, 1, "the gone do not");
    assert!(coordinator.audit());
}

#[tokio::test]
async fn pauses_for_one_and_for_all_are_apart() {
    let coordinator = in_memory();
    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    let mut sequence = 0;
    let mut paused = |agent: &meanfield_common::wire::Registered| {
        sequence += 1;
        coordinator.heartbeat(agent.agent, &beat(agent.epoch, sequence, 50)).unwrap().directives.paused
    };
    coordinator.pause(a.agent).await.unwrap();
    assert_eq!((paused(&a), paused(&b)), (true, false));
    coordinator.pause_all().await.unwrap();
    let late = member(&coordinator, "late").await;
    assert_eq!((paused(&b), paused(&late)), (true, true));
    coordinator.resume_all().await.unwrap();
    assert_eq!((paused(&a), paused(&b), paused(&late)), (true, false, false));
    let a = member(&coordinator, "a").await;
    assert!(paused(&a), "a new epoch is paused as well");
    coordinator.resume(a.agent).await.unwrap();
    assert!(!paused(&a));
    let unknown = late.agent;
    coordinator.remove(unknown).await.unwrap();
    assert!(matches!(coordinator.pause(unknown).await, Err(Error::UnknownAgent(_))));
    assert!(matches!(coordinator.remove(unknown).await, Err(Error::UnknownAgent(_))));
}

#[tokio::test]
async fn agents_come_in_order_and_by_page() {
    let options = Options { pools: vec![pool("west"), pool("east")], ..Options::default() };
    let coordinator = Coordinator::open(options, Clock::manual()).unwrap();
    for of in ["west", "east"] {
        for number in (0..10).rev() {
            let mut one = register(&format!("a{number}"));
            one.pool = pool(of);
            coordinator.register(one).await.unwrap();
        }
    }
    let place = |view: &meanfield_coordinator::view::AgentView| format!("{}:{}", view.pool, view.name);
    let all: Vec<_> = coordinator.agents().iter().map(place).collect();
    assert!(all.is_sorted() && all.len() == 20, "{all:?}");
    let mut paged: Vec<String> = Vec::new();
    loop {
        let after = paged.last().map(|last| last.parse().unwrap());
        let page = coordinator.page(&Filter::default(), after.as_ref(), 3);
        if page.is_empty() {
            break;
        }
        paged.extend(page.iter().map(place));
    }
    assert_eq!(paged, all);
    assert_eq!(coordinator.page(&Filter { pool: Some(pool("west")), ..Filter::default() }, None, 100).len(), 10);
}
