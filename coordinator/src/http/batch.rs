//! `POST /v1/heartbeats`: the steps of many agents in one request, as JSON or in the compact form.
//!
//! Each is taken or refused as if it had come alone. Only a body that is no batch at all is refused whole, and then none
//! of it was taken.

use std::fmt;

use axum::{
    body::Bytes,
    extract::{FromRequest, Request, State},
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse, Response},
};
use meanfield_common::{
    batch::{Answers, Heartbeats, MOST, One, Outcome, binary},
    identity::AgentId,
    invalid::Invalid,
    wire::{Answer, Heartbeat},
};
use serde::{
    Deserialize, Deserializer,
    de::{SeqAccess, Visitor},
};
use serde_json::value::RawValue;
use tokio::task::yield_now;

use super::{
    agents::encode,
    auth::Member,
    body,
    openapi::Batching,
    problem::{Kind, Refusal, respond},
};
use crate::coordinator::Coordinator;

/// The largest body: as many heartbeats as may come, with room to spare in either form.
const LARGEST: usize = 8 << 20;
/// After so many heartbeats others get their turn on this thread.
const TURN: usize = 256;
/// Bytes of most answers in the compact form.
const ANSWER: usize = 176;

/// A body in one of the two forms.
#[derive(Debug)]
pub struct Batch {
    compact: bool,
    bytes: Bytes,
}

impl FromRequest<Coordinator> for Batch {
    type Rejection = Response;

    async fn from_request(request: Request, coordinator: &Coordinator) -> Result<Self, Response> {
        let compact = body::is(request.headers(), binary::HEARTBEATS);
        let media_type = if compact { binary::HEARTBEATS } else { "application/json" };
        let bytes = body::bytes(request, media_type, LARGEST, coordinator.options().limits.body_time).await;
        bytes.map(|bytes| Self { compact, bytes }).map_err(|refusal| refusal.respond(coordinator))
    }
}

/// Take the steps of many agents, in order, and answer each with the mean field of its others.
///
/// Idempotent like a single heartbeat. The answers are in the order of the heartbeats and in the form of the request.
#[utoipa::path(
    post,
    path = "/v1/heartbeats",
    tag = "agents",
    request_body(
        description = "At most 8192 heartbeats; the layout of the compact form is in `common/src/batch/binary.rs`",
        content((Heartbeats = "application/json"), ("application/vnd.meanfield.heartbeats"))
    ),
    responses(
        (
            status = 200,
            description = "Each was taken or refused, as its answer says",
            content((Answers = "application/json"), ("application/vnd.meanfield.answers"))
        ),
        Batching
    ),
    security(("token" = ["agent"]))
)]
pub async fn heartbeats(State(coordinator): State<Coordinator>, member: Member, batch: Batch) -> Response {
    let Batch { compact, bytes } = batch;
    let answered = if compact {
        self::compact(&coordinator, &member, &bytes).await
    } else {
        json(&coordinator, &member, &bytes).await
    };
    respond(&coordinator, answered)
}

async fn compact(coordinator: &Coordinator, member: &Member, bytes: &[u8]) -> Result<Response, Refusal> {
    let batch =
        binary::Reader::new(bytes).map_err(|malformed| Refusal::new(Kind::MalformedBatch, malformed.to_string()))?;
    let mut answers = Vec::with_capacity(8 + batch.len() * ANSWER);
    binary::head(&mut answers, batch.len());
    for (number, (agent, heartbeat)) in batch.enumerate() {
        if number % TURN == TURN - 1 {
            yield_now().await;
        }
        let refusal = match heartbeat {
            Ok(heartbeat) => match take(coordinator, member, agent, &heartbeat) {
                Ok(answer) => {
                    binary::taken(&mut answers, &answer);
                    continue;
                }
                Err(refusal) => refusal,
            },
            Err(invalid) => Refusal::from(invalid),
        };
        let (kind, detail) = refusal.count(coordinator);
        binary::refused(&mut answers, kind.name(), &detail);
    }
    let mut response = (StatusCode::OK, answers).into_response();
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static(binary::ANSWERS));
    Ok(response)
}

/// The frame of [`Heartbeats`]: what is in it is read one by one, so that one that is bad spoils no other.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Frame<'a> {
    #[serde(borrow)]
    heartbeats: Counted<'a>,
}

/// As many of a list as may come, and how many there are: places for all of a long list of next to nothing would take
/// many times its bytes.
struct Counted<'a> {
    first: Vec<&'a RawValue>,
    count: usize,
}

impl<'de: 'a, 'a> Deserialize<'de> for Counted<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Counting)
    }
}

struct Counting;

impl<'de> Visitor<'de> for Counting {
    type Value = Counted<'de>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of heartbeats")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Counted<'de>, A::Error> {
        let mut counted = Counted { first: Vec::new(), count: 0 };
        while let Some(one) = list.next_element()? {
            counted.count += 1;
            if counted.count <= MOST {
                counted.first.push(one);
            }
        }
        Ok(counted)
    }
}

async fn json(coordinator: &Coordinator, member: &Member, bytes: &[u8]) -> Result<Response, Refusal> {
    let Frame { heartbeats } = serde_json::from_slice(bytes).map_err(|_| body::explain::<Heartbeats>(bytes))?;
    if heartbeats.count > MOST {
        return Err(Invalid::new("heartbeats", heartbeats.count, format!("at most {MOST} of them")).into());
    }
    let mut answers = Vec::with_capacity(heartbeats.count);
    for (number, one) in heartbeats.first.iter().enumerate() {
        if number % TURN == TURN - 1 {
            yield_now().await;
        }
        let taken = read(one).and_then(|(agent, heartbeat)| take(coordinator, member, agent, &heartbeat));
        answers.push(match taken {
            Ok(answer) => Outcome::Answer(Box::new(answer)),
            Err(refusal) => Outcome::Problem(refusal.problem(coordinator).1),
        });
    }
    encode(StatusCode::OK, &Answers { answers })
}

/// Takes one, if the token may be used for its agent.
fn take(coordinator: &Coordinator, member: &Member, agent: AgentId, beat: &Heartbeat) -> Result<Answer, Refusal> {
    member.check_agent(coordinator, agent)?;
    Ok(coordinator.heartbeat(agent, beat)?)
}

fn read(one: &RawValue) -> Result<(AgentId, Heartbeat), Refusal> {
    let One { agent, heartbeat } =
        serde_json::from_str(one.get()).map_err(|_| body::explain::<One>(one.get().as_bytes()))?;
    Ok((agent, heartbeat))
}
