//! The local state l: seven numbers within [-1, 1] that describe one workload.

use serde::{Deserialize, Serialize};

use crate::{
    invalid::{Invalid, within},
    observation::Observation,
    resources::Bounds,
    slo::Slo,
};

/// A number within [-1, 1]; anything else is refused on the way in.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = f64, minimum = -1.0, maximum = 1.0))]
#[serde(try_from = "f64", into = "f64")]
pub struct Unit(f64);

impl Unit {
    /// The nearest number within [-1, 1]; NaN becomes 0.
    #[must_use]
    pub fn clamped(value: f64) -> Self {
        Self(if value.is_nan() { 0.0 } else { value.clamp(-1.0, 1.0) })
    }

    /// As a float.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Unit {
    type Error = Invalid;
    fn try_from(value: f64) -> Result<Self, Invalid> {
        within("state", value, -1.0, 1.0).map(Self)
    }
}

impl From<Unit> for f64 {
    fn from(unit: Unit) -> Self {
        unit.0
    }
}

/// The local state l of one workload.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LocalState {
    /// SP: 1 while the SLO holds, towards 0 the worse it is missed.
    pub slo_preservation: Unit,
    /// RU of CPU: use over limit.
    pub cpu_utilisation: Unit,
    /// RU of memory: use over limit.
    pub memory_utilisation: Unit,
    /// AC: relative change of the arrival rate since the step before.
    pub arrival_change: Unit,
    /// RLT of CPU: the limit of a replica over its upper bound.
    pub cpu_limit: Unit,
    /// RLT of memory: the limit of a replica over its upper bound.
    pub memory_limit: Unit,
    /// NC: replicas over their upper bound.
    pub replicas: Unit,
}

impl LocalState {
    /// The local state behind an observation, given the arrival rate of the step before.
    #[must_use]
    pub fn new(seen: &Observation, previous_rate: f64, slo: &Slo, bounds: &Bounds) -> Self {
        let [cpu, memory, replicas] = bounds.shares(&seen.scale);
        Self {
            slo_preservation: Unit::clamped(slo.preservation(seen)),
            cpu_utilisation: Unit::clamped(seen.cpu_utilisation()),
            memory_utilisation: Unit::clamped(seen.memory_utilisation()),
            arrival_change: Unit::clamped(arrival_change(previous_rate, seen.arrival_rate)),
            cpu_limit: Unit::clamped(cpu),
            memory_limit: Unit::clamped(memory),
            replicas: Unit::clamped(replicas),
        }
    }

    /// The seven numbers in the order in which the networks see them.
    #[must_use]
    pub fn features(&self) -> [f32; 7] {
        [
            self.slo_preservation,
            self.cpu_utilisation,
            self.memory_utilisation,
            self.arrival_change,
            self.cpu_limit,
            self.memory_limit,
            self.replicas,
        ]
        .map(|unit| unit.0 as f32)
    }
}

/// AC = (now - before) / max(now, before), and 0 when both are 0.
#[must_use]
pub fn arrival_change(before: f64, now: f64) -> f64 {
    let most = now.max(before);
    if most > 0.0 { (now - before) / most } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        resources::{Bytes, MilliCores},
        slo::Percentile,
    };

    #[test]
    fn arrival_change_at_its_edges() {
        assert_eq!(arrival_change(0.0, 0.0), 0.0, "zero arrivals");
        assert_eq!(arrival_change(0.0, 5.0), 1.0);
        assert_eq!(arrival_change(5.0, 0.0), -1.0);
        assert_eq!(arrival_change(10.0, 5.0), -0.5);
        assert_eq!(arrival_change(5.0, 10.0), 0.5);
    }

    #[test]
    fn an_idle_workload_has_a_defined_state() {
        let bounds = Bounds::new(1..=4, MilliCores(1)..=MilliCores(2000), Bytes(1)..=Bytes::mebi(512)).unwrap();
        let slo = Slo::latency(Percentile::P99, 10.0).unwrap();
        let state = LocalState::new(&Observation::default(), 0.0, &slo, &bounds);
        assert_eq!(state.features(), [1.0, 0.0, 0.0, 0.0, 0.5, 0.5, 0.25]);
        // With no ready replica at all nothing divides by zero.
        let none = Observation { ready: 0, ..Observation::default() };
        assert_eq!(LocalState::new(&none, 0.0, &slo, &bounds).features()[1], 0.0);
    }

    #[test]
    fn out_of_range_never_gets_in() {
        for bad in ["1.5", "-1.01", "1e300"] {
            assert!(serde_json::from_str::<Unit>(bad).unwrap_err().to_string().contains("not within [-1, 1]"));
        }
        assert!(serde_json::from_str::<Unit>("NaN").is_err());
        assert_eq!(Unit::clamped(f64::NAN).get(), 0.0);
    }
}
