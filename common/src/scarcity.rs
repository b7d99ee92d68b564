//! Scarcity: what agents want of a pool, and who yields when it is too little.
//!
//! Each heartbeat may carry a [`Claim`]. Where the operator told the coordinator the pool's [`Capacity`], the answer
//! carries [`Scarcity`]: how much room is left ([`Headroom`]), what a core is worth (the price), and, only when not
//! everybody's claim fits, a [`Grant`] for those who get less. [`allocation`] decides who that is.

pub mod allocation;
mod node;
mod settings;

use serde::{Deserialize, Serialize};

use crate::{
    fixed::Fixed,
    invalid::{Invalid, within},
};

pub use node::{Node, NodeId};
pub use settings::{Ageing, Entitlement, Mode, Reason, Settings, Source};

/// The most cores or gibibytes that a message may speak of, and the most pods.
pub const MOST: f64 = 1e6;

macro_rules! bounded {
    ($(#[$doc:meta])* $name:ident, $field:literal, $low:tt, $high:tt) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(value_type = f64, minimum = $low, maximum = $high))]
        #[serde(try_from = "f64", into = "f64")]
        pub struct $name(f64);

        impl $name {
            /// The nearest number in range; NaN becomes the lowest.
            #[must_use]
            pub fn clamped(value: f64) -> Self {
                Self(if value.is_nan() { $low } else { value.clamp($low, $high) })
            }

            /// As a float.
            #[must_use]
            pub fn get(self) -> f64 {
                self.0
            }

            fn fixed(self) -> i64 {
                Fixed::nearest(self.0).raw()
            }
        }

        impl TryFrom<f64> for $name {
            type Error = Invalid;
            fn try_from(value: f64) -> Result<Self, Invalid> {
                within($field, value, $low, $high).map(Self)
            }
        }

        impl From<$name> for f64 {
            fn from(number: $name) -> Self {
                number.0
            }
        }
    };
}

bounded!(
    /// An amount of CPU.
    Cores, "cores", 0.0, 1e6
);
bounded!(
    /// An amount of memory.
    Gibibytes, "memory_gib", 0.0, 1e6
);
bounded!(
    /// How much a workload's objective is worth beside others'; 1 unless its operator says otherwise.
    Weight, "weight", 0.001, 1000.0
);
bounded!(
    /// A share of a whole.
    Share, "share", 0.0, 1.0
);
bounded!(
    /// A pool's CPU.
    PoolCores, "cores", 0.001, 1e6
);
bounded!(
    /// A pool's memory.
    PoolMemory, "memory_gib", 0.001, 1e6
);

impl Default for Weight {
    fn default() -> Self {
        Self(1.0)
    }
}

/// A number of pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = u32, maximum = 1_000_000))]
#[serde(try_from = "u64", into = "u64")]
pub struct Pods(u32);

impl Pods {
    /// The nearest number in range.
    #[must_use]
    pub fn clamped(count: u32) -> Self {
        Self(count.min(MOST as u32))
    }

    /// As a number.
    #[must_use]
    pub fn get(self) -> u32 {
        self.0
    }
}

impl TryFrom<u64> for Pods {
    type Error = Invalid;
    fn try_from(count: u64) -> Result<Self, Invalid> {
        let fitting = u32::try_from(count).ok().filter(|count| f64::from(*count) <= MOST);
        fitting.map(Self).ok_or_else(|| Invalid::new("pods", count, format!("within [0, {MOST}]")))
    }
}

impl From<Pods> for u64 {
    fn from(pods: Pods) -> Self {
        pods.0.into()
    }
}

/// CPU and memory by requests, over all replicas of a workload.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Amount {
    /// CPU.
    pub cores: Cores,
    /// Memory.
    pub memory_gib: Gibibytes,
}

/// What an agent wants of its pool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What its last decision asked for, before any grant cut that; what it holds while it is paused.
    pub wanted: Amount,
    /// What its placed replicas hold.
    pub held: Amount,
    /// Offered work: arrival rate times CPU per request, and what waits.
    pub offered: Cores,
    /// What its objective is worth.
    pub weight: Weight,
    /// Replicas that wait for a node.
    pub pending: Pods,
    /// CPU utilisation of the nodes on which it runs.
    pub node_utilisation: Share,
    /// What one of the nodes on which it runs has, another one with each claim. Only said where the last answer asked
    /// for it: older coordinators refuse a field that they do not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node: Option<Node>,
}

/// What a pool's members may reserve together.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Capacity {
    /// CPU.
    pub cores: PoolCores,
    /// Memory.
    pub memory_gib: PoolMemory,
}

