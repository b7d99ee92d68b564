//! Base models: `GET /v1/models`, `GET`, `POST` and `DELETE /v1/models/{model}`, `GET /v1/models/{model}/file`,
//! `PUT /v1/models/{model}/serving`, `POST /v1/models/{model}/rollback`, `PUT /v1/models/{model}/contributions/{id}`.
//!
//! A model has one entity tag, of its versions and of what is served of them; every change of it may name that.
//!
//! Whatever waits for the disk does so on a thread that may be blocked.

use axum::{
    extract::{FromRequestParts, Path, State},
    http::{HeaderMap, HeaderName, StatusCode, header, request::Parts},
    response::{IntoResponse, Response},
};
use meanfield_common::{
    digest::Digest,
    identity::{AgentId, ModelName},
    invalid::Invalid,
    reward::Reward,
};
use serde::{Deserialize, Serialize};
use tokio::task::spawn_blocking;
use utoipa::ToSchema;

use super::{
    agents::{done, encode},
    auth::{Anyone, Member, Operator, Reader},
    body::{File, Json, Model},
    forecast::has,
    openapi::{Contributing, ModelRemoving, ModelServing, Modelling, RollingBack, Selecting, Teaching},
    problem::{Kind, Refusal, respond},
    query::{ByName, number, pairs, unknown},
    terms::{DryRun, IfMatch, answer, detailed, shown},
};
use crate::{
    Error,
    coordinator::Coordinator,
    models::{self, MOST_BYTES, Order, Provenance, Serving},
    orders::{Ordered, Terms},
};

/// The header of a file that says which version it is.
const VERSION: HeaderName = HeaderName::from_static("meanfield-version");
/// The longest name that somebody may ask for a file by: a pool's and an agent's.
const LONGEST_AGENT: usize = 257;

/// A base model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ModelView {
    /// Its name.
    pub name: ModelName,
    /// What agents get.
    pub serving: Serving,
    /// What they got before the last change; `rollback` goes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub previous: Option<Serving>,
    /// Every version that is kept, the oldest first.
    pub versions: Vec<VersionView>,
    /// How many agents' last words wait for the next average.
    pub contributions: usize,
}

/// One version of a base model.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct VersionView {
    /// Its number.
    pub version: u64,
    /// The file's SHA-256.
    pub digest: Digest,
    /// The file's size.
    pub bytes: usize,
    /// Where it is from.
    pub provenance: Provenance,
}

/// One page of base models.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Models {
    /// In order of their names.
    pub models: Vec<ModelView>,
    /// What to give as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<ModelName>,
}

/// The number of a version that was taken in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct Added {
    /// Its number.
    pub version: u64,
}

fn view(name: ModelName, model: &models::Model, contributions: usize) -> ModelView {
    let versions = model.versions.iter().map(|(number, version)| VersionView {
        version: *number,
        digest: version.digest(),
        bytes: version.bytes().len(),
        provenance: version.provenance().clone(),
    });
    let versions = versions.collect();
    ModelView { name, serving: model.serving, previous: model.previous, versions, contributions }
}

/// List base models.
#[utoipa::path(
    get,
    path = "/v1/models",
    operation_id = "list_models",
    tag = "models",
    params(
        ("limit" = Option<usize>, Query, description = "How many at most", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "The `next` of the page before"),
        ("prefix" = Option<String>, Query, description = "Only models whose names begin so"),
    ),
    responses((status = 200, description = "A page", body = Models), Selecting),
    security(("token" = ["reader"]))
)]
pub async fn list(State(coordinator): State<Coordinator>, _: Reader, page: ByName) -> Response {
    let mut found = coordinator.models();
    let more = page.of(&mut found, |(name, _)| name.as_str());
    let next = found.last().filter(|_| more).map(|(name, _)| name.clone());
    let one = |(name, model): (ModelName, std::sync::Arc<models::Model>)| {
        let waiting = coordinator.model(&name).map_or(0, |(_, waiting)| waiting);
        view(name, &model, waiting)
    };
    let page = Models { models: found.into_iter().map(one).collect(), next };
    respond(&coordinator, encode(StatusCode::OK, &page))
}

