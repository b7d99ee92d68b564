//! Trajectories: `POST /v1/agents/{id}/trajectories`, `GET /v1/agents/{id}/rewards`, `GET /v1/trajectories`,
//! `GET /v1/trajectories/samples`; [`transfer`] has `GET /v1/trajectories/export` and `POST /v1/trajectories/import`.
//!
//! Questions are answered on a thread for blocking work, since they may read the disk.

mod question;
pub mod transfer;

use axum::{
    extract::{FromRequest, Request, State},
    http::StatusCode,
    response::Response,
};
use meanfield_common::{
    identity::Epoch,
    invalid::Invalid,
    trajectory::{Append, Appended, Dropped, MOST_STEPS, Recorded},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    agents::encode,
    auth::{Member, Reader},
    body::{self, Agent},
    openapi::{Appending, Asking},
    problem::{Refusal, respond},
};
use crate::{
    coordinator::Coordinator,
    error::Error,
    options::Limits,
    trajectories::{
        layout,
        query::{self, Earned, EpisodeView, Sample},
        store::{self, Store},
    },
};
use question::{Order, Question};

/// The largest batch in bytes: a thousand steps with every number at its longest.
const LARGEST_BATCH: usize = 2 << 20;
/// The media type of a batch in the layout of the store.
const BINARY: &str = "application/vnd.meanfield.steps";

/// Hand in recorded steps.
///
/// Answered when they are durable. Idempotent by epoch, episode and step: what is there already with the same content
/// changes nothing, with other content the whole batch is refused.
#[utoipa::path(
    post,
    path = "/v1/agents/{id}/trajectories",
    operation_id = "append_steps",
    tag = "trajectories",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    request_body(
        description = "One to a thousand steps in order; at most 2 MiB. Also as `application/vnd.meanfield.steps`, see docs/operations-store.md",
        content = Append,
        content_type = "application/json"
    ),
    responses((status = 200, description = "All of them are durable", body = Appended), Appending),
    security(("token" = ["agent"]))
)]
pub async fn append(
    State(coordinator): State<Coordinator>,
    member: Member,
    Agent(agent): Agent,
    Batch(append): Batch,
) -> Response {
    if let Err(refusal) = member.check_agent(&coordinator, agent) {
        return refusal.respond(&coordinator);
    }
    let appended = coordinator.append(agent, append).await.map_err(Refusal::from);
    respond(&coordinator, appended.and_then(|appended| encode(StatusCode::OK, &appended)))
}

/// A batch as JSON, or in the layout of the store.
#[derive(Debug)]
pub struct Batch(Append);

impl FromRequest<Coordinator> for Batch {
    type Rejection = Response;

    async fn from_request(request: Request, coordinator: &Coordinator) -> Result<Self, Response> {
        let limits = Limits { body: LARGEST_BATCH, ..coordinator.options().limits };
        let append = if body::is(request.headers(), BINARY) {
            let bytes = body::bytes(request, BINARY, limits.body, limits.body_time).await;
            bytes.and_then(|bytes| binary(&bytes).map_err(Refusal::from))
        } else {
            body::read(request, &limits).await
        };
        append.map(Self).map_err(|refusal| refusal.respond(coordinator))
    }
}

/// Epoch, then for each episode its number, the length of its chunk and the chunk.
fn binary(bytes: &[u8]) -> Result<Append, Invalid> {
    let short = || Invalid::new("body", format!("{} bytes", bytes.len()), "as long as it says");
    let (epoch, mut rest) = bytes.split_first_chunk().ok_or_else(short)?;
    let mut steps: Vec<Recorded> = Vec::new();
    while !rest.is_empty() {
        let (episode, behind) = rest.split_first_chunk().ok_or_else(short)?;
        let (length, behind) = behind.split_first_chunk().ok_or_else(short)?;
        let (chunk, behind) = behind.split_at_checked(u32::from_le_bytes(*length) as usize).ok_or_else(short)?;
        let chunk = layout::decode(u64::from_le_bytes(*episode), chunk);
        steps.extend(chunk.map_err(|damage| Invalid::new("body", damage, "steps in the store's layout"))?.steps);
        if steps.len() > MOST_STEPS {
            break;
        }
        rest = behind;
    }
    Ok(Append { epoch: Epoch(u64::from_le_bytes(*epoch)), steps: steps.try_into()?, dropped: Dropped::default() })
}

/// The latest rewards of an agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Rewards {
    /// The last one first.
    pub rewards: Vec<Earned>,
}

