//! Capacity: who yields, in lock-step and in real time; what operators order and see; and what is refused.

use std::time::Duration;

use meanfield_common::{
    scarcity::{Amount, Capacity, Claim, Cores, Gibibytes, Grant, Pods, Share, Weight},
    wire::{Answer, Heartbeat, Registered},
};
use meanfield_coordinator::{Clock, Coordinator, Options};
use reqwest::Method;
use serde_json::{json, to_value};

use crate::support::*;

/// A claim of so many cores that three quarters as much work bears out.
fn claim(cores: f64, weight: f64) -> Claim {
    let amount = Amount { cores: Cores::clamped(cores), memory_gib: Gibibytes::clamped(1.0) };
    Claim {
        wanted: amount,
        held: amount,
        offered: Cores::clamped(0.75 * cores),
        weight: Weight::clamped(weight),
        pending: Pods::default(),
        node_utilisation: Share::clamped(0.5),
        node: None,
    }
}

pub(crate) fn claiming(agent: &Registered, sequence: u64, cores: f64, weight: f64) -> Heartbeat {
    Heartbeat { claim: Some(claim(cores, weight)), ..beat(agent.epoch, sequence, 50) }
}

fn with_capacity(cores: f64, clock: Clock) -> Coordinator {
    let capacities = vec![(pool("default"), Capacity::new(cores, 64.0).unwrap())];
    Coordinator::open(Options { capacities, ..Options::default() }, clock).unwrap()
}

fn granted(answer: &Answer) -> Option<f64> {
    answer.scarcity.unwrap().grant.map(|grant| grant.cores.unwrap().get())
}

#[test]
fn without_a_capacity_nothing_is_said() {
    let coordinator = in_memory();
    let agent = block_on(member(&coordinator, "a"));
    let answer = coordinator.heartbeat(agent.agent, &claiming(&agent, 1, 1e6, 1.0)).unwrap();
    assert_eq!(answer.scarcity, None);
    assert_eq!(coordinator.pools()[0].scarcity, None);
    let text = serde_json::to_string(&answer).unwrap();
    assert!(!text.contains("scarcity"), "an older agent sees what it always saw");
}

#[test]
fn a_round_is_allocated_from_the_one_before_whatever_the_order() {
    // The second round's claims are the other way round, and must not show in its answers.
    let run = |order: [usize; 3]| {
        let coordinator = with_capacity(10.0, Clock::manual());
        let agents: Vec<_> = ["a", "b", "c"].map(|name| block_on(member(&coordinator, name))).to_vec();
        let mut told = Vec::new();
        for (round, claims) in [[6.0, 4.0, 2.0], [2.0, 4.0, 6.0], [2.0, 4.0, 6.0]].iter().enumerate() {
            let mut answers = [const { None }; 3];
            for &place in &order {
                let message = in_round(round as u64, claiming(&agents[place], round as u64, claims[place], 1.0));
                answers[place] = Some(coordinator.heartbeat(agents[place].agent, &message).unwrap());
                // Asked again it says the same.
                assert_eq!(coordinator.heartbeat(agents[place].agent, &message).ok(), answers[place]);
            }
            told.push(answers.map(|answer| granted(&answer.unwrap())));
        }
        assert!(coordinator.audit());
        told
    };
    let told = run([0, 1, 2]);
    assert_eq!(told[0], [None; 3], "nobody had claimed anything");
    assert_eq!(told[1], [Some(4.0), None, None]);
    assert_eq!(told[2], [None, None, Some(4.0)]);
    for order in [[2, 1, 0], [1, 2, 0], [2, 0, 1]] {
        assert_eq!(run(order), told);
    }
}

