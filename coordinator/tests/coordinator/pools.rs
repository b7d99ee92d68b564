//! Pools that come and go: made, changed and removed by the API, over restarts, with members in them.

use std::path::Path;

use meanfield_common::{budget::Budget, identity::Category, scarcity::Capacity, wire::Register};
use meanfield_coordinator::{
    Clock, Coordinator, Error, Options,
    events::Kind as Happened,
    http::pools::Pools,
    orders::{Order, Scope, Terms},
    settings::{Kind, Settings, TeamReward},
    store::{Contents, Disk, Store},
    view::PoolView,
};
use proptest::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

use crate::{durability::image, forecast::network, scarcity::claiming, support::*};

fn joining(to: &str, agent: &str) -> Register {
    Register { pool: pool(to), category: Category::Io, ..register(agent) }
}

#[tokio::test]
async fn a_pool_is_made_changed_and_removed_and_every_step_is_told_and_audited() {
    let served = Served::start(Options::default()).await;
    let mut events = served.coordinator.events(None, Default::default());
    let path = "/v1/pools/shop%2Fgpu";
    let put = |header: &str, condition: &str, body: Value| {
        send(served.request(Method::PUT, path).header(header, condition).json(&body))
    };
    let settings = json!({"kind": "node-pool", "description": "with GPUs", "team_reward": "weighted"});
    let tried = send(served.request(Method::PUT, &format!("{path}?dry_run=true")).json(&settings)).await;
    let said: Value = tried.json();
    assert_eq!((tried.status.as_u16(), &said["before"], &said["after"]), (200, &Value::Null, &settings));
    assert_eq!(served.get(path).await.problem().kind, "/problems/unknown-pool", "it was only tried");
    assert_eq!(put("if-match", "*", settings.clone()).await.status, 412, "there is nothing to change yet");

    let made = put("if-none-match", "*", settings.clone()).await;
    assert_eq!(made.status, 201, "{made:?}");
    let shown = served.get(path).await;
    assert_eq!(shown.headers["etag"], made.headers["etag"]);
    let view: PoolView = shown.json();
    assert_eq!((view.name.as_str(), view.configured, view.settings.kind), ("shop/gpu", false, Kind::NodePool));
    let again = put("if-none-match", "*", settings.clone()).await.problem();
    assert_eq!((again.status, again.field.as_deref()), (412, Some("If-None-Match")), "{again:?}");

    let tag = made.headers["etag"].to_str().unwrap().to_owned();
    let changed = put("if-match", &tag, json!({"kind": "tenant"})).await;
    assert_eq!(changed.status, 204);
    assert_ne!(changed.headers["etag"], made.headers["etag"]);
    assert_eq!(put("if-match", &tag, settings).await.status, 412, "somebody was faster");
    assert_eq!(served.coordinator.pool(&pool("shop/gpu")).unwrap().settings.team_reward, TeamReward::Mean);

    let agent = served.coordinator.register(joining("shop/gpu", "a")).await.unwrap();
    served.coordinator.heartbeat(agent.agent, &beat(agent.epoch, 1, 40)).unwrap();
    // All that a board can have of a pool: members, what they report, a capacity and a cut.
    served.coordinator.set_capacity(&pool("shop/gpu"), Capacity::new(2.0, 8.0).ok()).await.unwrap();
    served.coordinator.heartbeat(agent.agent, &claiming(&agent, 2, 4.0, 1.0)).unwrap();
    for line in ["pool_agents{pool=\"shop/gpu\"} 1", "pool_cuts{pool=\"shop/gpu\",reason=\"need\"} 1"] {
        assert!(served.get("/metrics").await.body.contains(line), "{line}");
    }
    let remove = async || send(served.request(Method::DELETE, path)).await;
    let refused = remove().await.problem();
    assert_eq!((refused.status, refused.kind.as_str()), (409, "/problems/pool-in-use"));
    assert!(refused.detail.contains("has 1 members"), "{}", refused.detail);
    served.coordinator.remove(agent.agent).await.unwrap();
    assert_eq!(send(served.request(Method::DELETE, path).header("if-match", &tag)).await.status, 412);
    assert_eq!(remove().await.status, 204);
    assert_eq!(remove().await.problem().kind, "/problems/unknown-pool");
    assert!(!served.get("/metrics").await.body.contains("shop/gpu"), "what is gone is on no board");
    let refused = served.coordinator.register(joining("shop/gpu", "a")).await.unwrap_err();
    assert!(matches!(&refused, Error::Invalid(invalid) if invalid.bound == "one of default"), "{refused}");
    let refused = send(served.request(Method::DELETE, "/v1/pools/default")).await.problem();
    assert_eq!((refused.status, refused.kind.as_str()), (409, "/problems/configured-pool"));

    let told = served.coordinator.next_events(&mut events).await.unwrap();
    let told: Vec<_> = told.into_iter().filter(|event| event.kind == Happened::Pool).collect();
    assert_eq!(
        told.iter().map(|event| event.detail.clone().unwrap()["kind"].clone()).collect::<Vec<_>>(),
        [json!("node-pool"), json!("tenant"), Value::Null]
    );
    assert!(told.iter().all(|event| event.pool == Some(pool("shop/gpu"))));
    let entries = served.coordinator.audit_log(&Default::default(), 0, 100).entries;
    let of_pool: Vec<_> = entries.iter().filter(|entry| entry.target == "pools/shop/gpu").collect();
    assert_eq!(
        of_pool.iter().map(|entry| entry.action.as_str()).collect::<Vec<_>>(),
        ["pool.set", "pool.set", "pool.remove"]
    );
    assert!(served.coordinator.audit());
    served.ended().await.unwrap();
}

