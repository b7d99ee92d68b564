//! Pools: `GET /v1/pools`, `GET /v1/pools/{pool}`, `GET`, `PUT` and `DELETE /v1/pools/{pool}/capacity`.

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
    openapi::{PoolOrdering, PoolSetting, Pooling, Selecting},
    problem::{Refusal, respond},
    query,
    terms::{DryRun, IfMatch, order, shown},
};
use crate::{
    coordinator::Coordinator,
    orders::{Order, Resource, Terms},
    view::{CapacityView, PoolView},
};

/// All pools.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Pools {
    /// Whether the pause for all is on.
    pub paused: bool,
    /// Whether the kill switch for all is on.
    pub fallback: bool,
    /// In the order of the configuration.
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
    if let Some(after) = after {
        let Some(place) = pools.iter().position(|pool| pool.name == after) else {
            let bound = "the `next` of an earlier page";
            return Refusal::from(Invalid::new("after", after, bound)).respond(&coordinator);
        };
        pools.drain(..=place);
    }
    pools.retain(|pool| prefix.as_ref().is_none_or(|prefix| pool.name.as_str().starts_with(prefix)));
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
        // More pools than a page holds are rare, and their order is the operator's.
        let mut selection = Self { limit: query::LARGEST_LIMIT, after: None, prefix: None };
        for (key, value) in pairs {
            match key.as_str() {
                "limit" => selection.limit = query::limit(&value)?,
                "after" => selection.after = Some(value.parse()?),
                "prefix" => selection.prefix = Some(value),
                _ => return Err(query::unknown(&key, "limit, after, prefix")),
            }
        }
        Ok(selection)
    }
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
