//! The HTTP API.
//!
//! | route | does |
//! |---|---|
//! | `POST /v1/agents` | registers an agent |
//! | `GET /v1/agents` | lists agents, by page |
//! | `GET /v1/agents/{id}` | shows one |
//! | `DELETE /v1/agents/{id}` | removes one |
//! | `POST /v1/agents/{id}/heartbeat` | takes a step, answers with the mean field |
//! | `POST /v1/heartbeats` | takes the steps of many agents at once |
//! | `POST /v1/agents/{id}/leave` | ends a membership |
//! | `POST /v1/agents/{id}/pause`, `.../resume` | pauses and resumes one agent |
//! | `POST /v1/pause`, `POST /v1/resume` | pauses and resumes all |
//! | `POST`, `DELETE /v1/fallback`, `/v1/pools/{pool}/fallback`, `/v1/agents/{id}/fallback` | the kill switch |
//! | `PUT`, `DELETE /v1/agents/{id}/lifecycle` | the state of its lifecycle that an operator wants |
//! | `GET /v1/pools`, `GET /v1/pools/{pool}` | shows pools; a `/` in a name is written `%2F` |
//! | `PUT /v1/pools/{pool}`, `DELETE ...` | makes, changes and removes a pool |
//! | `PUT /v1/pools/{pool}/capacity`, `DELETE ...` | orders a capacity, or goes back to the configured one |
//! | `PUT`, `GET`, `DELETE /v1/pools/{pool}/scarcity` | how a pool goes about scarcity |
//! | `GET /v1/pools/{pool}/cuts` | who was cut, for whom, how much and why |
//! | `PUT`, `GET`, `DELETE /v1/agents/{id}/entitlement` | an agent's weight and minimum, as an operator gives them |
//! | `PUT`, `GET`, `DELETE /v1/pools/{pool}/forecast` | the forecast network that the agents of a pool share |
//! | `GET /v1/models`, `GET`, `POST`, `DELETE /v1/models/{model}` | base models: shows them, takes in a version, forgets |
//! | `GET /v1/models/{model}/file` | the version that an agent gets, or any |
//! | `PUT /v1/models/{model}/serving`, `POST .../rollback` | promotes, pins, tries out; goes back |
//! | `PUT /v1/models/{model}/contributions/{id}` | what an agent has learnt |
//! | `POST`, `GET /v1/tokens`, `GET`, `DELETE /v1/tokens/{id}` | makes, lists, shows and revokes tokens |
//! | `POST /v1/agents/{id}/trajectories` | takes recorded steps |
//! | `GET /v1/agents/{id}/rewards` | the latest rewards of an agent |
//! | `GET /v1/trajectories` | lists episodes by time, or the best and the worst |
//! | `GET /v1/trajectories/samples` | draws steps for training |
//! | `GET /v1/trajectories/export`, `POST /v1/trajectories/import` | all steps as CSV or Parquet, and back |
//! | `PUT`, `GET`, `DELETE /v1/pools/{pool}/budget` | how much of a pool's capacity may be moved within a minute |
//! | `GET /v1/audit` | who ordered what, and when |
//! | `GET /v1/events` | everything that happens, as server-sent events |
//! | `GET /metrics`, `/livez`, `/readyz`, `/openapi.json` | for machines; no token needed |
//!
//! What can be changed can be looked at by `GET` at the same place, with an entity tag; a change may name the tag that it
//! was made for in `If-Match`, and may be tried with `?dry_run=true` ([`terms`]).
//!
//! Everything below `/v1` needs a bearer token, and every refusal is a [`problem`]. Checks sit in extractors and not in
//! middleware, which would cost each heartbeat an allocation or two: one of those of [`auth`] comes first in every
//! handler's arguments and says who may call it, so nothing is read from a stranger. Around all of it is `trace`, which
//! costs nothing while nobody looks.

pub mod agents;
pub mod audit;
pub mod auth;
pub mod batch;
pub mod body;
pub mod budget;
pub mod control;
pub mod entitlement;
pub mod events;
pub mod fallback;
pub mod forecast;
pub mod heartbeat;
pub mod lifecycle;
pub mod models;
pub mod openapi;
mod ordered;
pub mod pools;
pub mod problem;
mod query;
pub mod scarcity;
pub mod service;
pub mod terms;
pub mod tokens;
pub(crate) mod trace;
pub mod trajectories;

