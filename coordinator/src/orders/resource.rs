//! What orders are about: a name for people, a state, and a tag by which a state is known.

use std::fmt;

use meanfield_common::{
    digest::Digest,
    identity::{AgentId, Epoch, PoolName},
};
use serde_json::{Value, json};

use super::Orders;

/// To whom an order goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Scope {
    /// Everybody, also those who join later.
    All,
    /// The agents of a pool.
    Pool(PoolName),
    /// One agent.
    Agent(AgentId),
}

/// What can be ordered about something.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Resource {
    /// An agent's membership.
    Agent(AgentId),
    /// A pause.
    Pause(Scope),
    /// The kill switch.
    Fallback(Scope),
    /// The state of an agent's lifecycle that is wanted.
    Lifecycle(AgentId),
    /// A pool's capacity, as far as it was ordered.
    Capacity(PoolName),
    /// How a pool goes about scarcity.
    Scarcity(PoolName),
    /// What an agent is given of a scarce capacity.
    Entitlement(AgentId),
    /// A pool's change budget.
    Budget(PoolName),
    /// A pool's forecast network.
    Forecast(PoolName),
    /// A pool and its settings.
    Pool(PoolName),
}

impl fmt::Display for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scoped = |f: &mut fmt::Formatter<'_>, scope: &Scope, what: &str| match scope {
            Scope::All => f.write_str(what),
            Scope::Pool(pool) => write!(f, "pools/{pool}/{what}"),
            Scope::Agent(agent) => write!(f, "agents/{agent}/{what}"),
        };
        match self {
            Self::Agent(agent) => write!(f, "agents/{agent}"),
            Self::Pause(scope) => scoped(f, scope, "pause"),
            Self::Fallback(scope) => scoped(f, scope, "fallback"),
            Self::Lifecycle(agent) => write!(f, "agents/{agent}/lifecycle"),
            Self::Capacity(pool) => write!(f, "pools/{pool}/capacity"),
            Self::Scarcity(pool) => write!(f, "pools/{pool}/scarcity"),
            Self::Entitlement(agent) => write!(f, "agents/{agent}/entitlement"),
            Self::Budget(pool) => write!(f, "pools/{pool}/budget"),
            Self::Forecast(pool) => write!(f, "pools/{pool}/forecast"),
            Self::Pool(pool) => write!(f, "pools/{pool}"),
        }
    }
}

/// What is kept of a member's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Recorded {
    pub(crate) epoch: Epoch,
    pub(crate) paused: bool,
}

impl Resource {
    /// The agent that it is about.
    pub(crate) fn agent(&self) -> Option<AgentId> {
        match self {
            Self::Agent(agent)
            | Self::Lifecycle(agent)
            | Self::Entitlement(agent)
            | Self::Pause(Scope::Agent(agent))
            | Self::Fallback(Scope::Agent(agent)) => Some(*agent),
            _ => None,
        }
    }

    /// The pool that it is about.
    pub(crate) fn pool(&self) -> Option<&PoolName> {
        match self {
            Self::Capacity(pool)
            | Self::Scarcity(pool)
            | Self::Budget(pool)
            | Self::Forecast(pool)
            | Self::Pool(pool)
            | Self::Pause(Scope::Pool(pool))
            | Self::Fallback(Scope::Pool(pool)) => Some(pool),
            _ => None,
        }
    }

    /// Its state. What is about an agent needs that agent's record.
    pub(crate) fn state(&self, orders: &Orders, recorded: Option<Recorded>) -> Value {
        // Numbers and words that were checked always serialise.
        match self {
            Self::Agent(_) => recorded.map_or(Value::Null, |recorded| json!({ "epoch": recorded.epoch })),
            Self::Pause(Scope::Agent(_)) => recorded.is_some_and(|recorded| recorded.paused).into(),
            Self::Pause(_) => orders.paused.into(),
            Self::Fallback(Scope::All) => orders.fallback.into(),
            Self::Fallback(Scope::Pool(pool)) => orders.pool(pool).fallback.into(),
            Self::Fallback(Scope::Agent(agent)) => orders.agent(*agent).fallback.into(),
            Self::Lifecycle(agent) => orders.agent(*agent).lifecycle.map_or(Value::Null, |state| state.name().into()),
            Self::Capacity(pool) => serde_json::to_value(orders.capacities.get(pool)).unwrap_or_default(),
            Self::Scarcity(pool) => serde_json::to_value(orders.pool(pool).scarcity).unwrap_or_default(),
            Self::Entitlement(agent) => serde_json::to_value(orders.agent(*agent).entitlement).unwrap_or_default(),
            Self::Budget(pool) => serde_json::to_value(orders.pool(pool).budget).unwrap_or_default(),
            Self::Forecast(pool) => orders.forecasts.get(pool).map_or(Value::Null, |digest| digest.to_string().into()),
            Self::Pool(pool) => serde_json::to_value(orders.settings.get(pool)).unwrap_or_default(),
        }
    }

    /// By what a state of it is known; none if there is nothing to know. A file is known by its own digest.
    pub(crate) fn tag(&self, state: &Value) -> Option<Digest> {
        match self {
            Self::Forecast(_) => state.as_str().and_then(|digest| digest.parse().ok()),
            Self::Agent(_) | Self::Pool(_) if state.is_null() => None,
            _ => Some(Digest::of(format!("{self}\n{state}").as_bytes())),
        }
    }
}
