//! Trajectories over HTTP: what is taken, what is refused and why, and what is counted.

use meanfield_common::trajectory::Appended;
use meanfield_coordinator::{Options, trajectories::layout};
use reqwest::Method;
use serde_json::{Value, json};

use crate::{
    support::*,
    trajectories::{batch, csv, step},
};

#[tokio::test]
async fn what_agents_say_they_dropped_is_counted_and_bounded() {
    let served = Served::start(Options::default()).await;
    let a = member(&served.coordinator, "a").await;
    let hand_in = async |at: u32, dropped: Value| {
        let mut body = serde_json::to_value(batch(a.epoch, [step(1, at, 9)])).unwrap();
        body["dropped"] = dropped;
        served.post(&format!("/v1/agents/{}/trajectories", a.agent), &body).await
    };
    assert_eq!(hand_in(1, json!(7)).await.status, 200);
    assert_eq!(hand_in(1, json!(7)).await.status, 200, "known already, and not counted again");
    for bad in [json!(1_000_000_001), json!(u64::MAX)] {
        let problem = hand_in(2, bad.clone()).await.problem();
        assert_eq!((problem.status, problem.field.as_deref()), (422, Some("dropped")), "{problem:?}");
        assert_eq!(problem.bound.as_deref(), Some("at most 1000000000"));
        assert!(problem.detail.contains(&bad.to_string()), "{problem:?}");
    }
    let dropped = "meanfield_coordinator_trajectory_dropped_steps_total";
    assert_eq!(served.metric(dropped).await, 7.0, "what is refused is not counted");
    assert_eq!(hand_in(2, json!(1_000_000_000)).await.status, 200);
    assert_eq!(served.metric(dropped).await, 1_000_000_007.0);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn steps_are_taken_as_json_and_in_the_stores_layout() {
    let served = Served::start(Options::default()).await;
    let a = member(&served.coordinator, "a").await;
    let path = format!("/v1/agents/{}/trajectories", a.agent);
    let body = serde_json::to_value(batch(a.epoch, (0..50).map(|at| step(1, at, 9)))).unwrap();
    let reply = served.post(&path, &body).await;
    assert_eq!((reply.status.as_u16(), reply.json::<Appended>()), (200, Appended { stored: 50, known: 0 }));

    let mut bytes = a.epoch.0.to_le_bytes().to_vec();
    for episode in [1_u64, 2] {
        let chunk = layout::encode(0, &(0..60).map(|at| step(episode, at, 9)).collect::<Vec<_>>());
        bytes.extend(episode.to_le_bytes());
        bytes.extend((chunk.len() as u32).to_le_bytes());
        bytes.extend(chunk);
    }
    let binary = async |bytes: Vec<u8>| {
        let request = served.request(Method::POST, &path).header("content-type", "application/vnd.meanfield.steps");
        send(request.body(bytes)).await
    };
    let reply = binary(bytes.clone()).await;
    assert_eq!((reply.status.as_u16(), reply.json::<Appended>()), (200, Appended { stored: 70, known: 50 }));
    for cut in [0, 5, 8, 15, 19, 100, bytes.len() - 1] {
        let problem = binary(bytes[..cut].to_vec()).await.problem();
        assert_eq!(problem.status, 422, "{cut}: {problem:?}");
    }
    bytes[40] ^= 1;
    assert_eq!(binary(bytes).await.problem().field.as_deref(), Some("body"));

    assert_eq!(served.metric("meanfield_coordinator_trajectory_appended_steps_total").await, 120.0);
    assert_eq!(served.metric("meanfield_coordinator_trajectory_steps").await, 120.0);
    assert!(served.metric("meanfield_coordinator_trajectory_bytes").await > 5000.0);
    assert!(served.metric("meanfield_coordinator_trajectory_flush_seconds_count").await >= 2.0);

    let rewards: Value = served.get(&format!("/v1/agents/{}/rewards?limit=3", a.agent)).await.json();
    let steps: Vec<_> =
        rewards["rewards"].as_array().unwrap().iter().map(|one| one["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [59, 58, 57]);
    let page: Value = served.get("/v1/trajectories?limit=1&order=best&category=cpu&pool=default").await.json();
    assert_eq!((&page["episodes"][0]["steps"], page.get("next")), (&json!(60), None));
    let page: Value = served.get("/v1/trajectories?limit=1").await.json();
    let next = page["next"].as_str().unwrap();
    let page: Value = served.get(&format!("/v1/trajectories?limit=1&after={next}")).await.json();
    assert_eq!((page["episodes"].as_array().unwrap().len(), page.get("next")), (1, None));
    let samples: Value = served.get("/v1/trajectories/samples?limit=5&seed=2").await.json();
    assert_eq!(samples["samples"].as_array().unwrap().len(), 5);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn what_is_wrong_is_named() {
    let served = Served::start(Options::default()).await;
    let a = member(&served.coordinator, "a").await;
    let path = format!("/v1/agents/{}/trajectories", a.agent);
    let good = serde_json::to_value(batch(a.epoch, [step(1, 0, 9), step(1, 1, 9)])).unwrap();
    let bad = |change: fn(&mut Value)| {
        let mut body = good.clone();
        change(&mut body);
        body
    };
    let cases: [(Value, u16, &str, &str); 8] = [
        (bad(|b| b["steps"][1]["step"] = json!(0)), 422, "invalid-value", "steps"),
        (bad(|b| b["steps"] = json!([])), 422, "invalid-value", "steps"),
        (bad(|b| b["steps"][0]["reward"] = json!(1e9)), 422, "invalid-value", "steps[0].reward"),
        (bad(|b| b["steps"][0]["verdicts"] = json!(["Bad One"])), 422, "invalid-value", "steps[0].verdicts[0]"),
        (
            bad(|b| b["steps"][0]["next_state"]["replicas"] = json!(2)),
            422,
            "invalid-value",
            "steps[0].next_state.replicas",
        ),
        (bad(|b| b["extra"] = json!(1)), 422, "unknown-field", "extra"),
        (bad(|b| b["epoch"] = json!(0)), 409, "stale-epoch", "epoch"),
        (bad(|b| drop(b.as_object_mut().unwrap().remove("epoch"))), 422, "missing-field", "epoch"),
    ];
    for (body, status, kind, field) in cases {
        let problem = served.post(&path, &body).await.problem();
        let expected = (status, format!("/problems/{kind}"), Some(field.to_owned()));
        assert_eq!((problem.status, problem.kind, problem.field), expected, "{}", problem.detail);
    }
    assert_eq!(served.post(&path, &good).await.status, 200);
    let other = bad(|b| b["steps"][1]["reward"] = json!(0.125));
    assert_eq!(served.post(&path, &other).await.problem().kind, "/problems/conflicting-step");
    let stranger = format!("/v1/agents/{}/trajectories", uuid::Uuid::from_u128(5));
    assert_eq!(served.post(&stranger, &good).await.problem().kind, "/problems/unknown-agent");

    for query in [
        "?limit=0",
        "?limit=1001",
        "?order=up",
        "?after=x",
        "?pool=A",
        "?category=disk",
        "?since=-1",
        "?agent=7",
        "/samples?seed=x",
        "/export?format=xml",
    ] {
        let problem = served.get(&format!("/v1/trajectories{query}")).await.problem();
        assert_eq!((problem.status, problem.kind.as_str()), (422, "/problems/invalid-value"), "{query}");
        assert!(problem.bound.is_some() && problem.field.is_some(), "{query}: {problem:?}");
    }
    assert_eq!(served.get("/v1/trajectories?seed=1").await.problem().kind, "/problems/unknown-field");

    let header = csv(&in_memory());
    let import = async |kind: &str, body: String| {
        let request = served.request(Method::POST, "/v1/trajectories/import").header("content-type", kind);
        send(request.body(body)).await.problem()
    };
    assert_eq!(import("text/plain", header.clone()).await.status, 415);
    assert_eq!(import("text/csv", "a,b\n1,2\n".to_owned()).await.field.as_deref(), Some("columns"));
    assert_eq!(import("application/vnd.apache.parquet", header.clone()).await.status, 422);
    let row = csv(&served.coordinator).lines().nth(1).unwrap().replace("0,0,0,1,", "0,0,0,7,");
    let problem = import("text/csv", format!("{header}{row}\n")).await;
    assert_eq!(problem.status, 422, "{problem:?}");
    assert!(problem.field.unwrap().starts_with("row 1, "));
    served.ended().await.unwrap();
}