/// Show a base model with its versions.
///
/// Its entity tag is that of all but `contributions`.
#[utoipa::path(
    get,
    path = "/v1/models/{model}",
    operation_id = "show_model",
    tag = "models",
    params(("model" = String, Path, description = "The model's name, with `/` written as `%2F`")),
    responses((status = 200, description = "The base model", body = ModelView, headers(("ETag" = String))), Modelling),
    security(("token" = ["reader"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Reader, Model(name): Model) -> Response {
    let model = coordinator.model(&name).map_err(Refusal::from);
    let answer = model.and_then(|(model, waiting)| {
        let tag = model.tag(&name);
        shown(&view(name, &model, waiting), Some(tag))
    });
    respond(&coordinator, answer)
}

/// Take in a version of a base model, or the first one of a new model.
///
/// The first one is served at once, a later one when it is promoted. With `If-None-Match: *` only a new model is made.
#[utoipa::path(
    post,
    path = "/v1/models/{model}",
    operation_id = "add_model",
    tag = "models",
    params(("model" = String, Path, description = "The model's name, with `/` written as `%2F`"), DryRun, IfMatch),
    request_body(
        description = "A checkpoint that `meanfield train` wrote, in the safetensors format; at most 4 MiB",
        content_type = "application/octet-stream",
    ),
    responses(
        (status = 201, description = "Taken in, durably", body = Added, headers(("ETag" = String))),
        (status = 200, description = "A dry run: what would happen", body = Ordered),
        Teaching
    ),
    security(("token" = ["operator"]))
)]
pub async fn add(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Model(name): Model,
    terms: Terms,
    File(bytes): File<MOST_BYTES>,
) -> Response {
    let terms = terms.of(&caller);
    let added = blocking(&coordinator, move |coordinator| {
        let version = coordinator.uploaded(bytes.into())?;
        coordinator.order_model(&name, Order::Add(version), &terms)
    });
    let number = |ordered: &Ordered| Added { version: ordered.after["version"].as_u64().unwrap_or_default() };
    respond(&coordinator, detailed(added.await, StatusCode::CREATED, number))
}

/// Download the version of a base model that an agent gets, or any other.
#[utoipa::path(
    get,
    path = "/v1/models/{model}/file",
    operation_id = "download_model",
    tag = "models",
    params(
        ("model" = String, Path, description = "The model's name, with `/` written as `%2F`"),
        ("version" = Option<u64>, Query, description = "This version instead of the one that is served"),
        ("agent" = Option<String>, Query, description = "Who asks, as `pool/name`: canaries are drawn by it"),
        ("If-None-Match" = Option<String>, Header, description = "The entity tags of files that are there already"),
    ),
    responses(
        (
            status = 200,
            description = "The file as it was given",
            content_type = "application/octet-stream",
            headers(
                ("ETag" = String, description = "The file's SHA-256, in quotes"),
                ("Meanfield-Version" = u64, description = "The number of the version"),
            )
        ),
        (
            status = 304,
            description = "The file is one of those",
            headers(
                ("ETag" = String, description = "The file's SHA-256, in quotes"),
                ("Meanfield-Version" = u64, description = "The number of the version"),
            )
        ),
        Modelling
    ),
    security(("token" = ["agent", "reader"]))
)]
pub async fn file(
    State(coordinator): State<Coordinator>,
    _: Anyone,
    Model(name): Model,
    asked: Asked,
    headers: HeaderMap,
) -> Response {
    let file = coordinator.model_file(&name, asked.version, asked.agent.as_deref()).map_err(Refusal::from);
    let file = file.map(|(number, version)| {
        let tag = format!("\"{}\"", version.digest());
        let named = [(header::ETAG, tag.clone()), (VERSION, number.to_string())];
        if has(&headers, &tag) {
            (StatusCode::NOT_MODIFIED, named).into_response()
        } else {
            // Bytes are sent as application/octet-stream.
            (named, version.bytes().to_vec()).into_response()
        }
    });
    respond(&coordinator, file)
}

/// Say which version agents get: promote, pin, or try one out on some.
#[utoipa::path(
    put,
    path = "/v1/models/{model}/serving",
    operation_id = "serve_model",
    tag = "models",
    params(("model" = String, Path, description = "The model's name, with `/` written as `%2F`"), DryRun, IfMatch),
    request_body = Serving,
    responses(ModelServing),
    security(("token" = ["operator"]))
)]
pub async fn serve(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Model(name): Model,
    terms: Terms,
    Json(serving): Json<Serving>,
) -> Response {
    let served = order(&coordinator, name, Order::Serve(serving), terms.of(&caller)).await;
    respond(&coordinator, answer(served))
}

/// Go back to what agents got before the last change, and pin it.
#[utoipa::path(
    post,
    path = "/v1/models/{model}/rollback",
    operation_id = "roll_back_model",
    tag = "models",
    params(("model" = String, Path, description = "The model's name, with `/` written as `%2F`"), DryRun, IfMatch),
    responses(
        (
            status = 200,
            description = "What agents got and what they get now, durably; or, of a dry run, what would happen",
            body = Ordered,
            headers(("ETag" = String, description = "The tag of the new state, in quotes; none of a dry run"))
        ),
        RollingBack
    ),
    security(("token" = ["operator"]))
)]
pub async fn roll_back(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Model(name): Model,
    terms: Terms,
) -> Response {
    let back = order(&coordinator, name, Order::RollBack, terms.of(&caller)).await;
    respond(&coordinator, detailed(back, StatusCode::OK, Ordered::clone))
}

