//! What the default network sees beyond the local state l.
//!
//! SP hides how much room is left, and seven numbers of one step hide where the load comes from; so the network also
//! gets the latency against the objective, what waits, what neighbours use, and a short memory of the demand.

use std::collections::VecDeque;

use super::{View, recent::push};

/// Numbers besides the embedding.
pub const SIZE: usize = 21;

/// Steps of demand that are remembered.
const MEMORY: usize = 8;
/// What is left of a memory peak after a step: half of it after about a quarter of an hour.
const MEMORY_FADE: f64 = 0.99;

/// The short memory behind the features.
#[derive(Debug, Clone, Default)]
pub struct Features {
    cpu: Option<f64>,
    demand: VecDeque<f64>,
    /// The highest memory use of a replica, fading slowly.
    memory: f64,
}

impl Features {
    /// Bytes of the fullest replica of late.
    #[must_use]
    pub fn fullest(&self) -> f64 {
        self.memory
    }

    /// The features of a step, each about within [-1, 1].
    pub fn next(&mut self, view: &View<'_>) -> [f32; SIZE] {
        let seen = view.seen;
        if let Some(measured) = seen.cpu_seconds_per_request() {
            let cpu = self.cpu.get_or_insert(measured);
            *cpu += 0.2 * (measured - *cpu);
        }
        let cpu = self.cpu.unwrap_or(0.0);
        let demand = seen.arrival_rate * cpu;
        push(&mut self.demand, demand, MEMORY);
        let peak = self.demand.iter().copied().fold(0.0, f64::max);
        let mean = self.demand.iter().sum::<f64>() / self.demand.len() as f64;

        let fullest = seen.memory_peak.0 as f64;
        self.memory = fullest.max(self.memory * MEMORY_FADE);

        let allowed = seen.scale.limit.cpu.cores() * f64::from(seen.scale.replicas);
        let replicas = f64::from(seen.scale.replicas.max(1));
        let latency = view.target.slo.excess(seen).map_or(-1.0, |excess| excess.max(1e-6).ln());
        let mut features = [0.0; SIZE];
        features[..7].copy_from_slice(&view.state.features());
        let more = [
            latency.clamp(-2.0, 2.0),
            ratio(f64::from(seen.pending), replicas),
            ratio(seen.backlog * cpu, allowed * seen.seconds).min(2.0),
            2.0 * ratio(demand, allowed).min(1.5) - 1.0,
            2.0 * ratio(peak, allowed).min(1.5) - 1.0,
            2.0 * ratio(mean, allowed).min(1.5) - 1.0,
            ratio(f64::from(seen.ready), replicas),
            seen.node_utilisation,
            2.0 * ratio(fullest, seen.scale.limit.memory.0 as f64) - 1.0,
            (2.0 * ratio(self.memory, seen.scale.limit.memory.0 as f64) - 1.0).min(2.0),
            f64::from(u8::from(seen.oom_kills > 0)),
            (demand.max(1e-3).ln() / 3.0).clamp(-2.0, 2.0),
            f64::from(view.previous.horizontal()),
            f64::from(view.previous.cpu.sign()),
        ];
        for (feature, value) in features[7..].iter_mut().zip(more) {
            *feature = value as f32;
        }
        features
    }
}

fn ratio(part: f64, whole: f64) -> f64 {
    if whole > 0.0 { part / whole } else { 0.0 }
}