use std::convert::Infallible;

use axum::{
    BoxError, Router,
    body::{Body, Bytes, HttpBody},
    http::{HeaderValue, Method, Request, StatusCode, Uri, header},
    response::Response,
};
use hyper::service::Service;
use hyper_util::service::TowerToHyperService;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::coordinator::Coordinator;
use problem::{Kind, Refusal};

fn documented() -> OpenApiRouter<Coordinator> {
    OpenApiRouter::with_openapi(openapi::frame())
        .routes(routes!(agents::register, agents::list))
        .routes(routes!(agents::show, agents::remove))
        .routes(routes!(heartbeat::heartbeat))
        .routes(routes!(batch::heartbeats))
        .routes(routes!(agents::leave))
        .routes(routes!(control::show, control::pause))
        .routes(routes!(control::resume))
        .routes(routes!(control::show_all, control::pause_all))
        .routes(routes!(control::resume_all))
        .routes(routes!(pools::list))
        .routes(routes!(pools::show, pools::set, pools::remove))
        .routes(routes!(pools::show_capacity, pools::set_capacity, pools::clear_capacity))
        .routes(routes!(scarcity::show, scarcity::set, scarcity::clear))
        .routes(routes!(scarcity::cuts))
        .routes(routes!(entitlement::show, entitlement::set, entitlement::clear))
        .routes(routes!(forecast::share, forecast::download, forecast::withdraw))
        .routes(routes!(models::list))
        .routes(routes!(models::show, models::add, models::remove))
        .routes(routes!(models::file))
        .routes(routes!(models::serve))
        .routes(routes!(models::roll_back))
        .routes(routes!(models::contribute))
        .routes(routes!(tokens::create, tokens::list))
        .routes(routes!(tokens::show, tokens::revoke))
        .routes(routes!(trajectories::append))
        .routes(routes!(trajectories::rewards))
        .routes(routes!(trajectories::list))
        .routes(routes!(trajectories::samples))
        .routes(routes!(trajectories::transfer::export))
        .routes(routes!(trajectories::transfer::import))
        .routes(routes!(budget::show, budget::set, budget::clear))
        .routes(routes!(fallback::show_all, fallback::all, fallback::lift_all))
        .routes(routes!(fallback::show_pool, fallback::pool, fallback::lift_pool))
        .routes(routes!(fallback::show_agent, fallback::agent, fallback::lift_agent))
        .routes(routes!(lifecycle::show, lifecycle::set, lifecycle::clear))
        .routes(routes!(audit::list))
        .routes(routes!(events::watch))
        .routes(routes!(service::metrics))
        .routes(routes!(service::livez))
        .routes(routes!(service::readyz))
        .routes(routes!(service::openapi))
}

/// The API of a coordinator.
pub fn router(coordinator: Coordinator) -> Router {
    let (router, _) = documented().split_for_parts();
    let refuser = coordinator.clone();
    let wrong_method = coordinator.clone();
    router
        .fallback(move |method: Method, uri: Uri| async move {
            Refusal::new(Kind::NotFound, format!("there is nothing at {method} {}", uri.path())).respond(&refuser)
        })
        .method_not_allowed_fallback(move |method: Method, uri: Uri| async move {
            let detail = format!("{} does not take {method}", uri.path());
            Refusal::new(Kind::MethodNotAllowed, detail).respond(&wrong_method)
        })
        .with_state(coordinator)
}

/// Answers a request. A heartbeat goes to its handler at once: the way through the router costs it more allocations than all
/// the rest.
pub(crate) async fn answer<B>(
    coordinator: &Coordinator,
    router: &TowerToHyperService<Router>,
    request: Request<B>,
) -> Result<Response, Infallible>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + 'static,
{
    match heartbeat::sender(&request) {
        Some(agent) => Ok(heartbeat::direct(coordinator, agent, request).await),
        None => router.call(request).await,
    }
}

/// The OpenAPI document of the API, as committed in `docs/openapi.json`.
#[must_use]
pub fn document() -> String {
    openapi::text(&documented().into_openapi())
}

/// A response with a JSON body.
fn json(status: StatusCode, body: Vec<u8>) -> Response {
    let mut response = Response::new(Body::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}
