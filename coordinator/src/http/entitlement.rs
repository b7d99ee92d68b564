//! What an operator gives to an agent of a scarce capacity: `GET`, `PUT` and `DELETE /v1/agents/{id}/entitlement`.

use axum::{extract::State, response::Response};
use meanfield_common::scarcity::Entitlement;

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

/// Show what an agent is given of a scarce capacity.
#[utoipa::path(
    get,
    path = "/v1/agents/{id}/entitlement",
    operation_id = "show_entitlement",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    responses((status = 200, description = "What is given, or null", body = Standing, headers(("ETag" = String))), Naming),
    security(("token" = ["reader"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Reader, Agent(agent): Agent) -> Response {
    standing(&coordinator, &Resource::Entitlement(agent))
}

/// Give an agent a weight, a guaranteed minimum, or both.
///
/// The weight counts whatever the agent claims itself; the minimum is never cut, as far as the agent asks for it. All minimums
/// of a pool must fit into its capacity.
#[utoipa::path(
    put,
    path = "/v1/agents/{id}/entitlement",
    operation_id = "set_entitlement",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id"), DryRun, IfMatch),
    request_body = Entitlement,
    responses(AgentSetting),
    security(("token" = ["operator"]))
)]
pub async fn set(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Agent(agent): Agent,
    terms: Terms,
    Json(given): Json<Entitlement>,
) -> Response {
    order(&coordinator, &caller, Order::Entitlement(agent, Some(given)), terms).await
}

/// Take back what an agent was given.
#[utoipa::path(
    delete,
    path = "/v1/agents/{id}/entitlement",
    operation_id = "clear_entitlement",
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
    order(&coordinator, &caller, Order::Entitlement(agent, None), terms).await
}
