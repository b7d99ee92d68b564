//! Events over HTTP: everything that happens, in order, resumed after a break, and ended with the coordinator.

use std::time::Duration;

use meanfield_common::{scarcity::Capacity, wire::Leave};
use meanfield_coordinator::{
    Clock, Coordinator, Options,
    events::{Event, Filter, KEPT},
    models::{Order as ModelOrder, Serving},
    orders::{Order, Scope, Terms},
};
use reqwest::Method;
use serde_json::json;

use crate::{models, support::*};

/// Reads server-sent events from a response.
struct Stream {
    response: reqwest::Response,
    text: String,
}

impl Stream {
    async fn open(served: &Served, query: &str, after: Option<u64>) -> Self {
        let mut request = served.request(Method::GET, &format!("/v1/events{query}"));
        if let Some(after) = after {
            request = request.header("last-event-id", after.to_string());
        }
        let response = request.send().await.unwrap();
        assert_eq!(response.status(), 200);
        assert_eq!(response.headers()["content-type"], "text/event-stream");
        Self { response, text: String::new() }
    }

    /// The next event; none at the end.
    async fn next(&mut self) -> Option<Event> {
        loop {
            if let Some((frame, rest)) = self.text.split_once("\n\n") {
                let field = |name: &str| frame.lines().find_map(|line| line.strip_prefix(name).map(str::to_owned));
                let found = field("data: ").map(|data| {
                    let event: Event = serde_json::from_str(&data).unwrap();
                    assert_eq!(field("id: ").unwrap(), event.id.to_string());
                    assert_eq!(field("event: ").unwrap(), event.kind.name());
                    event
                });
                self.text = rest.to_owned();
                // A comment keeps the connection alive and says nothing.
                if found.is_some() {
                    return found;
                }
                continue;
            }
            let part = self.response.chunk().await.unwrap()?;
            self.text.push_str(std::str::from_utf8(&part).unwrap());
        }
    }

    async fn kinds(&mut self, count: usize) -> Vec<&'static str> {
        let mut kinds = Vec::new();
        while kinds.len() < count {
            kinds.push(self.next().await.unwrap().kind.name());
        }
        kinds
    }
}