#[tokio::test]
async fn bad_settings_are_refused_with_the_field_and_the_bound() {
    let served = Served::start(Options { max_pools: 2, ..Options::default() }).await;
    for (body, field) in [
        (json!({"kind": "rack"}), "kind"),
        (json!({"description": "x".repeat(501)}), "description"),
        (json!({"description": "a\nb"}), "description"),
        (json!({"team_reward": "median"}), "team_reward"),
        (json!({"size": 1}), "size"),
    ] {
        let problem = send(served.request(Method::PUT, "/v1/pools/other").json(&body)).await.problem();
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some(field)), "{problem:?}");
        assert!(problem.bound.is_some(), "{problem:?}");
    }
    let bad = send(served.request(Method::PUT, "/v1/pools/Bad").json(&json!({}))).await.problem();
    assert_eq!((bad.status, bad.field.as_deref()), (422, Some("pool")));
    assert_eq!(send(served.request(Method::PUT, "/v1/pools/second").json(&json!({}))).await.status, 201);
    let third = async |query: &str| {
        send(served.request(Method::PUT, &format!("/v1/pools/third{query}")).json(&json!({}))).await.problem()
    };
    for query in ["", "?dry_run=true"] {
        let problem = third(query).await;
        assert_eq!((problem.status, problem.kind.as_str()), (409, "/problems/too-many-pools"));
        assert!(problem.detail.contains("there are 2 pools"), "{}", problem.detail);
    }
    assert_eq!(send(served.request(Method::PUT, "/v1/pools/second").json(&json!({}))).await.status, 204, "no new one");
    let page: Pools = served.get("/v1/pools?limit=1").await.json();
    assert_eq!(page.next, Some(pool("default")));
    served.coordinator.set_pool(&pool("second"), None).await.unwrap();
    served.coordinator.set_pool(&pool("a"), Some(Settings::default())).await.unwrap();
    let page: Pools = served.get("/v1/pools?after=a").await.json();
    assert_eq!(page.pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>(), ["default"]);
    let page: Pools = served.get("/v1/pools?after=second").await.json();
    assert!(page.pools.is_empty(), "the place of a pool that was removed is still one");
    served.ended().await.unwrap();
}

