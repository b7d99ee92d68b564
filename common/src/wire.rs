//! The messages between agents, operators and the coordinator: JSON over HTTP.
//!
//! Requests with unknown fields are refused, and every number is checked while it is read. Answers may grow: an older
//! agent passes over what a newer coordinator adds.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::{
    action::Action,
    budget::Moving,
    digest::Digest,
    identity::{AgentId, AgentName, Category, Epoch, PoolName, Sequence},
    invalid::Invalid,
    mean_field::{Aspects, AuxiliaryState},
    reward::Reward,
    scarcity::{Claim, Scarcity},
    state::LocalState,
};

/// An agent asks to become a member.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Register {
    /// The agent's name, unique in its pool.
    pub name: AgentName,
    /// The pool whose capacity the workload shares.
    pub pool: PoolName,
    /// What the workload needs most.
    pub category: Category,
    /// Which details of g every answer shall have: `categories`, `percentiles`, `states`; words that the coordinator does
    /// not know are passed over. Left out where nothing is wanted: older coordinators refuse the field.
    #[serde(default, skip_serializing_if = "Aspects::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>, required = false))]
    pub wants: Aspects,
}

/// The coordinator's answer to [`Register`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Registered {
    /// The agent's id: the same at every registration of this name in this pool.
    pub agent: AgentId,
    /// The epoch of this registration; heartbeats of earlier ones are refused from now on.
    pub epoch: Epoch,
    /// Within how many milliseconds a heartbeat is expected before the agent counts as suspect.
    pub heartbeat_within_ms: u64,
    /// Which of the details that were wanted every answer has. Absent where none was agreed on.
    #[serde(default, skip_serializing_if = "Aspects::is_none")]
    #[cfg_attr(feature = "openapi", schema(value_type = Vec<String>, required = false))]
    pub agreed: Aspects,
}

/// One step of one agent.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Heartbeat {
    /// The epoch given at registration.
    pub epoch: Epoch,
    /// Grows with every heartbeat of an epoch. The same number with the same content may be sent again and is
    /// answered again; a smaller one is refused.
    pub sequence: Sequence,
    /// In lock-step runs, the round of simulated time: the answer then describes the round before, whole, so it does
    /// not depend on the order in which agents report. Left out in real time: the answer is the latest.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub round: Option<u64>,
    /// The local state l.
    pub state: LocalState,
    /// The action that led to it.
    pub action: Action,
    /// The reward of that action.
    pub reward: Reward,
    /// What the agent wants of its pool's capacity.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub claim: Option<Claim>,
    /// Whether the answer's g shall come with all its details, categories, percentiles and means of all of l, whatever
    /// was agreed on at registration.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub detail: bool,
    /// How much of the pool's capacity the agent wants to move, in either direction. Only asked where the last answer had
    /// an allowance: older coordinators refuse a field that they do not know.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub moving: Option<Moving>,
}

/// The coordinator's answer to [`Heartbeat`].
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Answer {
    /// The sequence number that this answers.
    pub sequence: Sequence,
    /// g: the pool's mean field without this agent.
    pub auxiliary: AuxiliaryState,
    /// The mean reward over the pool, this agent included, weighted by the agents' weights where the pool is set so;
    /// absent before anybody reported.
    pub team_reward: Option<f64>,
    /// What the agent is told to do.
    pub directives: Directives,
    /// How scarce the pool's capacity is; absent where the coordinator was not told any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub scarcity: Option<Scarcity>,
    /// The digest of the pool's forecast network; absent where it has none, and agents use the one they ship with.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub forecast: Option<Digest>,
    /// How much of the pool's capacity the agent may move until its next heartbeat, out of what it asked for; absent where
    /// the pool has no change budget.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub allowance: Option<Moving>,
    /// A number that changes with what is served of any base model, and says nothing else; absent where there is none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub models: Option<u64>,
}

/// What the coordinator tells an agent with every answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Directives {
    /// Observe and report, but change nothing.
    pub paused: bool,
    /// Let the fallback policy decide: the kill switch is on for this agent, its pool or everybody.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub fallback: bool,
    /// The state of its lifecycle that an operator wants; absent where the agent decides by itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lifecycle: Option<Lifecycle>,
}

/// Who decides for a workload. Agents of this version know the fallback alone, and decide with what they were started
/// with; the coordinator keeps, shows and tells an operator's word already.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "lowercase")]
pub enum Lifecycle {
    /// A rule-based fallback.
    Fallback,
    /// The learner, exploring.
    Exploring,
    /// The learner, serving.
    Serving,
}

impl Lifecycle {
    /// All states, in the order of a life.
    pub const ALL: [Self; 3] = [Self::Fallback, Self::Exploring, Self::Serving];

