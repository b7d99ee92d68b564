//! What operators order: to whom, what was there before, and under which conditions.
//!
//! An [`Order`] gives one [`Resource`] a new state. Each resource's state has a tag, which is the same as long as the state
//! is; an order may name the tag that it was made for, and is refused when somebody was faster. All of that is decided by
//! the writer thread, between two other changes, so no two orders can both be the first.

mod live;
mod resource;

use std::{collections::BTreeMap, fmt::Display, sync::Arc};

use meanfield_common::{
    budget::Budget,
    digest::Digest,
    identity::{AgentId, PoolName},
    scarcity::{self, Capacity, Entitlement},
    wire::Lifecycle,
};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::ToSchema;

use crate::{access::Caller, audit::Actor, error::Error, forecast::Forecast, settings::Settings};

pub(crate) use live::{Live, OfPool};
pub(crate) use resource::Recorded;
pub use resource::{Resource, Scope};

/// What an operator wants.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Ends a membership, whatever its epoch, and takes back what was ordered about the agent.
    Remove(AgentId),
    /// Tells an agent to change nothing, or lifts that.
    Pause(AgentId, bool),
    /// The same for everybody.
    PauseAll(bool),
    /// Has everybody, a pool or an agent decide by its fallback policy, or lifts that.
    Fallback(Scope, bool),
    /// Names the state of an agent's lifecycle that is wanted; none leaves it to the agent.
    Lifecycle(AgentId, Option<Lifecycle>),
    /// Says what a pool's members may reserve together; none goes back to the configuration.
    Capacity(PoolName, Option<Capacity>),
    /// Says how a pool goes about scarcity; none goes back to the defaults.
    Scarcity(PoolName, Option<scarcity::Settings>),
    /// Gives an agent a weight, a minimum or both; none takes them back.
    Entitlement(AgentId, Option<Entitlement>),
    /// Says how much of a pool's capacity may be moved within a minute; none lifts that.
    Budget(PoolName, Option<Budget>),
    /// Gives a pool's agents a forecast network to share; none leaves each with its own.
    Forecast(PoolName, Option<Arc<Forecast>>),
    /// Makes a pool, or gives one new settings; none removes it, with all that was ordered about it.
    Pool(PoolName, Option<Settings>),
}

impl Order {
    /// What it is about.
    #[must_use]
    pub fn resource(&self) -> Resource {
        match self {
            Self::Remove(agent) => Resource::Agent(*agent),
            Self::Pause(agent, _) => Resource::Pause(Scope::Agent(*agent)),
            Self::PauseAll(_) => Resource::Pause(Scope::All),
            Self::Fallback(scope, _) => Resource::Fallback(scope.clone()),
            Self::Lifecycle(agent, _) => Resource::Lifecycle(*agent),
            Self::Capacity(pool, _) => Resource::Capacity(pool.clone()),
            Self::Scarcity(pool, _) => Resource::Scarcity(pool.clone()),
            Self::Entitlement(agent, _) => Resource::Entitlement(*agent),
            Self::Budget(pool, _) => Resource::Budget(pool.clone()),
            Self::Forecast(pool, _) => Resource::Forecast(pool.clone()),
            Self::Pool(pool, _) => Resource::Pool(pool.clone()),
        }
    }

    /// What it does, as the audit log has it.
    #[must_use]
    pub fn action(&self) -> &'static str {
        match self {
            Self::Remove(_) => "agent.remove",
            Self::Pause(_, true) | Self::PauseAll(true) => "pause",
            Self::Pause(_, false) | Self::PauseAll(false) => "resume",
            Self::Fallback(_, true) => "fallback.on",
            Self::Fallback(_, false) => "fallback.off",
            Self::Lifecycle(_, Some(_)) => "lifecycle.set",
            Self::Lifecycle(_, None) => "lifecycle.clear",
            Self::Capacity(_, Some(_)) => "capacity.set",
            Self::Capacity(_, None) => "capacity.clear",
            Self::Scarcity(_, Some(_)) => "scarcity.set",
            Self::Scarcity(_, None) => "scarcity.clear",
            Self::Entitlement(_, Some(_)) => "entitlement.set",
            Self::Entitlement(_, None) => "entitlement.clear",
            Self::Budget(_, Some(_)) => "budget.set",
            Self::Budget(_, None) => "budget.clear",
            Self::Forecast(_, Some(_)) => "forecast.share",
            Self::Forecast(_, None) => "forecast.withdraw",
            Self::Pool(_, Some(_)) => "pool.set",
            Self::Pool(_, None) => "pool.remove",
        }
    }

    /// The state that the resource will have.
    #[must_use]
    pub fn wanted(&self) -> Value {
        match self {
            Self::Remove(_) => Value::Null,
            Self::Pause(_, paused) | Self::PauseAll(paused) => Value::from(*paused),
            Self::Fallback(_, on) => Value::from(*on),
            Self::Lifecycle(_, state) => state.map_or(Value::Null, |state| state.name().into()),
            // Numbers and words that were checked always serialise.
            Self::Capacity(_, capacity) => serde_json::to_value(capacity).unwrap_or_default(),
            Self::Scarcity(_, settings) => serde_json::to_value(settings).unwrap_or_default(),
            Self::Entitlement(_, given) => serde_json::to_value(given).unwrap_or_default(),
            Self::Budget(_, budget) => serde_json::to_value(budget).unwrap_or_default(),
            Self::Forecast(_, forecast) => forecast.as_ref().map_or(Value::Null, |it| it.digest().to_string().into()),
            Self::Pool(_, settings) => serde_json::to_value(settings).unwrap_or_default(),
        }
    }
}

