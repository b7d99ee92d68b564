//! Pools: `GET /v1/pools`, `GET /v1/pools/{pool}`, `PUT` and `DELETE /v1/pools/{pool}/capacity`.

use axum::{extract::State, http::StatusCode, response::Response};
use meanfield_common::scarcity::Capacity;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    agents::{done, encode},
    auth::{Operator, Reader},
    body::{Json, Pool},
    openapi::{Ordering, Pooling, Reverting, Viewing},
    problem::{Refusal, respond},
};
use crate::{coordinator::Coordinator, view::PoolView};

/// All pools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pools {
    /// Whether the pause for all is on.
    pub paused: bool,
    /// In the order of the configuration.
    pub pools: Vec<PoolView>,
}

/// List pools.
#[utoipa::path(
    get,
    path = "/v1/pools",
    operation_id = "list_pools",
    tag = "pools",
    responses((status = 200, description = "All pools", body = Pools), Viewing),
    security(("token" = ["reader"]))
)]
pub async fn list(State(coordinator): State<Coordinator>, _: Reader) -> Response {
    let pools = Pools { paused: coordinator.all_paused(), pools: coordinator.pools() };
    respond(&coordinator, encode(StatusCode::OK, &pools))
}

/// Show a pool with its whole mean field.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}",
    operation_id = "show_pool",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`")),
    responses((status = 200, description = "The pool", body = PoolView), Pooling),
    security(("token" = ["reader"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Reader, Pool(pool): Pool) -> Response {
    let view = coordinator.pool(&pool).map_err(Refusal::from);
    respond(&coordinator, view.and_then(|view| encode(StatusCode::OK, &view)))
}

/// Say what the members of a pool may reserve together.
///
/// It counts more than the configuration, and outlasts a restart.
#[utoipa::path(
    put,
    path = "/v1/pools/{pool}/capacity",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`")),
    request_body = Capacity,
    responses((status = 204, description = "Ordered, durably"), Ordering),
    security(("token" = ["operator"]))
)]
pub async fn set_capacity(
    State(coordinator): State<Coordinator>,
    _: Operator,
    Pool(pool): Pool,
    Json(capacity): Json<Capacity>,
) -> Response {
    let ordered = coordinator.set_capacity(&pool, Some(capacity)).await;
    respond(&coordinator, done(ordered))
}

/// Go back to the capacity of the configuration, or to none.
#[utoipa::path(
    delete,
    path = "/v1/pools/{pool}/capacity",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`")),
    responses((status = 204, description = "Taken back, durably"), Reverting),
    security(("token" = ["operator"]))
)]
pub async fn clear_capacity(State(coordinator): State<Coordinator>, _: Operator, Pool(pool): Pool) -> Response {
    let ordered = coordinator.set_capacity(&pool, None).await;
    respond(&coordinator, done(ordered))
}