#[test]
fn in_real_time_it_is_allocated_once_a_second() {
    let clock = Clock::manual();
    let coordinator = with_capacity(10.0, clock.clone());
    let [a, b] = ["a", "b"].map(|name| block_on(member(&coordinator, name)));
    let say = |agent: &Registered, sequence, cores| {
        coordinator.heartbeat(agent.agent, &claiming(agent, sequence, cores, 1.0)).unwrap()
    };
    assert_eq!(granted(&say(&a, 1, 8.0)), None);
    assert_eq!(granted(&say(&b, 1, 4.0)), None, "within the second nothing is computed");
    clock.advance(Duration::from_secs(1));
    assert_eq!(granted(&say(&b, 2, 4.0)), None);
    assert_eq!(granted(&say(&a, 2, 8.0)), Some(6.0));
    let view = coordinator.pool(&pool("default")).unwrap().scarcity.unwrap();
    assert_eq!((view.grants, view.yielding.len(), view.yielding[0].name.as_str()), (1, 1, "a"));
    assert!(view.price > 0.0 && view.headroom.load == 0.9);
    assert_eq!(coordinator.agent(a.agent).unwrap().grant.unwrap().cores.unwrap().get(), 6.0);
    // Whoever leaves, or registers again, claims nothing any more.
    block_on(member(&coordinator, "b"));
    clock.advance(Duration::from_secs(1));
    assert_eq!(granted(&say(&a, 3, 8.0)), None);
    assert!(coordinator.audit());
}

#[test]
fn a_claim_beyond_the_evidence_is_capped_counted_and_shown() {
    block_on(async {
        let capacities = vec![(pool("default"), Capacity::new(10.0, 64.0).unwrap())];
        let served = Served::start(Options { capacities, ..Options::default() }).await;
        let agent = member(&served.coordinator, "a").await;
        let mut message = claiming(&agent, 1, 2.0, 1.0);
        message.claim.as_mut().unwrap().wanted.cores = Cores::clamped(20.0);
        served.coordinator.heartbeat(agent.agent, &message).unwrap();
        assert_eq!(served.metric("meanfield_coordinator_claims_capped_total").await, 1.0);
        let view = served.get(&format!("/v1/agents/{}", agent.agent)).await.json::<serde_json::Value>();
        assert_eq!((&view["claim_capped"], &view["claim"]["wanted"]["cores"]), (&json!(true), &json!(20.0)));
        served.ended().await.unwrap();
    });
}

#[test]
fn with_a_new_capacity_old_cuts_are_forgotten() {
    let clock = Clock::manual();
    let coordinator = with_capacity(10.0, clock.clone());
    let [a, b] = ["a", "b"].map(|name| block_on(member(&coordinator, name)));
    let mut sequence = 0;
    let mut say = |cores: f64| {
        sequence += 1;
        clock.advance(Duration::from_secs(1));
        coordinator.heartbeat(b.agent, &claiming(&b, sequence, 5.0, 1.0)).unwrap();
        clock.advance(Duration::from_secs(1));
        // The work stays, whatever is claimed.
        let mut message = claiming(&a, sequence, cores, 1.0);
        let claim = message.claim.as_mut().unwrap();
        claim.offered = Cores::clamped(4.5);
        granted(&coordinator.heartbeat(a.agent, &message).unwrap())
    };
    assert_eq!(say(6.0), Some(5.0));
    assert_eq!(say(4.6), Some(5.0), "one that asks for less because it was cut stays cut");
    block_on(coordinator.set_capacity(&pool("default"), Some(Capacity::new(10.0, 64.0).unwrap()))).unwrap();
    assert_eq!(say(4.6), None);
}

#[test]
fn operators_order_capacity_durably_and_take_it_back() {
    let directory = tempfile::tempdir().unwrap();
    let open = || {
        let capacities = vec![(pool("default"), Capacity::new(100.0, 64.0).unwrap())];
        let options = Options { data_dir: Some(directory.path().to_owned()), capacities, ..Options::default() };
        Coordinator::open(options, Clock::manual()).unwrap()
    };
    let cores = |coordinator: &Coordinator| coordinator.pools()[0].scarcity.clone().unwrap().capacity.cores.get();
    let coordinator = open();
    assert_eq!(cores(&coordinator), 100.0);
    block_on(coordinator.set_capacity(&pool("default"), Some(Capacity::new(3.0, 8.0).unwrap()))).unwrap();
    assert_eq!(cores(&coordinator), 3.0);
    drop(coordinator);
    let coordinator = open();
    assert_eq!(cores(&coordinator), 3.0, "it outlasts a restart, and the configuration");
    block_on(coordinator.set_capacity(&pool("default"), None)).unwrap();
    drop(coordinator);
    assert_eq!(cores(&open()), 100.0);
}