    /// The name on the wire.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Fallback => "fallback",
            Self::Exploring => "exploring",
            Self::Serving => "serving",
        }
    }
}

impl FromStr for Lifecycle {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|state| state.name() == text);
        found.ok_or_else(|| Invalid::new("lifecycle", text, "one of fallback, exploring, serving"))
    }
}

/// An agent leaves for good.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Leave {
    /// The epoch given at registration.
    pub epoch: Epoch,
}

/// Why a request was refused (RFC 9457, `application/problem+json`).
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Problem {
    /// What kind of problem: one of a closed set of relative URIs such as `/problems/stale-epoch`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The same in words, equal for every problem of the kind.
    pub title: String,
    /// The HTTP status.
    pub status: u16,
    /// What was wrong this time.
    pub detail: String,
    /// The offending field, if one is to blame.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub field: Option<String>,
    /// The bound that it broke.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bound: Option<String>,
    /// The id by which logs and traces know the request.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEARTBEAT: &str = r#"{"epoch":1,"sequence":2,"state":{"slo_preservation":1,"cpu_utilisation":0.5,
        "memory_utilisation":0.5,"arrival_change":0,"cpu_limit":0.5,"memory_limit":0.5,"replicas":0.1},
        "action":{"cpu":0,"memory":0,"replicas":1},"reward":0.5}"#;

    #[test]
    fn a_heartbeat_reads_back_as_written() {
        let heartbeat: Heartbeat = serde_json::from_str(HEARTBEAT).unwrap();
        assert_eq!((heartbeat.round, heartbeat.claim), (None, None), "older agents claim nothing");
        let text = serde_json::to_string(&heartbeat).unwrap();
        assert_eq!(serde_json::from_str::<Heartbeat>(&text).unwrap(), heartbeat);
    }

    #[test]
    fn an_answer_of_an_older_coordinator_names_no_forecast_network() {
        let answer = Answer {
            sequence: Sequence(2),
            auxiliary: AuxiliaryState::default(),
            team_reward: None,
            directives: Directives::default(),
            scarcity: None,
            forecast: None,
            allowance: None,
            models: None,
        };
        let older = serde_json::to_string(&answer).unwrap();
        for newer in ["forecast", "allowance", "fallback", "lifecycle"] {
            assert!(!older.contains(newer), "an older agent sees what it always saw: {older}");
        }
        assert_eq!(serde_json::from_str::<Answer>(&older).unwrap(), answer);
        let newer = Answer { forecast: Some(Digest::of(b"network")), ..answer };
        let text = serde_json::to_string(&newer).unwrap();
        assert_eq!(serde_json::from_str::<Answer>(&text).unwrap(), newer);
    }

    #[test]
    fn what_is_wanted_of_g_is_sent_only_where_something_is() {
        let plain = r#"{"name":"a","pool":"p","category":"io"}"#;
        let register: Register = serde_json::from_str(plain).unwrap();
        assert_eq!(serde_json::to_string(&register).unwrap(), plain, "an older coordinator sees what it always saw");
        let wanting = Register { wants: Aspects::STATES | Aspects::PERCENTILES, ..register };
        let text = serde_json::to_string(&wanting).unwrap();
        assert!(text.ends_with(r#""wants":["percentiles","states"]}"#), "{text}");
        assert_eq!(serde_json::from_str::<Register>(&text).unwrap(), wanting);
        let older = r#"{"agent":"00000000-0000-0000-0000-000000000000","epoch":1,"heartbeat_within_ms":5}"#;
        let registered: Registered = serde_json::from_str(older).unwrap();
        assert!(registered.agreed.is_none(), "an older coordinator agrees on nothing");
        assert_eq!(serde_json::to_string(&registered).unwrap(), older, "nor does an older agent see anything new");
    }

    #[test]
    fn every_bad_number_and_every_unknown_field_is_refused() {
        for (good, bad) in [
            (r#""reward":0.5"#, r#""reward":NaN"#),
            (r#""reward":0.5"#, r#""reward":1e999"#),
            (r#""reward":0.5"#, r#""reward":2e6"#),
            (r#""reward":0.5"#, r#""reward":0.5,"extra":1"#),
            (r#""cpu_utilisation":0.5"#, r#""cpu_utilisation":1.5"#),
            (r#""replicas":1}"#, r#""replicas":2}"#),
            (r#""epoch":1"#, r#""epoch":-1"#),
            (r#""epoch":1,"#, ""),
        ] {
            let text = HEARTBEAT.replace(good, bad);
            assert_ne!(text, HEARTBEAT);
            assert!(serde_json::from_str::<Heartbeat>(&text).is_err(), "{bad}");
        }
    }
}
