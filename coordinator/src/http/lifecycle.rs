//! Lifecycle overrides: `GET`, `PUT` and `DELETE /v1/agents/{id}/lifecycle`.
//!
//! The coordinator keeps, shows and tells the state that an operator wants. Agents of this version have no lifecycle yet and
//! only hear of it; the kill switch ([`super::fallback`]) is what they follow.

use axum::{extract::State, response::Response};
use meanfield_common::wire::Lifecycle;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    auth::{Operator, Reader},
    body::{Agent, Json},
    openapi::{AgentOrdering, AgentSetting, Naming},
    terms::{DryRun, IfMatch, order, standing},
};
use crate::{
    coordinator::Coordinator,
    orders::{Order, Resource, Terms},
    view::Standing,
};

/// The state that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Who is to decide.
    pub state: Lifecycle,
}

/// Show the state of an agent's lifecycle that is wanted.
#[utoipa::path(
    get,
    path = "/v1/agents/{id}/lifecycle",
    operation_id = "show_lifecycle",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    responses((status = 200, description = "What is wanted, or null", body = Standing, headers(("ETag" = String))), Naming),
    security(("token" = ["reader"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Reader, Agent(agent): Agent) -> Response {
    standing(&coordinator, &Resource::Lifecycle(agent))
}

/// Name the state of an agent's lifecycle that is wanted.
#[utoipa::path(
    put,
    path = "/v1/agents/{id}/lifecycle",
    operation_id = "set_lifecycle",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id"), DryRun, IfMatch),
    request_body = Wanted,
    responses(AgentSetting),
    security(("token" = ["operator"]))
)]
pub async fn set(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Agent(agent): Agent,
    terms: Terms,
    Json(wanted): Json<Wanted>,
) -> Response {
    order(&coordinator, &caller, Order::Lifecycle(agent, Some(wanted.state)), terms).await
}

/// Leave an agent's lifecycle to itself.
#[utoipa::path(
    delete,
    path = "/v1/agents/{id}/lifecycle",
    operation_id = "clear_lifecycle",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id"), DryRun, IfMatch),
    responses(AgentOrdering),
    security(("token" = ["operator"]))
)]
pub async fn clear(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Agent(agent): Agent,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Lifecycle(agent, None), terms).await
}
