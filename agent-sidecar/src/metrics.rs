//! Every metric of an agent, by name. Labels come from closed sets only.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};

use meanfield_common::{trace::Exports, wire::Directives};
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, info::Info},
    registry::Registry,
};

use crate::{agent::Report, guard::Clip, trajectories::Outcome};

/// In front of every name.
pub const PREFIX: &str = "meanfield_agent";
/// The media type of the text that is served.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A gauge that holds any number.
type Level = Gauge<f64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForReason {
    reason: Clip,
}

impl EncodeLabelValue for Clip {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.name().encode(encoder)
    }
}

/// An agent's metrics.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    exports: Arc<Exports>,
    steps: Counter,
    violations: Counter,
    clips: Family<ForReason, Counter>,
    connected: Gauge,
    paused: Gauge,
    fallback: Gauge,
    reward: Level,
    latency: Level,
    arrivals: Level,
    replicas: Gauge,
    ready: Gauge,
    cpu_limit: Level,
    cpu_used: Level,
    memory_limit: Level,
    memory_used: Level,
    recorded_stored: Counter,
    recorded_dropped: Counter,
    spans_exported: Counter,
    spans_dropped: Counter,
}

impl Metrics {
    /// Metrics of an agent that has not done anything yet.
    #[must_use]
    pub fn new(exports: Arc<Exports>) -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix(PREFIX),
            exports,
            steps: Counter::default(),
            violations: Counter::default(),
            clips: Family::default(),
            connected: Gauge::default(),
            paused: Gauge::default(),
            fallback: Gauge::default(),
            reward: Level::default(),
            latency: Level::default(),
            arrivals: Level::default(),
            replicas: Gauge::default(),
            ready: Gauge::default(),
            cpu_limit: Level::default(),
            cpu_used: Level::default(),
            memory_limit: Level::default(),
            memory_used: Level::default(),
            recorded_stored: Counter::default(),
            recorded_dropped: Counter::default(),
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
        };
        metrics.register();
        metrics
    }

    /// Names and help texts; counters get `_total` behind their names.
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("steps", "Steps done", self.steps.clone());
        registry.register("violations", "Steps in which the objective was missed", self.violations.clone());
        registry.register("clips", "Wishes that the guard cut, by reason", self.clips.clone());
        registry.register("connected", "Whether the coordinator answered the last heartbeat", self.connected.clone());
        registry.register("paused", "Whether it was told to change nothing", self.paused.clone());
        registry.register("fallback", "Whether the kill switch is on for it", self.fallback.clone());
        registry.register("reward", "Reward of the last step", self.reward.clone());
        let latency = "99th percentile of the workload's latency; 0 without requests";
        registry.register("latency_p99_seconds", latency, self.latency.clone());
        registry.register("arrivals", "Requests a second that the workload got", self.arrivals.clone());
        registry.register("replicas", "Replicas asked for", self.replicas.clone());
        registry.register("ready_replicas", "Replicas that serve", self.ready.clone());
        registry.register("cpu_limit_cores", "CPU limit of a replica", self.cpu_limit.clone());
        registry.register("cpu_used_cores", "CPU that all replicas use", self.cpu_used.clone());
        registry.register("memory_limit_bytes", "Memory limit of a replica", self.memory_limit.clone());
        registry.register("memory_used_bytes", "Memory that all replicas use", self.memory_used.clone());
        let stored = "Recorded steps that the coordinator has on disk";
        registry.register("recorded_steps_stored", stored, self.recorded_stored.clone());
        let dropped = "Recorded steps that were given up";
        registry.register("recorded_steps_dropped", dropped, self.recorded_dropped.clone());
        registry.register("spans_exported", "Spans of traces exported", self.spans_exported.clone());
        registry.register("spans_dropped", "Spans of traces given up", self.spans_dropped.clone());
        registry.register("build", "The running version", Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]));
        // Every reason is there from the start, so that a rate over the first cut is right.
        for reason in Clip::ALL {
            drop(self.clips.get_or_create(&ForReason { reason }));
        }
    }

    /// Counts a step.
    pub(crate) fn step(&self, report: &Report, told: &Directives) {
        self.steps.inc();
        self.violations.inc_by(u64::from(report.violated));
        if let Some(reason) = report.clip {
            self.clips.get_or_create(&ForReason { reason }).inc();
        }
        self.connected.set(i64::from(report.connected));
        self.paused.set(i64::from(told.paused));
        self.fallback.set(i64::from(told.fallback));
        self.reward.set(report.reward);
        let seen = &report.seen;
        self.latency.set(seen.latency_p99.unwrap_or_default() / 1000.0);
        self.arrivals.set(seen.arrival_rate);
        self.replicas.set(i64::from(seen.scale.replicas));
        self.ready.set(i64::from(seen.ready));
        self.cpu_limit.set(seen.scale.limit.cpu.cores());
        self.cpu_used.set(seen.cpu_used.cores());
        self.memory_limit.set(seen.scale.limit.memory.0 as f64);
        self.memory_used.set(seen.memory_used.0 as f64);
    }

    /// What came of recorded steps so far.
    pub(crate) fn recorded(&self, outcome: Outcome) {
        self.recorded_stored.inc_by(outcome.stored.saturating_sub(self.recorded_stored.get()));
        self.recorded_dropped.inc_by(outcome.dropped.saturating_sub(self.recorded_dropped.get()));
    }

    /// Everything as text.
    ///
    /// # Errors
    /// Only if a metric's own code fails.
    pub fn render(&self) -> Result<String, fmt::Error> {
        let [sent, dropped] = self.exports.counts();
        self.spans_exported.inc_by(sent.saturating_sub(self.spans_exported.get()));
        self.spans_dropped.inc_by(dropped.saturating_sub(self.spans_dropped.get()));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}
