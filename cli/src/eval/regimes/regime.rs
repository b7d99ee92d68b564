//! The regimes: how much is asked for, by whom, and how it comes.

use meanfield_common::{
    invalid::Invalid,
    scarcity::{Capacity, Weight},
};
use meanfield_simulator::{
    cluster::Sharing,
    scenario::{DAY_STEPS, Scenario},
};
use serde::{Deserialize, Serialize};

use crate::in_process::{self, PACKED};

/// Days over which a regime's highest demand is what it says on average: none of those that count.
const REFERENCE: std::ops::Range<u64> = 1_000_000..1_000_004;

/// A cluster and its load.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Regime {
    Roomy,
    Tight,
    Overload,
    Priorities,
    Batch,
    Bursts,
    Unlimited,
    Many,
}

impl Regime {
    pub const ALL: [Self; 8] = [
        Self::Roomy,
        Self::Tight,
        Self::Overload,
        Self::Priorities,
        Self::Batch,
        Self::Bursts,
        Self::Unlimited,
        Self::Many,
    ];

    pub fn label(self) -> &'static str {
        match self {
            Self::Roomy => "roomy",
            Self::Tight => "tight",
            Self::Overload => "overload",
            Self::Priorities => "priorities",
            Self::Batch => "batch",
            Self::Bursts => "correlated bursts",
            Self::Unlimited => "weights without quotas",
            Self::Many => "110 agents",
        }
    }

    /// The highest demand of a day over all cores.
    pub fn peak(self) -> f64 {
        match self {
            Self::Roomy => 0.77,
            Self::Tight => 0.96,
            Self::Overload | Self::Unlimited => 1.2,
            Self::Priorities | Self::Batch => 1.16,
            Self::Bursts => 1.22,
            Self::Many => 1.3,
        }
    }

    fn tenants(self) -> usize {
        if self == Self::Many { 110 } else { 12 }
    }

    /// The scenario, with arrivals for so many steps.
    pub fn scenario(self, steps: usize) -> Result<Scenario, Invalid> {
        let plain = Scenario::new(self.tenants(), DAY_STEPS)?;
        let shaped = match self {
            Self::Priorities => plain.with_weights(&[10.0, 1.0, 1.0].map(Weight::clamped))?,
            Self::Batch => plain.with_batch(3)?.with_weights(&[0.3, 1.0, 1.0].map(Weight::clamped))?,
            Self::Bursts => plain.with_bursts(2.0)?,
            Self::Unlimited => plain.with_sharing(Sharing::Weights),
            Self::Roomy | Self::Tight | Self::Overload | Self::Many => plain,
        };
        let mut peaks = 0.0;
        for seed in REFERENCE {
            peaks += shaped.pressure(seed)?.0;
        }
        let usual = peaks / (REFERENCE.end - REFERENCE.start) as f64;
        shaped.with_demand(self.peak() / usual)?.with_steps(steps)
    }

    /// What the coordinator is told.
    pub fn capacity(self) -> Result<Capacity, Invalid> {
        in_process::capacity(&self.scenario(1)?, PACKED)
    }

    /// All that there is.
    pub fn all(self) -> Result<Capacity, Invalid> {
        in_process::capacity(&self.scenario(1)?, 1.0)
    }
}
