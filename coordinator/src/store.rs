//! Where membership, pauses and what operators ordered are written down.
//!
//! A store holds one record for each agent that ever registered, members or not, since epochs must keep growing; the
//! pools that operators made, the capacities that they ordered, the forecast networks that they gave and their other orders;
//! the tokens that admins made, by their digests; what base models are made of; whether everybody is paused; and the audit
//! log. It is read once, at the start, and never repairs
//! what it finds.

mod disk;
mod record;
pub(crate) mod rehearsal;
mod witness;

use std::{
    io,
    path::{Path, PathBuf},
    sync::Arc,
};

use meanfield_common::{
    identity::{AgentId, AgentName, Category, Epoch, ModelName, PoolName},
    mean_field::Aspects,
    scarcity::Capacity,
};
use serde::{Deserialize, Serialize};

use crate::{
    access::{TokenId, TokenRecord},
    audit::{Anchor, Entry, Trail},
    forecast::Forecast,
    models::Document,
    orders::{AgentOrder, PoolOrder},
    settings::PoolRecord,
};

pub(crate) use disk::corrupt;
pub use disk::{Disk, Rehearsed};
pub(crate) use witness::Witness;

/// What is kept of one agent.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Record {
    /// Its pool.
    pub pool: PoolName,
    /// Its name, unique in the pool.
    pub name: AgentName,
    /// What its workload needs most.
    pub category: Category,
    /// The epoch of its last registration.
    pub epoch: Epoch,
    /// Which details of g it is told.
    #[serde(default)]
    pub aspects: Aspects,
    /// Whether it is a member now.
    pub member: bool,
    /// Whether an operator paused it.
    pub paused: bool,
}

/// Everything a store holds.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Contents {
    /// Every agent that ever registered.
    pub agents: Vec<(AgentId, Record)>,
    /// Whether everybody is paused.
    pub paused: bool,
    /// What operators said about pools' capacities; none goes back to the configuration.
    pub capacities: Vec<(PoolName, Option<Capacity>)>,
    /// The bytes of the pools' forecast networks, none being as good as no entry. A store keeps one also where this
    /// version cannot use it.
    pub forecasts: Vec<(PoolName, Option<Vec<u8>>)>,
    /// The tokens that admins made and did not revoke.
    pub tokens: Vec<(TokenId, TokenRecord)>,
    /// What base models are made of; their networks are files.
    pub models: Vec<(ModelName, Document)>,
    /// Whether everybody decides by the fallback.
    pub fallback: bool,
    /// The pools that operators made or said something about.
    pub pools: Vec<(PoolName, PoolRecord)>,
    /// What else operators ordered about pools.
    pub pool_orders: Vec<(PoolName, PoolOrder)>,
    /// What else operators ordered about agents.
    pub agent_orders: Vec<(AgentId, AgentOrder)>,
    /// The audit log.
    pub trail: Trail,
}

/// One change.
#[derive(Debug, Clone, PartialEq)]
pub enum Write {
    /// The new record of an agent.
    Agent(AgentId, Record),
    /// Whether everybody is paused.
    Paused(bool),
    /// An operator's word on a pool's capacity.
    Capacity(PoolName, Option<Capacity>),
    /// The forecast network of a pool, or that it has none.
    Forecast(PoolName, Option<Arc<Forecast>>),
    /// A token, or that it was revoked.
    Token(TokenId, Option<TokenRecord>),
    /// What a base model is made of, or that it was forgotten.
    Model(ModelName, Option<Document>),
    /// Whether everybody decides by the fallback.
    Fallback(bool),
    /// What an operator said a pool is, or that it was removed.
    Pool(PoolName, Option<PoolRecord>),
    /// What else is ordered about a pool.
    PoolOrder(PoolName, PoolOrder),
    /// What else is ordered about an agent.
    AgentOrder(AgentId, AgentOrder),
    /// The next entry of the audit log.
    Audit(Box<Entry>),
    /// Entries of the audit log before the second number, from the first on, are no longer kept; the anchor is the last
    /// of them.
    AuditDropped(std::ops::Range<u64>, Anchor),
}

/// A place to keep [`Contents`].
pub trait Store: Send {
    /// Everything that was committed.
    ///
    /// # Errors
    /// If anything cannot be read or is not what was written.
    fn load(&mut self) -> Result<Contents, Error>;

    /// Makes all of the changes, or none, and returns when they would survive a power failure.
    ///
    /// # Errors
    /// If that cannot be promised. The caller must not commit anything further.
    fn commit(&mut self, writes: &[Write]) -> Result<(), Error>;
}

/// Keeps nothing beyond the process, for simulations.
#[derive(Debug, Clone, Copy, Default)]
pub struct Memory;

impl Store for Memory {
    fn load(&mut self) -> Result<Contents, Error> {
        Ok(Contents::default())
    }

    fn commit(&mut self, _: &[Write]) -> Result<(), Error> {
        Ok(())
    }
}

/// Why a store cannot be used. Each says its reason itself and has no source, or a chain would say it twice.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The data directory or a file in it cannot be used.
    #[error("data directory {path:?}: {reason}")]
    Io {
        /// Which directory or file.
        path: PathBuf,
        /// Why.
        reason: io::Error,
    },
    /// Another process has it open.
    #[error("data directory {path:?} is in use by another process")]
    Locked {
        /// Which one.
        path: PathBuf,
    },
    /// The database reports an error.
    #[error("database {path:?}: {reason}")]
    Database {
        /// Which one.
        path: PathBuf,
        /// What it said.
        reason: String,
    },
    /// A record is not what this version writes.
    #[error("database {path:?}, record {key:?}: {reason}; nothing was changed, restore it from a backup")]
    Corrupt {
        /// Which database.
        path: PathBuf,
        /// Which record.
        key: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl Error {
    /// What is wrong, without saying where.
    #[must_use]
    pub fn reason(&self) -> String {
        match self {
            Self::Io { reason, .. } => reason.to_string(),
            Self::Locked { .. } => "it is in use by another process".to_owned(),
            Self::Database { reason, .. } => reason.clone(),
            Self::Corrupt { .. } => "a record is damaged".to_owned(),
        }
    }

    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self {
        move |reason| Self::Io { path: path.to_owned(), reason }
    }
}