/// Forget a base model with all of its versions.
#[utoipa::path(
    delete,
    path = "/v1/models/{model}",
    operation_id = "remove_model",
    tag = "models",
    params(("model" = String, Path, description = "The model's name, with `/` written as `%2F`"), DryRun, IfMatch),
    responses(ModelRemoving),
    security(("token" = ["operator"]))
)]
pub async fn remove(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Model(name): Model,
    terms: Terms,
) -> Response {
    let removed = order(&coordinator, name, Order::Remove, terms.of(&caller)).await;
    respond(&coordinator, answer(removed))
}

/// Hand in what an agent has learnt, for the next average.
///
/// It replaces what the same agent handed in before, and is kept in memory only.
#[utoipa::path(
    put,
    path = "/v1/models/{model}/contributions/{id}",
    tag = "models",
    params(
        ("model" = String, Path, description = "The model's name, with `/` written as `%2F`"),
        ("id" = uuid::Uuid, Path, description = "The agent's id"),
        ("reward" = f64, Query, description = "The mean reward that it earned with this network"),
    ),
    request_body(
        description = "A checkpoint of the shape of the served version; at most 4 MiB",
        content_type = "application/octet-stream",
    ),
    responses((status = 204, description = "Taken in"), Contributing),
    security(("token" = ["agent"]))
)]
pub async fn contribute(
    State(coordinator): State<Coordinator>,
    member: Member,
    Contributor { model, agent }: Contributor,
    Earned(reward): Earned,
    File(bytes): File<MOST_BYTES>,
) -> Response {
    if let Err(refusal) = member.check_agent(&coordinator, agent) {
        return refusal.respond(&coordinator);
    }
    let taken = blocking(&coordinator, move |coordinator| coordinator.contribute(&model, agent, &bytes, reward)).await;
    respond(&coordinator, done(taken))
}

async fn order(coordinator: &Coordinator, name: ModelName, order: Order, terms: Terms) -> Result<Ordered, Error> {
    blocking(coordinator, move |coordinator| coordinator.order_model(&name, order, &terms)).await
}

async fn blocking<T: Send + 'static>(
    coordinator: &Coordinator,
    work: impl FnOnce(&Coordinator) -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    let (coordinator, span) = (coordinator.clone(), tracing::Span::current());
    // An error means that the work has panicked, which the panic hook has reported.
    spawn_blocking(move || span.in_scope(|| work(&coordinator))).await.unwrap_or(Err(Error::Closed))
}

/// Which file is asked for.
#[derive(Debug, Default)]
pub struct Asked {
    version: Option<u64>,
    agent: Option<String>,
}

impl Asked {
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, Refusal> {
        let mut asked = Self::default();
        for (key, value) in pairs {
            match key.as_str() {
                "version" => asked.version = Some(number("version", &value)?),
                "agent" if value.is_empty() || value.len() > LONGEST_AGENT => {
                    let bound = format!("1 to {LONGEST_AGENT} bytes long");
                    return Err(Invalid::new("agent", format!("{value:?}"), bound).into());
                }
                "agent" => asked.agent = Some(value),
                other => return Err(unknown(other, "version, agent")),
            }
        }
        Ok(asked)
    }
}

impl FromRequestParts<Coordinator> for Asked {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        pairs(parts).and_then(Self::parse).map_err(|refusal| refusal.respond(coordinator))
    }
}

/// The reward in the query.
#[derive(Debug)]
pub struct Earned(Reward);

impl Earned {
    fn parse(pairs: &[(String, String)]) -> Result<Self, Refusal> {
        let mut reward = None;
        for (key, value) in pairs {
            if key != "reward" {
                return Err(unknown(key, "reward"));
            }
            let number: f64 =
                value.parse().map_err(|_| Invalid::new("reward", format!("{value:?}"), "a finite number"))?;
            reward = Some(Reward::try_from(number)?);
        }
        let missing = || Refusal::new(Kind::MissingField, "the query has no `reward`").blame("reward");
        reward.map(Self).ok_or_else(missing)
    }
}

impl FromRequestParts<Coordinator> for Earned {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        pairs(parts).and_then(|pairs| Self::parse(&pairs)).map_err(|refusal| refusal.respond(coordinator))
    }
}

/// The model and the agent in the path.
#[derive(Debug)]
pub struct Contributor {
    model: ModelName,
    agent: AgentId,
}

impl FromRequestParts<Coordinator> for Contributor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        let path = Path::<(String, String)>::from_request_parts(parts, coordinator).await;
        path.map_err(|error| Refusal::new(Kind::InvalidValue, error.to_string()).blame("path").bound("UTF-8"))
            .and_then(|Path((model, agent))| Ok(Self { model: model.parse()?, agent: agent.parse()? }))
            .map_err(|refusal| refusal.respond(coordinator))
    }
}
