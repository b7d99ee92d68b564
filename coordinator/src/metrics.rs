//! Every metric of the coordinator, by name.
//!
//! Labels come from closed sets only: states, kinds of refusals, and the configured pools.

use std::{fmt, sync::atomic::AtomicU64};

use meanfield_common::identity::PoolName;
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
struct PartOfPool {
    pool: String,
    part: &'static str,
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

impl EncodeLabelValue for Kind {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> Result<(), fmt::Error> {
        self.name().encode(encoder)
    }
}

/// What is about no pool.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Switches {
    pub(crate) paused: bool,
    pub(crate) fallback: bool,
    pub(crate) audit_entries: u64,
}

/// The coordinator's metrics. Counters are counted where things happen, gauges are read when they are served.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    pub(crate) heartbeats: Counter,
    pub(crate) registrations: Counter,
    pub(crate) leaves: Counter,
    pub(crate) gone: Counter,
    pub(crate) claims_capped: Counter,
    pub(crate) orders: Counter,
    pub(crate) heartbeat_seconds: Histogram,
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
}

impl Metrics {
    pub(crate) fn new() -> Self {
        let mut metrics = Self {
            registry: Registry::with_prefix(PREFIX),
            heartbeats: Counter::default(),
            registrations: Counter::default(),
            leaves: Counter::default(),
            gone: Counter::default(),
            claims_capped: Counter::default(),
            orders: Counter::default(),
            // 1 us to 0.26 s.
            heartbeat_seconds: Histogram::new(exponential_buckets(1e-6, 4.0, 10)),
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
        registry.register("orders", "Operators' orders carried out", self.orders.clone());
        registry.register("refusals", "Requests refused, by kind of problem", self.refusals.clone());
        registry.register(
            "heartbeat_seconds",
            "Time to handle a heartbeat, from the parsed body to the answer",
            self.heartbeat_seconds.clone(),
        );
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
    pub(crate) fn render(&self, pools: &[PoolView], switches: Switches) -> Result<String, fmt::Error> {
        let count = |number: u64| i64::try_from(number).unwrap_or(i64::MAX);
        let (mut active, mut suspect) = (0, 0);
        for pool in pools {
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
        }
        self.agents.get_or_create(&InState { state: State::Active }).set(count(active));
        self.agents.get_or_create(&InState { state: State::Suspect }).set(count(suspect));
        self.paused.set(i64::from(switches.paused));
        self.fallback.set(i64::from(switches.fallback));
        self.audit_entries.set(count(switches.audit_entries));
        let mut text = String::new();
        encode(&mut text, &self.registry)?;
        Ok(text)
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
