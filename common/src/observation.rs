//! What an environment measured about one workload during one step.
//!
//! The simulator and a real cluster fill in the same fields, so everything downstream (states, rewards, policies) is
//! written once.

use crate::resources::{Bytes, MilliCores, Resources, Scale};

/// Measurements of one workload over one step.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Observation {
    /// Length of the step in seconds.
    pub seconds: f64,
    /// Requests per second that arrived.
    pub arrival_rate: f64,
    /// Requests per second that completed.
    pub throughput: f64,
    /// Requests that were given up on during the step.
    pub dropped: f64,
    /// Requests waiting at the end of the step.
    pub backlog: f64,
    /// Median latency in milliseconds; `None` without requests.
    pub latency_p50: Option<f64>,
    /// 99th percentile of latency in milliseconds; `None` without requests.
    pub latency_p99: Option<f64>,
    /// Mean requests in flight over all replicas together, waiting ones included.
    pub concurrency: f64,
    /// Mean CPU use over all replicas together.
    pub cpu_used: MilliCores,
    /// CPU limits in force over all ready replicas together: a node without room defers a resize.
    pub cpu_allowed: MilliCores,
    /// Memory in use over all replicas together, killed ones counting as unused.
    pub memory_used: Bytes,
    /// Peak memory in use by the fullest replica.
    pub memory_peak: Bytes,
    /// What was asked for: replicas and the limit of each.
    pub scale: Scale,
    /// The request of each replica.
    pub request: Resources,
    /// Replicas that served.
    pub ready: u32,
    /// Replicas that wait for a node.
    pub pending: u32,
    /// Replicas killed for exceeding their memory limit.
    pub oom_kills: u32,
    /// CPU utilisation, within [0, 1], of the nodes on which the workload runs.
    pub node_utilisation: f64,
}

impl Default for Observation {
    /// An idle workload of one replica.
    fn default() -> Self {
        let limit = Resources { cpu: MilliCores(1000), memory: Bytes::mebi(256) };
        Self {
            seconds: 15.0,
            arrival_rate: 0.0,
            throughput: 0.0,
            dropped: 0.0,
            backlog: 0.0,
            latency_p50: None,
            latency_p99: None,
            concurrency: 0.0,
            cpu_used: MilliCores(0),
            cpu_allowed: limit.cpu,
            memory_used: Bytes(0),
            memory_peak: Bytes(0),
            scale: Scale { replicas: 1, limit },
            request: limit,
            ready: 1,
            pending: 0,
            oom_kills: 0,
            node_utilisation: 0.0,
        }
    }
}

impl Observation {
    /// CPU use over the sum of the limits of the ready replicas, within [0, 1].
    #[must_use]
    pub fn cpu_utilisation(&self) -> f64 {
        share(self.cpu_used.0, self.scale.limit.cpu.0, self.ready)
    }

    /// Memory use over the sum of the limits of the ready replicas, within [0, 1].
    #[must_use]
    pub fn memory_utilisation(&self) -> f64 {
        share(self.memory_used.0, self.scale.limit.memory.0, self.ready)
    }

    /// CPU use over the sum of the *requests* of the ready replicas, as HPA counts it; may exceed 1.
    #[must_use]
    pub fn cpu_over_request(&self) -> f64 {
        let reserved = self.request.cpu.0 as f64 * f64::from(self.ready);
        if reserved > 0.0 { self.cpu_used.0 as f64 / reserved } else { 0.0 }
    }

    /// CPU seconds that one request took in this step; `None` when too little completed to tell.
    #[must_use]
    pub fn cpu_seconds_per_request(&self) -> Option<f64> {
        let completed = self.throughput * self.seconds;
        (completed >= 1.0).then(|| self.cpu_used.cores() / self.throughput)
    }

    /// Requests that arrived during the step.
    #[must_use]
    pub fn requests(&self) -> f64 {
        self.arrival_rate * self.seconds
    }
}

fn share(used: u64, limit: u64, ready: u32) -> f64 {
    let most = limit as f64 * f64::from(ready);
    if most > 0.0 { (used as f64 / most).clamp(0.0, 1.0) } else { 0.0 }
}
