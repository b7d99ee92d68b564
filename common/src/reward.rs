//! What a step was worth: the published reward, and the default one.
//!
//! The published reward stops counting latency once the SLO holds and then pays for utilisation alone, so it prefers
//! a workload that runs hot and misses its SLO now and then. The default one charges violations, CPU reserved beyond
//! what the demand needs, and idle memory, each with a weight that the operator understands.

use serde::{Deserialize, Serialize};

use crate::{
    invalid::{Invalid, within},
    observation::Observation,
    slo::Slo,
};

/// A reward on the wire: finite and within ±1,000,000.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = f64, minimum = -1_000_000.0, maximum = 1_000_000.0))]
#[serde(try_from = "f64", into = "f64")]
pub struct Reward(f64);

impl Reward {
    /// As a float.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Reward {
    type Error = Invalid;
    fn try_from(value: f64) -> Result<Self, Invalid> {
        within("reward", value, -1e6, 1e6).map(Self)
    }
}

impl From<Reward> for f64 {
    fn from(reward: Reward) -> Self {
        reward.0
    }
}

/// What is charged whatever the outcome was: each costs 1 under the published reward and a tenth of that under the
/// default one, where masks keep illegal actions from being chosen in the first place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Penalties {
    /// The action would have left the bounds and was not carried out.
    pub illegal: bool,
    /// A lever moved back right after it had moved.
    pub oscillation: bool,
}

impl Penalties {
    fn total(self) -> f64 {
        -f64::from(u8::from(self.illegal) + u8::from(self.oscillation))
    }
}

/// How a step's outcome becomes a number.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Shape {
    /// r = a SP + (1 - a)/2 (RU_cpu + RU_mem) + penalties.
    Paper {
        /// a: the weight of SLO preservation against utilisation.
        alpha: f64,
    },
    /// r = 1 - violation x miss - cpu x surplus - memory x (1 - RU_mem) + penalties/10, where
    /// surplus = reserved / (4 x demand), growing only as a logarithm beyond 2, and
    /// miss = 1/2 + 1/2 min(1, 2 x (latency/SLO - 1)) where the SLO is missed, 1 after a kill for memory, else 0.
    Balanced {
        /// The price of missing the SLO.
        violation: f64,
        /// The price of reserving four times the CPU that the demand needs.
        cpu: f64,
        /// The price of memory that lies idle.
        memory: f64,
    },
}

impl Shape {
    /// The published reward at its published weight.
    pub const PAPER: Self = Self::Paper { alpha: 0.3 };
    /// The default: a window that misses its SLO badly costs as much as reserving four times the needed CPU for
    /// forty-eight windows.
    pub const BALANCED: Self = Self::Balanced { violation: 24.0, cpu: 0.5, memory: 0.03 };

    /// The reward of a step that ended in `seen`.
    #[must_use]
    pub fn reward(&self, seen: &Observation, slo: &Slo, penalties: Penalties) -> f64 {
        match *self {
            Self::Paper { alpha } => {
                let utilisation = seen.cpu_utilisation() + seen.memory_utilisation();
                alpha * slo.preservation(seen) + (1.0 - alpha) / 2.0 * utilisation + penalties.total()
            }
            Self::Balanced { violation, cpu, memory } => {
                let idle_memory = 1.0 - seen.memory_utilisation();
                1.0 - violation * miss(seen, slo) - cpu * surplus(seen) - memory * idle_memory + 0.1 * penalties.total()
            }
        }
    }
}

/// How badly the SLO was missed, within [0, 1]: half for missing it at all, half growing to 1.5 times the objective.
/// A replica killed for its memory loses the requests that it held, whatever the percentile says: a full miss.
fn miss(seen: &Observation, slo: &Slo) -> f64 {
    if seen.oom_kills > 0 {
        return 1.0;
    }
    slo.excess(seen).filter(|&excess| excess > 1.0).map_or(0.0, |excess| 0.5 + (excess - 1.0).min(0.5))
}

