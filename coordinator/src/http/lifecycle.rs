//! Lifecycle overrides: `GET`, `PUT` and `DELETE /v1/agents/{id}/lifecycle`.
//!
//! The coordinator keeps, shows and tells the state that an operator wants. Agents of this version have no lifecycle yet and
//! only hear of it; the kill switch ([`super::fallback`]) is what they follow.

use axum::{extract::State, response::Response};
use meanfield_common::wire::Lifecycle;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{auth::Reader, body::Agent, openapi::Naming, ordered::ordered, terms::standing};
use crate::{coordinator::Coordinator, orders::Resource, view::Standing};

/// The state that is wanted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Wanted {
    /// Who is to decide.
    pub state: Lifecycle,
}

impl From<Wanted> for Lifecycle {
    fn from(wanted: Wanted) -> Self {
        wanted.state
    }
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

ordered! {
    agent "/v1/agents/{id}/lifecycle" Lifecycle;

    /// Name the state of an agent's lifecycle that is wanted.
    set = "set_lifecycle" Wanted;

    /// Leave an agent's lifecycle to itself.
    clear = "clear_lifecycle";
}
