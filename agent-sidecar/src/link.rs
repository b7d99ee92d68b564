//! How an agent reaches the coordinator: one small trait.
//!
//! Daemons use [`crate::http`]. Where millions of simulated steps would only measure the loopback device, the program
//! that runs both sides hands in the coordinator itself, behind the same trait.

use std::future::Future;

use meanfield_common::{
    identity::{AgentId, AgentName, ModelName, PoolName},
    wire::{Answer, Heartbeat, Leave, Problem, Register, Registered},
};

/// Why a request to the coordinator failed, by what the agent must do about it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No answer, or an answer that makes no sense: go on alone and try again.
    #[error("unreachable: {0}")]
    Unreachable(String),
    /// The coordinator does not know this agent: register again.
    #[error("not a member")]
    Unknown,
    /// Another process has registered under this name: stop.
    #[error("superseded by a newer registration of the same name")]
    Superseded,
    /// The request itself is at fault, and would be refused again.
    #[error("refused: {}", .0.detail)]
    Refused(Box<Problem>),
}

/// A way to the coordinator.
pub trait Link: Send {
    /// Becomes a member.
    fn register(&mut self, register: &Register) -> impl Future<Output = Result<Registered, Error>> + Send;

    /// Reports one step.
    fn heartbeat(
        &mut self,
        agent: AgentId,
        heartbeat: &Heartbeat,
    ) -> impl Future<Output = Result<Answer, Error>> + Send;

    /// Stops being a member.
    fn leave(&mut self, agent: AgentId, leave: &Leave) -> impl Future<Output = Result<(), Error>> + Send;

    /// Downloads a pool's forecast network. Not every way is made for files.
    fn forecast(&mut self, _: &PoolName) -> impl Future<Output = Result<Vec<u8>, Error>> + Send {
        async { Err(Error::Unreachable("no files come this way".to_owned())) }
    }

    /// Downloads the version of a base model that is meant for this agent.
    fn base_model(
        &mut self,
        _: &ModelName,
        _: &PoolName,
        _: &AgentName,
    ) -> impl Future<Output = Result<Vec<u8>, Error>> + Send {
        async { Err(Error::Unreachable("no files come this way".to_owned())) }
    }

    /// Hands in what an agent has learnt from a base model, with the mean reward that it earned.
    fn contribute(
        &mut self,
        _: &ModelName,
        _: AgentId,
        _checkpoint: &[u8],
        _reward: f64,
    ) -> impl Future<Output = Result<(), Error>> + Send {
        async { Err(Error::Unreachable("no files go this way".to_owned())) }
    }
}

/// No coordinator at all: for policies that decide alone.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nobody;

impl Link for Nobody {
    async fn register(&mut self, _: &Register) -> Result<Registered, Error> {
        Err(Error::Unreachable(String::new()))
    }

    async fn heartbeat(&mut self, _: AgentId, _: &Heartbeat) -> Result<Answer, Error> {
        Err(Error::Unreachable(String::new()))
    }

    async fn leave(&mut self, _: AgentId, _: &Leave) -> Result<(), Error> {
        Ok(())
    }
}

/// The kind of a problem, from the end of its URI.
#[must_use]
pub fn kind(problem: &Problem) -> &str {
    problem.kind.rsplit('/').next().unwrap_or_default()
}
