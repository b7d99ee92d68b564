//! Pools: `GET /v1/pools`, `GET`, `PUT` and `DELETE /v1/pools/{pool}` and `/v1/pools/{pool}/capacity`.

use axum::{extract::State, http::StatusCode, response::Response};
use meanfield_common::{identity::PoolName, scarcity::Capacity};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    agents::encode,
    auth::{Operator, Reader},
    body::{Json, Pool},
    openapi::{PoolMaking, PoolRemoving, Pooling, Selecting},
    ordered::ordered,
    problem::respond,
    query::ByName,
    terms::{self, DryRun, IfMatch, answer, order},
};
use crate::{
    coordinator::Coordinator,
    orders::{Order, Resource, Terms},
    settings::Settings,
    view::{CapacityView, PoolView},
};

/// All pools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pools {
    /// Whether the pause for all is on.
    pub paused: bool,
    /// Whether the kill switch for all is on.
    pub fallback: bool,
    /// In order of their names.
    pub pools: Vec<PoolView>,
    /// What to give as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<PoolName>,
}

/// List pools.
#[utoipa::path(
    get,
    path = "/v1/pools",
    operation_id = "list_pools",
    tag = "pools",
    params(
        ("limit" = Option<usize>, Query, description = "How many at most", minimum = 1, maximum = 1000),
        ("after" = Option<String>, Query, description = "The `next` of the page before"),
        ("prefix" = Option<String>, Query, description = "Only pools whose names begin so"),
    ),
    responses((status = 200, description = "A page", body = Pools), Selecting),
    security(("token" = ["reader"]))
)]
pub async fn list(State(coordinator): State<Coordinator>, _: Reader, page: ByName) -> Response {
    let mut pools = coordinator.pools();
    let more = page.of(&mut pools, |pool| pool.name.as_str());
    let next = pools.last().filter(|_| more).map(|pool| pool.name.clone());
    let page = Pools { paused: coordinator.all_paused(), fallback: coordinator.all_fallback(), pools, next };
    respond(&coordinator, encode(StatusCode::OK, &page))
}

/// Show a pool with its whole mean field.
///
/// Its entity tag is that of its settings.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}",
    operation_id = "show_pool",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`")),
    responses((status = 200, description = "The pool", body = PoolView, headers(("ETag" = String))), Pooling),
    security(("token" = ["reader"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Reader, Pool(pool): Pool) -> Response {
    let resource = Resource::Pool(pool.clone());
    terms::show(&coordinator, &resource, || coordinator.pool(&pool))
}

/// Make a pool, or give one new settings.
///
/// It outlasts a restart. With `If-None-Match: *` it is only made, and with `If-Match: *` only changed.
#[utoipa::path(
    put,
    path = "/v1/pools/{pool}",
    operation_id = "set_pool",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    request_body = Settings,
    responses(
        (status = 201, description = "Made, durably", headers(("ETag" = String))),
        PoolMaking
    ),
    security(("token" = ["operator"]))
)]
pub async fn set(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
    Json(settings): Json<Settings>,
) -> Response {
    let ordered = coordinator.order(Order::Pool(pool, Some(settings)), terms.of(&caller)).await;
    let made = ordered.as_ref().is_ok_and(|ordered| ordered.before.is_null() && !ordered.dry_run);
    let mut response = respond(&coordinator, answer(ordered));
    if made {
        *response.status_mut() = StatusCode::CREATED;
    }
    response
}

/// Remove a pool, with all that was ordered about it.
///
/// Refused while it has members, or if it is one of the configuration's.
#[utoipa::path(
    delete,
    path = "/v1/pools/{pool}",
    operation_id = "remove_pool",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    responses(PoolRemoving),
    security(("token" = ["operator"]))
)]
pub async fn remove(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Pool(pool, None), terms).await
}

/// Show a pool's capacity: what was ordered, what is configured, which counts.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/capacity",
    operation_id = "show_capacity",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`")),
    responses((status = 200, description = "The capacity", body = CapacityView, headers(("ETag" = String))), Pooling),
    security(("token" = ["reader"]))
)]
pub async fn show_capacity(State(coordinator): State<Coordinator>, _: Reader, Pool(pool): Pool) -> Response {
    let resource = Resource::Capacity(pool.clone());
    terms::show(&coordinator, &resource, || coordinator.capacity(&pool))
}

ordered! {
    pool "/v1/pools/{pool}/capacity" Capacity;

    /// Say what the members of a pool may reserve together.
    ///
    /// It counts more than the configuration, and outlasts a restart.
    set_capacity = "set_capacity" Capacity;

    /// Go back to the capacity of the configuration, or to none.
    clear_capacity = "clear_capacity";
}
