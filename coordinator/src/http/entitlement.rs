//! What an operator gives to an agent of a scarce capacity: `GET`, `PUT` and `DELETE /v1/agents/{id}/entitlement`.

use axum::{extract::State, response::Response};
use meanfield_common::scarcity::Entitlement;

use super::{auth::Reader, body::Agent, openapi::Naming, ordered::ordered, terms::standing};
use crate::{coordinator::Coordinator, orders::Resource, view::Standing};

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

ordered! {
    agent "/v1/agents/{id}/entitlement" Entitlement;

    /// Give an agent a weight, a guaranteed minimum, or both.
    ///
    /// The weight counts whatever the agent claims itself; the minimum is never cut, as far as the agent asks for it. All minimums
    /// of a pool must fit into its capacity.
    set = "set_entitlement" Entitlement;

    /// Take back what an agent was given.
    clear = "clear_entitlement";
}