#[test]
fn pools_outlast_a_restart_with_their_settings_members_and_orders() {
    let dir = tempfile::tempdir().unwrap();
    let start = |pools: &[&str]| {
        let pools = pools.iter().map(|name| pool(name)).collect();
        let options = Options { data_dir: Some(dir.path().to_owned()), pools, max_pools: 3, ..Options::default() };
        Coordinator::open(options, Clock::manual()).unwrap()
    };
    let names = |coordinator: &Coordinator| -> Vec<_> {
        coordinator.pools().into_iter().map(|pool| pool.name.to_string()).collect()
    };
    let weighted = Settings { team_reward: TeamReward::Weighted, ..Settings::default() };
    let capacity = Capacity::new(4.0, 8.0).unwrap();
    let coordinator = start(&["default", "old"]);
    let (made, old) = block_on(async {
        coordinator.set_pool(&pool("made"), Some(weighted.clone())).await.unwrap();
        coordinator.set_pool(&pool("default"), Some(weighted.clone())).await.unwrap();
        coordinator.set_capacity(&pool("made"), Some(capacity)).await.unwrap();
        coordinator.set_capacity(&pool("old"), Some(capacity)).await.unwrap();
        coordinator.set_forecast(&pool("made"), network(1)).await.unwrap();
        let made = coordinator.register(joining("made", "a")).await.unwrap();
        (made, coordinator.register(joining("old", "b")).await.unwrap())
    });
    drop(coordinator);

    let coordinator = start(&["default"]);
    assert_eq!(names(&coordinator), ["default", "made"], "what was configured is not there any more, what was made is");
    let view = coordinator.pool(&pool("made")).unwrap();
    assert_eq!((&view.settings, view.agents.active), (&weighted, 1));
    assert!(view.scarcity.is_some() && view.forecast.is_some());
    assert_eq!(coordinator.pool(&pool("default")).unwrap().settings, weighted);
    coordinator.heartbeat(made.agent, &beat(made.epoch, 1, 50)).unwrap();
    assert!(matches!(coordinator.heartbeat(old.agent, &beat(old.epoch, 1, 50)), Err(Error::UnknownAgent(_))));
    block_on(async {
        // Made under the name of a pool that was configured: its members come back as they would with a restart, but
        // nothing that was ordered about it.
        coordinator.set_pool(&pool("old"), Some(Settings::default())).await.unwrap();
        coordinator.heartbeat(old.agent, &beat(old.epoch, 1, 50)).unwrap();
        assert!(coordinator.pool(&pool("old")).unwrap().scarcity.is_none());
        let many = coordinator.set_pool(&pool("more"), Some(Settings::default())).await.unwrap_err();
        assert!(matches!(many, Error::TooManyPools(3)), "{many}");
        let refused = coordinator.set_pool(&pool("made"), None).await.unwrap_err();
        assert!(matches!(refused, Error::PoolInUse { members: 1, .. }), "{refused}");
        coordinator.remove(made.agent).await.unwrap();
        coordinator.set_pool(&pool("made"), None).await.unwrap();
    });
    assert!(coordinator.audit());
    drop(coordinator);

    let coordinator = start(&["default", "made"]);
    assert_eq!(names(&coordinator), ["default", "made", "old"]);
    let view = coordinator.pool(&pool("made")).unwrap();
    assert_eq!((view.settings, view.scarcity, view.forecast, view.configured), (Settings::default(), None, None, true));
    assert_eq!(coordinator.agent(old.agent).unwrap().pool, pool("old"));
    let again = block_on(coordinator.register(joining("made", "a"))).unwrap();
    assert_eq!((again.agent, again.epoch.0), (made.agent, 2), "who was in it is still known");
}

#[test]
fn nothing_is_kept_of_a_pool_or_an_agent_about_which_nothing_is_ordered() {
    let dir = tempfile::tempdir().unwrap();
    let coordinator = on_disk(dir.path()).unwrap();
    let order = |order| block_on(coordinator.order(order, Terms::default())).unwrap();
    let made = pool("made");
    block_on(async {
        coordinator.set_pool(&made, Some(Settings::default())).await.unwrap();
        coordinator.set_capacity(&made, Capacity::new(4.0, 8.0).ok()).await.unwrap();
        coordinator.set_forecast(&made, network(1)).await.unwrap();
    });
    order(Order::Budget(made.clone(), Budget::new(10.0).ok()));
    let agent = block_on(coordinator.register(joining("made", "a"))).unwrap().agent;
    order(Order::Fallback(Scope::Agent(agent), true));
    let kept = |contents: &Contents| {
        let Contents { pools, capacities, forecasts, pool_orders, agent_orders, .. } = contents;
        [pools.len(), capacities.len(), forecasts.len(), pool_orders.len(), agent_orders.len()]
    };
    let load = |dir: &Path| Disk::rehearse(dir).unwrap().open().unwrap().load().unwrap();
    assert_eq!(kept(&load(image(dir.path()).path())), [1; 5]);
    block_on(coordinator.remove(agent)).unwrap();
    block_on(coordinator.set_pool(&made, None)).unwrap();
    drop(coordinator);
    assert_eq!(kept(&load(dir.path())), [0; 5]);
}

#[tokio::test]
async fn nobody_gets_into_a_pool_that_is_removed_at_the_same_time() {
    let coordinator = in_memory();
    let (mut joins, mut removals) = (0, 0);
    for turn in 0..50 {
        coordinator.set_pool(&pool("short"), Some(Settings::default())).await.unwrap();
        let name = format!("a{turn}");
        let short = pool("short");
        let (join, remove) = (coordinator.register(joining("short", &name)), coordinator.set_pool(&short, None));
        // Each of them is the first to be handed in every other time.
        let (joined, removed) = if turn % 2 == 0 {
            tokio::join!(biased; join, remove)
        } else {
            let (removed, joined) = tokio::join!(biased; remove, join);
            (joined, removed)
        };
        match (&joined, &removed) {
            (Ok(registered), Err(Error::PoolInUse { .. })) => {
                joins += 1;
                coordinator.heartbeat(registered.agent, &beat(registered.epoch, 1, 10)).unwrap();
                coordinator.remove(registered.agent).await.unwrap();
                coordinator.set_pool(&short, None).await.unwrap();
            }
            (Err(Error::Invalid(_)), Ok(())) => removals += 1,
            other => panic!("{other:?}"),
        }
        assert!(coordinator.audit() && coordinator.pools().len() == 1);
    }
    assert_eq!((joins, removals), (25, 25), "whoever was first");
}