/// The latest rewards of an agent, in logical time, the last one first. Empty where none was recorded.
#[utoipa::path(
    get,
    path = "/v1/agents/{id}/rewards",
    operation_id = "latest_rewards",
    tag = "trajectories",
    params(
        ("id" = uuid::Uuid, Path, description = "The agent's id"),
        ("limit" = Option<usize>, Query, description = "How many at most", minimum = 1, maximum = 1000),
    ),
    responses((status = 200, description = "The rewards", body = Rewards), Asking),
    security(("token" = ["reader"]))
)]
pub async fn rewards(
    State(coordinator): State<Coordinator>,
    _: Reader,
    Agent(agent): Agent,
    question: Question<{ question::REWARDS }>,
) -> Response {
    answer(&coordinator, move |store| {
        query::latest_rewards(store, agent, question.limit).map(|rewards| Rewards { rewards })
    })
    .await
}

/// One page of episodes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Episodes {
    /// In the order that was asked for.
    pub episodes: Vec<EpisodeView>,
    /// What to give as `after` for the next page; absent on the last one, and where the order is not that of time.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// List episodes by when their first step arrived, or those with the best or the worst sums of rewards.
#[utoipa::path(
    get,
    path = "/v1/trajectories",
    operation_id = "list_trajectories",
    tag = "trajectories",
    params(
        ("limit" = Option<usize>, Query, description = "How many at most; a page by time may have fewer and not be the last", minimum = 1, maximum = 1000),
        ("order" = Option<String>, Query, description = "`time`, `best` or `worst`"),
        ("after" = Option<String>, Query, description = "The `next` of the page before, in the order of time"),
        ("agent" = Option<uuid::Uuid>, Query, description = "Only of this agent"),
        ("pool" = Option<String>, Query, description = "Only of this pool"),
        ("category" = Option<String>, Query, description = "Only of this category: cpu, memory or io"),
        ("since" = Option<u64>, Query, description = "Only those that began then or later, in milliseconds since 1970"),
        ("until" = Option<u64>, Query, description = "Only those that began before then"),
    ),
    responses((status = 200, description = "A page", body = Episodes), Asking),
    security(("token" = ["reader"]))
)]
pub async fn list(
    State(coordinator): State<Coordinator>,
    _: Reader,
    question: Question<{ question::LIST }>,
) -> Response {
    answer(&coordinator, move |store| {
        let Question { limit, order, after, filter, .. } = &question;
        let (episodes, next) = match order {
            Order::Time => query::page(store, filter, after.as_ref(), *limit)?,
            Order::Best => (query::ranked(store, filter, true, *limit)?, None),
            Order::Worst => (query::ranked(store, filter, false, *limit)?, None),
        };
        Ok(Episodes { episodes, next: next.map(|next| next.to_string()) })
    })
    .await
}

/// Steps for training.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Samples {
    /// In the order of time.
    pub samples: Vec<Sample>,
}

/// Draw steps for training: each as likely as any other, none twice, the same for the same seed over the same steps.
#[utoipa::path(
    get,
    path = "/v1/trajectories/samples",
    operation_id = "sample_steps",
    tag = "trajectories",
    params(
        ("limit" = Option<usize>, Query, description = "How many", minimum = 1, maximum = 1000),
        ("seed" = Option<u64>, Query, description = "The seed; 0 if there is none"),
        ("agent" = Option<uuid::Uuid>, Query, description = "Only of this agent"),
        ("pool" = Option<String>, Query, description = "Only of this pool"),
        ("category" = Option<String>, Query, description = "Only of this category: cpu, memory or io"),
        ("since" = Option<u64>, Query, description = "Only of episodes that began then or later, in milliseconds since 1970"),
        ("until" = Option<u64>, Query, description = "Only of episodes that began before then"),
    ),
    responses((status = 200, description = "The steps", body = Samples), Asking),
    security(("token" = ["reader"]))
)]
pub async fn samples(
    State(coordinator): State<Coordinator>,
    _: Reader,
    question: Question<{ question::SAMPLES }>,
) -> Response {
    answer(&coordinator, move |store| {
        let samples = query::sample(store, &question.filter, question.seed, question.limit)?;
        Ok(Samples { samples })
    })
    .await
}

/// Asks the store on a thread for blocking work.
async fn answer<T: Serialize + Send + 'static>(
    coordinator: &Coordinator,
    ask: impl FnOnce(&dyn Store) -> Result<T, store::Error> + Send + 'static,
) -> Response {
    let store = coordinator.trajectories();
    let answer = tokio::task::spawn_blocking(move || ask(&*store)).await;
    let answer = answer.map_err(|_| Error::Closed).and_then(|answer| answer.map_err(Error::from));
    respond(coordinator, answer.map_err(Refusal::from).and_then(|answer| encode(StatusCode::OK, &answer)))
}
