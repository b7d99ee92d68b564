//! The audit log: who did what, in the same commit as the change, verifiable also after a crash and after old entries went.

use meanfield_common::scarcity::Capacity;
use meanfield_coordinator::{
    Clock, Coordinator, Options,
    audit::{Actor, Anchor, Filter, Page, verify},
    orders::{Order, Scope, Terms},
};
use reqwest::Method;
use serde_json::json;

use crate::{durability::image, models, support::*};

fn by(name: &str) -> Terms {
    Terms { actor: Some(Actor::new(name).unwrap()), ..Terms::default() }
}

fn capacity(cores: f64) -> Order {
    Order::Capacity(pool("default"), Some(Capacity::new(cores, 16.0).unwrap()))
}

fn whole(coordinator: &Coordinator) -> Page {
    let page = coordinator.audit_log(&Filter::default(), 0, usize::MAX);
    assert_eq!(verify(page.anchor, &page.entries, page.head), []);
    page
}

#[tokio::test]
async fn every_order_of_somebody_is_in_it_and_nothing_else() {
    let served = Served::start(Options::default()).await;
    let agent = member(&served.coordinator, "a").await;
    served.coordinator.heartbeat(agent.agent, &beat(agent.epoch, 1, 50)).unwrap();
    let path = format!("/v1/agents/{}", agent.agent);
    for (method, path, body) in [
        (Method::POST, "/v1/pause".to_owned(), None),
        (Method::POST, "/v1/pause".to_owned(), None),
        (Method::PUT, "/v1/pools/default/capacity".to_owned(), Some(json!({"cores": 4.0, "memory_gib": 16.0}))),
        (Method::PUT, "/v1/pools/default/budget".to_owned(), Some(json!({"percent": 10.0}))),
        (Method::PUT, format!("{path}/lifecycle"), Some(json!({"state": "serving"}))),
        (Method::DELETE, path.clone(), None),
    ] {
        let request = served.request(method, &path);
        let reply = send(if let Some(body) = body { request.json(&body) } else { request }).await;
        assert_eq!(reply.status, 204, "{path}: {reply:?}");
    }
    // What is refused, tried, or done by agents or the program itself is not.
    assert_eq!(send(served.request(Method::DELETE, &path)).await.status, 404);
    assert_eq!(send(served.request(Method::POST, "/v1/resume?dry_run=true")).await.status, 200);
    served.coordinator.resume_all().await.unwrap();
    member(&served.coordinator, "b").await;

    let page: Page = served.get("/v1/audit").await.json();
    assert_eq!(page, whole(&served.coordinator));
    let said: Vec<_> = page
        .entries
        .iter()
        .map(|one| (one.sequence, one.action.as_str(), one.before.as_str(), one.after.as_str()))
        .collect();
    assert_eq!(
        said,
        [
            (1, "pause", "false", "true"),
            (2, "pause", "true", "true"),
            (3, "capacity.set", "null", r#"{"cores":4.0,"memory_gib":16.0}"#),
            (4, "budget.set", "null", r#"{"percent":10.0}"#),
            (5, "lifecycle.set", "null", "\"serving\""),
            (6, "agent.remove", r#"{"epoch":1}"#, "null"),
        ]
    );
    assert!(page.entries.iter().all(|entry| entry.actor == "coordinator"));
    assert_eq!(page.entries[5].target, format!("agents/{}", agent.agent));
    served.ended().await.unwrap();
}

#[tokio::test]
async fn tokens_and_base_models_are_in_it_under_the_callers_name() {
    let served = Served::start(Options::default()).await;
    let ann = served.token(json!({"name": "ann", "role": "operator"})).await;
    let model = "/v1/models/team%2Fcpu";
    for seed in [1, 2] {
        let add = served.with(&ann.token, Method::POST, model).header("content-type", "application/octet-stream");
        assert_eq!(send(add.body(models::file(seed))).await.status, 201);
    }
    let serve = served.with(&ann.token, Method::PUT, &format!("{model}/serving"));
    assert_eq!(send(serve.json(&json!({"version": 2, "pinned": true}))).await.status, 204);
    assert_eq!(send(served.with(&ann.token, Method::POST, &format!("{model}/rollback"))).await.status, 200);
    assert_eq!(send(served.with(&ann.token, Method::DELETE, model)).await.status, 204);
    // What is refused is not.
    assert_eq!(send(served.with(&ann.token, Method::DELETE, model)).await.status, 404);
    assert_eq!(send(served.with(&ann.token, Method::POST, "/v1/tokens")).await.status, 403);
    let token = format!("/v1/tokens/{}", ann.view.id);
    assert_eq!(send(served.request(Method::DELETE, &token)).await.status, 204);
    assert_eq!(send(served.request(Method::DELETE, &token)).await.status, 404);

    let page = whole(&served.coordinator);
    let said: Vec<_> =
        page.entries.iter().map(|one| (one.actor.as_str(), one.action.as_str(), one.target.as_str())).collect();
    let id = format!("tokens/{}", ann.view.id);
    assert_eq!(
        said,
        [
            ("coordinator", "token.create", id.as_str()),
            ("ann", "model.add", "models/team/cpu"),
            ("ann", "model.add", "models/team/cpu"),
            ("ann", "model.serve", "models/team/cpu/serving"),
            ("ann", "model.rollback", "models/team/cpu/serving"),
            ("ann", "model.remove", "models/team/cpu"),
            ("coordinator", "token.revoke", id.as_str()),
        ]
    );
    let state = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
    let entries = &page.entries;
    assert_eq!((state(&entries[0].after)["name"].as_str(), entries[0].before.as_str()), (Some("ann"), "null"));
    assert_eq!((&entries[6].before, entries[6].after.as_str()), (&entries[0].after, "null"));
    assert_eq!(state(&entries[2].after)["version"], 2);
    assert_eq!(
        (state(&entries[3].before)["version"].as_u64(), state(&entries[3].after)["version"].as_u64()),
        (Some(1), Some(2))
    );
    assert_eq!((&entries[4].before, state(&entries[4].after)["version"].as_u64()), (&entries[3].after, Some(1)));
    assert_eq!((&entries[5].before, entries[5].after.as_str()), (&entries[4].after, "null"));
    let secret = ann.token.rsplit(['.', '_']).next().unwrap();
    assert!(entries.iter().all(|entry| !format!("{entry:?}").contains(secret)), "a secret is in the log");
    served.ended().await.unwrap();
}

#[tokio::test]
async fn pages_and_filters_choose() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(Options::default(), clock.clone()).unwrap();
    for turn in 0..10 {
        clock.advance(std::time::Duration::from_secs(1));
        coordinator.order(capacity(f64::from(turn + 1)), by(if turn % 2 == 0 { "ann" } else { "bob" })).await.unwrap();
    }
    coordinator.order(Order::Fallback(Scope::All, true), by("ann")).await.unwrap();
    let numbers = |filter: Filter, after: u64, limit: usize| {
        let page = coordinator.audit_log(&filter, after, limit);
        (page.entries.iter().map(|entry| entry.sequence).collect::<Vec<_>>(), page.next)
    };
    let all = Filter::default;
    assert_eq!(numbers(all(), 0, 4), (vec![1, 2, 3, 4], Some(4)));
    assert_eq!(numbers(all(), 4, 7), (vec![5, 6, 7, 8, 9, 10, 11], None));
    let filter = Filter { actor: Some("bob".into()), ..all() };
    assert_eq!(numbers(filter, 2, 2), (vec![4, 6], Some(6)));
    assert_eq!(numbers(Filter { since: Some(9000), ..all() }, 0, 9).0, [9, 10, 11]);
    assert_eq!(numbers(Filter { action: Some("fallback.on".into()), ..all() }, 0, 9).0, [11]);
    assert_eq!(numbers(Filter { target: Some("pools/default".into()), ..all() }, 8, 9).0, [9, 10]);
    assert_eq!(numbers(Filter { target: Some("pools/def".into()), ..all() }, 0, 9).0, [] as [u64; 0]);
}

#[tokio::test]
async fn a_change_and_its_entry_survive_a_crash_together() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    let agent = member(&coordinator, "a").await;
    coordinator.order(Order::Pause(agent.agent, true), by("ann")).await.unwrap();
    coordinator.order(Order::Fallback(Scope::Pool(pool("default")), true), by("bob")).await.unwrap();
    let page = whole(&coordinator);
    let crashed = image(dir.path());
    let recovered = on_disk(crashed.path()).unwrap();
    assert_eq!(whole(&recovered), page);
    let view = recovered.agent(agent.agent).unwrap();
    assert!(view.own_pause && view.fallback && !view.own_fallback);
    // The chain goes on where it was.
    recovered.order(Order::Remove(agent.agent), by("ann")).await.unwrap();
    assert_eq!(whole(&recovered).head.sequence, 3);
}

#[tokio::test]
async fn the_oldest_go_and_the_rest_still_verifies() {
    let dir = tempfile::tempdir().unwrap();
    let open = || {
        let options = Options { data_dir: Some(dir.path().to_owned()), audit_keep: 20, ..Options::default() };
        Coordinator::open(options, Clock::manual()).unwrap()
    };
    let coordinator = open();
    let mut anchors = Vec::new();
    for turn in 0..60 {
        coordinator.order(capacity(f64::from(turn + 1)), by("ann")).await.unwrap();
        let page = whole(&coordinator);
        assert!(page.entries.len() <= 22 && page.entries.len() >= 20.min(turn as usize + 1), "{}", page.entries.len());
        anchors.push(page.anchor.sequence);
    }
    assert!(anchors.is_sorted() && anchors[0] == 0 && anchors[59] >= 38);
    let before = whole(&coordinator);
    assert_ne!(before.anchor, Anchor::default());
    drop(coordinator);
    assert_eq!(whole(&open()), before);
}

#[test]
fn a_forged_log_is_refused_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    for cores in [1.0, 2.0, 3.0] {
        block_on(coordinator.order(capacity(cores), by("ann"))).unwrap();
    }
    drop(coordinator);
    let database = sled::open(dir.path().join("store")).unwrap();
    assert_eq!(database.get("format").unwrap().unwrap(), "5");
    let key = format!("audit/{:020}", 2);
    let text = String::from_utf8(database.get(&key).unwrap().unwrap().to_vec()).unwrap();
    database.insert(key.as_bytes(), text.replace("\"ann\"", "\"bob\"").as_bytes()).unwrap();
    database.flush().unwrap();
    drop(database);
    let error = on_disk(dir.path()).map(|_| ()).unwrap_err().to_string();
    assert!(error.contains("summary"), "the digest of the records differs: {error}");
}