#[derive(Debug, Clone)]
enum Doing {
    Make(u8),
    Remove(u8),
    Join(u8, u8),
    Beat(u8, u8),
    Leave(u8),
}

fn doing() -> impl Strategy<Value = Doing> {
    prop_oneof![
        (0..4_u8).prop_map(Doing::Make),
        (0..4_u8).prop_map(Doing::Remove),
        (0..4_u8, 0..6_u8).prop_map(|(to, agent)| Doing::Join(to, agent)),
        (0..24_u8, 0..100_u8).prop_map(|(at, level)| Doing::Beat(at, level)),
        (0..24_u8).prop_map(Doing::Leave),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// Whatever is made, joined, left and removed in whichever order: the pools are those of a model, one with members
    /// stays, and every pool's sums are a recomputation's.
    #[test]
    fn pools_and_members_come_and_go_as_in_a_model(doings in prop::collection::vec(doing(), 1..60)) {
        block_on(async {
            let coordinator = in_memory();
            let named = |number: u8| pool(&format!("p{number}"));
            let (mut pools, mut members) = (std::collections::BTreeSet::new(), Vec::new());
            let mut sequence = 0;
            for doing in doings {
                match doing {
                    Doing::Make(number) => {
                        coordinator.set_pool(&named(number), Some(Settings::default())).await.unwrap();
                        pools.insert(number);
                    }
                    Doing::Remove(number) => {
                        let used = members.iter().any(|(of, _, _)| *of == number);
                        match coordinator.set_pool(&named(number), None).await {
                            Ok(()) => assert!(pools.remove(&number) && !used),
                            Err(Error::PoolInUse { .. }) => assert!(used),
                            Err(Error::UnknownPool { .. }) => assert!(!pools.contains(&number)),
                            Err(other) => panic!("{other}"),
                        }
                    }
                    Doing::Join(number, agent) => {
                        let name = format!("a{agent}");
                        let joined = coordinator.register(joining(named(number).as_str(), &name)).await;
                        assert_eq!(joined.is_ok(), pools.contains(&number));
                        if let Ok(registered) = joined {
                            members.retain(|(of, other, _)| (*of, *other) != (number, agent));
                            members.push((number, agent, registered));
                        }
                    }
                    Doing::Beat(at, level) if !members.is_empty() => {
                        let (_, _, registered) = &members[usize::from(at) % members.len()];
                        sequence += 1;
                        coordinator.heartbeat(registered.agent, &beat(registered.epoch, sequence, level)).unwrap();
                    }
                    Doing::Leave(at) if !members.is_empty() => {
                        let (_, _, registered) = members.swap_remove(usize::from(at) % members.len());
                        coordinator.remove(registered.agent).await.unwrap();
                    }
                    Doing::Beat(..) | Doing::Leave(_) => {}
                }
            }
            assert!(coordinator.audit());
            let there: Vec<_> = coordinator.pools().into_iter().map(|pool| (pool.name, pool.agents.active)).collect();
            let count = |number: u8| members.iter().filter(|(of, _, _)| *of == number).count() as u64;
            let expected = pools.iter().map(|number| (named(*number), count(*number)));
            let expected: Vec<_> = [(pool("default"), 0)].into_iter().chain(expected).collect();
            assert_eq!(there, expected);
        });
    }
}

#[tokio::test]
async fn an_order_about_a_pool_that_was_just_removed_is_refused() {
    let coordinator = in_memory();
    let (short, terms) = (pool("short"), Terms::default());
    let order = || Order::Capacity(short.clone(), Capacity::new(1.0, 1.0).ok());
    for turn in 0..10 {
        coordinator.set_pool(&short, Some(Settings::default())).await.unwrap();
        assert!(coordinator.pool(&short).unwrap().scarcity.is_none(), "nothing of turn {turn} is left");
        coordinator.order(order(), terms.clone()).await.unwrap();
        // Both are handed in before either is decided, so that one commit has them.
        let (remove, order) = (coordinator.set_pool(&short, None), coordinator.order(order(), terms.clone()));
        let (removed, ordered) = tokio::join!(biased; remove, order);
        assert!(removed.is_ok() && matches!(ordered, Err(Error::UnknownPool { .. })), "{removed:?} {ordered:?}");
        assert!(coordinator.pool(&short).is_err());
    }
}
