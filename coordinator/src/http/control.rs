//! Pausing: `POST /v1/agents/{id}/pause` and `resume` for one, `POST /v1/pause` and `/v1/resume` for all.

use axum::{extract::State, response::Response};

use super::{
    agents::done,
    auth::Operator,
    body::Agent,
    openapi::{Commanding, Naming},
    problem::respond,
};
use crate::coordinator::Coordinator;

/// Tell an agent to change nothing from its next heartbeat on.
#[utoipa::path(
    post,
    path = "/v1/agents/{id}/pause",
    operation_id = "pause_agent",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    responses((status = 204, description = "Paused, durably"), Naming),
    security(("token" = ["operator"]))
)]
pub async fn pause(State(coordinator): State<Coordinator>, _: Operator, Agent(agent): Agent) -> Response {
    let paused = coordinator.pause(agent).await;
    respond(&coordinator, done(paused))
}

/// Lift an agent's own pause; the one for all still holds.
#[utoipa::path(
    post,
    path = "/v1/agents/{id}/resume",
    operation_id = "resume_agent",
    tag = "control",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    responses((status = 204, description = "Resumed, durably"), Naming),
    security(("token" = ["operator"]))
)]
pub async fn resume(State(coordinator): State<Coordinator>, _: Operator, Agent(agent): Agent) -> Response {
    let resumed = coordinator.resume(agent).await;
    respond(&coordinator, done(resumed))
}

/// Tell all agents, also those that join later, to change nothing.
#[utoipa::path(
    post,
    path = "/v1/pause",
    tag = "control",
    responses((status = 204, description = "Paused, durably"), Commanding),
    security(("token" = ["operator"]))
)]
pub async fn pause_all(State(coordinator): State<Coordinator>, _: Operator) -> Response {
    let paused = coordinator.pause_all().await;
    respond(&coordinator, done(paused))
}

/// Lift the pause for all; agents with a pause of their own stay paused.
#[utoipa::path(
    post,
    path = "/v1/resume",
    tag = "control",
    responses((status = 204, description = "Resumed, durably"), Commanding),
    security(("token" = ["operator"]))
)]
pub async fn resume_all(State(coordinator): State<Coordinator>, _: Operator) -> Response {
    let resumed = coordinator.resume_all().await;
    respond(&coordinator, done(resumed))
}