/// CPU reserved (by limits) over four times the demand; the demand is what was used plus what waits unserved.
///
/// Beyond twice that it grows as a logarithm: large enough never to be worth it, yet not flat, since a learner that has
/// requested everything must still feel the way back.
fn surplus(seen: &Observation) -> f64 {
    /// Below this many cores of demand the smallest replica counts as adequate: nobody can scale lower.
    const LEAST_DEMAND: f64 = 0.05;
    const LINEAR_TO: f64 = 2.0;
    let reserved = seen.scale.limit.cpu.cores() * f64::from(seen.scale.replicas);
    let waiting = seen.cpu_seconds_per_request().unwrap_or(0.0) * seen.backlog / seen.seconds;
    let surplus = reserved / (4.0 * (seen.cpu_used.cores() + waiting).max(LEAST_DEMAND));
    if surplus <= LINEAR_TO { surplus } else { LINEAR_TO * (1.0 + (surplus / LINEAR_TO).ln()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{resources::MilliCores, slo::Percentile};

    fn slo() -> Slo {
        Slo::latency(Percentile::P99, 100.0).unwrap()
    }

    fn seen(p99: f64, cpu: u64) -> Observation {
        let arrival_rate = 10.0;
        Observation {
            arrival_rate,
            throughput: arrival_rate,
            latency_p99: Some(p99),
            cpu_used: MilliCores(cpu),
            ..Observation::default()
        }
    }

    #[test]
    fn the_published_reward_by_hand() {
        // SP 0.5, RU_cpu 0.8, RU_mem 0: 0.3*0.5 + 0.35*0.8
        let reward = Shape::PAPER.reward(&seen(200.0, 800), &slo(), Penalties::default());
        assert!((reward - (0.15 + 0.28)).abs() < 1e-12);
        // No requests: SP is 1 and nothing is used.
        let idle = Shape::PAPER.reward(&Observation::default(), &slo(), Penalties::default());
        assert!((idle - 0.3).abs() < 1e-12);
    }

    #[test]
    fn each_penalty_costs_the_same() {
        for (shape, cost) in [(Shape::PAPER, 1.0), (Shape::BALANCED, 0.1)] {
            let reward =
                |illegal, oscillation| shape.reward(&seen(50.0, 500), &slo(), Penalties { illegal, oscillation });
            assert!((reward(false, false) - reward(true, false) - cost).abs() < 1e-12);
            assert!((reward(false, false) - reward(false, true) - cost).abs() < 1e-12);
            assert!((reward(false, false) - reward(true, true) - 2.0 * cost).abs() < 1e-12);
        }
    }

    #[test]
    fn the_published_reward_prefers_running_hot_and_the_default_does_not() {
        let (safe, hot) = (seen(60.0, 250), seen(130.0, 950));
        let compare = |shape: Shape| {
            let reward = |seen| shape.reward(seen, &slo(), Penalties::default());
            reward(&hot) > reward(&safe)
        };
        assert!(compare(Shape::PAPER));
        assert!(!compare(Shape::BALANCED));
    }

    #[test]
    fn the_default_reward_is_bounded_whatever_was_measured() {
        for p99 in [0.0, 99.0, 1e12, f64::INFINITY, f64::NAN] {
            for cpu in [0, 1, 1000, u64::MAX] {
                let reward = Shape::BALANCED.reward(&seen(p99, cpu), &slo(), Penalties::default());
                assert!((-29.0..=1.0).contains(&reward), "{p99} {cpu}: {reward}");
            }
        }
    }

    #[test]
    fn a_worse_miss_costs_more_up_to_one_and_a_half_times_the_objective() {
        let reward = |p99| Shape::BALANCED.reward(&seen(p99, 500), &slo(), Penalties::default());
        assert!(reward(100.0) > reward(101.0) && reward(101.0) > reward(140.0));
        assert_eq!(reward(150.0), reward(900.0));
    }
}
