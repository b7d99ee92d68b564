//! What an operator says of a pool beyond its capacity: what it is, in words, and how its team reward is made.

use std::{fmt, str::FromStr};

use meanfield_common::{invalid::Invalid, mean_field::Sums};
use serde::{
    Deserialize, Serialize,
    de::{DeserializeOwned, IntoDeserializer, value},
};
use utoipa::ToSchema;

/// Longer words about a pool would only fill logs and views.
const LONGEST_DESCRIPTION: usize = 500;

/// A pool's settings. Whatever is left out is as by default.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
pub struct Settings {
    /// What its members share.
    pub kind: Kind,
    /// What it is for.
    #[schema(value_type = String, max_length = 500)]
    pub description: Description,
    /// How the team reward is made of its members' rewards.
    pub team_reward: TeamReward,
}

/// What the members of a pool share.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
#[schema(as = PoolKind)]
pub enum Kind {
    /// All nodes of a cluster.
    #[default]
    Cluster,
    /// Some nodes of one.
    NodePool,
    /// A quota of one.
    Tenant,
}

impl FromStr for Kind {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        parse(text).ok_or_else(|| Invalid::new("kind", format!("{text:?}"), "one of cluster, node-pool, tenant"))
    }
}

/// A word as it is on the wire.
fn parse<T: DeserializeOwned>(text: &str) -> Option<T> {
    T::deserialize(text.into_deserializer()).map_err(|_: value::Error| ()).ok()
}

/// How a pool's team reward is made.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum TeamReward {
    /// The plain mean: everybody counts the same.
    #[default]
    Mean,
    /// Everybody counts by the weight that an operator gave it, else that of its claim, else as 1.
    Weighted,
}

impl FromStr for TeamReward {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        parse(text).ok_or_else(|| Invalid::new("team_reward", format!("{text:?}"), "one of mean, weighted"))
    }
}

impl TeamReward {
    /// The team reward over these; none over nobody.
    pub(crate) fn of(self, team: &Sums) -> Option<f64> {
        match self {
            Self::Mean => team.mean_reward(),
            Self::Weighted => team.weighted_reward(),
        }
    }
}

/// Words of a bounded length, on one line.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Description(String);

impl TryFrom<String> for Description {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        let length = text.chars().count();
        if length > LONGEST_DESCRIPTION {
            let bound = format!("at most {LONGEST_DESCRIPTION} long");
            return Err(Invalid::new("description", format!("a text of {length} characters"), bound));
        }
        if text.chars().any(char::is_control) {
            return Err(Invalid::new("description", format!("{text:?}"), "without control characters"));
        }
        Ok(Self(text))
    }
}

impl From<Description> for String {
    fn from(description: Description) -> Self {
        description.0
    }
}

impl fmt::Display for Description {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What is kept of a pool.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolRecord {
    /// Its settings.
    pub settings: Settings,
    /// Whether an operator made it: then it is there also where the configuration does not name it.
    pub created: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_read_back_and_bad_ones_name_the_field() {
        let settings: Settings =
            serde_json::from_str(r#"{"kind":"node-pool","description":"with GPUs","team_reward":"weighted"}"#).unwrap();
        assert_eq!((settings.kind, settings.team_reward), (Kind::NodePool, TeamReward::Weighted));
        assert_eq!(serde_json::from_value::<Settings>(serde_json::to_value(&settings).unwrap()).unwrap(), settings);
        assert_eq!(("node-pool".parse(), "weighted".parse()), (Ok(Kind::NodePool), Ok(TeamReward::Weighted)));
        assert_eq!("rack".parse::<Kind>().unwrap_err().field, "kind");
        assert_eq!(serde_json::from_str::<Settings>("{}").unwrap(), Settings::default());
        assert!(Description::try_from("ü".repeat(500)).is_ok());
        for bad in ["x".repeat(501), "two\nlines".to_owned()] {
            assert_eq!(Description::try_from(bad).unwrap_err().field, "description");
        }
        for bad in [r#"{"kind":"rack"}"#, r#"{"team_reward":true}"#, r#"{"size":1}"#, r#"{"kind":null}"#] {
            assert!(serde_json::from_str::<Settings>(bad).is_err(), "{bad}");
        }
    }
}
