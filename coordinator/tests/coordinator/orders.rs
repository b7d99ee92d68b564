//! Orders: entity tags and conditions, dry runs that change nothing, the kill switch, filters of lists.

use std::collections::BTreeSet;

use meanfield_common::{
    budget::Budget,
    identity::Category,
    scarcity::Capacity,
    wire::{Leave, Lifecycle, Register},
};
use meanfield_coordinator::{
    Coordinator, Options,
    http::agents::Page,
    models::{Order as ModelOrder, Serving},
    orders::{Order, Ordered, Scope, Terms},
    settings::Settings,
};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{forecast::network, models, support::*};

async fn order(coordinator: &Coordinator, order: Order) -> Ordered {
    coordinator.order(order, Terms::default()).await.unwrap()
}

#[tokio::test]
async fn a_change_for_another_state_is_refused() {
    let served = Served::start(Options::default()).await;
    let agent = member(&served.coordinator, "a").await;
    let id = agent.agent;
    order(&served.coordinator, Order::Capacity(pool("default"), Some(Capacity::new(8.0, 8.0).unwrap()))).await;
    let on_off = |path: &str| (path.to_owned(), Method::POST, path.to_owned(), None, Method::DELETE, path.to_owned());
    let resumed = |path: &str| {
        (path.to_owned(), Method::POST, path.to_owned(), None, Method::POST, path.replace("/pause", "/resume"))
    };
    let set = |path: &str, body: Value| {
        (path.to_owned(), Method::PUT, path.to_owned(), Some(body), Method::DELETE, path.to_owned())
    };
    let resources = [
        resumed("/v1/pause"),
        resumed(&format!("/v1/agents/{id}/pause")),
        on_off("/v1/fallback"),
        on_off("/v1/pools/default/fallback"),
        on_off(&format!("/v1/agents/{id}/fallback")),
        set(&format!("/v1/agents/{id}/lifecycle"), json!({"state": "exploring"})),
        set(&format!("/v1/agents/{id}/entitlement"), json!({"weight": 2.0})),
        set("/v1/pools/default/scarcity", json!({"mode": "advise"})),
        set("/v1/pools/default/budget", json!({"percent": 5.0})),
        set("/v1/pools/default/capacity", json!({"cores": 9.0, "memory_gib": 8.0})),
    ];
    for (shown, method, path, body, back, back_path) in resources {
        let tag = async || served.get(&shown).await.headers["etag"].to_str().unwrap().to_owned();
        let make = async |condition: &str| {
            let mut request = served.request(method.clone(), &path).header("if-match", condition);
            if let Some(body) = &body {
                request = request.json(body);
            }
            send(request).await
        };
        let before = tag().await;
        let problem = make("\"other\"").await.problem();
        assert_eq!((problem.status, problem.kind.as_str()), (412, "/problems/precondition-failed"), "{shown}");
        assert_eq!((problem.field.as_deref(), problem.bound), (Some("If-Match"), Some(before.clone())), "{shown}");
        assert_eq!(tag().await, before);
        let reply = make(&before).await;
        assert_eq!((reply.status.as_u16(), reply.body.as_str()), (204, ""), "{shown}");
        let after = tag().await;
        assert_eq!(reply.headers["etag"].to_str().unwrap(), after, "{shown}");
        assert_ne!(after, before);
        let undo = async |condition: &str| {
            send(served.request(back.clone(), &back_path).header("if-match", condition)).await.status.as_u16()
        };
        assert_eq!(undo(&before).await, 412, "{shown}: somebody was faster");
        assert_eq!(undo("*").await, 204, "{shown}");
        if shown != "/v1/pools/default/capacity" {
            assert_eq!(tag().await, before, "{shown}: the same state has the same tag");
        }
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn of_two_who_saw_the_same_state_one_wins() {
    let served = Served::start(Options::default()).await;
    let tag = served.get("/v1/fallback").await.headers["etag"].to_str().unwrap().to_owned();
    let request = || send(served.request(Method::POST, "/v1/fallback").header("if-match", &tag));
    let replies = futures_util::future::join_all((0..8).map(|_| request())).await;
    assert_eq!(replies.iter().filter(|reply| reply.status == 204).count(), 1);
    assert_eq!(replies.iter().filter(|reply| reply.status == 412).count(), 7);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn a_forecast_network_and_an_agent_have_tags_too() {
    let served = Served::start(Options::default()).await;
    let path = "/v1/pools/default/forecast";
    let put = |condition: &str, file: Vec<u8>| {
        let request = served.request(Method::PUT, path).header("content-type", "application/octet-stream");
        send(request.header("if-match", condition).body(file))
    };
    assert_eq!(put("*", network(1)).await.status, 412, "there is none that could match");
    order(&served.coordinator, Order::Forecast(pool("default"), None)).await;
    served.coordinator.set_forecast(&pool("default"), network(1)).await.unwrap();
    let tag = served.get_tag(path).await;
    let reply = put(&tag, network(2)).await;
    assert_eq!(reply.status, 204);
    assert_eq!(reply.headers["etag"].to_str().unwrap(), served.get_tag(path).await);
    assert_eq!(put(&tag, network(3)).await.status, 412);

    let agent = member(&served.coordinator, "a").await;
    let path = format!("/v1/agents/{}", agent.agent);
    let tag = served.get_tag(&path).await;
    member(&served.coordinator, "a").await;
    let remove = |tag: &str| send(served.request(Method::DELETE, &path).header("if-match", tag));
    assert_eq!(remove(&tag).await.status, 412, "it has registered again since");
    assert_eq!(remove(&served.get_tag(&path).await).await.status, 204);
    served.ended().await.unwrap();
}

/// All that an operator can see, and the files themselves.
async fn everything(served: &Served, directory: &std::path::Path) -> (Vec<String>, Vec<(Vec<u8>, Vec<u8>)>) {
    let agents = served.coordinator.agents();
    let mut seen = Vec::new();
    for path in ["/v1/agents", "/v1/pools", "/v1/pause", "/v1/fallback", "/v1/audit", "/v1/models", "/v1/tokens"] {
        seen.push(served.get(path).await.body);
    }
    for path in ["capacity", "budget", "fallback", "scarcity", "cuts"] {
        seen.push(served.get(&format!("/v1/pools/default/{path}")).await.body);
    }
    for path in ["", "/pause", "/fallback", "/lifecycle", "/entitlement"] {
        seen.push(served.get(&format!("/v1/agents/{}{path}", agents[0].id)).await.body);
    }
    // The store is in use, so a copy is read.
    let copy = crate::durability::image(directory);
    let store = sled::open(copy.path().join("store")).unwrap();
    (seen, store.iter().map(|pair| pair.unwrap()).map(|(key, value)| (key.to_vec(), value.to_vec())).collect())
}

/// The routes by which agents themselves speak: they have no dry run.
const OF_AGENTS: [&str; 6] = ["register", "heartbeat", "heartbeats", "leave", "contribute", "append_steps"];

/// A change of what has no entity tag. Its dry run is tried with the import itself.
const NO_ORDERS: [&str; 1] = ["import_steps"];

#[tokio::test]
async fn a_dry_run_of_any_change_changes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    let served = Served::start(Options { data_dir: Some(dir.path().to_owned()), ..Options::default() }).await;
    let agent = member(&served.coordinator, "a").await;
    let token = served.coordinator.token().to_owned();
    for (order, name) in [
        (Order::Capacity(pool("default"), Some(Capacity::new(8.0, 8.0).unwrap())), "capacity"),
        (Order::Budget(pool("default"), Some(Budget::new(5.0).unwrap())), "budget"),
        (Order::Lifecycle(agent.agent, Some(Lifecycle::Serving)), "lifecycle"),
        (Order::Pause(agent.agent, true), "pause"),
    ] {
        served.coordinator.order(order, Terms::default()).await.unwrap_or_else(|error| panic!("{name}: {error}"));
    }
    served.coordinator.set_forecast(&pool("default"), network(1)).await.unwrap();
    served.coordinator.set_pool(&pool("spare"), Some(Settings::default())).await.unwrap();
    let cpu = "cpu".parse().unwrap();
    for seed in [1, 2] {
        models::add(&served.coordinator, &cpu, models::file(seed));
    }
    let serving = Serving { version: 2, pinned: false, canary: None };
    served.coordinator.order_model(&cpu, ModelOrder::Serve(serving), &Terms::default()).unwrap();
    let made = served.token(json!({"name": "a", "role": "reader"})).await.view.id;
    let before = everything(&served, dir.path()).await;
    let document: Value = send(served.bare(Method::GET, "/openapi.json")).await.json();
    let mut tried = BTreeSet::new();
    for (template, operations) in document["paths"].as_object().unwrap() {
        for (method, operation) in operations.as_object().unwrap() {
            let id = operation["operationId"].as_str().unwrap();
            if method == "get" || OF_AGENTS.contains(&id) {
                continue;
            }
            let of_pool = if id == "remove_pool" { "spare" } else { "default" };
            let of = if template.starts_with("/v1/tokens") { made.to_string() } else { agent.agent.to_string() };
            let path = template.replace("{id}", &of).replace("{pool}", of_pool).replace("{model}", "cpu");
            let method: Method = method.to_uppercase().parse().unwrap();
            if NO_ORDERS.contains(&id) {
                for (query, field) in [("dryrun=true", "dryrun"), ("dry_run=yes", "dry_run")] {
                    let reply = send(served.request(method.clone(), &format!("{path}?{query}"))).await;
                    assert_eq!(reply.problem().field.as_deref(), Some(field), "{id}: {reply:?}");
                }
                continue;
            }
            let request = |query: &str| {
                let request = served.request(method.clone(), &format!("{path}?{query}"));
                match operation["requestBody"]["content"].as_object().and_then(|content| content.keys().next()) {
                    Some(kind) if kind == "application/json" => request.json(&match id {
                        "set_capacity" => json!({"cores": 1.0, "memory_gib": 1.0}),
                        "set_budget" => json!({"percent": 50.0}),
                        "set_pool" => json!({"kind": "tenant"}),
                        "set_lifecycle" => json!({"state": "fallback"}),
                        "set_scarcity" => json!({"mode": "off", "ageing": 1.0}),
                        "set_entitlement" => json!({"weight": 3.0, "minimum": {"cores": 1.0, "memory_gib": 1.0}}),
                        "serve_model" => json!({"version": 1, "canary": {"version": 2, "share": 0.5}}),
                        "create_token" => json!({"name": "b", "role": "admin"}),
                        other => panic!("no example for {other}"),
                    }),
                    Some(_) => {
                        let file = if id == "add_model" { models::file(3) } else { network(2) };
                        request.header("content-type", "application/octet-stream").body(file)
                    }
                    None => request,
                }
            };
            let reply = send(request("dry_run=true")).await;
            assert_eq!(reply.status, 200, "{id}: {reply:?}");
            let ordered: Ordered = reply.json();
            assert!(ordered.dry_run && !reply.headers.contains_key("etag"), "{id}: {ordered:?}");
            assert_eq!(ordered.changed, ordered.before != ordered.after);
            // It is checked like a real one.
            assert_eq!(send(request("dry_run=true").header("if-match", "\"other\"")).await.status, 412, "{id}");
            assert_eq!(send(request("dryrun=true")).await.problem().field.as_deref(), Some("dryrun"), "{id}");
            assert_eq!(send(request("dry_run=yes")).await.problem().field.as_deref(), Some("dry_run"), "{id}");
            assert_eq!(everything(&served, dir.path()).await, before, "{id} changed something");
            tried.insert(id.to_owned());
        }
    }
    assert_eq!(tried.len(), 31, "{tried:?}");
    assert_eq!(served.coordinator.token(), token);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn the_kill_switch_reaches_everybody_and_each_is_lifted_apart() {
    let dir = tempfile::tempdir().unwrap();
    let options = || Options {
        data_dir: Some(dir.path().to_owned()),
        pools: vec![pool("default"), pool("other")],
        ..Options::default()
    };
    let coordinator = Coordinator::open(options(), meanfield_coordinator::Clock::manual()).unwrap();
    let a = member(&coordinator, "a").await;
    let b = coordinator.register(Register { pool: pool("other"), ..register("b") }).await.unwrap();
    let mut sequence = 0;
    let mut told = |coordinator: &Coordinator| {
        sequence += 1;
        [&a, &b].map(|agent| {
            let answer = coordinator.heartbeat(agent.agent, &beat(agent.epoch, sequence, 50)).unwrap();
            assert_eq!(coordinator.agent(agent.agent).unwrap().fallback, answer.directives.fallback);
            answer.directives.fallback
        })
    };
    assert_eq!(told(&coordinator), [false, false]);
    order(&coordinator, Order::Fallback(Scope::All, true)).await;
    assert_eq!(told(&coordinator), [true, true]);
    order(&coordinator, Order::Fallback(Scope::Pool(pool("other")), true)).await;
    order(&coordinator, Order::Fallback(Scope::Agent(a.agent), true)).await;
    order(&coordinator, Order::Fallback(Scope::All, false)).await;
    assert_eq!(told(&coordinator), [true, true]);
    order(&coordinator, Order::Lifecycle(a.agent, Some(Lifecycle::Serving))).await;
    drop(coordinator);
    let coordinator = Coordinator::open(options(), meanfield_coordinator::Clock::manual()).unwrap();
    assert_eq!(told(&coordinator), [true, true], "it outlasts a restart");
    assert_eq!(coordinator.agent(a.agent).unwrap().lifecycle, Some(Lifecycle::Serving));
    assert!(coordinator.pools()[1].fallback && !coordinator.pools()[0].fallback);
    order(&coordinator, Order::Fallback(Scope::Agent(a.agent), false)).await;
    assert_eq!(told(&coordinator), [false, true]);
    let answer = coordinator.heartbeat(a.agent, &beat(a.epoch, 99, 50)).unwrap();
    assert_eq!(answer.directives.lifecycle, Some(Lifecycle::Serving));
    // An operator's word outlasts a leave, but not a removal.
    coordinator.leave(a.agent, Leave { epoch: a.epoch }).await.unwrap();
    member(&coordinator, "a").await;
    assert_eq!(coordinator.agent(a.agent).unwrap().lifecycle, Some(Lifecycle::Serving));
    order(&coordinator, Order::Remove(a.agent)).await;
    member(&coordinator, "a").await;
    assert_eq!(coordinator.agent(a.agent).unwrap().lifecycle, None);
}

#[tokio::test]
async fn lists_can_be_filtered_and_paged() {
    let options = Options { pools: ["a", "b/x", "b/y"].map(pool).to_vec(), ..Options::default() };
    let served = Served::start(options).await;
    for (pool_name, agent, category) in [
        ("a", "shop/cart", Category::Cpu),
        ("a", "shop/pay", Category::Io),
        ("b/x", "shop/cart", Category::Io),
        ("b/x", "mail/send", Category::Memory),
    ] {
        let register = Register { name: name(agent), pool: pool(pool_name), category, ..register(agent) };
        served.coordinator.register(register).await.unwrap();
    }
    let agents = async |query: &str| {
        let page: Page = served.get(&format!("/v1/agents?{query}")).await.json();
        page.agents.iter().map(|agent| format!("{}:{}", agent.pool, agent.name)).collect::<Vec<_>>()
    };
    assert_eq!(agents("category=io").await, ["a:shop/pay", "b/x:shop/cart"]);
    assert_eq!(agents("prefix=shop/&pool=b/x").await, ["b/x:shop/cart"]);
    assert_eq!(agents("state=active&prefix=mail").await, ["b/x:mail/send"]);
    assert_eq!(agents("state=suspect").await, [] as [String; 0]);
    let page: Page = served.get("/v1/agents?category=io&limit=1").await.json();
    assert_eq!(agents(&format!("category=io&after={}", page.next.unwrap())).await, ["b/x:shop/cart"]);
    for (query, field) in [("category=gpu", "category"), ("state=gone", "state"), ("names=a", "names")] {
        let problem = served.get(&format!("/v1/agents?{query}")).await.problem();
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some(field)));
    }
    let pools = async |query: &str| {
        let page: Value = served.get(&format!("/v1/pools?{query}")).await.json();
        let names = page["pools"].as_array().unwrap().iter().map(|pool| pool["name"].as_str().unwrap().to_owned());
        (names.collect::<Vec<_>>(), page["next"].as_str().map(str::to_owned))
    };
    assert_eq!(pools("limit=2").await, (vec!["a".to_owned(), "b/x".to_owned()], Some("b/x".to_owned())));
    assert_eq!(pools("after=b/x").await.0, ["b/y"]);
    assert_eq!(pools("prefix=b").await.0, ["b/x", "b/y"]);
    for (query, field) in [("limit=0", "limit"), ("after=C", "after"), ("name=a", "name")] {
        let problem = served.get(&format!("/v1/pools?{query}")).await.problem();
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some(field)));
    }
    served.ended().await.unwrap();
}
