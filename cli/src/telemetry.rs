//! Logs and traces: what every daemon sets up first.
//!
//! Logs go to standard error. With `--otlp-endpoint` the spans of steps and requests also go to whoever collects traces
//! there; they are written here (`spans`, `otlp`) and not by OpenTelemetry's own libraries, which make ids only while they
//! export and keep to themselves how much they dropped. Ids are in the log, whether or not anything is exported.

mod otlp;
mod spans;

use std::{io::IsTerminal, sync::Arc};

use meanfield_common::{invalid::Invalid, trace::Exports};
use reqwest::Url;
use tracing_subscriber::{EnvFilter, Layer, filter::filter_fn, layer::SubscriberExt, util::SubscriberInitExt};

use crate::args::{LogArgs, LogFormat};
use otlp::Exporter;
use spans::{Spans, TRACE};

/// What is set up; spans that are not exported yet are when it is dropped.
pub struct Telemetry {
    exports: Arc<Exports>,
    _exporter: Option<Exporter>,
}

impl Telemetry {
    /// How much was exported.
    pub fn exports(&self) -> Arc<Exports> {
        Arc::clone(&self.exports)
    }
}

/// Starts logging and, where it is asked for, exporting, for a daemon of this name.
pub fn start(args: &LogArgs, service: &'static str) -> anyhow::Result<Telemetry> {
    // The store's library tells the operator in its own words what our errors tell in ours.
    let named = |library: &&str| !args.log.contains(library);
    let libraries = ["sled", "fjall", "lsm_tree"].into_iter().filter(named);
    let quiet = libraries.fold(args.log.clone(), |filter, library| format!("{filter},{library}=off"));
    let filter =
        EnvFilter::try_new(quiet).map_err(|error| Invalid::new("log", &args.log, format!("a filter ({error})")))?;
    let layer = tracing_subscriber::fmt::layer().with_writer(std::io::stderr);
    let log = match args.log_format {
        // Colours are for terminals, not for files.
        LogFormat::Text => layer.with_target(false).with_ansi(std::io::stderr().is_terminal()).boxed(),
        LogFormat::Json => layer.json().boxed(),
    };
    let exports = Arc::new(Exports::default());
    let (mut exporter, mut spans) = (None, None);
    if let Some(endpoint) = &args.otlp_endpoint {
        let (queue, started) = Exporter::start(traces(endpoint)?, service, Arc::clone(&exports))?;
        exporter = Some(started);
        // What has no trace of ours, such as the spans of libraries, is no span of ours.
        let ours = filter_fn(|metadata| metadata.is_span() && metadata.fields().field(TRACE).is_some());
        spans = Some(Spans::new(queue, Arc::clone(&exports)).with_filter(ours));
    }
    tracing_subscriber::registry().with(log.with_filter(filter)).with(spans).init();
    Ok(Telemetry { exports, _exporter: exporter })
}

/// Where an endpoint takes traces.
fn traces(endpoint: &str) -> Result<Url, Invalid> {
    let url = Url::parse(&format!("{}/v1/traces", endpoint.trim_end_matches('/'))).ok();
    let url = url.filter(|url| ["http", "https"].contains(&url.scheme()) && url.has_host() && url.query().is_none());
    url.ok_or_else(|| Invalid::new("otlp-endpoint", endpoint, "a URL such as http://127.0.0.1:4318"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_checked() {
        assert_eq!(traces("http://127.0.0.1:4318/").unwrap().as_str(), "http://127.0.0.1:4318/v1/traces");
        assert_eq!(traces("https://a/b").unwrap().as_str(), "https://a/b/v1/traces");
        for bad in ["", "127.0.0.1:4318", "ftp://a", "http://a?b"] {
            assert_eq!(traces(bad).unwrap_err().field, "otlp-endpoint", "{bad}");
        }
    }
}
