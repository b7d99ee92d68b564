//! The reactive queue model: measures what a request costs, and sizes for the recent peak.
//!
//! It is told nothing about the workload. CPU per request and time outside the CPU are estimated while it runs; a
//! queueing formula then says how hot a replica may run within its objective. No training, no forecast.

use std::collections::VecDeque;

use meanfield_common::{
    observation::Observation,
    resources::{Bytes, Resources, Scale},
    slo::{Percentile, Slo},
};
use meanfield_simulator::queue::{Queue, Service};

use super::{
    Decision, Policy, View,
    hpa_vpa::{memory_peak, push},
};

/// Steps of demand that count as recent: two minutes of 15 s.
const PEAK_WINDOW: usize = 8;
/// Steps of memory peaks that are remembered: half an hour of 15 s.
const MEMORY_WINDOW: usize = 120;
/// How fast estimates follow what is measured.
const FOLLOW: f64 = 0.2;
/// The part of the objective that is planned for; the rest is for what the model does not see.
const PLANNED: f64 = 0.9;
/// Variation of service times that is assumed, since percentiles alone do not show it.
const VARIATION: f64 = 0.6;
/// Room above the memory peak.
const MEMORY_MARGIN: f64 = 1.25;
/// Growth after a kill.
const OOM_BUMP: f64 = 1.4;

/// The policy.
#[derive(Debug, Clone)]
pub struct Reactive {
    service: Service,
    /// CPU seconds of a request.
    cpu: Option<f64>,
    /// Seconds of a request outside the CPU.
    rest: f64,
    demand: VecDeque<f64>,
    memory: VecDeque<u64>,
}

impl Default for Reactive {
    fn default() -> Self {
        let service = Service::new(VARIATION);
        Self { service, cpu: None, rest: 0.0, demand: VecDeque::new(), memory: VecDeque::new() }
    }
}

impl Reactive {
    /// Cores that the arrivals of the last minutes asked for at most; `None` until that is known.
    fn peak_demand(&mut self, seen: &Observation) -> Option<f64> {
        if let Some(measured) = seen.cpu_seconds_per_request() {
            let cpu = self.cpu.get_or_insert(measured);
            *cpu += FOLLOW * (measured - *cpu);
        }
        let asked = seen.arrival_rate + seen.backlog / seen.seconds;
        // Nothing is asked for: whatever a request costs, the demand is 0.
        let demand = if asked > 0.0 { asked * self.cpu? } else { 0.0 };
        push(&mut self.demand, demand, PEAK_WINDOW);
        // Before the first request only a whole window of silence says something.
        let known = self.cpu.is_some() || self.demand.len() == PEAK_WINDOW;
        self.demand.iter().copied().reduce(f64::max).filter(|_| known)
    }

    /// The highest utilisation at which a replica of so many cores is predicted to keep the objective.
    fn hottest(&self, slo: &Slo, cores: f64) -> f64 {
        let cpu = self.cpu.unwrap_or(0.0);
        let (which, milliseconds) = match *slo {
            Slo::Latency { percentile: Percentile::P50, milliseconds } => (0, milliseconds),
            Slo::Latency { percentile: Percentile::P99, milliseconds } => (1, milliseconds),
            // Throughput needs no head room for queues.
            Slo::Throughput { .. } => return 0.9,
        };
        let fits = |utilisation: f64| {
            let queue = Queue::stationary(&self.service, cpu / cores.min(1.0), cores, self.rest, utilisation);
            queue.percentiles[which] <= PLANNED * milliseconds / 1000.0
        };
        // Percentiles grow with utilisation: the answer is found by halving.
        let (mut low, mut high) = (0.05, 0.95);
        for _ in 0..10 {
            let middle = (low + high) / 2.0;
            if fits(middle) { low = middle } else { high = middle }
        }
        low
    }

    fn learn_rest(&mut self, seen: &Observation) {
        let (Some(cpu), Some(median)) = (self.cpu, seen.latency_p50) else { return };
        if seen.backlog > 0.0 {
            return;
        }
        let cores = seen.scale.limit.cpu.cores();
        let plain = Queue::stationary(&self.service, cpu / cores.min(1.0), cores, 0.0, seen.cpu_utilisation());
        let rest = (median / 1000.0 - plain.percentiles[0]).max(0.0);
        self.rest += FOLLOW * (rest - self.rest);
    }

    fn memory(&mut self, seen: &Observation) -> Bytes {
        if let Some(peak) = memory_peak(seen, OOM_BUMP) {
            push(&mut self.memory, peak, MEMORY_WINDOW);
        }
        let highest = self.memory.iter().max();
        highest.map_or(seen.scale.limit.memory, |&highest| Bytes((highest as f64 * MEMORY_MARGIN) as u64))
    }
}

impl Policy for Reactive {
    fn name(&self) -> &'static str {
        "reactive"
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let seen = view.seen;
        let cpu = seen.scale.limit.cpu;
        self.learn_rest(seen);
        let replicas = self.peak_demand(seen).map_or(seen.scale.replicas, |demand| {
            let cores = cpu.cores();
            (demand / (cores * self.hottest(&view.target.slo, cores))).ceil() as u32
        });
        let limit = Resources { cpu, memory: self.memory(seen) };
        Ok(Decision::wish(view.target.bounds.clamp(&Scale { replicas, limit })))
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}
