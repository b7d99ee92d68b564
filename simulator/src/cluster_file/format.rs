//! The form of a cluster file, as it is written. Nothing is checked here beyond that form.

use meanfield_common::{
    resources::{Bytes, MilliCores},
    slo::Percentile,
};
use serde::Deserialize;

use crate::{anomaly::Kind, origin::quantity, placement::Node, scenario::STEP_SECONDS};

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    #[serde(default)]
    pub(super) rules: Rules,
    #[serde(default)]
    pub(super) nodes: Vec<Nodes>,
    #[serde(default)]
    pub(super) tenants: Vec<Tenant>,
    #[serde(default)]
    pub(super) calls: Vec<Call>,
    #[serde(default)]
    pub(super) anomalies: Vec<Anomaly>,
    pub(super) injection: Option<Injection>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Rules {
    pub(super) step_seconds: f64,
    pub(super) overcommit: f64,
    pub(super) model: Model,
    pub(super) sharing: Sharing,
    pub(super) balancing: Balancing,
    pub(super) resize_seconds: f64,
    pub(super) grace_seconds: f64,
    pub(super) seed: Option<u64>,
}

impl Default for Rules {
    fn default() -> Self {
        Self {
            step_seconds: STEP_SECONDS,
            overcommit: 1.5,
            model: Model::Fluid,
            sharing: Sharing::Quotas,
            balancing: Balancing::LeastConnections,
            resize_seconds: 2.0,
            grace_seconds: 30.0,
            seed: None,
        }
    }
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Model {
    Fluid,
    Events,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Sharing {
    Quotas,
    Throttled { period_seconds: f64 },
    Weights,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Balancing {
    LeastConnections,
    RoundRobin,
    Random,
}

/// So many nodes of a kind.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Nodes {
    #[serde(default = "once")]
    pub(super) count: u32,
    pub(super) cores: f64,
    #[serde(deserialize_with = "quantity")]
    pub(super) memory: Bytes,
    #[serde(default = "usual_disk")]
    pub(super) disk_mb: f64,
    #[serde(default = "usual_network")]
    pub(super) network_mb: f64,
    #[serde(default = "usual_bus")]
    pub(super) bus_mb: f64,
}

fn once() -> u32 {
    1
}

fn usual_disk() -> f64 {
    Node::DISK_MB
}

fn usual_network() -> f64 {
    Node::NETWORK_MB
}

fn usual_bus() -> f64 {
    Node::BUS_MB
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Tenant {
    /// That of its workload, unless given.
    pub(super) name: Option<String>,
    /// Either of these two.
    pub(super) function: Option<String>,
    pub(super) workload: Option<String>,
    /// At most one of these two.
    pub(super) load: Option<f64>,
    pub(super) arrivals: Option<Arrivals>,
    #[serde(default)]
    pub(super) bounds: Bounds,
    #[serde(default)]
    pub(super) start: Start,
    pub(super) slo: Option<Slo>,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Arrivals {
    /// A day's curve with bursts around a mean rate.
    Mean(f64),
    /// A rate for each step, from the start again when they end.
    Rates(Vec<f64>),
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Bounds {
    pub(super) replicas: Option<Replicas>,
    pub(super) cpu: Option<Cpu>,
    pub(super) memory: Option<Memory>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Replicas {
    pub(super) min: u32,
    pub(super) max: u32,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Cpu {
    #[serde(deserialize_with = "quantity")]
    pub(super) min: MilliCores,
    #[serde(deserialize_with = "quantity")]
    pub(super) max: MilliCores,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Memory {
    #[serde(deserialize_with = "quantity")]
    pub(super) min: Bytes,
    #[serde(deserialize_with = "quantity")]
    pub(super) max: Bytes,
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Start {
    pub(super) replicas: Option<u32>,
    pub(super) cpu: Option<Quantity<MilliCores>>,
    pub(super) memory: Option<Quantity<Bytes>>,
}

#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(transparent, bound = "T: std::str::FromStr<Err = meanfield_common::invalid::Invalid>")]
pub(super) struct Quantity<T>(#[serde(deserialize_with = "quantity")] pub(super) T);

/// A latency at most, or a throughput at least.
#[derive(Debug, Clone, Copy, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Slo {
    Latency { percentile: Percentile, milliseconds: f64 },
    Throughput { per_second: f64 },
}

/// Each answered request of one tenant makes so many requests to another.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Call {
    pub(super) from: String,
    pub(super) to: String,
    #[serde(default = "one")]
    pub(super) times: f64,
}

fn one() -> f64 {
    1.0
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Anomaly {
    pub(super) kind: Kind,
    /// For more requests the tenant, for anything else the node, counted from 0.
    pub(super) tenant: Option<String>,
    pub(super) node: Option<usize>,
    pub(super) from_seconds: f64,
    pub(super) to_seconds: f64,
    pub(super) intensity: f64,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(super) struct Injection {
    pub(super) per_second: f64,
    pub(super) duration_seconds: f64,
    pub(super) intensity: Intensity,
    pub(super) most: usize,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Intensity {
    pub(super) min: f64,
    pub(super) max: f64,
}

impl Default for Injection {
    fn default() -> Self {
        let crate::anomaly::Injection { per_second, duration, intensity: (min, max), most } = Default::default();
        Self { per_second, duration_seconds: duration, intensity: Intensity { min, max }, most }
    }
}
