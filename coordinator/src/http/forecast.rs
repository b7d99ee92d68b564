//! The forecast network of a pool: `PUT`, `GET` and `DELETE /v1/pools/{pool}/forecast`.

use axum::{
    extract::State,
    http::{HeaderMap, StatusCode, header},
    response::{IntoResponse, Response},
};
use meanfield_learner::forecast::MOST_BYTES;

use super::{
    auth::{Anyone, Operator},
    body::{File, Pool},
    openapi::{Downloading, PoolOrdering, Sharing},
    problem::{Refusal, respond},
    terms::{DryRun, IfMatch, answer, order},
};
use crate::{
    coordinator::Coordinator,
    orders::{Order, Terms},
};

/// Give the agents of a pool a forecast network to share.
///
/// Agents that forecast hear of it with their next heartbeat, and use it instead of the one they ship with. It
/// outlasts a restart.
#[utoipa::path(
    put,
    path = "/v1/pools/{pool}/forecast",
    operation_id = "share_forecast",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    request_body(
        description = "What `meanfield train --forecast` wrote, in the safetensors format; at most 1 MiB",
        content_type = "application/octet-stream",
    ),
    responses(Sharing),
    security(("token" = ["operator"]))
)]
pub async fn share(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
    File(bytes): File<MOST_BYTES>,
) -> Response {
    let shared = coordinator.share_forecast(&pool, bytes.into(), terms.of(&caller)).await;
    respond(&coordinator, answer(shared))
}

/// Download the forecast network of a pool.
#[utoipa::path(
    get,
    path = "/v1/pools/{pool}/forecast",
    operation_id = "download_forecast",
    tag = "pools",
    params(
        ("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"),
        ("If-None-Match" = Option<String>, Header, description = "The entity tags of files that are there already"),
    ),
    responses(
        (
            status = 200,
            description = "The file as it was given",
            content_type = "application/octet-stream",
            headers(("ETag" = String, description = "The file's SHA-256, in quotes"))
        ),
        (
            status = 304,
            description = "The file is one of those",
            headers(("ETag" = String, description = "The file's SHA-256, in quotes"))
        ),
        Downloading
    ),
    security(("token" = ["agent", "reader"]))
)]
pub async fn download(
    State(coordinator): State<Coordinator>,
    caller: Anyone,
    Pool(pool): Pool,
    headers: HeaderMap,
) -> Response {
    let found = caller.check_pool(&pool).and_then(|()| coordinator.forecast(&pool).map_err(Refusal::from));
    let file = found.map(|forecast| {
        let tag = format!("\"{}\"", forecast.digest());
        if has(&headers, &tag) {
            (StatusCode::NOT_MODIFIED, [(header::ETAG, tag)]).into_response()
        } else {
            // Bytes are sent as application/octet-stream.
            ([(header::ETAG, tag)], forecast.bytes().to_vec()).into_response()
        }
    });
    respond(&coordinator, file)
}

/// Whether the sender has the file of this tag, or would not have any (RFC 9110, 13.1.2).
pub(super) fn has(headers: &HeaderMap, tag: &str) -> bool {
    let given = headers.get_all(header::IF_NONE_MATCH).iter().filter_map(|value| value.to_str().ok());
    given
        .flat_map(|value| value.split(','))
        .map(str::trim)
        .any(|one| one == "*" || one.strip_prefix("W/").unwrap_or(one) == tag)
}

/// Take the forecast network of a pool back: its agents go on with the one they ship with.
#[utoipa::path(
    delete,
    path = "/v1/pools/{pool}/forecast",
    operation_id = "withdraw_forecast",
    tag = "pools",
    params(("pool" = String, Path, description = "The pool's name, with `/` written as `%2F`"), DryRun, IfMatch),
    responses(PoolOrdering),
    security(("token" = ["operator"]))
)]
pub async fn withdraw(
    State(coordinator): State<Coordinator>,
    Operator(caller): Operator,
    Pool(pool): Pool,
    terms: Terms,
) -> Response {
    order(&coordinator, &caller, Order::Forecast(pool, None), terms).await
}
