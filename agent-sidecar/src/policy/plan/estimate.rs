//! What a workload's requests need, estimated from what an agent can observe; and how wrong the model is.
//!
//! Nobody tells the agent anything. CPU per request comes from CPU use over throughput, the time outside the CPU from the
//! median, the variation of requests from how far the 99th percentile lies above the median. What is left between the
//! predicted and the measured percentile (neighbours, warm-ups, bad luck) is kept as a bias and a spread, and plans are
//! made with both.

use meanfield_common::{
    observation::Observation,
    queue::{Balancing, Station, pooled},
    slo::{Percentile, Slo},
};

/// How fast estimates follow what is measured.
const FOLLOW: f64 = 0.1;
/// The variation that is assumed at first, and its bounds.
const VARIATION: (f64, f64, f64) = (0.5, 0.1, 2.0);
/// Above this utilisation a window says more about its queue than about its requests.
const CALM: f64 = 0.75;
/// The most of an objective that time outside the CPU is believed to take.
const MOST_REST: f64 = 0.7;
/// One window's surprise, as a logarithm, counts for no more than this.
const MOST_SURPRISE: f64 = 1.0;
/// The model is never trusted more than this, nor less: standard deviations of the logarithm of a percentile.
const LEAST_ERROR: f64 = 0.04;
const MOST_ERROR: f64 = 0.8;
/// Where this part of a step's requests waits at its end although CPU is left, something else is used up.
const WAITING: f64 = 0.05;
const CPU_LEFT: f64 = 0.8;
/// What a replica can use is forgotten slowly: twice as much is taken for possible after six hours.
const FORGET: f64 = 1.0005;
const LEAST_CEILING: f64 = 0.02;
/// How far beyond what it has used a replica is trusted; and the cores that any is trusted to use.
const BEYOND: f64 = 2.0;
const FEW_CORES: f64 = 2.0;
/// The part of a limit from which on it counts as used up.
const USED_UP: f64 = 0.9;
/// On nodes as busy as this it may be the neighbours who take what is missing.
const CROWDED: f64 = 0.85;
/// Fewer requests than this say nothing about a 99th percentile.
const FEW_REQUESTS: f64 = 20.0;

/// The estimates.
#[derive(Debug, Clone)]
pub struct Estimate {
    /// CPU seconds of a request; none before the first.
    cpu: Option<f64>,
    /// Seconds of a request outside the CPU.
    rest: f64,
    /// Standard deviation of a request's CPU time over its mean.
    variation: f64,
    /// Cores that a replica can use, whatever its limit: few workers, a slow disk.
    ceiling: f64,
    /// Cores that a replica has used without a miss.
    proven: f64,
    /// The CPU limit and the ready replicas of the step before: what this step began with.
    before: Option<(f64, u32)>,
    /// Whether replicas were killed or requests given up on in the step before: what follows is their aftermath.
    shaken: bool,
    /// Mean and variance of ln(measured / predicted).
    bias: f64,
    error: f64,
}

/// The CPU limit in force of one replica, in cores.
pub(super) fn in_force(seen: &Observation) -> f64 {
    if seen.ready > 0 { seen.cpu_allowed.cores() / f64::from(seen.ready) } else { seen.scale.limit.cpu.cores() }
}

impl Default for Estimate {
    fn default() -> Self {
        Self {
            cpu: None,
            rest: 0.0,
            variation: VARIATION.0,
            ceiling: f64::INFINITY,
            proven: 0.0,
            before: None,
            shaken: false,
            bias: 0.0,
            error: 0.04,
        }
    }
}

impl Estimate {
    /// CPU seconds of a request, if any was seen.
    #[must_use]
    pub fn cpu(&self) -> Option<f64> {
        self.cpu
    }

    /// Mean and standard deviation of ln(measured / predicted).
    #[must_use]
    pub fn surprise(&self) -> (f64, f64) {
        (self.bias, self.error.sqrt())
    }

