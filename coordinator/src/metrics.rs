//! Every metric of the coordinator, by name.
//!
//! Labels come from closed sets only: states, kinds of refusals, pools, of which there are as many as the configuration
//! allows, and base models, of which there are 256 at most.

use std::{
    fmt,
    sync::{Arc, atomic::AtomicU64},
};

use meanfield_common::{
    identity::{ModelName, PoolName},
    scarcity::{Mode, Reason as Why},
};
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder, text::encode},
    metrics::{
        counter::Counter,
        family::Family,
        gauge::Gauge,
        histogram::{Histogram, exponential_buckets},
        info::Info,
    },
    registry::Registry,
};

use crate::{
    http::problem::Kind,
    models::Model,
    trajectories::retention::Reason,
    view::{PoolView, State},
};

/// In front of every name.
pub const PREFIX: &str = "meanfield_coordinator";
/// The media type of the text that is served.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// A gauge that holds any number.
type Level = Gauge<f64, AtomicU64>;

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct InState {
    state: State,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfKind {
    kind: Kind,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfPool {
    pool: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct OfModel {
    model: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct PartOfPool {
    pool: String,
    part: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ModeOfPool {
    pool: String,
    mode: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CutsOfPool {
    pool: String,
    reason: &'static str,
}

impl EncodeLabelValue for State {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let name = match self {
            Self::Active => "active",
            Self::Suspect => "suspect",
        };
        name.encode(encoder)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ForReason {
    reason: Reason,
}

impl EncodeLabelValue for Reason {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        let name = match self {
            Self::Age => "age",
            Self::Size => "size",
        };
        name.encode(encoder)
    }
}

impl EncodeLabelValue for Kind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.name().encode(encoder)
    }
}

/// The metrics of trajectories. Clones count together.
#[derive(Debug, Clone)]
pub(crate) struct TrajectoryMetrics {
    pub(crate) appended: Counter,
    pub(crate) dropped: Counter,
    pub(crate) flush_seconds: Histogram,
    removed: Family<ForReason, Counter>,
    steps: Gauge,
    bytes: Gauge,
    disk_bytes: Gauge,
}

impl TrajectoryMetrics {
    pub(crate) fn new() -> Self {
        let removed = Family::<ForReason, Counter>::default();
        for reason in [Reason::Age, Reason::Size] {
            drop(removed.get_or_create(&ForReason { reason }));
        }
        Self {
            appended: Counter::default(),
            dropped: Counter::default(),
            // 0.1 ms to 1.6 s.
            flush_seconds: Histogram::new(exponential_buckets(1e-4, 4.0, 8)),
            removed,
            steps: Gauge::default(),
            bytes: Gauge::default(),
            disk_bytes: Gauge::default(),
        }
    }

    fn register(&self, registry: &mut Registry) {
        registry.register("trajectory_appended_steps", "Steps recorded", self.appended.clone());
        let dropped = "Steps that agents say they dropped instead of handing them in";
        registry.register("trajectory_dropped_steps", dropped, self.dropped.clone());
        let removed = "Steps removed by retention, by reason";
        registry.register("trajectory_removed_steps", removed, self.removed.clone());
        let flush = "Time to make the steps of all who wait durable";
        registry.register("trajectory_flush_seconds", flush, self.flush_seconds.clone());
        registry.register("trajectory_steps", "Steps kept", self.steps.clone());
        registry.register("trajectory_bytes", "Bytes of the steps kept", self.bytes.clone());
        registry.register("trajectory_disk_bytes", "Bytes that they take on the disk", self.disk_bytes.clone());
    }

    /// What is kept now.
    pub(crate) fn level(&self, steps: u64, bytes: u64) {
        self.steps.set(count(steps));
        self.bytes.set(count(bytes));
    }

    /// What it takes on the disk now.
    pub(crate) fn space(&self, bytes: u64) {
        self.disk_bytes.set(count(bytes));
    }

    /// That retention removed steps.
    pub(crate) fn removed(&self, reason: Reason, steps: u64) {
        self.removed.get_or_create(&ForReason { reason }).inc_by(steps);
    }
}

fn count(number: u64) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}

/// What is about one pool.
#[derive(Debug)]
pub(crate) struct Board {
    pub(crate) pool: PoolView,
    /// What is made of too little, also where no capacity is known.
    pub(crate) mode: Mode,
    /// How many nodes agents report, where they are the capacity.
    pub(crate) nodes: Option<usize>,
}

/// What is about no pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switches {
    pub(crate) paused: bool,
    pub(crate) fallback: bool,
    pub(crate) agents_on_fallback: u64,
    pub(crate) audit_entries: u64,
    /// Spans that were exported, and spans that were given up.
    pub(crate) spans: [u64; 2],
}

/// The coordinator's metrics. Counters are counted where things happen, gauges are read when they are served.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    /// One scrape at a time: each sets the gauges anew.
    rendering: Mutex<()>,
    pub(crate) heartbeats: Counter,
    pub(crate) registrations: Counter,
    pub(crate) leaves: Counter,
    pub(crate) gone: Counter,
    pub(crate) claims_capped: Counter,
    pub(crate) contributions: Counter,
    pub(crate) orders: Counter,
    pub(crate) heartbeat_seconds: Histogram,
    connections: Gauge,
    pub(crate) connections_refused: Counter,
    pub(crate) connections_cut: Counter,
    pub(crate) handshakes_failed: Counter,
    pub(crate) certificates_refused: Counter,
    pub(crate) store_flush_seconds: Histogram,
    spans_exported: Counter,
    spans_dropped: Counter,
    pub(crate) trajectories: TrajectoryMetrics,
    refusals: Family<OfKind, Counter>,
    agents: Family<InState, Gauge>,
    paused: Gauge,
    fallback: Gauge,
    audit_entries: Gauge,
    pool_agents: Family<OfPool, Gauge>,
    pool_slo_preservation: Family<OfPool, Level>,
    pool_utilisation: Family<OfPool, Level>,
    pool_reward: Family<OfPool, Level>,
    pool_price: Family<OfPool, Level>,
    pool_grants: Family<OfPool, Level>,
    pool_headroom: Family<PartOfPool, Level>,
    pool_capacity: Family<PartOfPool, Level>,
    pool_nodes: Family<OfPool, Level>,
    pool_fallback: Family<OfPool, Level>,
    agents_on_fallback: Gauge,
    pool_scarcity_mode: Family<ModeOfPool, Level>,
    pool_cuts: Family<CutsOfPool, Level>,
    model_version: Family<OfModel, Level>,
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix(PREFIX),
            rendering: Mutex::default(),
            heartbeats: Counter::default(),
            registrations: Counter::default(),
            leaves: Counter::default(),
            gone: Counter::default(),
            claims_capped: Counter::default(),
            contributions: Counter::default(),
            orders: Counter::default(),
            // 1 us to 0.26 s.
            heartbeat_seconds: Histogram::new(exponential_buckets(1e-6, 4.0, 10)),
            connections: Gauge::default(),
            connections_refused: Counter::default(),
            connections_cut: Counter::default(),
            handshakes_failed: Counter::default(),
            certificates_refused: Counter::default(),
            // 0.1 ms to 1.6 s.
            store_flush_seconds: Histogram::new(exponential_buckets(1e-4, 4.0, 8)),
            spans_exported: Counter::default(),
            spans_dropped: Counter::default(),
            trajectories: TrajectoryMetrics::new(),
            refusals: Family::default(),
            agents: Family::default(),
            paused: Gauge::default(),
            fallback: Gauge::default(),
            audit_entries: Gauge::default(),
            pool_agents: Family::default(),
            pool_slo_preservation: Family::default(),
            pool_utilisation: Family::default(),
            pool_reward: Family::default(),
            pool_price: Family::default(),
            pool_grants: Family::default(),
            pool_headroom: Family::default(),
            pool_capacity: Family::default(),
            pool_nodes: Family::default(),
            pool_fallback: Family::default(),
            agents_on_fallback: Gauge::default(),
            pool_scarcity_mode: Family::default(),
            pool_cuts: Family::default(),
            model_version: Family::default(),
        };
        metrics.register();
        metrics
    }

    /// Names and help texts; counters get `_total` behind their names.
    fn register(&mut self) {
        let registry = &mut self.registry;
        registry.register("heartbeats", "Heartbeats answered", self.heartbeats.clone());
        registry.register("registrations", "Registrations taken", self.registrations.clone());
        registry.register("leaves", "Agents that left or were removed", self.leaves.clone());
        registry.register("gone", "Agents that were silent for too long", self.gone.clone());
        let capped = "Claims of more than the offered work bears out";
        registry.register("claims_capped", capped, self.claims_capped.clone());
        let learnt = "Networks that agents have handed in for base models";
        registry.register("model_contributions", learnt, self.contributions.clone());
        registry.register("model_version", "The version of a base model that is served", self.model_version.clone());
        registry.register("orders", "Operators' orders carried out", self.orders.clone());
        registry.register("refusals", "Requests refused, by kind of problem", self.refusals.clone());
        registry.register(
            "heartbeat_seconds",
            "Time to handle a heartbeat, from the parsed body to the answer",
            self.heartbeat_seconds.clone(),
        );
        registry.register("connections", "Open connections", self.connections.clone());
        let refused = "Connections closed at once, since there were too many";
        registry.register("connections_refused", refused, self.connections_refused.clone());
        registry.register("connections_cut", "Connections cut off for being slow", self.connections_cut.clone());
        registry.register("handshakes_failed", "TLS handshakes that failed", self.handshakes_failed.clone());
        let kept = "Changed certificates that could not be used";
        registry.register("certificates_refused", kept, self.certificates_refused.clone());
        let flush = "Time to make the changes of all who wait durable: members, orders, tokens";
        registry.register("store_flush_seconds", flush, self.store_flush_seconds.clone());
        registry.register("spans_exported", "Spans of traces exported", self.spans_exported.clone());
        registry.register("spans_dropped", "Spans of traces given up", self.spans_dropped.clone());
        registry.register("agents", "Members by state", self.agents.clone());
        registry.register("paused", "Whether all agents are paused", self.paused.clone());
        registry.register("fallback", "Whether the kill switch for all is on", self.fallback.clone());
        registry.register(
            "audit_entries",
            "Entries of the audit log, those let go included",
            self.audit_entries.clone(),
        );
        registry.register("pool_agents", "Members by pool", self.pool_agents.clone());
        registry.register("pool_slo_preservation", "Mean SLO preservation", self.pool_slo_preservation.clone());
        registry.register("pool_utilisation", "Mean utilisation", self.pool_utilisation.clone());
        registry.register("pool_reward", "Mean reward", self.pool_reward.clone());
        registry.register("pool_price", "What a core is worth, in weight", self.pool_price.clone());
        registry.register("pool_grants", "Members that have a cap", self.pool_grants.clone());
        registry.register("pool_headroom", "How much room the pool has, by part", self.pool_headroom.clone());
        let capacity = "What members may reserve together, in cores and gibibytes";
        registry.register("pool_capacity", capacity, self.pool_capacity.clone());
        let on = "Whether the kill switch is on for a pool by itself";
        registry.register("pool_fallback", on, self.pool_fallback.clone());
        let on = "Agents for which the kill switch is on by themselves";
        registry.register("agents_on_fallback", on, self.agents_on_fallback.clone());
        registry.register("pool_nodes", "Nodes that agents report as the capacity", self.pool_nodes.clone());
        let mode = "1 for what is made of too little, 0 for the rest";
        registry.register("pool_scarcity_mode", mode, self.pool_scarcity_mode.clone());
        registry.register("pool_cuts", "Cuts that are open, by reason", self.pool_cuts.clone());
        self.trajectories.register(registry);
        let build = Info::new(vec![("version", env!("CARGO_PKG_VERSION"))]);
        registry.register("build", "The running version", build);
        // Every kind is there from the start, so that a rate over the first refusal is right.
        for &kind in Kind::ALL {
            drop(self.refusals.get_or_create(&OfKind { kind }));
        }
    }

    pub(crate) fn refused(&self, kind: Kind) {
        self.refusals.get_or_create(&OfKind { kind }).inc();
    }

    /// Everything as text, with the gauges as of these views.
    pub(crate) fn render(
        &self,
        boards: &[Board],
        models: &[(ModelName, Arc<Model>)],
        switches: Switches,
    ) -> Result<String, fmt::Error> {
        let _alone = self.rendering.lock();
        // Models come and go: one that was removed must not stay on the board.
        self.model_version.clear();
        for (name, model) in models {
            let label = OfModel { model: name.to_string() };
            set(&self.model_version, &label, Some(model.serving.version as f64));
        }
        // So do pools.
        self.pool_agents.clear();
        self.pool_headroom.clear();
        self.pool_capacity.clear();
        self.pool_scarcity_mode.clear();
        self.pool_cuts.clear();
        for levels in [
            &self.pool_slo_preservation,
            &self.pool_utilisation,
            &self.pool_reward,
            &self.pool_price,
            &self.pool_grants,
            &self.pool_nodes,
            &self.pool_fallback,
        ] {
            levels.clear();
        }
        let (mut active, mut suspect) = (0, 0);
        for Board { pool, mode: current, nodes } in boards {
            active += pool.agents.active;
            suspect += pool.agents.suspect;
            let label = OfPool { pool: PoolName::to_string(&pool.name) };
            self.pool_agents.get_or_create(&label).set(count(pool.agents.active + pool.agents.suspect));
            let reported = pool.mean_field.count > 0;
            set(&self.pool_slo_preservation, &label, reported.then_some(pool.mean_field.slo_preservation.mean));
            set(&self.pool_utilisation, &label, reported.then_some(pool.mean_field.utilisation.mean));
            set(&self.pool_reward, &label, pool.mean_reward);
            let scarcity = pool.scarcity.as_ref();
            set(&self.pool_price, &label, scarcity.map(|scarcity| scarcity.price));
            set(&self.pool_grants, &label, scarcity.map(|scarcity| scarcity.grants as f64));
            let headroom = scarcity.map(|scarcity| scarcity.headroom).unwrap_or_default();
            for (part, value) in [
                ("free", headroom.free),
                ("load", headroom.load),
                ("saturation", headroom.saturation),
                ("unscheduled", headroom.unscheduled),
                ("memory", headroom.memory),
            ] {
                let label = PartOfPool { pool: label.pool.clone(), part };
                set(&self.pool_headroom, &label, scarcity.map(|_| value));
            }
            set(&self.pool_fallback, &label, Some(f64::from(u8::from(pool.fallback))));
            set(&self.pool_nodes, &label, Some(nodes.unwrap_or(0) as f64));
            let capacity = scarcity.map(|scarcity| scarcity.capacity);
            for (part, value) in [
                ("cores", capacity.map(|capacity| capacity.cores.get())),
                ("memory_gib", capacity.map(|capacity| capacity.memory_gib.get())),
            ] {
                set(&self.pool_capacity, &PartOfPool { pool: label.pool.clone(), part }, value);
            }
            for mode in Mode::ALL {
                let is = f64::from(u8::from(current == mode));
                set(&self.pool_scarcity_mode, &ModeOfPool { pool: label.pool.clone(), mode: mode.name() }, Some(is));
            }
            for (place, reason) in Why::ALL.iter().enumerate() {
                let open = scarcity.and_then(|scarcity| scarcity.cuts.get(place)).map(|cuts| cuts.open as f64);
                set(&self.pool_cuts, &CutsOfPool { pool: label.pool.clone(), reason: reason.name() }, open);
            }
        }
        self.agents.get_or_create(&InState { state: State::Active }).set(count(active));
        self.agents.get_or_create(&InState { state: State::Suspect }).set(count(suspect));
        self.paused.set(i64::from(switches.paused));
        self.fallback.set(i64::from(switches.fallback));
        self.agents_on_fallback.set(count(switches.agents_on_fallback));
        self.audit_entries.set(count(switches.audit_entries));
        for (counter, now) in [&self.spans_exported, &self.spans_dropped].into_iter().zip(switches.spans) {
            counter.inc_by(now.saturating_sub(counter.get()));
        }
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
    }
}

/// A connection that counts as open while this lives.
pub(crate) struct Open(Gauge);

impl Open {
    pub(crate) fn new(metrics: &Metrics) -> Self {
        metrics.connections.inc();
        Self(metrics.connections.clone())
    }
}

impl Drop for Open {
    fn drop(&mut self) {
        self.0.dec();
    }
}

/// A mean over nobody is not 0 but absent.
fn set<L>(family: &Family<L, Level>, label: &L, value: Option<f64>)
where
    L: Clone + std::hash::Hash + Eq,
{
    match value {
        Some(value) => {
            family.get_or_create(label).set(value);
        }
        None => {
            family.remove(label);
        }
    }
}
