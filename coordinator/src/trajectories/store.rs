//! Where trajectories are written: ordered tables, one of them an index and the others segments of chunks.
//!
//! A segment is opened, filled and dropped as a whole, which is how space comes back. Everything else, from the layout to
//! the queries, is the same for every store.

mod disk;
mod memory;

use std::{collections::BTreeMap, ops::ControlFlow};

pub use disk::Disk;
pub use memory::Memory;

pub use crate::store::Error;

/// A table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Table {
    /// Summaries and the orders of episodes.
    Index,
    /// The chunks of a segment.
    Segment(u64),
}

/// Changes of tables: a value, or none to remove the key. Each key is changed once at most.
pub type Writes = BTreeMap<(Table, Vec<u8>), Option<Vec<u8>>>;

/// Which way a table is read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// From the lowest key.
    Up,
    /// From the highest key.
    Down,
}

/// What is done with an entry, and whether to go on.
pub type Visit<'a> = &'a mut dyn FnMut(&[u8], &[u8]) -> Result<ControlFlow<()>, Error>;

/// A place to keep tables. One thread writes; any number read.
pub trait Store: Send + Sync {
    /// The value of a key. A segment that is gone is empty.
    ///
    /// # Errors
    /// If it cannot be read.
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error>;

    /// Visits the entries with keys from `from` to before `to`.
    ///
    /// # Errors
    /// If they cannot be read, or the visitor says so.
    fn scan(&self, table: Table, from: &[u8], to: &[u8], direction: Direction, visit: Visit<'_>) -> Result<(), Error>;

    /// Makes all of the changes, or none, and returns when they would survive a power failure. Commits are numbered
    /// upwards.
    ///
    /// # Errors
    /// If that cannot be promised. The caller must not commit anything further.
    fn commit(&self, number: u64, writes: Writes) -> Result<(), Error>;

    /// The segments that exist.
    fn segments(&self) -> Vec<u64>;

    /// Makes an empty segment, unless it exists.
    ///
    /// # Errors
    /// If it cannot be made.
    fn open_segment(&self, number: u64) -> Result<(), Error>;

    /// Removes a segment and gives its space back.
    ///
    /// # Errors
    /// If it cannot be removed.
    fn drop_segment(&self, number: u64) -> Result<(), Error>;

    /// How much space all of it takes.
    fn space(&self) -> u64;

    /// That a value is not what was written.
    fn corrupt(&self, key: &[u8], reason: &str) -> Error;
}
