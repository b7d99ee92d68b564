//! Many heartbeats in one request: the same as one by one, in both forms, and what is bad spoils nothing else.

use meanfield_common::{
    batch::{Answers, Heartbeats, MOST, One, Outcome, binary},
    identity::{AgentId, Epoch, Sequence},
    scarcity::{Amount, Capacity, Claim, Cores, Gibibytes, Pods, Share, Weight},
    wire::{Answer, Heartbeat},
};
use meanfield_coordinator::{Coordinator, Options};
use proptest::prelude::*;
use reqwest::{Method, StatusCode};
use serde_json::{Value, json, to_value};
use uuid::Uuid;

use crate::support::*;

const AGENTS: u64 = 5;

/// One heartbeat in the words of a test: whose, with which epoch and sequence, how it goes, and with what.
type Said = (u64, u64, u64, u8, u8);

fn said() -> impl Strategy<Value = Vec<Said>> {
    prop::collection::vec((0..AGENTS + 1, 0..3_u64, 0..6_u64, 0..=100_u8, 0..8_u8), 0..40)
}

fn claim(level: u8) -> Claim {
    let amount = Amount { cores: Cores::clamped(f64::from(level) / 10.0), memory_gib: Gibibytes::clamped(1.5) };
    Claim {
        wanted: amount,
        held: amount,
        offered: Cores::clamped(f64::from(level) / 20.0),
        weight: Weight::clamped(2.5),
        pending: Pods::clamped(3),
        node_utilisation: Share::clamped(0.75),
        node: None,
    }
}

/// The heartbeats, for agents that have these ids; the last id is nobody's.
fn beats(said: &[Said], ids: &[AgentId]) -> Vec<One> {
    let one = |&(agent, epoch, sequence, level, with): &Said| {
        let heartbeat = Heartbeat {
            sequence: Sequence(sequence),
            claim: (with & 1 != 0).then(|| claim(level)),
            detail: with & 2 != 0,
            round: (with & 4 != 0).then_some(sequence),
            ..beat(Epoch(epoch), sequence, level)
        };
        One { agent: ids[agent as usize], heartbeat }
    };
    said.iter().map(one).collect()
}

async fn members(coordinator: &Coordinator) -> Vec<AgentId> {
    let mut ids = Vec::new();
    for agent in 0..AGENTS {
        ids.push(member(coordinator, &format!("agent-{agent}")).await.agent);
    }
    ids.push(AgentId(Uuid::nil()));
    ids
}

fn options() -> Options {
    Options { capacities: vec![(pool("default"), Capacity::new(8.0, 64.0).unwrap())], ..Options::default() }
}

/// What each came to, by kind where it was refused.
type Came = Vec<Result<Answer, String>>;

async fn compact(served: &Served, beats: &[One]) -> Came {
    let mut body = Vec::new();
    binary::write(&mut body, beats.iter().map(|one| (one.agent, &one.heartbeat)));
    let request = served.request(Method::POST, "/v1/heartbeats").header("content-type", binary::HEARTBEATS).body(body);
    let response = request.send().await.unwrap();
    assert_eq!(response.status(), StatusCode::OK);
    assert_eq!(response.headers()["content-type"], binary::ANSWERS);
    let answers = binary::answers(&response.bytes().await.unwrap()).unwrap();
    answers.into_iter().map(|answer| answer.map_err(|refused| refused.kind)).collect()
}

async fn json_form(served: &Served, beats: &[One]) -> Came {
    let body = to_value(Heartbeats { heartbeats: beats.to_vec() }).unwrap();
    let Answers { answers } = served.post("/v1/heartbeats", &body).await.json();
    let came = |outcome| match outcome {
        Outcome::Answer(answer) => Ok(*answer),
        Outcome::Problem(problem) => Err(problem.kind.trim_start_matches("/problems/").to_owned()),
    };
    answers.into_iter().map(came).collect()
}

async fn one_by_one(served: &Served, beats: &[One]) -> Came {
    let mut came = Vec::new();
    for one in beats {
        let path = format!("/v1/agents/{}/heartbeat", one.agent);
        let reply = served.post(&path, &to_value(one.heartbeat).unwrap()).await;
        came.push(match reply.status {
            StatusCode::OK => Ok(reply.json()),
            _ => Err(reply.problem().kind.trim_start_matches("/problems/").to_owned()),
        });
    }
    came
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn a_batch_is_the_same_as_its_heartbeats_one_by_one(first in said(), second in said()) {
        block_on(async {
            let mut all = Vec::new();
            for form in 0..3 {
                let served = Served::start(options()).await;
                let ids = members(&served.coordinator).await;
                let mut came = Vec::new();
                for said in [&first, &second] {
                    let beats = beats(said, &ids);
                    came.extend(match form {
                        0 => one_by_one(&served, &beats).await,
                        1 => json_form(&served, &beats).await,
                        _ => compact(&served, &beats).await,
                    });
                }
                assert!(served.coordinator.audit());
                let mut views = served.coordinator.agents();
                views.iter_mut().for_each(|view| view.id = AgentId(Uuid::nil()));
                all.push((came, views, served.coordinator.pools()));
                served.ended().await.unwrap();
            }
            assert_eq!(all[0], all[1]);
            assert_eq!(all[0], all[2]);
        });
    }
}