#[test]
fn over_http_capacity_is_put_shown_deleted_and_bad_ones_are_refused() {
    block_on(async {
        let served = Served::start(Options::default()).await;
        let put = |pool: &str, body: serde_json::Value| {
            served.request(Method::PUT, &format!("/v1/pools/{pool}/capacity")).json(&body)
        };
        assert_eq!(send(put("default", json!({"cores": 40, "memory_gib": 160}))).await.status, 204);
        let agent = member(&served.coordinator, "a").await;
        let path = format!("/v1/agents/{}/heartbeat", agent.agent);
        let answer: Answer = served.post(&path, &to_value(claiming(&agent, 1, 50.0, 1.0)).unwrap()).await.json();
        let Grant { cores, memory_gib } = answer.scarcity.unwrap().grant.unwrap();
        assert_eq!((cores.unwrap().get(), memory_gib), (40.0, None));
        for metric in ["pool_grants{pool=\"default\"}", "pool_headroom{pool=\"default\",part=\"unscheduled\"}"] {
            let value = served.metric(&format!("meanfield_coordinator_{metric}")).await;
            assert_eq!(value, f64::from(u8::from(metric.contains("grants"))));
        }
        let shown: serde_json::Value = served.get("/v1/pools/default").await.json();
        assert_eq!(shown["scarcity"]["capacity"], json!({"cores": 40.0, "memory_gib": 160.0}));
        assert_eq!(shown["scarcity"]["yielding"][0]["name"], "a");

        for (name, body, field, bound) in [
            ("default", json!({"cores": 0, "memory_gib": 1}), "cores", "within [0.001, 1000000]"),
            ("default", json!({"cores": 1e300, "memory_gib": 1}), "cores", "within [0.001, 1000000]"),
            ("default", json!({"cores": 1, "memory_gib": -1}), "memory_gib", "within [0.001, 1000000]"),
            ("default", json!({"cores": 1, "memory_gib": null}), "memory_gib", "f64"),
            ("default", json!({"cores": 1}), "memory_gib", ""),
            ("default", json!({"cores": 1, "memory_gib": 1, "gpus": 1}), "gpus", ""),
            ("elsewhere", json!({"cores": 1, "memory_gib": 1}), "pool", "one of default"),
        ] {
            let problem = send(put(name, body)).await.problem();
            assert_eq!(problem.field.as_deref(), Some(field), "{problem:?}");
            assert!(problem.bound.unwrap_or_default().contains(bound), "{field}");
        }
        for (pointer, value, field) in [
            ("/claim/wanted/cores", json!(-1), "claim.wanted.cores"),
            ("/claim/held/memory_gib", json!(4_294_967_295_u64), "claim.held.memory_gib"),
            ("/claim/offered", json!(1e300), "claim.offered"),
            ("/claim/weight", json!(0), "claim.weight"),
            ("/claim/pending", json!(u32::MAX), "claim.pending"),
            ("/claim/node_utilisation", json!(1.01), "claim.node_utilisation"),
        ] {
            let mut message = to_value(claiming(&agent, 2, 1.0, 1.0)).unwrap();
            *message.pointer_mut(pointer).unwrap() = value;
            let problem = served.post(&path, &message).await.problem();
            assert_eq!((problem.field.as_deref(), problem.status), (Some(field), 422), "{problem:?}");
        }
        let deleted = send(served.request(Method::DELETE, "/v1/pools/default/capacity")).await;
        assert_eq!(deleted.status, 204);
        assert!(served.get("/v1/pools/default").await.json::<serde_json::Value>()["scarcity"].is_null());
        served.ended().await.unwrap();
    });
}
