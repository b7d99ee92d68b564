//! For machines: `GET /metrics`, `GET /livez`, `GET /readyz`, `GET /openapi.json`. None needs the token.

use std::sync::LazyLock;

use axum::{
    extract::State,
    http::{StatusCode, header},
    response::{IntoResponse, Response},
};

use crate::{coordinator::Coordinator, metrics};

/// Metrics in the OpenMetrics text format.
#[utoipa::path(
    get,
    path = "/metrics",
    tag = "service",
    responses((status = 200, description = "Metrics", body = String, content_type = "application/openmetrics-text"))
)]
pub async fn metrics(State(coordinator): State<Coordinator>) -> Response {
    let (boards, models) = (coordinator.boards(), coordinator.models());
    match coordinator.metrics().render(&boards, &models, coordinator.switches()) {
        Ok(text) => ([(header::CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
        // Formatting into a string fails only when a metric's own code does.
        Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
    }
}

/// Whether the process answers at all.
#[utoipa::path(
    get,
    path = "/livez",
    tag = "service",
    responses((status = 200, description = "Alive", body = String, content_type = "text/plain"))
)]
pub async fn livez() -> &'static str {
    "ok\n"
}

/// Whether requests are welcome, and why not: the store works and no shutdown has begun.
#[utoipa::path(
    get,
    path = "/readyz",
    tag = "service",
    responses(
        (status = 200, description = "Ready", body = String, content_type = "text/plain"),
        (status = 503, description = "Not ready, or no more", body = String, content_type = "text/plain")
    )
)]
pub async fn readyz(State(coordinator): State<Coordinator>) -> Response {
    match coordinator.hindrance() {
        None => "ready\n".into_response(),
        Some(reason) => (StatusCode::SERVICE_UNAVAILABLE, format!("not ready: {reason}\n")).into_response(),
    }
}

/// This document.
#[utoipa::path(
    get,
    path = "/openapi.json",
    tag = "service",
    responses((status = 200, description = "The OpenAPI document", body = Object, content_type = "application/json"))
)]
pub async fn openapi() -> Response {
    static DOCUMENT: LazyLock<String> = LazyLock::new(super::document);
    super::json(StatusCode::OK, DOCUMENT.as_bytes().to_vec())
}

#[cfg(test)]
mod tests {
    use axum::{body::Body, http::Request};
    use tower::ServiceExt;

    use super::*;
    use crate::{Clock, Options};

    #[tokio::test]
    async fn draining_is_alive_but_not_ready() {
        let coordinator = Coordinator::open(Options::default(), Clock::manual()).unwrap();
        let router = crate::http::router(coordinator.clone());
        let status = async |path: &str| {
            let request = Request::get(path).body(Body::empty()).unwrap();
            router.clone().oneshot(request).await.unwrap().status()
        };
        assert_eq!((status("/livez").await, status("/readyz").await), (StatusCode::OK, StatusCode::OK));
        coordinator.drain();
        assert_eq!(
            (status("/livez").await, status("/readyz").await),
            (StatusCode::OK, StatusCode::SERVICE_UNAVAILABLE)
        );
    }
}
