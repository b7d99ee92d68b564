//! The reactive queue model: measures what a request costs, and sizes for the recent peak.
//!
//! It is told nothing about the workload. CPU per request and time outside the CPU are estimated while it runs; a
//! queueing formula then says how hot a replica may run within its objective. What the formula does not know of, such as
//! few slots, shows in objectives missed at a load that should have been fine: replicas then stay cooler for some
//! minutes. No training, no forecast.

use std::collections::VecDeque;

use meanfield_common::{
    observation::Observation,
    queue::{Balancing, Station, pooled, sampling_error},
    resources::{Bytes, Resources, Scale},
    slo::{Percentile, Slo},
};

use super::{
    Decision, Policy, View,
    recent::{memory_peak, push},
};

/// Steps of demand that count as recent: two minutes of 15 s.
const PEAK_WINDOW: usize = 8;
/// Steps of memory peaks that are remembered: half an hour of 15 s.
const MEMORY_WINDOW: usize = 120;
/// How fast estimates follow what is measured.
const FOLLOW: f64 = 0.2;
/// The part of the objective that is planned for; the rest is for what the model does not see.
const PLANNED: f64 = 0.9;
/// How unlucky a window's percentile may be within the plan, in standard deviations.
const LUCK: f64 = 2.0;
/// Variation of service times that is assumed, since percentiles alone do not show it.
const VARIATION: f64 = 0.6;
/// After a miss replicas run at most at this part of the utilisation of the miss; the caution is halved in a
/// quarter of an hour.
const CAREFUL: f64 = 0.85;
const FORGET: f64 = 1.01;
const MOST_CAUTION: f64 = 0.9;
/// Steps after a grant that teach no caution: about what it takes to start pods and work off what waits.
const EXCUSED: u32 = 6;
/// Utilisation that is never planned above, nor below.
const HOTTEST: f64 = 0.9;
const COOLEST: f64 = 0.05;
/// Room above the memory peak.
const MEMORY_MARGIN: f64 = 1.25;
/// Growth after a kill.
const OOM_BUMP: f64 = 1.4;

/// The policy.
#[derive(Debug, Clone, Default)]
pub struct Reactive {
    /// CPU seconds of a request.
    cpu: Option<f64>,
    /// Seconds of a request outside the CPU.
    rest: f64,
    /// How much of [`HOTTEST`] is left after what was missed lately.
    caution: f64,
    /// Steps that nothing is learnt from.
    excused: u32,
    demand: VecDeque<f64>,
    memory: VecDeque<u64>,
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

    /// The fewest replicas of so many cores that are predicted to keep the objective under so much demand.
    fn replicas(&self, slo: &Slo, cores: f64, demand: f64, seconds: f64) -> u32 {
        let at = |utilisation: f64| (demand / (cores * utilisation)).ceil() as u32;
        let (which, milliseconds) = match *slo {
            Slo::Latency { percentile: Percentile::P50, milliseconds } => (0, milliseconds),
            Slo::Latency { percentile: Percentile::P99, milliseconds } => (1, milliseconds),
            // Throughput needs no head room for queues.
            Slo::Throughput { .. } => return at(HOTTEST),
        };
        let stray = sampling_error(self.cpu.map_or(0.0, |cpu| demand / cpu * seconds));
        let fits = |replicas: u32| {
            let replicas = f64::from(replicas);
            let latency = self.station(cores, replicas).latency(demand / (cores * replicas));
            let stray = [0.0, LUCK * latency.spread() * stray][which].exp();
            latency.percentiles()[which] * stray <= PLANNED * milliseconds / 1000.0
        };
        // Percentiles fall with replicas: the answer is found by halving.
        let (mut low, mut high) = (at(HOTTEST * (1.0 - self.caution)).max(1), at(COOLEST).max(1));
        while low < high {
            let middle = low + (high - low) / 2;
            if fits(middle) { high = middle } else { low = middle + 1 }
        }
        low
    }

    /// So many replicas of so many cores.
    fn station(&self, cores: f64, replicas: f64) -> Station {
        Station {
            cores: pooled(Balancing::default(), cores, replicas),
            slots: f64::INFINITY,
            seconds: self.cpu.unwrap_or(0.0) / cores.min(1.0),
            variation: VARIATION,
            elsewhere: self.rest,
        }
    }

    /// Becomes careful when the objective is missed at a load that was planned, and forgets that slowly.
    fn learn_caution(&mut self, view: &View<'_>) {
        let seen = view.seen;
        self.caution /= FORGET;
        // What was missed for want of a grant, or of what waited meanwhile, says nothing about the model.
        let yields = view.scarcity.is_some_and(|scarcity| scarcity.grant.is_some());
        self.excused = if yields { EXCUSED } else { self.excused.saturating_sub(1) };
        let settled = seen.ready == seen.scale.replicas && seen.oom_kills == 0 && self.excused == 0;
        if settled && view.target.slo.violated(seen) {
            let utilisation = seen.cpu_utilisation() / HOTTEST;
            self.caution = self.caution.max(1.0 - CAREFUL * utilisation.min(1.0 - self.caution)).min(MOST_CAUTION);
        }
    }

    fn learn_rest(&mut self, seen: &Observation) {
        let (Some(_), Some(median)) = (self.cpu, seen.latency_p50) else { return };
        if seen.backlog > 0.0 || seen.ready == 0 {
            return;
        }
        let station = self.station(seen.scale.limit.cpu.cores(), seen.ready.into());
        let plain = Station { elsewhere: 0.0, ..station }.latency(seen.cpu_utilisation()).percentiles()[0];
        let rest = (median / 1000.0 - plain).max(0.0);
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
        self.learn_caution(view);
        let replicas = self
            .peak_demand(seen)
            .map_or(seen.scale.replicas, |demand| self.replicas(&view.target.slo, cpu.cores(), demand, seen.seconds));
        let limit = Resources { cpu, memory: self.memory(seen) };
        Ok(Decision::wish(view.target.bounds.clamp(&Scale { replicas, limit })))
    }

    fn reset(&mut self) {
        *self = Self::default();
    }
}
