//! What can go wrong, without a word about HTTP: [`crate::http`] maps it to statuses, once.

use std::{cmp::Ordering, sync::Arc};

use meanfield_common::{
    digest::Digest,
    identity::{AgentId, Epoch, PoolName, Sequence},
    invalid::Invalid,
};

use crate::{access::TokenId, models, store, tls, token};

/// Why the coordinator refused or failed. A refused request has changed nothing. Each says its reason itself and has no
/// source, or a chain would say it twice.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value outside its bound.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No member has this id: it never registered, has left, was removed or is gone. Or its registration is later
    /// than any that the store knows, which then was restored from a backup: it has to register again.
    #[error("agent {0} is not a member")]
    UnknownAgent(AgentId),
    /// No pool has this name.
    #[error("there is no pool \"{name}\"; the pools are {known}")]
    UnknownPool {
        /// The name that was asked for.
        name: PoolName,
        /// The names that exist.
        known: String,
    },
    /// The pool has no forecast network.
    #[error("the pool \"{0}\" has no forecast network: its agents use the one they ship with")]
    NoForecast(PoolName),
    /// No token has this id, or no more.
    #[error("there is no token {0}")]
    UnknownToken(TokenId),
    /// The pool has members, who would have nowhere to go.
    #[error("the pool \"{name}\" has {members} members: they have to leave first")]
    PoolInUse {
        /// Its name.
        name: PoolName,
        /// How many there are.
        members: usize,
    },
    /// The pool is one of the configuration's, and would be there again after a restart.
    #[error("the pool \"{0}\" is configured at the start: take it out of the configuration instead")]
    ConfiguredPool(PoolName),
    /// There is no room for another agent.
    #[error("{0} agents have registered already, as many as --max-agents allows")]
    TooManyAgents(usize),
    /// There is no room for another pool.
    #[error("there are {0} pools already, as many as --max-pools allows: remove some first")]
    TooManyPools(usize),
    /// There is no room for another token.
    #[error("there are {0} tokens already: revoke some first")]
    TooManyTokens(usize),
    /// The order was made for another state than there is now.
    #[error("{resource} is not in the state that the order was made for")]
    Precondition {
        /// What the order is about.
        resource: String,
        /// The condition that does not hold: `If-Match` or `If-None-Match`.
        condition: &'static str,
        /// The tag of its state now; none if there is nothing.
        current: Option<Digest>,
    },
    /// The agent has registered again since.
    #[error("epoch {} is not the current epoch {}", given.0, current.0)]
    StaleEpoch {
        /// The message's epoch.
        given: Epoch,
        /// The epoch of the latest registration.
        current: Epoch,
    },
    /// A later heartbeat was taken already.
    #[error("sequence {} is below {}, which was taken already", given.0, last.0)]
    Replayed {
        /// The message's sequence number.
        given: Sequence,
        /// The last one taken.
        last: Sequence,
    },
    /// The sequence number was used before, with other content.
    #[error("sequence {} was taken already with other content", .0.0)]
    Conflict(Sequence),
    /// The step was recorded before, with other content.
    #[error("episode {episode}, step {step} was recorded already with other content")]
    ConflictingStep {
        /// Which episode.
        episode: u64,
        /// Which step of it.
        step: u32,
    },
    /// The pool's other agents are in a later round.
    #[error("round {given} is over, the pool is in round {current}")]
    StaleRound {
        /// The message's round.
        given: u64,
        /// The pool's round.
        current: u64,
    },
    /// Something about base models.
    #[error(transparent)]
    Models(#[from] models::Error),
    /// The store could not be opened, read or written.
    #[error(transparent)]
    Store(#[from] Arc<store::Error>),
    /// The store is closed, so nothing can be changed any more.
    #[error("the store is closed")]
    Closed,
    /// The token file cannot be used.
    #[error(transparent)]
    Token(#[from] token::Error),
    /// The certificate or its key cannot be used.
    #[error(transparent)]
    Tls(#[from] tls::Error),
    /// A thread or socket could not be set up or failed.
    #[error("{what}: {reason}")]
    Io {
        /// What was tried.
        what: &'static str,
        /// Why it failed.
        reason: std::io::Error,
    },
}

impl Error {
    /// Refuses a member's message that is not of its current epoch.
    pub(crate) fn check_epoch(agent: AgentId, given: Epoch, current: Epoch) -> Result<(), Self> {
        match given.cmp(&current) {
            Ordering::Less => Err(Self::StaleEpoch { given, current }),
            Ordering::Equal => Ok(()),
            Ordering::Greater => Err(Self::UnknownAgent(agent)),
        }
    }
}

impl From<store::Error> for Error {
    fn from(error: store::Error) -> Self {
        Self::Store(Arc::new(error))
    }
}
