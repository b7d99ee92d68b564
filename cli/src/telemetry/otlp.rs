//! Traces to a collector: OTLP over HTTP, in its JSON form.
//!
//! A thread of its own takes what has ended, in batches, and sends it. Where the collector is away it tries again, less
//! and less often, and the queue fills meanwhile; what it refuses is given up. When the daemon ends, what is left is sent
//! if the collector takes it at once.

use std::{
    mem,
    sync::Arc,
    thread,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use meanfield_agent::http::{Trust, builder};
use meanfield_common::trace::Exports;
use reqwest::{Client, StatusCode, Url};
use serde_json::{Value, json};
use tokio::{
    sync::{
        mpsc::{Receiver, Sender, channel},
        watch,
    },
    time::{sleep, timeout},
};

use super::spans::Ended;

/// Spans that may wait; beyond it they are given up.
const QUEUE: usize = 4096;
/// Spans in a request.
const BATCH: usize = 512;
/// How long a batch may take to fill.
const GATHER: Duration = Duration::from_secs(1);
/// How long a collector may take.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long to wait before the first try again, and at most.
const PAUSES: [Duration; 2] = [Duration::from_secs(1), Duration::from_secs(30)];

/// The thread; dropping it sends what is left.
pub struct Exporter {
    stop: watch::Sender<bool>,
    thread: Option<thread::JoinHandle<()>>,
}

impl Exporter {
    pub fn start(url: Url, service: &'static str, exports: Arc<Exports>) -> anyhow::Result<(Sender<Ended>, Self)> {
        let client = builder(url.scheme() == "https", &Trust::default())?.timeout(PATIENCE).build()?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let ((queue, spans), (stop, stopping)) = (channel(QUEUE), watch::channel(false));
        let mut work = Work { client, url, service, exports, spans, stopping };
        let thread = thread::Builder::new()
            .name("otlp".to_owned())
            .spawn(move || runtime.block_on(work.run()))
            .context("cannot start the thread that exports traces")?;
        Ok((queue, Self { stop, thread: Some(thread) }))
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.stop.send_replace(true);
        // A panic over there was reported by the panic hook.
        let _ = self.thread.take().map(thread::JoinHandle::join);
    }
}

/// What became of a batch.
#[derive(Debug, PartialEq, Eq)]
enum Sent {
    Taken,
    /// Nothing but time can help.
    Away,
    Refused,
}

struct Work {
    client: Client,
    url: Url,
    service: &'static str,
    exports: Arc<Exports>,
    spans: Receiver<Ended>,
    stopping: watch::Receiver<bool>,
}

impl Work {
    async fn run(&mut self) {
        let mut batch = Vec::with_capacity(BATCH);
        while self.gather(&mut batch).await {
            self.deliver(&mut batch).await;
        }
        // What is left. The sender lives as long as the process, so the queue never ends by itself.
        loop {
            while batch.len() < BATCH
                && let Ok(ended) = self.spans.try_recv()
            {
                batch.push(ended);
            }
            if batch.is_empty() || self.send(&batch).await != Sent::Taken {
                break;
            }
            self.exports.sent(mem::take(&mut batch).len());
        }
        self.exports.dropped(batch.len() + self.spans.len());
    }

    /// Fills a batch; false when told to stop.
    async fn gather(&mut self, batch: &mut Vec<Ended>) -> bool {
        let Self { spans, stopping, .. } = self;
        let fill = async {
            spans.recv_many(batch, BATCH).await;
            let more = async { while batch.len() < BATCH && spans.recv_many(batch, BATCH - batch.len()).await > 0 {} };
            let _ = timeout(GATHER, more).await;
        };
        tokio::select! {
            biased;
            _ = stopping.wait_for(|stop| *stop) => false,
            () = fill => true,
        }
    }

    /// Sends a batch until it is taken, refused, or somebody says stop, and it is left then.
    async fn deliver(&mut self, batch: &mut Vec<Ended>) {
        let [mut pause, longest] = PAUSES;
        loop {
            match self.send(batch).await {
                Sent::Taken => return self.exports.sent(mem::take(batch).len()),
                Sent::Refused => return self.exports.dropped(mem::take(batch).len()),
                Sent::Away => {}
            }
            tokio::select! {
                () = sleep(pause) => pause = (pause * 2).min(longest),
                _ = self.stopping.wait_for(|stop| *stop) => return,
            }
        }
    }

    async fn send(&self, batch: &[Ended]) -> Sent {
        let request = self.client.post(self.url.clone()).json(&encode(self.service, batch));
        let status = match request.send().await {
            Ok(response) => response.status(),
            Err(error) => {
                tracing::debug!(error = %error.without_url(), "the collector of traces is away");
                return Sent::Away;
            }
        };
        match status {
            _ if status.is_success() => Sent::Taken,
            // As the protocol has it.
            StatusCode::TOO_MANY_REQUESTS
            | StatusCode::BAD_GATEWAY
            | StatusCode::SERVICE_UNAVAILABLE
            | StatusCode::GATEWAY_TIMEOUT => Sent::Away,
            _ => {
                tracing::warn!(%status, spans = batch.len(), "the collector refused traces");
                Sent::Refused
            }
        }
    }
}

/// A request, as OTLP has it.
fn encode(service: &str, batch: &[Ended]) -> Value {
    let version = env!("CARGO_PKG_VERSION");
    let resource = [("service.name", service.into()), ("service.version", version.into())];
    json!({ "resourceSpans": [{
        "resource": { "attributes": resource.map(|(key, value)| attribute(key, &value)) },
        "scopeSpans": [{
            "scope": { "name": "meanfield", "version": version },
            "spans": batch.iter().map(span).collect::<Vec<_>>(),
        }],
    }] })
}

fn span(ended: &Ended) -> Value {
    let fields = &ended.fields;
    let text = |name: &str| fields.others.get(name).and_then(Value::as_str);
    let name = match (text("method"), text("route")) {
        (Some(method), Some(route)) => format!("{method} {route}"),
        _ => ended.name.to_owned(),
    };
    // Served, called, or neither.
    let kind = match ended.name {
        "request" => 2,
        "call" => 3,
        _ => 1,
    };
    // Semantic conventions of HTTP: an error is what the server could not do, or what the caller was refused.
    let least = if ended.name == "call" { 400 } else { 500 };
    let status = fields.others.get("status").and_then(Value::as_u64);
    let failed = ended.name == "call" && status.is_none() || status.is_some_and(|status| status >= least);
    let attributes = fields.others.iter().map(|(key, value)| {
        let key = match key.as_str() {
            "method" => "http.request.method",
            "route" => "http.route",
            "status" => "http.response.status_code",
            "agent" => "meanfield.agent",
            other => other,
        };
        attribute(key, value)
    });
    let mut span = json!({
        "traceId": fields.trace,
        "spanId": fields.span,
        "name": name,
        "kind": kind,
        "startTimeUnixNano": nanoseconds(ended.begin),
        "endTimeUnixNano": nanoseconds(ended.end),
        "attributes": attributes.collect::<Vec<_>>(),
        "status": if failed { json!({ "code": 2 }) } else { json!({}) },
    });
    if let Some(parent) = &fields.parent {
        span["parentSpanId"] = parent.as_str().into();
    }
    span
}

fn attribute(key: &str, value: &Value) -> Value {
    let value = match value {
        Value::Bool(value) => json!({ "boolValue": value }),
        // 64 bits are written as text.
        Value::Number(value) if value.is_f64() => json!({ "doubleValue": value }),
        Value::Number(value) => json!({ "intValue": value.to_string() }),
        Value::String(value) => json!({ "stringValue": value }),
        other => json!({ "stringValue": other.to_string() }),
    };
    json!({ "key": key, "value": value })
}

fn nanoseconds(at: SystemTime) -> String {
    at.duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos().to_string()
}
