//! The coordinator without a network: the same code, called directly.

use meanfield_agent::link::{Error, Link};
use meanfield_common::{
    identity::AgentId,
    wire::{Answer, Heartbeat, Leave, Problem, Register, Registered},
};
use meanfield_coordinator::Coordinator;

/// A coordinator in the same process.
#[derive(Clone)]
pub struct InProcess(pub Coordinator);

impl Link for InProcess {
    async fn register(&mut self, register: &Register) -> Result<Registered, Error> {
        self.0.register(register.clone()).await.map_err(error)
    }

    async fn heartbeat(&mut self, agent: AgentId, heartbeat: &Heartbeat) -> Result<Answer, Error> {
        self.0.heartbeat(agent, heartbeat).map_err(error)
    }

    async fn leave(&mut self, agent: AgentId, leave: &Leave) -> Result<(), Error> {
        self.0.leave(agent, *leave).await.map_err(error)
    }
}

/// What an agent must do about the coordinator's refusal; by HTTP the same follows from the kind of the problem.
fn error(error: meanfield_coordinator::Error) -> Error {
    use meanfield_coordinator::Error as Refusal;
    match error {
        Refusal::UnknownAgent(_) => Error::Unknown,
        Refusal::StaleEpoch { .. } => Error::Superseded,
        Refusal::Store(_) | Refusal::Closed | Refusal::Io { .. } => Error::Unreachable(error.to_string()),
        other => Error::Refused(Box::new(Problem {
            kind: "/problems/refused".to_owned(),
            title: "Refused".to_owned(),
            status: 422,
            detail: other.to_string(),
            field: None,
            bound: None,
        })),
    }
}
