//! Steps as rows of a file, in CSV or Parquet, written as they are read: never more than some rows in memory.
//!
//! Both have the same columns ([`COLUMNS`]), of which the floats are written such that they read back to the bit.

mod csv;
mod parquet;

use std::{io::Write, str::FromStr};

use meanfield_common::{
    identity::{AgentId, Category, Epoch, PoolName},
    invalid::Invalid,
    trajectory::Recorded,
};

use super::{
    query::{self, Filter},
    store::{self, Store},
};

pub use self::csv::Csv;
pub use self::parquet::{MESSAGE, Parquet};

/// The columns, in order.
pub const COLUMNS: [&str; 26] = [
    "agent",
    "pool",
    "category",
    "epoch",
    "episode",
    "step",
    "received_ms",
    "slo_preservation",
    "cpu_utilisation",
    "memory_utilisation",
    "arrival_change",
    "cpu_limit",
    "memory_limit",
    "replicas",
    "action_cpu",
    "action_memory",
    "action_replicas",
    "reward",
    "next_slo_preservation",
    "next_cpu_utilisation",
    "next_memory_utilisation",
    "next_arrival_change",
    "next_cpu_limit",
    "next_memory_limit",
    "next_replicas",
    "verdicts",
];

/// A file's format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Text, a line a step.
    Csv,
    /// Columns in binary.
    Parquet,
}

impl Format {
    /// Its media type.
    #[must_use]
    pub fn media_type(self) -> &'static str {
        match self {
            Self::Csv => "text/csv",
            Self::Parquet => "application/vnd.apache.parquet",
        }
    }
}

impl FromStr for Format {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        match text {
            "csv" => Ok(Self::Csv),
            "parquet" => Ok(Self::Parquet),
            _ => Err(Invalid::new("format", format!("{text:?}"), "csv or parquet")),
        }
    }
}

/// One row.
#[derive(Debug, Clone, PartialEq)]
pub struct Row {
    /// Whose.
    pub agent: AgentId,
    /// The agent's pool.
    pub pool: PoolName,
    /// What its workload needs most.
    pub category: Category,
    /// Of which registration.
    pub epoch: Epoch,
    /// When the step arrived, in milliseconds since 1970.
    pub received: u64,
    /// The step.
    pub step: Recorded,
}

/// Where rows go.
pub trait Rows {
    /// Takes a row.
    ///
    /// # Errors
    /// If it cannot be written.
    fn row(&mut self, row: Row) -> Result<(), Error>;

    /// Writes what is left.
    ///
    /// # Errors
    /// If it cannot be written.
    fn finish(self: Box<Self>) -> Result<(), Error>;
}

/// Why an export ends early.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// What is there cannot be read.
    #[error(transparent)]
    Store(#[from] store::Error),
    /// What was read cannot be written.
    #[error("writing a row: {0}")]
    Write(String),
}

/// Writes every step of the episodes that a filter admits, in the order of time.
///
/// # Errors
/// If a step cannot be read or written.
pub fn export(
    store: &dyn Store,
    filter: &Filter,
    format: Format,
    to: impl Write + Send + 'static,
) -> Result<(), Error> {
    let mut rows: Box<dyn Rows> = match format {
        Format::Csv => Box::new(Csv::new(to)?),
        Format::Parquet => Box::new(Parquet::new(to)?),
    };
    query::each::<Error>(store, filter, |id, summary| {
        for (received, step) in query::steps(store, id, summary)? {
            let (pool, category) = (summary.pool.clone(), summary.category);
            rows.row(Row { agent: id.agent, pool, category, epoch: id.epoch, received, step })?;
        }
        Ok(())
    })?;
    rows.finish()
}