impl Capacity {
    /// So many cores and gibibytes.
    pub fn new(cores: f64, memory_gib: f64) -> Result<Self, Invalid> {
        Ok(Self { cores: cores.try_into()?, memory_gib: memory_gib.try_into()? })
    }

    /// The smaller of both, for CPU and memory apart.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self {
            cores: PoolCores(self.cores.0.min(other.cores.0)),
            memory_gib: PoolMemory(self.memory_gib.0.min(other.memory_gib.0)),
        }
    }
}

/// How many numbers [`Headroom::features`] gives to a network.
pub const FEATURES: usize = 5;

/// How much room a pool has; the same for all of its agents.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Headroom {
    /// Cores that nobody holds, over the capacity: -1 to 1.
    pub free: f64,
    /// Offered work over the capacity in cores: 0 to 2.
    pub load: f64,
    /// Mean utilisation of the nodes, as the agents see them: 0 to 1.
    pub saturation: f64,
    /// Replicas that wait for a node, over these and the agents: 0 to 1.
    pub unscheduled: f64,
    /// Memory held over the capacity: 0 to 2.
    pub memory: f64,
}

impl Headroom {
    /// The five numbers in the order in which a network sees them.
    #[must_use]
    pub fn features(&self) -> [f32; FEATURES] {
        [self.free, self.load, self.saturation, self.unscheduled, self.memory].map(|value| value as f32)
    }
}

/// The most that an agent may reserve over all replicas while not everybody's claim fits. What is absent is not capped.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Grant {
    /// CPU.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<Cores>,
    /// Memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub memory_gib: Option<Gibibytes>,
}

/// What an agent is told about its pool's capacity.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Scarcity {
    /// How much room is left; part of g.
    pub headroom: Headroom,
    /// What a core is worth now, in weight: 0 while there is enough for everybody.
    pub price: f64,
    /// The agent's cap; none where it gets what it claims.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub grant: Option<Grant>,
    /// For how many milliseconds the cap holds if nothing more is heard; absent without one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub valid_ms: Option<u64>,
    /// What its cap would be, where the pool's settings only advise. Nobody has to keep it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub advice: Option<Grant>,
    /// Whether claims shall say what the agent's nodes have.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub nodes: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLAIM: &str = r#"{"wanted":{"cores":3.5,"memory_gib":4},"held":{"cores":2,"memory_gib":2.5},"offered":1.25,
        "weight":10,"pending":1,"node_utilisation":0.5}"#;

    #[test]
    fn a_claim_reads_back_as_written() {
        let claim: Claim = serde_json::from_str(CLAIM).unwrap();
        assert_eq!((claim.wanted.cores.get(), claim.weight.get(), claim.pending.get()), (3.5, 10.0, 1));
        let text = serde_json::to_string(&claim).unwrap();
        assert_eq!(serde_json::from_str::<Claim>(&text).unwrap(), claim);
    }

    #[test]
    fn hostile_numbers_are_refused_by_name() {
        for (good, bad, named) in [
            (r#""cores":3.5"#, r#""cores":-1"#, "cores: -1 is not within [0, 1000000]"),
            (r#""cores":3.5"#, r#""cores":1e300"#, "cores"),
            (r#""cores":3.5"#, r#""cores":NaN"#, "expected"),
            (r#""memory_gib":4"#, r#""memory_gib":4294967295"#, "memory_gib: 4294967295 is not within [0, 1000000]"),
            (r#""offered":1.25"#, r#""offered":-0.1"#, "cores"),
            (r#""weight":10"#, r#""weight":0"#, "weight: 0 is not within [0.001, 1000]"),
            (r#""weight":10"#, r#""weight":1e300"#, "weight"),
            (r#""pending":1"#, r#""pending":4294967295"#, "pods: 4294967295 is not within [0, 1000000]"),
            (r#""pending":1"#, r#""pending":-1"#, "u64"),
            (r#""node_utilisation":0.5"#, r#""node_utilisation":1.5"#, "share: 1.5 is not within [0, 1]"),
            (r#""weight":10"#, r#""weight":10,"slack":1"#, "slack"),
        ] {
            let text = CLAIM.replace(good, bad);
            assert_ne!(text, CLAIM);
            let error = serde_json::from_str::<Claim>(&text).unwrap_err().to_string();
            assert!(error.contains(named), "{bad}: {error}");
        }
        assert_eq!(Capacity::new(0.0, 1.0).unwrap_err().field, "cores");
        assert_eq!(Capacity::new(1.0, f64::NAN).unwrap_err().field, "memory_gib");
        assert_eq!(Cores::clamped(f64::NAN).get(), 0.0);
        assert_eq!(Weight::clamped(f64::INFINITY).get(), 1000.0);
    }
}