    /// Learns from a step.
    pub fn learn(&mut self, seen: &Observation, slo: &Slo) {
        self.ceiling *= FORGET;
        self.proven /= FORGET;
        let now = in_force(seen);
        let before = self.before.replace((now, seen.ready));
        let shaken = std::mem::replace(&mut self.shaken, seen.oom_kills > 0 || seen.dropped > 0.0);
        self.learn_ceiling(seen, before);
        if let Some(measured) = seen.cpu_seconds_per_request() {
            let cpu = self.cpu.get_or_insert(measured);
            *cpu += FOLLOW * (measured - *cpu);
        }
        let settled = seen.ready == seen.scale.replicas && seen.ready > 0 && now > 0.0 && !self.shaken && !shaken;
        let (Some(cpu), Some(median), Some(high)) = (self.cpu, seen.latency_p50, seen.latency_p99) else { return };
        if !settled || seen.requests() < FEW_REQUESTS || median <= 0.0 || high <= 0.0 {
            return;
        }
        // A percentile of the slowest is about the smaller of the two limits that a step had.
        let cores = before.map_or(now, |(cpu, _)| cpu.min(now));
        let load = seen.throughput * cpu / (cores * f64::from(seen.ready));
        if load < CALM && seen.backlog < 1.0 {
            self.learn_requests(
                now,
                seen.ready,
                seen.throughput * cpu / (now * f64::from(seen.ready)),
                [median / 1000.0, high / 1000.0],
            );
            // An objective that requests could not meet on an idle machine would make every scale look as bad.
            if let Slo::Latency { milliseconds, .. } = slo {
                self.rest = self.rest.min(MOST_REST * milliseconds / 1000.0);
            }
        }
        let used = seen.throughput * cpu / f64::from(seen.ready);
        let [_, predicted] = self.percentiles(cores, seen.ready.into(), seen.throughput);
        let surprise = (high / 1000.0 / predicted).ln().clamp(-MOST_SURPRISE, MOST_SURPRISE);
        if surprise.is_nan() {
            return;
        }
        let doubt = self.doubt(self.load(cores, seen.ready.into(), seen.throughput));
        // Whoever used up its limit has shown that it can, whatever came of it.
        if !slo.violated(seen) || used >= USED_UP * now {
            self.proven = self.proven.max(used);
            self.ceiling = self.ceiling.max(self.proven);
        }
        self.bias += FOLLOW * (surprise - self.bias);
        // In units of what the load makes of it.
        let off = (surprise - self.bias) * self.error.sqrt() / doubt;
        self.error += FOLLOW * (off * off - self.error);
        self.error = self.error.clamp(LEAST_ERROR * LEAST_ERROR, MOST_ERROR * MOST_ERROR);
    }

    /// Requests that wait while CPU is left show what a replica can use: few workers, or a slow disk.
    fn learn_ceiling(&mut self, seen: &Observation, before: Option<(f64, u32)>) {
        let (cores, ready) = (in_force(seen), f64::from(seen.ready));
        let used = seen.cpu_used.cores();
        let steady = before.is_some_and(|(cpu, pods)| pods == seen.ready && cpu <= cores);
        let waits = seen.backlog > (WAITING * seen.requests()).max(1.0);
        let neighbours = seen.node_utilisation > CROWDED;
        if steady && waits && !neighbours && seen.oom_kills == 0 && used < CPU_LEFT * cores * ready {
            self.ceiling = self.ceiling.min(used / ready).max(LEAST_CEILING);
        }
    }

    /// Time outside the CPU from the median, and variation from how far the 99th percentile lies above it.
    fn learn_requests(&mut self, cores: f64, ready: u32, load: f64, [median, high]: [f64; 2]) {
        let plain = Station { elsewhere: 0.0, ..self.station(cores, ready.into()) };
        let [alone, _] = plain.latency(load).percentiles();
        self.rest += FOLLOW * ((median - alone).max(0.0) - self.rest);
        let [low, top] = self.station(cores, ready.into()).latency(load).percentiles();
        let apart = (high / median).ln() - (top / low).ln();
        let (_, least, most) = VARIATION;
        self.variation = (self.variation * (FOLLOW * apart.clamp(-1.0, 1.0)).exp()).clamp(least, most);
    }

