//! The change budget of a pool: `GET`, `PUT` and `DELETE /v1/pools/{pool}/budget`.

use axum::{extract::State, response::Response};
use meanfield_common::budget::Budget;

use super::{
    auth::{Operator, Reader},
    body::{Json, Pool},
    openapi::{PoolOrdering, PoolSetting, Pooling},
    problem::{Refusal, respond},
    terms::{DryRun, IfMatch, order, shown},
};
use crate::{
    coordinator::Coordinator,
    orders::{Order, Resource, Terms},
    view::BudgetView,
};

/// Show a pool's change budget, and how much of it is left.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/budget",
    operation_id = "show_budget",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`")),
    responses((status = 200, description = "The budget", body = BudgetView, headers(("ETag" = String))), Pooling),
    security(("token" = ["reader"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Reader, Pool(pool): Pool) -> Response {
    let found = coordinator.budget(&pool).and_then(|view| {
        let (_, tag) = coordinator.standing(&Resource::Budget(pool))?;
        Ok((view, tag))
    });
    respond(&coordinator, found.map_err(Refusal::from).and_then(|(view, tag)| shown(&view, tag)))
}

/// Say how much of a pool's capacity may be moved within any minute.
///
/// Agents ask with their heartbeats how much they want to move, and are granted what is left. The pool must have a
/// capacity.
#[utoipa::path(
    put,
    path = "/v1/pools/{pool}/budget",
    operation_id = "set_budget",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    request_body = Budget,
    responses(PoolSetting),
    security(("token" = ["operator"]))
)]
pub async fn set(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
    Json(budget): Json<Budget>,
) -> Response {
    order(&coordinator, &caller, Order::Budget(pool, Some(budget)), terms).await
}

/// Lift a pool's change budget.
#[utoipa::path(
    delete,
    path = "/v1/pools/{pool}/budget",
    operation_id = "clear_budget",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    responses(PoolOrdering),
    security(("token" = ["operator"]))
)]
pub async fn clear(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Budget(pool, None), terms).await
}