#[tokio::test]
async fn what_is_bad_spoils_nothing_else() {
    let served = Served::start(Options::default()).await;
    let ids = members(&served.coordinator).await;
    let good = |agent: usize| to_value(One { agent: ids[agent], heartbeat: beat(Epoch(1), 1, 40) }).unwrap();
    let mut huge = good(1);
    huge["heartbeat"]["reward"] = json!(1e300);
    let mut strange = good(2);
    strange["heartbeat"]["extra"] = json!(1);
    let body = json!({ "heartbeats": [good(0), huge, strange, "nonsense", json!({}), good(3)] });
    let reply = served.post("/v1/heartbeats", &body).await;
    let Value::Array(answers) = reply.json::<Value>()["answers"].take() else { panic!("{reply:?}") };
    let kind = |answer: &Value| answer["problem"]["type"].as_str().map(str::to_owned);
    let kinds: Vec<_> = answers.iter().map(kind).collect();
    let bad = |kind: &str| Some(format!("/problems/{kind}"));
    assert_eq!(
        kinds,
        [None, bad("invalid-value"), bad("unknown-field"), bad("invalid-value"), bad("missing-field"), None]
    );
    assert_eq!(answers[1]["problem"]["field"], "heartbeat.reward");

    // NaN cannot be written in JSON, but in the compact form it can.
    let beats: Vec<_> = (0..3).map(|agent| One { agent: ids[agent], heartbeat: beat(Epoch(1), 2, 40) }).collect();
    let mut body = Vec::new();
    binary::write(&mut body, beats.iter().map(|one| (one.agent, &one.heartbeat)));
    // Each takes a hundred bytes behind the first eight, and the reward is the last of them.
    let reward = 8 + 200 - 8;
    body[reward..reward + 8].copy_from_slice(&f64::NAN.to_le_bytes());
    let request = served.request(Method::POST, "/v1/heartbeats").header("content-type", binary::HEARTBEATS);
    let answers = binary::answers(&request.body(body).send().await.unwrap().bytes().await.unwrap()).unwrap();
    let refused = answers[1].as_ref().unwrap_err();
    assert_eq!((refused.kind.as_str(), answers[0].is_ok(), answers[2].is_ok()), ("invalid-value", true, true));
    assert!(refused.detail.contains("reward: NaN"), "{}", refused.detail);
    assert_eq!(served.metric("meanfield_coordinator_refusals_total{kind=\"invalid-value\"}").await, 3.0);
    assert_eq!(served.metric("meanfield_coordinator_heartbeats_total").await, 4.0);
    served.ended().await.unwrap();
}

#[tokio::test]
async fn what_is_no_batch_is_refused_whole() {
    let served = Served::start(Options::default()).await;
    let ids = members(&served.coordinator).await;
    let one = One { agent: ids[0], heartbeat: beat(Epoch(1), 1, 40) };
    let mut good = Vec::new();
    binary::write(&mut good, [(one.agent, &one.heartbeat); 2].into_iter());
    let changed = |at: usize, byte: u8| {
        let mut bytes = good.clone();
        bytes[at] = byte;
        bytes
    };
    let mut long = good.clone();
    long.push(0);
    let mut cases: Vec<_> = (0..good.len()).map(|length| good[..length].to_vec()).collect();
    cases.extend([changed(0, 2), changed(1, 1), changed(4, 3), changed(7, 1), changed(8, 8), long]);
    for bytes in cases {
        let request = served.request(Method::POST, "/v1/heartbeats").header("content-type", binary::HEARTBEATS);
        let reply = send(request.body(bytes)).await;
        assert_eq!(
            (reply.status, reply.problem().kind.as_str()),
            (StatusCode::BAD_REQUEST, "/problems/malformed-batch")
        );
    }
    let many = vec![one; MOST + 1];
    for (body, kind) in [
        (json!({}), "missing-field"),
        (json!({ "heartbeats": 1 }), "invalid-value"),
        (json!({ "heartbeats": [], "more": 1 }), "unknown-field"),
        (json!({ "heartbeats": many }), "invalid-value"),
    ] {
        let reply = served.post("/v1/heartbeats", &body).await;
        assert_eq!(reply.problem().kind, format!("/problems/{kind}"));
    }
    assert_eq!(served.coordinator.pools()[0].mean_field.count, 0, "nothing was taken");
    let reply = send(served.bare(Method::POST, "/v1/heartbeats").json(&json!({ "heartbeats": [] }))).await;
    assert_eq!(reply.status, StatusCode::UNAUTHORIZED);
    let reply = served.post("/v1/heartbeats", &json!({ "heartbeats": [] })).await;
    assert_eq!(reply.body, r#"{"answers":[]}"#);
    served.ended().await.unwrap();
}
