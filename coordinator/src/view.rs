//! What operators see of agents and pools.

mod scarcity;

use std::{fmt, str::FromStr};

use meanfield_common::{
    action::Action,
    budget::{Budget, Moving},
    digest::Digest,
    identity::{AgentId, AgentName, Category, Epoch, PoolName, Sequence},
    invalid::Invalid,
    mean_field::{Aspects, AuxiliaryState, Moments},
    reward::Reward,
    scarcity::{Capacity, Claim, Entitlement, Grant},
    state::LocalState,
    wire::Lifecycle,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::settings::Settings;

pub use scarcity::{CutFilter, CutPage, CutView, OpenCuts, ScarcityView, SettingsView, Yielding};

/// Whether a member is heard of. One that is gone is no member any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// Its heartbeats arrive in time.
    Active,
    /// It has missed heartbeats; it still counts in the mean field.
    Suspect,
}

impl FromStr for State {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "active" => Ok(Self::Active),
            "suspect" => Ok(Self::Suspect),
            _ => Err(Invalid::new("state", format!("{text:?}"), "one of active, suspect")),
        }
    }
}

/// One agent.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct AgentView {
    /// Its id.
    pub id: AgentId,
    /// Its name within the pool.
    pub name: AgentName,
    /// Its pool.
    pub pool: PoolName,
    /// What its workload needs most.
    pub category: Category,
    /// The epoch of its latest registration.
    pub epoch: Epoch,
    /// The details of g that it is told: `categories`, `percentiles`, `states`.
    #[schema(value_type = Vec<String>)]
    pub details: Aspects,
    /// Whether it is heard of.
    pub state: State,
    /// Whether it is told to change nothing: by its own pause or by the one for all.
    pub paused: bool,
    /// Whether it has a pause of its own, which the resume for all does not lift.
    pub own_pause: bool,
    /// Whether it is told to decide by its fallback: by its own switch, its pool's or everybody's.
    pub fallback: bool,
    /// Whether its own switch is on, which lifting the others does not turn off.
    pub own_fallback: bool,
    /// The state of its lifecycle that an operator wants; agents of this version only hear of it.
    pub lifecycle: Option<Lifecycle>,
    /// The sequence number of its last heartbeat in this epoch.
    pub sequence: Option<Sequence>,
    /// Milliseconds since it was last heard of.
    pub silent_ms: u64,
    /// The local state that it last reported.
    pub local: Option<LocalState>,
    /// The action that it last reported.
    pub action: Option<Action>,
    /// The reward that it last reported.
    pub reward: Option<Reward>,
    /// What it last claimed of the pool's capacity.
    pub claim: Option<Claim>,
    /// Whether that is more than its offered work bears out: it counts up to one and a half times that and a little.
    pub claim_capped: bool,
    /// Its cap, while not all claims fit and it gets less than its own.
    pub grant: Option<Grant>,
    /// What its cap would be, where its pool only advises.
    pub advice: Option<Grant>,
    /// What an operator gave to it: its weight, its minimum.
    pub entitlement: Option<Entitlement>,
}

/// How many agents are in which state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize, ToSchema)]
pub struct States {
    /// In time.
    pub active: u64,
    /// With missed heartbeats.
    pub suspect: u64,
}

/// One pool.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct PoolView {
    /// Its name.
    pub name: PoolName,
    /// What it is.
    pub settings: Settings,
    /// Whether the configuration names it: then it cannot be removed.
    pub configured: bool,
    /// Its agents by state, those that have not reported yet included.
    pub agents: States,
    /// The latest round, if the pool runs in lock-step.
    pub round: Option<u64>,
    /// Its whole mean field.
    pub mean_field: MeanField,
    /// The mean reward over those that have reported.
    pub mean_reward: Option<f64>,
    /// The team reward as agents are told it: that mean, or one weighted by the agents' weights.
    pub team_reward: Option<f64>,
    /// How scarce its capacity is; absent where none is known.
    pub scarcity: Option<ScarcityView>,
    /// The forecast network that its agents share; absent where each uses the one it ships with.
    pub forecast: Option<ForecastView>,
    /// Whether its agents are told to decide by their fallback.
    pub fallback: bool,
    /// How much of its capacity may be moved within a minute; absent where that is not limited.
    pub budget: Option<Budget>,
}