#[tokio::test]
async fn everything_is_told_in_order_and_again_to_those_who_come_back() {
    let mut served = Served::start(Options::default()).await;
    let coordinator = served.coordinator.clone();
    let mut stream = Stream::open(&served, "", None).await;
    let agent = member(&coordinator, "a").await;
    let ordered = |order| coordinator.order(order, Terms::default());
    ordered(Order::Pause(agent.agent, true)).await.unwrap();
    ordered(Order::Pause(agent.agent, true)).await.unwrap();
    ordered(Order::Pause(agent.agent, false)).await.unwrap();
    ordered(Order::Fallback(Scope::All, true)).await.unwrap();
    ordered(Order::Capacity(pool("default"), Some(Capacity::new(4.0, 8.0).unwrap()))).await.unwrap();
    coordinator.leave(agent.agent, Leave { epoch: agent.epoch }).await.unwrap();

    let first = stream.next().await.unwrap();
    assert_eq!((first.kind.name(), first.agent), ("joined", Some(agent.agent)));
    assert_eq!((first.pool, first.name), (Some(pool("default")), Some(name("a"))));
    assert_eq!(stream.kinds(3).await, ["paused", "resumed", "fallback"], "what changes nothing is no event");
    let capacity = stream.next().await.unwrap();
    assert_eq!(capacity.detail, Some(json!({"cores": 4.0, "memory_gib": 8.0})));
    let mut again = Stream::open(&served, "?kind=left,fallback", Some(first.id)).await;
    assert_eq!(again.kinds(2).await, ["fallback", "left"]);
    assert_eq!(stream.kinds(1).await, ["left"]);
    served.stop();
    for mut stream in [stream, again] {
        assert_eq!(stream.next().await.unwrap().kind.name(), "closing");
        assert_eq!(stream.next().await, None);
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn base_models_and_tokens_are_told_of_once_they_are_changed() {
    let served = Served::start(Options::default()).await;
    let coordinator = served.coordinator.clone();
    let mut stream = Stream::open(&served, "?kind=model,token&pool=default", None).await;
    let cpu = "cpu".parse().unwrap();
    let order = |order| coordinator.order_model(&cpu, order, &Terms::default()).unwrap();
    for seed in [1, 2] {
        models::add(&coordinator, &cpu, models::file(seed));
    }
    let serving = Serving { version: 2, pinned: false, canary: None };
    order(ModelOrder::Serve(serving));
    // Neither what changes nothing nor what is only tried.
    order(ModelOrder::Serve(serving));
    let dry_run = Terms { dry_run: true, ..Terms::default() };
    coordinator.order_model(&cpu, ModelOrder::Remove, &dry_run).unwrap();
    order(ModelOrder::RollBack);
    for agent in ["a", "b", "c"] {
        let agent = member(&coordinator, agent).await.agent;
        coordinator.contribute(&cpu, agent, &models::file(3), 0.5_f64.try_into().unwrap()).unwrap();
    }
    coordinator.average_models();
    order(ModelOrder::Remove);
    let agent = served.token(json!({"name": "shop", "role": "agent", "pool": "default"})).await;
    assert_eq!(served.post("/v1/tokens?dry_run=true", &json!({"name": "b", "role": "reader"})).await.status, 200);
    coordinator.revoke(agent.view.id, Terms::default()).await.unwrap();

    let mut told = Vec::new();
    for _ in 0..8 {
        let event = stream.next().await.unwrap();
        let text = serde_json::to_string(&event).unwrap();
        assert!(!text.contains(agent.token.rsplit('_').next().unwrap()), "{text}");
        told.push((event.kind.name(), event.pool, event.detail.unwrap()));
    }
    let actions: Vec<_> = told.iter().map(|(kind, _, detail)| (*kind, detail["action"].as_str().unwrap())).collect();
    let expected = ["add", "add", "serve", "rollback", "average", "remove"].map(|action| format!("model.{action}"));
    let models = expected.iter().map(|action| ("model", action.as_str()));
    assert!(
        actions.iter().copied().eq(models.chain([("token", "token.create"), ("token", "token.revoke")])),
        "{told:?}"
    );
    assert!(told[..6].iter().all(|(_, pool, detail)| pool.is_none() && detail["model"] == "cpu"));
    assert_eq!(told[1].2["after"]["version"], 2);
    assert_eq!(told[3].2["after"], json!({"version": 1, "pinned": true}));
    assert_eq!((&told[4].2["after"]["version"], &told[5].2["after"]), (&json!(3), &json!(null)));
    assert_eq!(told[4].2["after"]["served"], false, "what was gone back to is pinned");
    let token = json!({"action": "token.create", "token": agent.view.id, "name": "shop", "role": "agent"});
    assert_eq!((&told[6].1, &told[6].2), (&Some(pool("default")), &token));
    drop(stream);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn what_is_no_longer_kept_is_said() {
    let served = Served::start(Options::default()).await;
    for turn in 0..KEPT + 3 {
        served.coordinator.order(Order::PauseAll(turn % 2 == 0), Terms::default()).await.unwrap();
    }
    let mut stream = Stream::open(&served, "", Some(1)).await;
    let missed = stream.next().await.unwrap();
    assert_eq!((missed.kind.name(), missed.id), ("missed", 3));
    assert_eq!(missed.detail, Some(json!({"missed": 2, "kept_from": 4})));
    assert_eq!(stream.next().await.unwrap().id, 4);
    drop(stream);
    for (query, field) in [("?kind=joint", "kind"), ("?pools=a", "pools"), ("?pool=A", "pool")] {
        let problem = served.get(&format!("/v1/events{query}")).await.problem();
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some(field)));
    }
    assert_eq!(served.get("/v1/events?pool=other").await.problem().status, 404);
    let bad = send(served.request(Method::GET, "/v1/events").header("last-event-id", "x")).await.problem();
    assert_eq!(bad.field.as_deref(), Some("Last-Event-ID"));
    served.ended().await.unwrap();
}

#[tokio::test]
async fn silence_and_scarcity_are_told_once_each() {
    let clock = Clock::manual();
    let capacities = vec![(pool("default"), Capacity::new(4.0, 64.0).unwrap())];
    let coordinator = Coordinator::open(Options { capacities, ..Options::default() }, clock.clone()).unwrap();
    let mut reader = coordinator.events(None, Filter::default());
    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    for sequence in 1..=5 {
        for agent in [&a, &b] {
            let message = crate::scarcity::claiming(agent, sequence, 3.0, 1.0);
            coordinator.heartbeat(agent.agent, &message).unwrap();
        }
        clock.advance(Duration::from_secs(1));
    }
    clock.advance(Duration::from_secs(50));
    coordinator.sweep().await.unwrap();
    coordinator.sweep().await.unwrap();
    coordinator.heartbeat(a.agent, &beat(a.epoch, 6, 50)).unwrap();
    clock.advance(Duration::from_secs(100));
    coordinator.sweep().await.unwrap();
    let mut seen = Vec::new();
    while !seen.iter().any(|(kind, _)| *kind == "gone") {
        let events = coordinator.next_events(&mut reader).await.unwrap();
        seen.extend(events.iter().map(|event| (event.kind.name(), event.agent.unwrap())));
    }
    let count = |kind: &str| seen.iter().filter(|(found, _)| *found == kind).count();
    assert_eq!(
        (count("joined"), count("suspect"), count("recovered"), count("gone")),
        (2, 3, 1, 1),
        "one again: {seen:?}"
    );
    assert!(count("granted") >= 1 && count("granted") <= 2, "a cap is told when it begins: {seen:?}");
    assert!(seen.contains(&("recovered", a.agent)) && seen.contains(&("gone", b.agent)));
}
