//! The roles.

use std::str::FromStr;

use meanfield_common::invalid::Invalid;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// What the bearer of a token may do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum Role {
    /// Be an agent, within one pool and under names that match a pattern; nothing else.
    Agent,
    /// Look at everything but tokens.
    Reader,
    /// What readers may, and pause, remove, order capacities and share networks.
    Operator,
    /// Everything, also making and revoking tokens.
    Admin,
}

impl Role {
    /// All roles, in the order in which tables show them.
    pub const ALL: [Self; 4] = [Self::Agent, Self::Reader, Self::Operator, Self::Admin];

    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Agent => "agent",
            Self::Reader => "reader",
            Self::Operator => "operator",
            Self::Admin => "admin",
        }
    }

    /// Whether this role may do what needs another one. Operators are no agents: what they may do is not for workloads,
    /// and the other way round.
    #[must_use]
    pub fn includes(self, needed: Self) -> bool {
        match needed {
            Self::Agent => matches!(self, Self::Agent | Self::Admin),
            Self::Reader => matches!(self, Self::Reader | Self::Operator | Self::Admin),
            Self::Operator => matches!(self, Self::Operator | Self::Admin),
            Self::Admin => self == Self::Admin,
        }
    }

    /// The roles that include this one, in words.
    #[must_use]
    pub fn holders(self) -> &'static str {
        match self {
            Self::Agent => "agent or admin",
            Self::Reader => "reader, operator or admin",
            Self::Operator => "operator or admin",
            Self::Admin => "admin",
        }
    }
}

impl FromStr for Role {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let names = || Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|role| role.name() == text);
        found.ok_or_else(|| Invalid::new("role", format!("{text:?}"), format!("one of {}", names())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_words_say_what_the_rules_do() {
        for needed in Role::ALL {
            for role in Role::ALL {
                let named = needed.holders().split([',', ' ']).any(|word| word == role.name());
                assert_eq!(role.includes(needed), named, "{role:?} for {needed:?}");
            }
            let name = serde_json::to_value(needed).unwrap();
            assert_eq!(name, needed.name());
        }
    }
}