/// Which agents to show.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only of this pool.
    pub pool: Option<PoolName>,
    /// Only of this category.
    pub category: Option<Category>,
    /// Only in this state.
    pub state: Option<State>,
    /// Only those whose names begin so.
    pub prefix: Option<String>,
}

impl Filter {
    pub(crate) fn admits(&self, pool: &PoolName, name: &AgentName, category: Category, state: State) -> bool {
        self.pool.as_ref().is_none_or(|wanted| wanted == pool)
            && self.category.is_none_or(|wanted| wanted == category)
            && self.state.is_none_or(|wanted| wanted == state)
            && self.prefix.as_ref().is_none_or(|prefix| name.as_str().starts_with(prefix))
    }
}

/// A pool's capacity: what was ordered, what is configured, and which of them counts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CapacityView {
    /// What an operator ordered.
    pub ordered: Option<Capacity>,
    /// What the configuration says.
    pub configured: Option<Capacity>,
    /// The one that counts; none if the pool is never scarce.
    pub effective: Option<Capacity>,
}

/// A pool's change budget.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct BudgetView {
    /// What was ordered; none if nothing is limited.
    pub budget: Option<Budget>,
    /// What that makes of the pool's capacity, within any minute. While the capacity is not known it is what it was before,
    /// or nothing.
    pub limit: Option<Moving>,
    /// How much of that can be granted now.
    pub left: Option<Moving>,
}

/// The state of something that operators order.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Standing {
    /// Of what, such as `pools/default/fallback`.
    pub target: String,
    /// True or false for switches, else what was ordered or null.
    pub state: serde_json::Value,
}

/// Who is told to decide by the fallback.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct FallbackView {
    /// Of what: `fallback`.
    pub target: String,
    /// Whether everybody is.
    pub state: bool,
    /// The pools that are by themselves.
    pub pools: Vec<PoolName>,
    /// How many agents are by themselves.
    pub agents: usize,
}

/// A forecast network that a pool's agents share.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct ForecastView {
    /// The SHA-256 of the file.
    pub digest: Digest,
    /// The file's size.
    pub bytes: usize,
    /// How the network came to be, as the file says.
    pub provenance: String,
}

/// The mean field of a whole pool.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct MeanField {
    /// How many agents have reported.
    pub count: u64,
    /// CPU limits, as shares of their upper bounds.
    pub cpu_limit: Moments,
    /// Memory limits, as shares of their upper bounds.
    pub memory_limit: Moments,
    /// Vertical actions, -2 to 2.
    pub vertical: Moments,
    /// Horizontal actions, -1 to 1.
    pub horizontal: Moments,
    /// SLO preservation.
    pub slo_preservation: Moments,
    /// Mean of CPU and memory utilisation.
    pub utilisation: Moments,
}

impl From<AuxiliaryState> for MeanField {
    fn from(all: AuxiliaryState) -> Self {
        Self {
            count: all.others,
            cpu_limit: all.cpu_limit,
            memory_limit: all.memory_limit,
            vertical: all.vertical,
            horizontal: all.horizontal,
            slo_preservation: all.slo_preservation,
            utilisation: all.utilisation,
        }
    }
}

/// A place in the order of agents, by pool and name. It stays good when the agent that it names has left.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Cursor {
    pool: PoolName,
    name: AgentName,
}

impl Cursor {
    /// The place of an agent.
    #[must_use]
    pub fn new(pool: &PoolName, name: &AgentName) -> Self {
        Self { pool: pool.clone(), name: name.clone() }
    }

    pub(crate) fn place(&self) -> (&str, &str) {
        (self.pool.as_str(), self.name.as_str())
    }
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Names never contain a colon.
        write!(f, "{}:{}", self.pool, self.name)
    }
}

impl FromStr for Cursor {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let parts = text.split_once(':').and_then(|(pool, name)| Some((pool.parse().ok()?, name.parse().ok()?)));
        let (pool, name) =
            parts.ok_or_else(|| Invalid::new("after", format!("{text:?}"), "the `next` of an earlier page"))?;
        Ok(Self { pool, name })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cursors_read_back_as_written() {
        let cursor = Cursor::new(&"a/b".parse().unwrap(), &"shop/cart".parse().unwrap());
        assert_eq!(cursor.to_string().parse::<Cursor>().unwrap(), cursor);
        for bad in ["", "a", "a:", ":b", "a:b:c", "A:b"] {
            assert_eq!(bad.parse::<Cursor>().unwrap_err().field, "after", "{bad:?}");
        }
    }
}
