//! The change budget of a pool: `GET`, `PUT` and `DELETE /v1/pools/{pool}/budget`.

use axum::{extract::State, response::Response};
use meanfield_common::budget::Budget;

use super::{auth::Reader, body::Pool, openapi::Pooling, ordered::ordered, terms};
use crate::{coordinator::Coordinator, orders::Resource, view::BudgetView};

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
    let resource = Resource::Budget(pool.clone());
    terms::show(&coordinator, &resource, || coordinator.budget(&pool))
}

ordered! {
    pool "/v1/pools/{pool}/budget" Budget;

    /// Say how much of a pool's capacity may be moved within any minute.
    ///
    /// Agents ask with their heartbeats how much they want to move, and are granted what is left. The pool must have a
    /// capacity.
    set = "set_budget" Budget;

    /// Lift a pool's change budget.
    clear = "clear_budget";
}
