//! The change budget: granted out of what is left, the same when asked again, and never more in a minute than ordered.

use std::time::Duration;

use meanfield_common::{
    budget::{Budget, Moving},
    scarcity::Capacity,
    wire::{Answer, Heartbeat},
};
use meanfield_coordinator::{
    Clock, Coordinator, Error, Options,
    orders::{Order, Terms},
};
use proptest::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::*;

fn with_capacity(clock: &Clock) -> Coordinator {
    let capacities = vec![(pool("default"), Capacity::new(40.0, 160.0).unwrap())];
    Coordinator::open(Options { capacities, ..Options::default() }, clock.clone()).unwrap()
}

fn budget(coordinator: &Coordinator, percent: Option<f64>) {
    let budget = percent.map(|percent| Budget::new(percent).unwrap());
    block_on(coordinator.order(Order::Budget(pool("default"), budget), Terms::default())).unwrap();
}

fn asking(epoch: meanfield_common::identity::Epoch, sequence: u64, millicores: u32) -> Heartbeat {
    let moving = Some(Moving { millicores, mebibytes: millicores });
    Heartbeat { moving, ..beat(epoch, sequence, 50) }
}

fn granted(answer: &Answer) -> Option<u32> {
    answer.allowance.map(|allowance| allowance.millicores)
}

#[test]
fn agents_are_granted_what_is_left_and_the_same_when_they_ask_again() {
    let clock = Clock::manual();
    let coordinator = with_capacity(&clock);
    let (a, b) = (block_on(member(&coordinator, "a")), block_on(member(&coordinator, "b")));
    let answer = coordinator.heartbeat(a.agent, &asking(a.epoch, 1, 3000)).unwrap();
    assert_eq!(granted(&answer), None, "nothing is limited yet");
    assert!(!serde_json::to_string(&answer).unwrap().contains("allowance"));
    budget(&coordinator, Some(10.0));
    for _ in 0..3 {
        assert_eq!(granted(&coordinator.heartbeat(a.agent, &asking(a.epoch, 2, 3000)).unwrap()), Some(3000));
    }
    assert_eq!(granted(&coordinator.heartbeat(b.agent, &asking(b.epoch, 1, 3000)).unwrap()), Some(1000));
    assert_eq!(granted(&coordinator.heartbeat(b.agent, &beat(b.epoch, 2, 50)).unwrap()), Some(0), "who asks nothing");
    clock.advance(Duration::from_secs(61));
    assert_eq!(granted(&coordinator.heartbeat(b.agent, &asking(b.epoch, 3, 9000)).unwrap()), Some(4000));
    // A smaller capacity makes the same share of it less.
    let capacity = Capacity::new(50.0, 160.0).unwrap();
    block_on(coordinator.set_capacity(&pool("default"), Some(capacity))).unwrap();
    assert_eq!(granted(&coordinator.heartbeat(a.agent, &asking(a.epoch, 3, 9000)).unwrap()), Some(1000));
    budget(&coordinator, None);
    assert_eq!(granted(&coordinator.heartbeat(a.agent, &asking(a.epoch, 4, 9000)).unwrap()), None);
}

#[test]
fn a_pool_without_a_capacity_can_have_no_budget() {
    let coordinator = in_memory();
    let order = Order::Budget(pool("default"), Some(Budget::new(10.0).unwrap()));
    let Err(Error::Invalid(invalid)) = block_on(coordinator.order(order, Terms::default())) else { panic!("taken") };
    assert!(invalid.bound.contains("capacity"), "{invalid}");
}

