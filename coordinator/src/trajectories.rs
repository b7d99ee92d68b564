//! Trajectories: what agents saw, did and earned, for learning from later.
//!
//! | module | holds |
//! |---|---|
//! | [`layout`], [`keys`] | how steps, summaries and keys are laid out in bytes |
//! | [`store`] | where they are written: fjall, or memory |
//! | `books`, `writer`, [`retention`] | the thread that writes: what it decides, commits and removes |
//! | [`query`] | latest rewards, lists, the best and the worst, samples |
//! | [`export`], [`import`] | all of it as CSV or Parquet, and back |
//!
//! Steps are acknowledged when they are on disk; many batches share one flush. Readers see what was committed, and never
//! wait for the writer.

mod books;
pub mod export;
pub mod import;
pub mod keys;
pub mod layout;
pub mod query;
pub mod retention;
pub mod store;
mod writer;

use std::{path::Path, sync::Arc};

use meanfield_common::{
    identity::{AgentId, Category, Epoch, PoolName},
    trajectory::{Appended, Recorded},
};

use crate::{clock::Clock, error::Error, metrics::TrajectoryMetrics};
use books::{Batch, Books, Run};
pub use retention::Retention;
use store::{Disk, Memory, Store};
use writer::Writer;

/// The trajectories of a coordinator.
pub struct Trajectories {
    store: Arc<dyn Store>,
    writer: Writer,
}

/// Whose steps they are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    /// The agent.
    pub agent: AgentId,
    /// Which registration of it.
    pub epoch: Epoch,
    /// Its pool.
    pub pool: PoolName,
    /// What its workload needs most.
    pub category: Category,
}

impl Trajectories {
    /// Looks whether what a directory holds can be opened, and changes nothing. The caller holds the directory's lock.
    ///
    /// # Errors
    /// If the directory cannot be used or is damaged.
    pub(crate) fn rehearse(directory: &Path) -> Result<(), Error> {
        let read = |store: Disk| Books::open(Arc::new(store), Retention::default().segment_bytes()).map(drop);
        Ok(Disk::rehearse(directory, read)?)
    }

    /// Opens what a directory holds, or memory.
    ///
    /// # Errors
    /// If the directory cannot be used or is damaged.
    pub(crate) fn open(
        directory: Option<&Path>,
        retention: Retention,
        clock: Clock,
        metrics: TrajectoryMetrics,
    ) -> Result<Self, Error> {
        let store: Arc<dyn Store> = match directory {
            Some(directory) => Arc::new(Disk::open(directory)?),
            None => Arc::new(Memory::default()),
        };
        let writer = Writer::start(Arc::clone(&store), retention, clock, metrics)?;
        Ok(Self { store, writer })
    }

    /// Where queries read.
    pub(crate) fn store(&self) -> Arc<dyn Store> {
        Arc::clone(&self.store)
    }

    /// Takes steps in order of episode and step, and returns when they are durable.
    pub(crate) async fn append(&self, origin: Origin, received: u64, steps: Vec<Recorded>) -> Result<Appended, Error> {
        self.writer.append(batch(origin, received, steps)).await
    }

    /// What would come of them.
    pub(crate) async fn weigh(&self, origin: Origin, received: u64, steps: Vec<Recorded>) -> Result<Appended, Error> {
        self.writer.weigh(batch(origin, received, steps)).await
    }

    /// Removes what is too old or too much.
    pub(crate) async fn retain(&self) -> Result<(), Error> {
        self.writer.retain().await
    }

    /// Why no step can be taken any more, if so.
    pub(crate) fn hindrance(&self) -> Option<Error> {
        self.writer.hindrance()
    }
}

/// Laid out by whoever brings it, so that the one thread that writes has less to do.
fn batch(origin: Origin, received: u64, steps: Vec<Recorded>) -> Batch {
    let Origin { agent, epoch, pool, category } = origin;
    let run = |steps: Vec<_>| Run { bytes: layout::encode(received, &steps), steps };
    let runs = by_episode(steps).into_iter().map(run).collect();
    Batch { agent, epoch, pool, category, received, runs }
}

/// Cuts steps that are in order where an episode ends. From the back, so that a batch of one episode, as most are, is not
/// copied and no step more than once.
fn by_episode(mut steps: Vec<Recorded>) -> Vec<Vec<Recorded>> {
    let mut runs = Vec::new();
    while let Some(last) = steps.last().map(|last| last.episode) {
        match steps.partition_point(|one| one.episode < last) {
            0 => runs.push(std::mem::take(&mut steps)),
            at => runs.push(steps.split_off(at)),
        }
    }
    runs.reverse();
    runs
}