    /// So many replicas of so many cores, as one station.
    fn station(&self, cores: f64, replicas: f64) -> Station {
        Station {
            cores: pooled(Balancing::default(), cores.min(self.usable()), replicas),
            slots: f64::INFINITY,
            seconds: self.cpu.unwrap_or(0.0) / cores.min(1.0),
            variation: self.variation,
            elsewhere: self.rest,
        }
    }

    /// Median and 99th percentile, in seconds, that the model alone predicts at a rate.
    fn percentiles(&self, cores: f64, replicas: f64, rate: f64) -> [f64; 2] {
        let load = self.load(cores, replicas, rate);
        self.station(cores, replicas).latency(load).percentiles()
    }

    fn load(&self, cores: f64, replicas: f64, rate: f64) -> f64 {
        rate * self.cpu.unwrap_or(0.0) / (cores.min(self.usable()) * replicas)
    }

    /// Cores that a replica is believed to be able to use: no more than it was seen to, and not far beyond what went well.
    fn usable(&self) -> f64 {
        self.ceiling.min((BEYOND * self.proven).max(FEW_CORES))
    }

    /// The probability that so many replicas of so many cores miss the objective at a rate; above 1, and growing, where
    /// there is more work than capacity, so that more capacity is always better.
    #[must_use]
    pub fn miss(&self, slo: &Slo, cores: f64, replicas: f64, rate: f64) -> f64 {
        self.misses(slo, cores, replicas, [(1.0, rate)])
    }

    /// The same for rates with their probabilities, in ascending order. More load never makes a miss less likely, so the
    /// highest rate comes first, and those that can no longer matter are left out.
    #[must_use]
    pub fn misses<R>(&self, slo: &Slo, cores: f64, replicas: f64, rates: R) -> f64
    where
        R: IntoIterator<Item = (f64, f64), IntoIter: DoubleEndedIterator>,
    {
        let objective = match *slo {
            Slo::Latency { percentile: Percentile::P50, milliseconds } => Some((0, milliseconds / 1000.0)),
            Slo::Latency { percentile: Percentile::P99, milliseconds } => Some((1, milliseconds / 1000.0)),
            // Throughput needs no room for queues.
            Slo::Throughput { .. } => None,
        };
        let load_of_one = self.load(cores, replicas, 1.0);
        let mut station = None;
        let (mut before, mut miss) = (f64::NAN, 0.0);
        let (mut left, mut total) = (1.0, 0.0);
        for (weight, rate) in rates.into_iter().rev() {
            if rate != before {
                let load = load_of_one * rate;
                miss = match objective {
                    _ if rate <= 0.0 => 0.0,
                    _ if load >= HOTTEST => 1.0 + (load - HOTTEST),
                    None => 0.0,
                    Some((which, seconds)) => {
                        let station: &Station = station.get_or_insert_with(|| self.station(cores, replicas));
                        let predicted = station.latency(load).percentiles()[which];
                        self.beyond((seconds / predicted).ln() - self.bias, load)
                    }
                };
                before = rate;
            }
            if left * miss < NEGLIGIBLE * total {
                break;
            }
            total += weight * miss;
            left -= weight;
        }
        total
    }

    /// The probability of being off by more than a margin, as a logarithm.
    fn beyond(&self, margin: f64, load: f64) -> f64 {
        // Logistic: its tails are as heavy as those of windows with few requests. Doubt is no hope: where a miss is
        // predicted, more load never makes it less likely.
        let doubt = if margin > 0.0 { self.doubt(load) } else { self.error.sqrt() };
        1.0 / (1.0 + (LOGISTIC * margin / doubt).exp())
    }

    /// Standard deviation of the logarithm of a window's percentile: the hotter a station runs, the longer its crowds
    /// last, and the less a window's luck averages out.
    fn doubt(&self, load: f64) -> f64 {
        self.error.sqrt() / (1.0 - load.min(HOTTEST))
    }
}

/// The part of the misses of higher rates below which all of the lower ones together do not matter.
const NEGLIGIBLE: f64 = 1e-3;

/// Standard deviations of a logistic distribution in units of its scale: pi / sqrt(3).
const LOGISTIC: f64 = 1.813_799_364_234_218;

/// From here on a window's queue grows faster than any formula of long averages says.
const HOTTEST: f64 = 0.95;
