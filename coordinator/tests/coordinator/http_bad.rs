//! What is refused over HTTP: with which status, kind, field and bound; counted; and without changing anything.

use meanfield_common::wire::Registered;
use meanfield_coordinator::Options;
use reqwest::{Method, RequestBuilder, StatusCode};
use serde_json::{Value, json, to_value};

use crate::support::*;

/// A coordinator with one agent that has reported sequence 5 in round 7.
async fn prepared() -> (Served, Registered) {
    let served = Served::start(Options::default()).await;
    member(&served.coordinator, "a").await;
    let registered = member(&served.coordinator, "a").await;
    let message = in_round(7, beat(registered.epoch, 5, 60));
    served.coordinator.heartbeat(registered.agent, &message).unwrap();
    (served, registered)
}

/// What a refusal must say; an empty field or bound must be absent.
struct Expected {
    status: u16,
    kind: &'static str,
    field: &'static str,
    bound: &'static str,
}

fn expect(status: u16, kind: &'static str, field: &'static str, bound: &'static str) -> Expected {
    Expected { status, kind, field, bound }
}

async fn refused(served: &Served, request: RequestBuilder, expected: Expected) {
    let line = format!("meanfield_coordinator_refusals_total{{kind=\"{}\"}}", expected.kind);
    let (counted, before) = (served.metric(&line).await, (served.coordinator.agents(), served.coordinator.pools()));
    let reply = send(request).await;
    let problem = reply.problem();
    assert_eq!((problem.status, problem.kind.as_str()), (expected.status, &*format!("/problems/{}", expected.kind)));
    let wanted = |text: &'static str| (!text.is_empty()).then_some(text);
    assert_eq!(problem.field.as_deref(), wanted(expected.field), "{problem:?}");
    match wanted(expected.bound) {
        Some(bound) => assert!(problem.bound.as_deref().is_some_and(|given| given.contains(bound)), "{problem:?}"),
        None => assert_eq!(problem.bound, None, "{problem:?}"),
    }
    assert!(!problem.title.is_empty() && !problem.detail.is_empty());
    assert_eq!(reply.headers.contains_key("www-authenticate"), expected.status == 401);
    assert_eq!(served.metric(&line).await, counted + 1.0, "{line}");
    assert_eq!((served.coordinator.agents(), served.coordinator.pools()), before, "nothing has changed");
}

/// A good next heartbeat with one part replaced.
fn changed(agent: &Registered, pointer: &str, value: Value) -> Value {
    let mut message = to_value(in_round(7, beat(agent.epoch, 6, 70))).unwrap();
    *message.pointer_mut(pointer).unwrap() = value;
    message
}

