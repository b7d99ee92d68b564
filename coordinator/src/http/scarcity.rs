//! How a pool goes about scarcity: `GET`, `PUT` and `DELETE /v1/pools/{pool}/scarcity`; and what came of it:
//! `GET /v1/pools/{pool}/cuts`.

use axum::{
    extract::{FromRequestParts, State},
    http::{StatusCode, request::Parts},
    response::Response,
};
use meanfield_common::{invalid::Invalid, scarcity::Settings};

use super::{
    agents::encode,
    auth::Reader,
    body::Pool,
    openapi::{Listing, Pooling},
    ordered::ordered,
    problem::{Refusal, respond},
    query, terms,
};
use crate::{
    coordinator::Coordinator,
    orders::Resource,
    view::{CutFilter, CutPage, SettingsView},
};

/// Show how a pool goes about scarcity.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/scarcity",
    operation_id = "show_scarcity",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`")),
    responses((status = 200, description = "The settings", body = SettingsView, headers(("ETag" = String))), Pooling),
    security(("token" = ["reader"]))
)]
pub async fn show(State(coordinator): State<Coordinator>, _: Reader, Pool(pool): Pool) -> Response {
    let resource = Resource::Scarcity(pool.clone());
    terms::show(&coordinator, &resource, || coordinator.scarcity_settings(&pool))
}

ordered! {
    pool "/v1/pools/{pool}/scarcity" Scarcity;

    /// Say how a pool goes about scarcity: off, advise or enforce; whether yielding ages; where the capacity comes from.
    ///
    /// What is left out has its default. What was computed before is forgotten.
    set = "set_scarcity" Settings;

    /// Go back to the defaults: enforced, without ageing, for a declared capacity.
    clear = "clear_scarcity";
}

/// List who was cut, for whom, how much, why and for how long, the oldest first.
///
/// The last 1024 cuts of a pool are kept, in memory.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/cuts",
    operation_id = "list_cuts",
    tag = "pools",
    params(
        ("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"),
        ("limit" = Option<usize>, Query, description = "How many at most", minimum = 1, maximum = 1000),
        ("after" = Option<u64>, Query, description = "The `next` of the page before"),
        ("agent" = Option<String>, Query, description = "Only of the agent of this name"),
        ("state" = Option<String>, Query, description = "Only cuts in this state: open or ended"),
    ),
    responses((status = 200, description = "A page", body = CutPage), Listing),
    security(("token" = ["reader"]))
)]
pub async fn cuts(
    State(coordinator): State<Coordinator>,
    _: Reader,
    Pool(pool): Pool,
    selection: Selection,
) -> Response {
    let Selection { filter, after, limit } = selection;
    let page = coordinator.cuts(&pool, &filter, after, limit).map_err(Refusal::from);
    respond(&coordinator, page.and_then(|page| encode(StatusCode::OK, &page)))
}

/// Which cuts to list.
#[derive(Debug)]
pub struct Selection {
    filter: CutFilter,
    after: u64,
    limit: usize,
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
        let mut selection = Self { filter: CutFilter::default(), after: 0, limit: query::DEFAULT_LIMIT };
        let filter = &mut selection.filter;
        for (key, value) in pairs {
            match key.as_str() {
                "limit" => selection.limit = query::limit(&value)?,
                "after" => selection.after = query::number("after", &value)?,
                "agent" => filter.agent = Some(value.parse()?),
                "state" => filter.open = Some(open(&value)?),
                _ => return Err(query::unknown(&key, "limit, after, agent, state")),
            }
        }
        Ok(selection)
    }
}

fn open(state: &str) -> Result<bool, Invalid> {
    match state {
        "open" => Ok(true),
        "ended" => Ok(false),
        _ => Err(Invalid::new("state", format!("{state:?}"), "one of open, ended")),
    }
}
