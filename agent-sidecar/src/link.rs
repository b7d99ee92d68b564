//! How an agent reaches the coordinator: one small trait.
//!
//! Daemons use [`crate::http`]. Where millions of simulated steps would only measure the loopback device, the program
//! that runs both sides hands in the coordinator itself, behind the same trait.

use std::future::Future;

use meanfield_common::{
    digest::Digest,
    identity::{AgentId, AgentName, ModelName, PoolName},
    trace::Context,
    trajectory::{Append, Appended},
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

impl Error {
    /// Whether there is no base model of the name that was asked for; there may be one of another.
    #[must_use]
    pub fn is_unknown_model(&self) -> bool {
        matches!(self, Self::Refused(problem) if kind(problem) == "unknown-model")
    }
}

/// Which file of a base model is asked for, and by whom.
#[derive(Debug, Clone, Copy)]
pub struct Ask<'a> {
    /// The model.
    pub model: &'a ModelName,
    /// This version instead of the one that is served.
    pub version: Option<u64>,
    /// The pool of the agent that asks; canaries are drawn by it and by the name.
    pub pool: &'a PoolName,
    /// Its name.
    pub name: &'a AgentName,
    /// What the file is known by that it has already.
    pub had: Option<Digest>,
}

/// A file of a base model.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct File {
    /// Which version it is, where the coordinator says so.
    pub version: Option<u64>,
    /// All of it.
    pub bytes: Vec<u8>,
}

/// A way to the coordinator.
pub trait Link: Send {
    /// Says what the next requests belong to, for whoever follows them over there.
    fn follow(&mut self, _: Option<Context>) {}

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

    /// Downloads the version of a base model that is meant for an agent; none if it has that already.
    fn base_model(&mut self, _: &Ask<'_>) -> impl Future<Output = Result<Option<File>, Error>> + Send {
        async { Err(Error::Unreachable("no files come this way".to_owned())) }
    }

    /// Hands in recorded steps; they are on disk when this returns. The same again changes nothing.
    fn append(&mut self, _: AgentId, _: &Append) -> impl Future<Output = Result<Appended, Error>> + Send {
        async { Err(Error::Unreachable("no steps go this way".to_owned())) }
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
