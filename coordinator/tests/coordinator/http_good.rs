//! What works over HTTP.

use meanfield_common::{
    identity::Epoch,
    wire::{Answer, Registered},
};
use meanfield_coordinator::{
    Options,
    http::{agents::Page, pools::Pools},
    view::{AgentView, PoolView, State},
};
use reqwest::{Method, StatusCode};
use serde_json::{json, to_value};

use crate::support::*;

#[tokio::test]
async fn an_agents_life() {
    let served = Served::start(Options::default()).await;
    let reply = served.post("/v1/agents", &to_value(register("shop/cart")).unwrap()).await;
    assert_eq!(reply.status, StatusCode::CREATED);
    let registered: Registered = reply.json();
    assert_eq!(registered.epoch, Epoch(1));
    let own = format!("/v1/agents/{}", registered.agent);

    let message = to_value(beat(registered.epoch, 1, 60)).unwrap();
    let reply = served.post(&format!("{own}/heartbeat"), &message).await;
    assert_eq!((reply.status, &reply.headers["content-type"]), (StatusCode::OK, &"application/json".parse().unwrap()));
    let answer: Answer = reply.json();
    assert_eq!((answer.auxiliary.others, answer.team_reward), (0, Some(30.0)));
    let again: Answer = served.post(&format!("{own}/heartbeat"), &message).await.json();
    assert_eq!(again, answer);

    let view: AgentView = served.get(&own).await.json();
    assert_eq!((view.state, view.name.as_str()), (State::Active, "shop/cart"));
    assert_eq!(view.local, Some(beat(registered.epoch, 1, 60).state));

    let reply = served.post(&format!("{own}/leave"), &json!({"epoch": 1})).await;
    assert_eq!((reply.status, reply.body.as_str()), (StatusCode::NO_CONTENT, ""));
    assert_eq!(served.get(&own).await.status, StatusCode::NOT_FOUND);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn pools_with_a_slash_are_found_and_count_apart() {
    let options = Options { pools: vec![pool("default"), pool("west/gpu")], ..Options::default() };
    let served = Served::start(options).await;
    let mut one = register("a");
    one.pool = pool("west/gpu");
    let registered = served.coordinator.register(one).await.unwrap();
    served.coordinator.heartbeat(registered.agent, &beat(registered.epoch, 1, 60)).unwrap();
    let view: PoolView = served.get("/v1/pools/west%2Fgpu").await.json();
    assert_eq!((view.mean_field.count, view.agents.active, view.mean_reward), (1, 1, Some(30.0)));
    let all: Pools = served.get("/v1/pools").await.json();
    assert_eq!(all.pools.iter().map(|pool| pool.mean_field.count).collect::<Vec<_>>(), [0, 1]);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn pausing_and_removing() {
    let served = Served::start(Options::default()).await;
    let registered = member(&served.coordinator, "a").await;
    let own = format!("/v1/agents/{}", registered.agent);
    let order = async |path: String| send(served.request(Method::POST, &path)).await.status;
    let view = async || -> AgentView { served.get(&own).await.json() };
    assert_eq!(order(format!("{own}/pause")).await, StatusCode::NO_CONTENT);
    assert_eq!(order("/v1/pause".to_owned()).await, StatusCode::NO_CONTENT);
    assert_eq!(served.metric("meanfield_coordinator_paused").await, 1.0);
    assert_eq!(order(format!("{own}/resume")).await, StatusCode::NO_CONTENT);
    let seen = view().await;
    assert!(seen.paused && !seen.own_pause);
    assert!(served.get("/v1/pools").await.json::<Pools>().paused);
    assert_eq!(order("/v1/resume".to_owned()).await, StatusCode::NO_CONTENT);
    assert!(!view().await.paused);
    assert_eq!(send(served.request(Method::DELETE, &own)).await.status, StatusCode::NO_CONTENT);
    assert_eq!(served.get(&own).await.status, StatusCode::NOT_FOUND);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn lists_come_by_page() {
    let served = Served::start(Options::default()).await;
    for agent in 0..7 {
        member(&served.coordinator, &format!("a{agent}")).await;
    }
    let mut names = Vec::new();
    let mut after = String::new();
    loop {
        let page: Page = served.get(&format!("/v1/agents?limit=3{after}")).await.json();
        assert!(page.agents.len() <= 3);
        names.extend(page.agents.iter().map(|agent| agent.name.to_string()));
        let Some(next) = page.next else { break };
        after = format!("&after={next}");
    }
    assert_eq!(names, ["a0", "a1", "a2", "a3", "a4", "a5", "a6"]);
    let exact: Page = served.get("/v1/agents?limit=7&pool=default").await.json();
    assert_eq!((exact.agents.len(), exact.next), (7, None));
    served.ended().await.unwrap();
}

#[tokio::test]
async fn metrics_tell_what_happened() {
    let served = Served::start(Options::default()).await;
    let (a, b) = (member(&served.coordinator, "a").await, member(&served.coordinator, "b").await);
    let empty = send(served.bare(Method::GET, "/metrics")).await;
    assert!(!empty.body.contains("pool_reward{"), "a mean over nobody is absent: {}", empty.body);
    assert!(empty.headers["content-type"].to_str().unwrap().starts_with("application/openmetrics-text"));
    assert!(empty.body.ends_with("# EOF\n"));
    let path = format!("/v1/agents/{}/heartbeat", a.agent);
    served.post(&path, &to_value(beat(a.epoch, 1, 60)).unwrap()).await;
    served.coordinator.remove(b.agent).await.unwrap();
    for (line, value) in [
        ("heartbeats_total", 1.0),
        ("registrations_total", 2.0),
        ("leaves_total", 1.0),
        ("gone_total", 0.0),
        ("heartbeat_seconds_count", 1.0),
        ("agents{state=\"active\"}", 1.0),
        ("agents{state=\"suspect\"}", 0.0),
        ("paused", 0.0),
        ("pool_agents{pool=\"default\"}", 1.0),
        ("pool_slo_preservation{pool=\"default\"}", 0.6),
        ("pool_utilisation{pool=\"default\"}", 0.48),
        ("pool_reward{pool=\"default\"}", 30.0),
        ("build_info{version=\"0.1.0\"}", 1.0),
    ] {
        let seen = served.metric(&format!("meanfield_coordinator_{line}")).await;
        assert!((seen - value).abs() < 1e-8, "{line} is {seen}");
    }
    served.ended().await.unwrap();
}
