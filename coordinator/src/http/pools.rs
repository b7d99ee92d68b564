//! Pools: `GET /v1/pools`, `GET`, `PUT` and `DELETE /v1/pools/{pool}` and `/v1/pools/{pool}/capacity`.

use axum::{
    extract::{FromRequestParts, State},
    http::{StatusCode, request::Parts},
    response::Response,
};
use meanfield_common::{identity::PoolName, invalid::Invalid, scarcity::Capacity};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    agents::encode,
    auth::{Operator, Reader},
    body::{Json, Pool},
    openapi::{PoolMaking, PoolOrdering, PoolRemoving, PoolSetting, Pooling, Selecting},
    problem::{Refusal, respond},
    query,
    terms::{DryRun, IfMatch, answer, order, shown},
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
pub async fn list(State(coordinator): State<Coordinator>, _: Reader, selection: Selection) -> Response {
    let Selection { limit, after, prefix } = selection;
    let mut pools = coordinator.pools();
    // The place stays good when the pool that it names was removed.
    pools.retain(|pool| {
        let wanted = prefix.as_ref().is_none_or(|prefix| pool.name.as_str().starts_with(prefix));
        wanted && after.as_ref().is_none_or(|after| *after < pool.name)
    });
    let more = pools.len() > limit;
    pools.truncate(limit);
    let next = pools.last().filter(|_| more).map(|pool| pool.name.clone());
    let page = Pools { paused: coordinator.all_paused(), fallback: coordinator.all_fallback(), pools, next };
    respond(&coordinator, encode(StatusCode::OK, &page))
}

/// Which pools to list.
#[derive(Debug)]
pub struct Selection {
    limit: usize,
    after: Option<PoolName>,
    prefix: Option<String>,
}

impl FromRequestParts<Coordinator> for Selection {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        let parsed = query::pairs(parts).and_then(Self::parse);
        parsed.map_err(|refusal| refusal.respond(coordinator))
    }
}

impl Selection {
    fn parse(pairs: Vec<(String, String)>) -> Result<Self, Refusal> {
        // More pools than a page holds are rare.
        let mut selection = Self { limit: query::LARGEST_LIMIT, after: None, prefix: None };
        for (key, value) in pairs {
            match key.as_str() {
                "limit" => selection.limit = query::limit(&value)?,
                "after" => {
                    let bound = "the `next` of an earlier page";
                    let place = value.parse().map_err(|_| Invalid::new("after", format!("{value:?}"), bound))?;
                    selection.after = Some(place);
                }
                "prefix" => selection.prefix = Some(value),
                _ => return Err(query::unknown(&key, "limit, after, prefix")),
            }
        }
        Ok(selection)
    }
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
    let found = coordinator.pool(&pool).and_then(|view| {
        let (_, tag) = coordinator.standing(&Resource::Pool(pool))?;
        Ok((view, tag))
    });
    respond(&coordinator, found.map_err(Refusal::from).and_then(|(view, tag)| shown(&view, tag)))
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
    let found = coordinator.capacity(&pool).and_then(|view| {
        let (_, tag) = coordinator.standing(&Resource::Capacity(pool))?;
        Ok((view, tag))
    });
    respond(&coordinator, found.map_err(Refusal::from).and_then(|(view, tag)| shown(&view, tag)))
}

/// Say what the members of a pool may reserve together.
///
/// It counts more than the configuration, and outlasts a restart.
#[utoipa::path(
    put,
    path = "/v1/pools/{pool}/capacity",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    request_body = Capacity,
    responses(PoolSetting),
    security(("token" = ["operator"]))
)]
pub async fn set_capacity(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
    Json(capacity): Json<Capacity>,
) -> Response {
    order(&coordinator, &caller, Order::Capacity(pool, Some(capacity)), terms).await
}

/// Go back to the capacity of the configuration, or to none.
#[utoipa::path(
    delete,
    path = "/v1/pools/{pool}/capacity",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    responses(PoolOrdering),
    security(("token" = ["operator"]))
)]
pub async fn clear_capacity(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Capacity(pool, None), terms).await
}
