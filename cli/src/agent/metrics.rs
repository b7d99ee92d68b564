//! `GET /metrics` and `GET /livez` of an agent, where `--metrics-listen` asks for them.

use std::{net::SocketAddr, sync::Arc};

use anyhow::Context;
use axum::{
    Router,
    http::{StatusCode, header::CONTENT_TYPE},
    response::IntoResponse,
    routing::get,
};
use meanfield_agent::metrics::{self, Metrics};
use tokio::net::TcpListener;

/// Serves until the process ends.
pub async fn serve(address: SocketAddr, metrics: Arc<Metrics>) -> anyhow::Result<()> {
    let listener = TcpListener::bind(address).await.with_context(|| format!("cannot listen on {address}"))?;
    tracing::info!(address = %listener.local_addr()?, "serving metrics");
    let render = move || async move {
        match metrics.render() {
            Ok(text) => ([(CONTENT_TYPE, metrics::CONTENT_TYPE)], text).into_response(),
            // Formatting into a string fails only when a metric's own code does.
            Err(_) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        }
    };
    let router = Router::new().route("/metrics", get(render)).route("/livez", get(async || "ok\n"));
    tokio::spawn(async move {
        if let Err(error) = axum::serve(listener, router).await {
            tracing::warn!(%error, "metrics are no longer served");
        }
    });
    Ok(())
}
