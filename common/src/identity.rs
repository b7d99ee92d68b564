//! Who is who: agents, pools, epochs and sequence numbers.
//!
//! An agent is found by (pool, name); the coordinator gives it an [`AgentId`] that stays the same over restarts and
//! an [`Epoch`] that grows with every registration, so that a process that was replaced can be told from its successor.

use std::{fmt, str::FromStr, sync::Arc};

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::invalid::Invalid;

/// An agent's identity, given by the coordinator at its first registration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct AgentId(pub Uuid);

impl fmt::Display for AgentId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl FromStr for AgentId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Uuid::parse_str(text).map(Self).map_err(|_| Invalid::new("agent", text, "a UUID"))
    }
}

/// Which registration of an agent is speaking: grows by one each time it registers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Epoch(pub u64);

impl Epoch {
    /// The epoch of an agent that has never registered before.
    pub const FIRST: Self = Self(1);

    /// The epoch of the registration after this one.
    #[must_use]
    pub fn next(self) -> Self {
        Self(self.0.saturating_add(1))
    }
}

/// An agent's heartbeats within one epoch, numbered upwards.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(transparent)]
pub struct Sequence(pub u64);

/// What a workload needs most; one base model and one virtual agent each.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Category {
    /// CPU-intensive.
    Cpu,
    /// Memory-intensive.
    Memory,
    /// I/O-intensive.
    Io,
}

impl Category {
    /// All categories, in the order in which metrics and tables show them.
    pub const ALL: [Self; 3] = [Self::Cpu, Self::Memory, Self::Io];

    /// The name on the wire, in configuration and in metrics.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Cpu => "cpu",
            Self::Memory => "memory",
            Self::Io => "io",
        }
    }
}

impl FromStr for Category {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        Self::ALL
            .into_iter()
            .find(|category| category.name() == text)
            .ok_or_else(|| Invalid::new("category", text, "one of cpu, memory, io"))
    }
}

/// The longest name, as for a Kubernetes object that may carry a namespace in front.
const LONGEST_NAME: usize = 128;

fn checked_name(field: &str, text: &str) -> Result<Arc<str>, Invalid> {
    let word = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    let inner = |byte: u8| word(byte) || matches!(byte, b'-' | b'.' | b'/');
    let bytes = text.as_bytes();
    let good = bytes.len() <= LONGEST_NAME
        && bytes.first().is_some_and(|&first| word(first))
        && bytes.last().is_some_and(|&last| word(last))
        && bytes.iter().all(|&byte| inner(byte));
    if good {
        Ok(text.into())
    } else {
        let bound =
            format!("1 to {LONGEST_NAME} of a-z, 0-9, '-', '.', '/', starting and ending with a letter or digit");
        Err(Invalid::new(field, format!("{text:?}"), bound))
    }
}

/// Clones share the text: a coordinator keeps each of a million names once, however many of its parts know it.
macro_rules! name_type {
    ($(#[$doc:meta])* $name:ident, $field:literal) => {
        $(#[$doc])*
        #[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[cfg_attr(feature = "openapi", schema(value_type = String, min_length = 1, max_length = 128, pattern = "^[a-z0-9]([a-z0-9./-]*[a-z0-9])?$"))]
        #[serde(try_from = "String", into = "String")]
        pub struct $name(Arc<str>);

        impl $name {
            /// The name as text.
            #[must_use]
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                checked_name($field, text).map(Self)
            }
        }

        impl TryFrom<String> for $name {
            type Error = Invalid;
            fn try_from(text: String) -> Result<Self, Invalid> {
                text.parse()
            }
        }

        impl From<$name> for String {
            fn from(name: $name) -> Self {
                name.0.as_ref().into()
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }
    };
}

name_type!(
    /// An agent's name, unique within its pool; usually `namespace/deployment`.
    AgentName,
    "name"
);
name_type!(
    /// A group of agents that share capacity, and so one mean field: a cluster, a node pool or a tenant.
    PoolName,
    "pool"
);
name_type!(
    /// A base model that agents start from; by default each category has one of its own name.
    ModelName,
    "model"
);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_on_every_way_in() {
        assert_eq!("shop/cart-2".parse::<AgentName>().unwrap().as_str(), "shop/cart-2");
        for bad in ["", "-a", "a-", "A", "a b", "ä", "a\n", &"a".repeat(129)] {
            assert_eq!(bad.parse::<PoolName>().unwrap_err().field, "pool", "{bad:?}");
            assert!(serde_json::from_value::<AgentName>(bad.into()).is_err(), "{bad:?}");
        }
    }

    #[test]
    fn epochs_never_wrap() {
        assert_eq!(Epoch::FIRST.next(), Epoch(2));
        assert_eq!(Epoch(u64::MAX).next(), Epoch(u64::MAX));
    }
}
