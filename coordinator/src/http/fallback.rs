//! The kill switch: `GET`, `POST` and `DELETE /v1/fallback` for everybody, `/v1/pools/{pool}/fallback` for a pool,
//! `/v1/agents/{id}/fallback` for an agent.
//!
//! Agents hear of it with the answer to their next heartbeat, and decide by their fallback policy until it is lifted. It
//! outlasts restarts. One that is on for everybody or for a pool holds whatever is said about one agent.

use axum::{extract::State, response::Response};

use super::{
    auth::{Operator, Reader},
    body::{Agent, Pool},
    openapi::{AgentOrdering, Naming, OrderingAll, PoolOrdering, Pooling, Viewing},
    terms::{DryRun, IfMatch, order, show, standing},
};
use crate::{
    coordinator::Coordinator,
    orders::{Order, Resource, Scope, Terms},
    view::{FallbackView, Standing},
};

/// Show whether everybody is told to decide by the fallback, and who else is.
#[utoipa::path(
    get,
    path = "/v1/fallback",
    operation_id = "show_fallback",
    tag = "control",
    responses((status = 200, description = "The switches", body = FallbackView, headers(("ETag" = String))), Viewing),
    security(("token" = ["reader"]))
)]
pub async fn show_all(State(coordinator): State<Coordinator>, _: Reader) -> Response {
    show(&coordinator, &Resource::Fallback(Scope::All), || Ok(coordinator.fallbacks()))
}

/// Have everybody, also those who join later, decide by the fallback now.
#[utoipa::path(
    post,
    path = "/v1/fallback",
    operation_id = "fallback_all",
    tag = "control",
    params(DryRun, IfMatch),
    responses(OrderingAll),
    security(("token" = ["operator"]))
)]
pub async fn all(State(coordinator): State<Coordinator>, Operator(caller): Operator, terms: Terms) -> Response {
    order(&coordinator, &caller, Order::Fallback(Scope::All, true), terms).await
}

/// Lift the kill switch for everybody; those of pools and agents still hold.
#[utoipa::path(
    delete,
    path = "/v1/fallback",
    operation_id = "lift_fallback_all",
    tag = "control",
    params(DryRun, IfMatch),
    responses(OrderingAll),
    security(("token" = ["operator"]))
)]
pub async fn lift_all(State(coordinator): State<Coordinator>, Operator(caller): Operator, terms: Terms) -> Response {
    order(&coordinator, &caller, Order::Fallback(Scope::All, false), terms).await
}

/// Show whether a pool's agents are told to decide by their fallback.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/fallback",
    operation_id = "show_pool_fallback",
    tag = "control",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`")),
    responses((status = 200, description = "The switch", body = Standing, headers(("ETag" = String))), Pooling),
    security(("token" = ["reader"]))
)]
pub async fn show_pool(State(coordinator): State<Coordinator>, _: Reader, Pool(pool): Pool) -> Response {
    standing(&coordinator, &Resource::Fallback(Scope::Pool(pool)))
}

/// Have a pool's agents, also those who join later, decide by their fallback now.
#[utoipa::path(
    post,
    path = "/v1/pools/{pool}/fallback",
    operation_id = "fallback_pool",
    tag = "control",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    responses(PoolOrdering),
    security(("token" = ["operator"]))
)]
pub async fn pool(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Fallback(Scope::Pool(pool), true), terms).await
}

/// Lift a pool's kill switch.
#[utoipa::path(
    delete,
    path = "/v1/pools/{pool}/fallback",
    operation_id = "lift_fallback_pool",
    tag = "control",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    responses(PoolOrdering),
    security(("token" = ["operator"]))
)]
pub async fn lift_pool(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Fallback(Scope::Pool(pool), false), terms).await
}

/// Show whether an agent's own kill switch is on.
#[utoipa::path(
    get,
    path = "/v1/agents/{id}/fallback",
    operation_id = "show_agent_fallback",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    responses((status = 200, description = "The switch", body = Standing, headers(("ETag" = String))), Naming),
    security(("token" = ["reader"]))
)]
pub async fn show_agent(State(coordinator): State<Coordinator>, _: Reader, Agent(agent): Agent) -> Response {
    standing(&coordinator, &Resource::Fallback(Scope::Agent(agent)))
}

/// Have an agent decide by its fallback now.
#[utoipa::path(
    post,
    path = "/v1/agents/{id}/fallback",
    operation_id = "fallback_agent",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id"), DryRun, IfMatch),
    responses(AgentOrdering),
    security(("token" = ["operator"]))
)]
pub async fn agent(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Agent(agent): Agent,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Fallback(Scope::Agent(agent), true), terms).await
}

/// Lift an agent's own kill switch; its pool's and everybody's still hold.
#[utoipa::path(
    delete,
    path = "/v1/agents/{id}/fallback",
    operation_id = "lift_fallback_agent",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id"), DryRun, IfMatch),
    responses(AgentOrdering),
    security(("token" = ["operator"]))
)]
pub async fn lift_agent(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Agent(agent): Agent,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Fallback(Scope::Agent(agent), false), terms).await
}
