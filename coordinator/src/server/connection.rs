//! One connection, from its handshake to its end.

use std::{convert::Infallible, io, pin::pin, sync::Arc};

use axum::{Router, body::Body, extract::Request, http::Response};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use rustls::ServerConfig;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    sync::watch,
    time,
};
use tokio_rustls::{TlsAcceptor, server::TlsStream};

use super::pace::{Paced, Phase};
use crate::{
    coordinator::Coordinator,
    http::{self, trace},
    metrics::Open,
};

pub(super) struct Connection {
    pub(super) coordinator: Coordinator,
    pub(super) router: Router,
    pub(super) tls: Option<Arc<ServerConfig>>,
}

impl Connection {
    /// Serves until the client has enough, is too slow, or the other side of `stopping` is dropped and the request that
    /// is under way is answered.
    pub(super) async fn serve(self, stream: TcpStream, mut stopping: watch::Receiver<()>) {
        let _open = Open::new(self.coordinator.metrics());
        // Answers are small and awaited: waiting to fill a packet would only delay them.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!(%error, "cannot set TCP_NODELAY");
        }
        let Some(config) = self.tls.clone() else { return self.exchange(stream, stopping).await };
        let shaken = tokio::select! {
            shaken = self.handshake(config, stream) => shaken,
            _ = stopping.changed() => return,
        };
        match shaken {
            Ok(stream) => self.exchange(stream, stopping).await,
            Err(error) => {
                tracing::debug!(%error, "no TLS handshake");
                self.coordinator.metrics().handshakes_failed.inc();
            }
        }
    }

    async fn handshake(&self, config: Arc<ServerConfig>, stream: TcpStream) -> io::Result<TlsStream<TcpStream>> {
        let limit = self.coordinator.options().limits.head_time;
        time::timeout(limit, TlsAcceptor::from(config).accept(stream)).await?
    }

    async fn exchange(&self, stream: impl AsyncRead + AsyncWrite + Unpin, mut stopping: watch::Receiver<()>) {
        let limits = self.coordinator.options().limits;
        let phase = Phase::default();
        let stream = TokioIo::new(Paced::new(stream, phase.clone(), limits));
        let router = TowerToHyperService::new(self.router.clone());
        let answer = |request: Request<Incoming>| {
            phase.serving();
            let answer = trace::follow(request, |request| http::answer(&self.coordinator, &router, request));
            let phase = phase.clone();
            async move {
                let answer: Result<Response<Body>, Infallible> = answer.await;
                phase.answered();
                answer
            }
        };
        let builder = http1::Builder::new().max_header_size(limits.head).clone();
        let mut connection = pin!(builder.serve_connection(stream, service_fn(answer)));
        let ended = tokio::select! {
            ended = connection.as_mut() => ended,
            // There is nothing to hear but that the sender is gone.
            _ = stopping.changed() => {
                connection.as_mut().graceful_shutdown();
                connection.await
            }
        };
        if let Err(error) = ended {
            tracing::debug!(%error, "a connection ended");
        }
        if phase.is_cut() {
            self.coordinator.metrics().connections_cut.inc();
        }
    }
}
