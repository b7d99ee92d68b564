//! `POST /v1/agents/{id}/heartbeat`: the one route that is called all the time.

use std::time::Instant;

use axum::{extract::State, http::StatusCode, response::Response};
use meanfield_common::wire::{Answer, Heartbeat};

use super::{auth::Member, body, openapi::Heartbeating, problem::Refusal};
use crate::coordinator::Coordinator;

/// Enough for an answer with every number at its longest.
const ANSWER_BYTES: usize = 1792;

/// Take one step of one agent and answer with the mean field of the others.
///
/// Idempotent by epoch and sequence: the same heartbeat may be sent again and is answered again.
#[utoipa::path(
    post,
    path = "/v1/agents/{id}/heartbeat",
    tag = "agents",
    params(("id" = uuid::Uuid, Path, description = "The agent's id")),
    request_body = Heartbeat,
    responses((status = 200, description = "Taken", body = Answer), Heartbeating),
    security(("token" = ["agent"]))
)]
pub async fn heartbeat(
    State(coordinator): State<Coordinator>,
    member: Member,
    body::Agent(agent): body::Agent,
    body::Json(heartbeat): body::Json<Heartbeat>,
) -> Response {
    let start = Instant::now();
    if let Err(refusal) = member.check_agent(&coordinator, agent) {
        return refusal.respond(&coordinator);
    }
    let response = match coordinator.heartbeat(agent, &heartbeat) {
        Ok(answer) => {
            let mut bytes = Vec::with_capacity(ANSWER_BYTES);
            match serde_json::to_writer(&mut bytes, &answer) {
                Ok(()) => super::json(StatusCode::OK, bytes),
                Err(error) => Refusal::new(super::Kind::Unavailable, error.to_string()).respond(&coordinator),
            }
        }
        Err(error) => Refusal::from(error).respond(&coordinator),
    };
    coordinator.metrics().heartbeat_seconds.observe(start.elapsed().as_secs_f64());
    response
}