#[test]
fn it_outlasts_the_capacity_that_it_is_a_part_of() {
    let clock = Clock::manual();
    let directory = tempfile::tempdir().unwrap();
    let open = |clock: &Clock| {
        let options = Options { data_dir: Some(directory.path().to_owned()), ..Options::default() };
        Coordinator::open(options, clock.clone()).unwrap()
    };
    let coordinator = open(&clock);
    let agent = block_on(member(&coordinator, "a"));
    block_on(coordinator.set_capacity(&pool("default"), Capacity::new(40.0, 160.0).ok())).unwrap();
    budget(&coordinator, Some(10.0));
    block_on(coordinator.set_capacity(&pool("default"), None)).unwrap();
    assert_eq!(granted(&coordinator.heartbeat(agent.agent, &asking(agent.epoch, 1, 9000)).unwrap()), Some(4000));
    assert_eq!(coordinator.budget(&pool("default")).unwrap().limit.unwrap().millicores, 4000, "what it was");
    drop(coordinator);

    // Nobody knows what it was.
    let coordinator = open(&clock);
    assert_eq!(granted(&coordinator.heartbeat(agent.agent, &asking(agent.epoch, 2, 9000)).unwrap()), Some(0));
    assert_eq!(coordinator.budget(&pool("default")).unwrap().limit, Some(Moving::default()));
    block_on(coordinator.set_capacity(&pool("default"), Capacity::new(20.0, 160.0).ok())).unwrap();
    assert_eq!(granted(&coordinator.heartbeat(agent.agent, &asking(agent.epoch, 3, 9000)).unwrap()), Some(2000));
    block_on(coordinator.set_capacity(&pool("default"), None)).unwrap();
    budget(&coordinator, None);
    assert_eq!(granted(&coordinator.heartbeat(agent.agent, &asking(agent.epoch, 4, 9000)).unwrap()), None);
}

#[tokio::test]
async fn it_is_shown_with_what_is_left_and_survives_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let options = || {
        let capacities = vec![(pool("default"), Capacity::new(40.0, 160.0).unwrap())];
        Options { data_dir: Some(dir.path().to_owned()), capacities, ..Options::default() }
    };
    let served = Served::start(options()).await;
    let path = "/v1/pools/default/budget";
    let none: Value = served.get(path).await.json();
    assert_eq!(none, json!({"budget": null, "limit": null, "left": null}));
    let put = |percent: f64| send(served.request(Method::PUT, path).json(&json!({ "percent": percent })));
    assert_eq!(put(25.0).await.status, 204);
    let agent = member(&served.coordinator, "a").await;
    served.coordinator.heartbeat(agent.agent, &asking(agent.epoch, 1, 4000)).unwrap();
    let amount = |cpu: u32, memory: u32| json!({ "millicores": cpu, "mebibytes": memory });
    let shown: Value = served.get(path).await.json();
    let (limit, left) = (amount(10_000, 40_960), amount(6000, 36_960));
    assert_eq!(shown, json!({"budget": {"percent": 25.0}, "limit": limit, "left": left}));
    let problem = put(101.0).await.problem();
    assert_eq!((problem.status, problem.field.as_deref()), (422, Some("percent")));
    served.ended().await.unwrap();
    let again = Coordinator::open(options(), Clock::manual()).unwrap();
    assert_eq!(again.pools()[0].budget, Some(Budget::new(25.0).unwrap()));
    assert_eq!(again.budget(&pool("default")).unwrap().left, Some(Moving { millicores: 10_000, mebibytes: 40_960 }));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Whoever asks, whenever and how much: no minute, wherever it begins, has more than the budget.
    #[test]
    fn no_minute_has_more_than_the_budget(
        asks in prop::collection::vec((0..4_usize, 0..9000_u64, 0..3000_u32), 1..120), percent in 1..=100_u32,
    ) {
        let clock = Clock::manual();
        let coordinator = with_capacity(&clock);
        budget(&coordinator, Some(f64::from(percent)));
        let agents = ["a", "b", "c", "d"].map(|name| block_on(member(&coordinator, name)));
        let (limit, mut now, mut given) = (400 * percent, 0, Vec::new());
        for (sequence, (agent, wait, wanted)) in asks.into_iter().enumerate() {
            clock.advance(Duration::from_millis(wait));
            now += wait;
            let agent = &agents[agent];
            let message = asking(agent.epoch, sequence as u64 + 1, wanted);
            let part = granted(&coordinator.heartbeat(agent.agent, &message).unwrap()).unwrap();
            prop_assert!(part <= wanted);
            given.push((now, part));
        }
        for (start, _) in &given {
            let minute = given.iter().filter(|(at, _)| (*start..start + 60_000).contains(at));
            prop_assert!(minute.map(|(_, part)| part).sum::<u32>() <= limit);
        }
    }
}
