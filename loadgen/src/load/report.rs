//! What a run came to.

use std::{sync::atomic::Ordering, time::Duration};

use serde::Serialize;

use super::{Load, Measured, Progress};
use crate::pace::Percentiles;

/// The result of a run.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Report {
    /// Agents.
    pub agents: usize,
    /// Connections.
    pub connections: usize,
    /// Heartbeats in a request.
    pub batch: usize,
    /// Heartbeats a second that were planned.
    pub planned_rate: f64,
    /// Good heartbeats a second that were taken, floods included.
    pub rate: f64,
    /// How long the load took, in seconds.
    pub seconds: f64,
    /// How long registering took before that.
    pub registering_seconds: f64,
    /// Good heartbeats that were taken.
    pub taken: u64,
    /// Bad ones that were refused, as they should be.
    pub refused: u64,
    /// Agents that joined while the load ran.
    pub joined: u64,
    /// Agents that left while the load ran.
    pub left: u64,
    /// What was not answered as it should have been.
    pub unexpected: u64,
    /// Some of that.
    pub examples: Vec<String>,
    /// Milliseconds from when a request was due to its answer: corrected for coordinated omission.
    pub latency_ms: Percentiles,
    /// Milliseconds from when it was sent, which say nothing about those that had to wait for it.
    pub service_ms: Percentiles,
}

impl Report {
    pub(super) fn new(
        load: &Load,
        progress: &Progress,
        all: &Measured,
        registered_in: Duration,
        took: Duration,
    ) -> Self {
        let counts = &progress.0;
        let count = |counter: &std::sync::atomic::AtomicU64| counter.load(Ordering::Relaxed);
        let taken = count(&counts.taken);
        Self {
            agents: load.agents,
            connections: load.swarm.connections.min(load.agents),
            batch: load.batch,
            planned_rate: load.rate,
            rate: taken as f64 / took.as_secs_f64().max(1e-9),
            seconds: took.as_secs_f64(),
            registering_seconds: registered_in.as_secs_f64(),
            taken,
            refused: count(&counts.refused),
            joined: count(&counts.joined),
            left: count(&counts.left),
            unexpected: count(&counts.unexpected),
            examples: counts.examples.lock().map(|examples| examples.clone()).unwrap_or_default(),
            latency_ms: all.corrected.percentiles(),
            service_ms: all.service.percentiles(),
        }
    }
}
