//! Heartbeats of many agents in one request, for whoever speaks for many: `POST /v1/heartbeats`.
//!
//! Each counts, and is answered, as if it had come alone and in this order; one that is refused does not keep the others
//! from being taken. They travel as JSON, or as [`binary`], which costs a tenth; the answers come in the same form.

pub mod binary;

use serde::{Deserialize, Serialize};

use crate::{
    identity::AgentId,
    wire::{Answer, Heartbeat, Problem},
};

/// How many heartbeats a request may have.
pub const MOST: usize = 8192;

/// The heartbeats of many agents.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Heartbeats {
    /// At most 8192.
    #[cfg_attr(feature = "openapi", schema(max_items = 8192))]
    pub heartbeats: Vec<One>,
}

/// One agent's.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct One {
    /// Whose.
    pub agent: AgentId,
    /// What it says.
    pub heartbeat: Heartbeat,
}

/// The answers, in the order of the heartbeats.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Answers {
    /// One for each heartbeat.
    pub answers: Vec<Outcome>,
}

/// What came of one heartbeat.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(rename_all = "snake_case")]
pub enum Outcome {
    /// It was taken.
    Answer(Box<Answer>),
    /// It was refused.
    Problem(Problem),
}
