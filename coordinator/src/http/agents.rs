//! Agents: `POST` and `GET /v1/agents`, `GET` and `DELETE /v1/agents/{id}`, `POST /v1/agents/{id}/leave`.

use axum::{
    extract::{FromRequestParts, State},
    http::{StatusCode, request::Parts},
    response::{IntoResponse, Response},
};
use meanfield_common::wire::{Leave, Register, Registered};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    auth::{Member, Operator, Reader},
    body::{Agent, Json},
    openapi::{AgentOrdering, Leaving, Listing, Naming, Registering},
    problem::{Kind, Refusal, respond},
    query,
    terms::{self, DryRun, IfMatch, order},
};
use crate::{
    coordinator::Coordinator,
    orders::{Order, Resource, Terms},
    view::{AgentView, Cursor, Filter},
};

/// Become a member, or begin a new epoch.
#[utoipa::path(
    post,
    path = "/v1/agents",
    tag = "agents",
    request_body = Register,
    responses((status = 201, description = "Registered, durably", body = Registered), Registering),
    security(("token" = ["agent"]))
)]
pub async fn register(
    State(coordinator): State<Coordinator>,
    member: Member,
    Json(register): Json<Register>,
) -> Response {
    if let Err(refusal) = member.check(&register) {
        return refusal.respond(&coordinator);
    }
    let registered = coordinator.register(register).await;
    respond(&coordinator, registered.map_err(Refusal::from).and_then(|body| encode(StatusCode::CREATED, &body)))
}

/// One page of agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
#[schema(as = AgentPage)]
pub struct Page {
    /// In order of pool and name.
    pub agents: Vec<AgentView>,
    /// What to give as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}

/// List agents, in order of pool and name.
#[utoipa::path(
    get,
    path = "/v1/agents",
    operation_id = "list_agents",
    tag = "agents",
    params(
        ("limit" = Option<usize>, Query, description = "How many at most", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "The `next` of the page before"),
        ("pool" = Option<String>, Query, description = "Only agents of this pool"),
        ("category" = Option<String>, Query, description = "Only agents of this category: cpu, memory or io"),
        ("state" = Option<String>, Query, description = "Only agents in this state: active or suspect"),
        ("prefix" = Option<String>, Query, description = "Only agents whose names begin so"),
    ),
    responses((status = 200, description = "A page", body = Page), Listing),
    security(("token" = ["reader"]))
)]
pub async fn list(State(coordinator): State<Coordinator>, _: Reader, selection: Selection) -> Response {
    let Selection { limit, after, filter } = selection;
    if let Some(Err(error)) = filter.pool.as_ref().map(|pool| coordinator.pool(pool)) {
        return Refusal::from(error).respond(&coordinator);
    }
    // One more than asked for tells whether there is another page.
    let listed = coordinator.page_aside(filter, after, limit + 1).await.map_err(Refusal::from);
    let mut agents = match listed {
        Ok(agents) => agents,
        Err(refusal) => return refusal.respond(&coordinator),
    };
    let more = agents.len() > limit;
    agents.truncate(limit);
    let last = agents.last().filter(|_| more);
    let next = last.map(|last| Cursor::new(&last.pool, &last.name).to_string());
    respond(&coordinator, encode(StatusCode::OK, &Page { agents, next }))
}

/// Which agents to list.
#[derive(Debug)]
pub struct Selection {
    limit: usize,
    after: Option<Cursor>,
    filter: Filter,
}

impl FromRequestParts<Coordinator> for Selection {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        let parsed = query::pairs(parts).and_then(Self::parse);
        parsed.map_err(|refusal| refusal.respond(coordinator))
    }
}

impl Selection {
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, Refusal> {
        let mut selection = Self { limit: query::DEFAULT_LIMIT, after: None, filter: Filter::default() };
        let filter = &mut selection.filter;
        for (key, value) in pairs {
            match key.as_str() {
                "limit" => selection.limit = query::limit(&value)?,
                "after" => selection.after = Some(value.parse()?),
                "pool" => filter.pool = Some(value.parse()?),
                "category" => filter.category = Some(value.parse()?),
                "state" => filter.state = Some(value.parse()?),
                "prefix" => filter.prefix = Some(value),
                _ => return Err(query::unknown(&key, "limit, after, pool, category, state, prefix")),
            }
        }
        Ok(selection)
    }
}

/// Show an agent.
#[utoipa::path(
    get,
    path = "/v1/agents/{id}",
    operation_id = "show_agent",
    tag = "agents",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    responses((status = 200, description = "The agent", body = AgentView, headers(("ETag" = String))), Naming),
    security(("token" = ["reader"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Reader, Agent(agent): Agent) -> Response {
    terms::show(&coordinator, &Resource::Agent(agent), || coordinator.agent(agent))
}

/// Remove an agent, whatever its epoch, and take back what was ordered about it.
///
/// Its entity tag is that of its registration.
#[utoipa::path(
    delete,
    path = "/v1/agents/{id}",
    operation_id = "remove_agent",
    tag = "agents",
    params(("id" = uuid::Uuid, Path, description = "The agent's id"), DryRun, IfMatch),
    responses(AgentOrdering),
    security(("token" = ["operator"]))
)]
pub async fn remove(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Agent(agent): Agent,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Remove(agent), terms).await
}

/// Leave for good.
#[utoipa::path(
    post,
    path = "/v1/agents/{id}/leave",
    tag = "agents",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    request_body = Leave,
    responses((status = 204, description = "Left, durably"), Leaving),
    security(("token" = ["agent"]))
)]
pub async fn leave(
    State(coordinator): State<Coordinator>,
    member: Member,
    Agent(agent): Agent,
    Json(leave): Json<Leave>,
) -> Response {
    if let Err(refusal) = member.check_agent(&coordinator, agent) {
        return refusal.respond(&coordinator);
    }
    let left = coordinator.leave(agent, leave).await;
    respond(&coordinator, done(left))
}

/// A response with no content.
pub(super) fn done(result: Result<(), crate::Error>) -> Result<Response, Refusal> {
    result.map(|()| StatusCode::NO_CONTENT.into_response()).map_err(Refusal::from)
}

pub(super) fn encode(status: StatusCode, body: &impl Serialize) -> Result<Response, Refusal> {
    let bytes = serde_json::to_vec(body).map_err(|error| Refusal::new(Kind::Unavailable, error.to_string()))?;
    Ok(super::json(status, bytes))
}