/// What comes with an order: who gives it, for which state, and whether it is meant.
#[derive(Debug, Clone, Default)]
pub struct Terms {
    /// Who; none is the program that the coordinator is part of, which is not audited.
    pub actor: Option<Actor>,
    /// The tags that the order is for; none is for whatever is there.
    pub if_match: Option<Match>,
    /// The tags that the order is not for: [`Match::Any`] is only for what is not there yet.
    pub if_none_match: Option<Match>,
    /// Only say what would happen.
    pub dry_run: bool,
}

/// Which states an order is for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Match {
    /// Any, as long as there is one.
    Any,
    /// Those of these tags.
    Tags(Vec<Digest>),
}

impl Match {
    fn admits(&self, current: Option<Digest>) -> bool {
        match self {
            Self::Any => current.is_some(),
            Self::Tags(tags) => current.is_some_and(|current| tags.contains(&current)),
        }
    }
}

impl Terms {
    /// The same, given by a caller.
    #[must_use]
    pub fn of(self, caller: &Caller) -> Self {
        Self { actor: Some(caller.into()), ..self }
    }

    /// Refuses an order that was made for another state.
    pub(crate) fn check(&self, resource: &impl Display, current: Option<Digest>) -> Result<(), Error> {
        let wanted = self.if_match.as_ref().is_none_or(|wanted| wanted.admits(current));
        let unwanted = self.if_none_match.as_ref().is_some_and(|unwanted| unwanted.admits(current));
        if wanted && !unwanted {
            return Ok(());
        }
        let condition = if wanted { "If-None-Match" } else { "If-Match" };
        Err(Error::Precondition { resource: resource.to_string(), condition, current })
    }
}

/// What an order came to, or would come to.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Ordered {
    /// What it does, such as `capacity.set`.
    pub action: String,
    /// To what, such as `pools/default/capacity`.
    pub target: String,
    /// What was there before.
    pub before: Value,
    /// What is there afterwards.
    pub after: Value,
    /// Whether that is something else.
    pub changed: bool,
    /// Whether it was only tried.
    pub dry_run: bool,
    /// The tag of the new state; absent if there is none any more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub etag: Option<Digest>,
}

/// What is ordered about one pool, beyond its capacity and its network.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PoolOrder {
    /// Whether its agents decide by their fallback.
    pub fallback: bool,
    /// How much of its capacity may be moved.
    pub budget: Option<Budget>,
    /// How it goes about scarcity. Left out where nothing is ordered: older programs do not know it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scarcity: Option<scarcity::Settings>,
}

/// What is ordered about one agent, beyond its pause.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct AgentOrder {
    /// Whether it decides by its fallback.
    pub fallback: bool,
    /// The state of its lifecycle that is wanted.
    pub lifecycle: Option<Lifecycle>,
    /// What it is given of a scarce capacity. Left out where that is nothing, as above.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub entitlement: Option<Entitlement>,
}

/// Everything that is ordered, but for agents' own pauses, which are in their records.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Orders {
    /// Whether everybody is paused.
    pub paused: bool,
    /// Whether everybody decides by the fallback.
    pub fallback: bool,
    /// Every pool that there is.
    pub settings: BTreeMap<PoolName, Settings>,
    /// By pool.
    pub pools: BTreeMap<PoolName, PoolOrder>,
    /// By agent; only those about whom something is ordered.
    pub agents: BTreeMap<AgentId, AgentOrder>,
    /// The capacities that were ordered.
    pub capacities: BTreeMap<PoolName, Capacity>,
    /// The forecast networks that were given.
    pub forecasts: BTreeMap<PoolName, Digest>,
}

impl Orders {
    /// What is ordered about a pool.
    #[must_use]
    pub fn pool(&self, pool: &PoolName) -> PoolOrder {
        self.pools.get(pool).copied().unwrap_or_default()
    }

    /// What is ordered about an agent.
    #[must_use]
    pub fn agent(&self, agent: AgentId) -> AgentOrder {
        self.agents.get(&agent).copied().unwrap_or_default()
    }
}
