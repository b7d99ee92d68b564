//! Pausing: `POST /v1/agents/{id}/pause` and `resume` for one, `POST /v1/pause` and `/v1/resume` for all; `GET` of a pause
//! says whether it is on.

use axum::{extract::State, response::Response};

use super::{
    auth::{Operator, Reader},
    body::Agent,
    openapi::{AgentOrdering, Naming, OrderingAll, Viewing},
    terms::{DryRun, IfMatch, order, standing},
};
use crate::{
    coordinator::Coordinator,
    orders::{Order, Resource, Scope, Terms},
    view::Standing,
};

/// Show whether an agent has a pause of its own.
#[utoipa::path(
    get,
    path = "/v1/agents/{id}/pause",
    operation_id = "show_agent_pause",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    responses((status = 200, description = "The switch", body = Standing, headers(("ETag" = String))), Naming),
    security(("token" = ["reader"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Reader, Agent(agent): Agent) -> Response {
    standing(&coordinator, &Resource::Pause(Scope::Agent(agent)))
}

/// Show whether the pause for all is on.
#[utoipa::path(
    get,
    path = "/v1/pause",
    operation_id = "show_pause",
    tag = "control",
    responses((status = 200, description = "The switch", body = Standing, headers(("ETag" = String))), Viewing),
    security(("token" = ["reader"]))
)]
pub async fn show_all(State(coordinator): State<Coordinator>, _: Reader) -> Response {
    standing(&coordinator, &Resource::Pause(Scope::All))
}

/// Tell an agent to change nothing from its next heartbeat on.
#[utoipa::path(
    post,
    path = "/v1/agents/{id}/pause",
    operation_id = "pause_agent",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id"), DryRun, IfMatch),
    responses(AgentOrdering),
    security(("token" = ["operator"]))
)]
pub async fn pause(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Agent(agent): Agent,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Pause(agent, true), terms).await
}

/// Lift an agent's own pause; the one for all still holds.
#[utoipa::path(
    post,
    path = "/v1/agents/{id}/resume",
    operation_id = "resume_agent",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id"), DryRun, IfMatch),
    responses(AgentOrdering),
    security(("token" = ["operator"]))
)]
pub async fn resume(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Agent(agent): Agent,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Pause(agent, false), terms).await
}

/// Tell all agents, also those that join later, to change nothing.
#[utoipa::path(
    post,
    path = "/v1/pause",
    tag = "control",
    params(DryRun, IfMatch),
    responses(OrderingAll),
    security(("token" = ["operator"]))
)]
pub async fn pause_all(State(coordinator): State<Coordinator>, Operator(caller): Operator, terms: Terms) -> Response {
    order(&coordinator, &caller, Order::PauseAll(true), terms).await
}

/// Lift the pause for all; agents with a pause of their own stay paused.
#[utoipa::path(
    post,
    path = "/v1/resume",
    tag = "control",
    params(DryRun, IfMatch),
    responses(OrderingAll),
    security(("token" = ["operator"]))
)]
pub async fn resume_all(State(coordinator): State<Coordinator>, Operator(caller): Operator, terms: Terms) -> Response {
    order(&coordinator, &caller, Order::PauseAll(false), terms).await
}