#[tokio::test]
async fn heartbeats_with_bad_values() {
    let (served, agent) = prepared().await;
    let path = format!("/v1/agents/{}/heartbeat", agent.agent);
    let cases = [
        ("/state/cpu_utilisation", json!(1.5), "state.cpu_utilisation", "within [-1, 1]"),
        ("/state/replicas", json!("many"), "state.replicas", "f64"),
        ("/reward", json!(2e6), "reward", "within [-1000000, 1000000]"),
        ("/reward", json!(null), "reward", "f64"),
        ("/action/cpu", json!(2), "action.cpu", "-1, 0 or 1"),
        ("/epoch", json!(-1), "epoch", "u64"),
        ("/sequence", json!(1.5), "sequence", "u64"),
        ("/round", json!("next"), "round", "u64"),
        ("/state", json!([]), "state", "struct LocalState with 7 elements"),
    ];
    for (pointer, value, field, bound) in cases {
        let request = served.request(Method::POST, &path).json(&changed(&agent, pointer, value));
        refused(&served, request, expect(422, "invalid-value", field, bound)).await;
    }
    let good = serde_json::to_string(&in_round(7, beat(agent.epoch, 6, 70))).unwrap();
    let texts = [
        (good.replace("\"reward\":40.0", "\"reward\":1e999"), "invalid-value", "reward", "a finite number"),
        (good.replace("\"reward\":40.0", "\"reward\":40.0,\"extra\":1"), "unknown-field", "extra", "`epoch`"),
        (good.replace("\"cpu_limit\"", "\"cpu_limits\""), "unknown-field", "state.cpu_limits", "`cpu_limit`"),
        (good.replace(",\"reward\":40.0", ""), "missing-field", "reward", ""),
        (good.replace("\"memory\":0,", ""), "missing-field", "action.memory", ""),
        (good.replace("\"reward\":40.0", "\"reward\":1,\"reward\":2"), "invalid-value", "reward", "given once"),
    ];
    for (text, kind, field, bound) in texts {
        assert_ne!(text, good);
        let request = served.request(Method::POST, &path).header("content-type", "application/json").body(text);
        refused(&served, request, expect(422, kind, field, bound)).await;
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn bodies_that_are_no_json() {
    let (served, agent) = prepared().await;
    let path = format!("/v1/agents/{}/heartbeat", agent.agent);
    let good = serde_json::to_string(&in_round(7, beat(agent.epoch, 6, 70))).unwrap();
    let post = || served.request(Method::POST, &path).header("content-type", "application/json");
    for bad in ["", "{", "hello", &good.replace("40.0", "NaN"), &good.replace("40.0", "Infinity"), &format!("{good} x")]
    {
        refused(&served, post().body(bad.to_owned()), expect(400, "malformed-json", "", "")).await;
        let problem = send(post().body(bad.to_owned())).await.problem();
        assert!(problem.detail.contains("line 1 column"), "{problem:?}");
    }
    refused(&served, post().body(vec![0xff, 0xfe]), expect(400, "malformed-json", "", "")).await;
    let large = "x".repeat(Options::default().limits.body + 1);
    refused(&served, post().body(large.clone()), expect(413, "body-too-large", "body", "at most 16384 bytes")).await;
    // The same without an announced length.
    let chunks = futures_util::stream::iter([Ok::<_, std::io::Error>(large)]);
    let chunked = post().body(reqwest::Body::wrap_stream(chunks));
    refused(&served, chunked, expect(413, "body-too-large", "body", "at most 16384 bytes")).await;
    let wrong = || expect(415, "unsupported-media-type", "content-type", "application/json");
    for kind in ["text/plain", "application/jsonx", "application/x-www-form-urlencoded"] {
        let request = served.request(Method::POST, &path).header("content-type", kind).body(good.clone());
        refused(&served, request, wrong()).await;
    }
    refused(&served, served.request(Method::POST, &path).body(good.clone()), wrong()).await;
    let with_parameters =
        served.request(Method::POST, &path).header("content-type", "Application/JSON; charset=utf-8").body(good);
    assert_eq!(send(with_parameters).await.status, StatusCode::OK);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn heartbeats_at_the_wrong_time() {
    let (served, agent) = prepared().await;
    let path = format!("/v1/agents/{}/heartbeat", agent.agent);
    let post =
        |pointer: &str, value: u64| served.request(Method::POST, &path).json(&changed(&agent, pointer, json!(value)));
    refused(&served, post("/epoch", 1), expect(409, "stale-epoch", "epoch", "equal to 2")).await;
    refused(&served, post("/epoch", 3), expect(404, "unknown-agent", "", "")).await;
    refused(&served, post("/sequence", 4), expect(409, "replayed-sequence", "sequence", "at least 5")).await;
    refused(&served, post("/sequence", 5), expect(409, "conflicting-sequence", "sequence", "above 5")).await;
    refused(&served, post("/round", 6), expect(409, "stale-round", "round", "at least 7")).await;
    let nobody = format!("/v1/agents/{}", uuid::Uuid::nil());
    let message = changed(&agent, "/epoch", json!(1));
    let request = served.request(Method::POST, &format!("{nobody}/heartbeat")).json(&message);
    refused(&served, request, expect(404, "unknown-agent", "", "")).await;
    let request = served.request(Method::POST, "/v1/agents/seven/heartbeat").json(&message);
    refused(&served, request, expect(422, "invalid-value", "agent", "a UUID")).await;
    let path = format!("/v1/agents/{}/leave", agent.agent);
    let leave = |epoch: u64| served.request(Method::POST, &path).json(&json!({"epoch": epoch}));
    refused(&served, leave(1), expect(409, "stale-epoch", "epoch", "equal to 2")).await;
    refused(&served, leave(3), expect(404, "unknown-agent", "", "")).await;
    for (method, path) in [
        (Method::GET, nobody.clone()),
        (Method::DELETE, nobody.clone()),
        (Method::POST, format!("{nobody}/pause")),
        (Method::POST, format!("{nobody}/resume")),
    ] {
        refused(&served, served.request(method, &path), expect(404, "unknown-agent", "", "")).await;
    }
    served.ended().await.unwrap();
}

#[tokio::test]
async fn registrations_and_lists_with_bad_values() {
    let (served, _) = prepared().await;
    let post = |body: Value| served.request(Method::POST, "/v1/agents").json(&body);
    let good = to_value(register("b")).unwrap();
    let with = |field: &str, value: &str| {
        let mut body = good.clone();
        body[field] = json!(value);
        post(body)
    };
    refused(&served, with("pool", "elsewhere"), expect(422, "invalid-value", "pool", "one of default")).await;
    refused(&served, with("pool", "No Pool"), expect(422, "invalid-value", "pool", "of a-z, 0-9")).await;
    refused(&served, with("name", ""), expect(422, "invalid-value", "name", "of a-z, 0-9")).await;
    refused(&served, with("name", &"x".repeat(129)), expect(422, "invalid-value", "name", "1 to 128")).await;
    refused(&served, with("category", "gpu"), expect(422, "invalid-value", "category", "`cpu`, `memory`")).await;
    for tricky in ["this is not that", "this, expected that"] {
        for (field, begin) in [("name", "1 to 128"), ("category", "one of `cpu`")] {
            let problem = send(with(field, tricky)).await.problem();
            assert!(problem.bound.as_deref().is_some_and(|bound| bound.starts_with(begin)), "{problem:?}");
        }
    }
    refused(&served, with("colour", "red"), expect(422, "unknown-field", "colour", "`name`")).await;
    refused(&served, post(json!({"name": "b"})), expect(422, "missing-field", "pool", "")).await;
    refused(&served, post(json!(3)), expect(422, "invalid-value", ".", "struct Register")).await;
    let get = |path: &str| served.request(Method::GET, path);
    for limit in ["0", "1001", "-1", "ten", ""] {
        let expected = expect(422, "invalid-value", "limit", "within [1, 1000]");
        refused(&served, get(&format!("/v1/agents?limit={limit}")), expected).await;
    }
    let expected = expect(422, "invalid-value", "after", "the `next` of an earlier page");
    refused(&served, get("/v1/agents?after=x"), expected).await;
    refused(&served, get("/v1/agents?offset=3"), expect(422, "unknown-field", "offset", "limit, after, pool")).await;
    refused(&served, get("/v1/agents?pool=none"), expect(404, "unknown-pool", "pool", "one of default")).await;
    refused(&served, get("/v1/pools/none"), expect(404, "unknown-pool", "pool", "one of default")).await;
    refused(&served, get("/v1/pools/No%20Pool"), expect(422, "invalid-value", "pool", "of a-z, 0-9")).await;
    refused(&served, get("/v1/pools/%ff"), expect(422, "invalid-value", "path", "UTF-8")).await;
    served.ended().await.unwrap();
}

#[tokio::test]
async fn strangers_and_wrong_turns() {
    let (served, agent) = prepared().await;
    let path = format!("/v1/agents/{}", agent.agent);
    let denied = || expect(401, "unauthorised", "", "");
    refused(&served, served.bare(Method::GET, &path), denied()).await;
    let token = served.coordinator.token();
    for wrong in ["", "x", &token[1..], &format!("{token}x"), &token.to_uppercase().replace(char::is_numeric, "7")] {
        refused(&served, served.bare(Method::DELETE, &path).bearer_auth(wrong), denied()).await;
    }
    refused(&served, served.bare(Method::DELETE, &path).basic_auth("admin", Some(token)), denied()).await;
    let get = |path: &str| served.request(Method::GET, path);
    for nowhere in ["/", "/v1", "/v1/agent", "/v2/agents", "/v1/agents/", "/v1/pools/a/b"] {
        refused(&served, get(nowhere), expect(404, "not-found", "", "")).await;
    }
    let put = served.request(Method::PUT, "/v1/agents");
    refused(&served, put, expect(405, "method-not-allowed", "", "")).await;
    refused(&served, get("/v1/resume"), expect(405, "method-not-allowed", "", "")).await;
    for open in ["/metrics", "/livez", "/readyz", "/openapi.json"] {
        assert_eq!(send(served.bare(Method::GET, open)).await.status, StatusCode::OK, "{open}");
    }
    served.ended().await.unwrap();
}
