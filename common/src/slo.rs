//! Service-level objectives, and how well one is kept.

use serde::{Deserialize, Serialize};

use crate::{
    invalid::{Invalid, within},
    observation::Observation,
};

/// A latency percentile that environments measure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Percentile {
    /// The median.
    P50,
    /// The 99th percentile.
    P99,
}

/// What the operator promises for a workload.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Slo {
    /// A latency percentile stays at or below a bound.
    Latency {
        /// Which percentile.
        percentile: Percentile,
        /// The bound in milliseconds.
        milliseconds: f64,
    },
    /// Completed requests per second stay at or above a bound while there are enough arrivals.
    Throughput {
        /// The bound in requests per second.
        per_second: f64,
    },
}

impl Slo {
    /// A latency objective between a microsecond and a day.
    pub fn latency(percentile: Percentile, milliseconds: f64) -> Result<Self, Invalid> {
        let milliseconds = within("slo.latency", milliseconds, 1e-3, 86_400_000.0)?;
        Ok(Self::Latency { percentile, milliseconds })
    }

    /// A throughput objective above zero.
    pub fn throughput(per_second: f64) -> Result<Self, Invalid> {
        let per_second = within("slo.throughput", per_second, 1e-6, 1e12)?;
        Ok(Self::Throughput { per_second })
    }

    /// How far the measurement is past the objective: 1 is exactly on it, 2 is twice as slow (or half the
    /// throughput). `None` when there was nothing to measure: no requests, or no more arrivals than were served.
    #[must_use]
    pub fn excess(&self, seen: &Observation) -> Option<f64> {
        /// Beyond this everything is equally bad; keeps the answer finite when nothing at all was served.
        const WORST: f64 = 1e6;
        let ratio = match *self {
            Self::Latency { percentile, milliseconds } => {
                let measured = match percentile {
                    Percentile::P50 => seen.latency_p50?,
                    Percentile::P99 => seen.latency_p99?,
                };
                measured / milliseconds
            }
            Self::Throughput { per_second } => {
                let starved = seen.throughput < seen.arrival_rate && seen.throughput < per_second;
                if !starved {
                    return None;
                }
                per_second / seen.throughput
            }
        };
        Some(if ratio.is_nan() { WORST } else { ratio.clamp(0.0, WORST) })
    }

    /// SLO preservation SP: 1 while the objective holds or nothing was asked for, else objective over measurement
    /// (latency) or measurement over objective (throughput).
    #[must_use]
    pub fn preservation(&self, seen: &Observation) -> f64 {
        self.excess(seen).map_or(1.0, |excess| if excess > 1.0 { 1.0 / excess } else { 1.0 })
    }

    /// Whether the objective was missed.
    #[must_use]
    pub fn violated(&self, seen: &Observation) -> bool {
        self.excess(seen).is_some_and(|excess| excess > 1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn latency(p99: Option<f64>) -> Observation {
        Observation { latency_p99: p99, ..Observation::default() }
    }

    #[test]
    fn preservation_of_a_latency_objective() {
        let slo = Slo::latency(Percentile::P99, 100.0).unwrap();
        assert_eq!(slo.preservation(&latency(Some(50.0))), 1.0);
        assert_eq!(slo.preservation(&latency(Some(100.0))), 1.0, "the bound itself is kept");
        assert_eq!(slo.preservation(&latency(Some(200.0))), 0.5);
        assert_eq!(slo.preservation(&latency(None)), 1.0, "no requests");
        assert!(slo.preservation(&latency(Some(f64::INFINITY))) > 0.0);
        assert!(slo.violated(&latency(Some(100.1))) && !slo.violated(&latency(None)));
    }

    #[test]
    fn preservation_of_a_throughput_objective() {
        let slo = Slo::throughput(10.0).unwrap();
        let seen = |arrival_rate, throughput| Observation { arrival_rate, throughput, ..Observation::default() };
        assert_eq!(slo.preservation(&seen(20.0, 5.0)), 0.5);
        assert_eq!(slo.preservation(&seen(20.0, 12.0)), 1.0);
        assert_eq!(slo.preservation(&seen(2.0, 2.0)), 1.0, "all that was asked for was served");
        assert_eq!(slo.preservation(&seen(0.0, 0.0)), 1.0, "no requests");
        assert!(slo.preservation(&seen(20.0, 0.0)) < 1e-5);
    }

    #[test]
    fn impossible_objectives_are_refused() {
        for bad in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(Slo::latency(Percentile::P99, bad).is_err());
            assert!(Slo::throughput(bad).is_err());
        }
    }
}
