//! A swarm under load: agents that register, report open-loop at a rate, come and go, and misbehave if told to.
//!
//! Every answer is judged: a good request must be taken and a bad one refused. What was not as it should be is counted
//! and shown, and makes the run a failure.

mod churn;
mod report;
mod task;

use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use crate::{
    mischief::Mischief,
    pace::{Latencies, Pace},
    swarm::Swarm,
};

pub use report::Report;

/// How many connections register at most: registrations that wait together share one flush of the coordinator's disk.
const REGISTRARS: usize = 256;
/// How many examples of what went wrong are kept.
const EXAMPLES: usize = 10;

/// What to do.
#[derive(Debug, Clone)]
pub struct Load {
    /// The coordinator, and over how many connections.
    pub swarm: Swarm,
    /// How many agents.
    pub agents: usize,
    /// Heartbeats a second of all together.
    pub rate: f64,
    /// Heartbeats in a request: one goes as JSON, more go in the compact form.
    pub batch: usize,
    /// For how long.
    pub duration: Duration,
    /// Joins and leaves a second, of agents beyond these.
    pub churn: f64,
    /// How some misbehave.
    pub mischief: Vec<Mischief>,
    /// Which share of the heartbeats that is.
    pub share: f64,
    /// Seed of who misbehaves when.
    pub seed: u64,
}

/// What has happened so far; clones count together.
#[derive(Debug, Clone, Default)]
pub struct Progress(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    taken: AtomicU64,
    refused: AtomicU64,
    joined: AtomicU64,
    left: AtomicU64,
    unexpected: AtomicU64,
    examples: std::sync::Mutex<Vec<String>>,
}

impl Progress {
    /// Good heartbeats that were taken.
    #[must_use]
    pub fn taken(&self) -> u64 {
        self.0.taken.load(Ordering::Relaxed)
    }

    /// Bad ones that were refused.
    #[must_use]
    pub fn refused(&self) -> u64 {
        self.0.refused.load(Ordering::Relaxed)
    }

    /// What was not answered as it should have been.
    #[must_use]
    pub fn unexpected(&self) -> u64 {
        self.0.unexpected.load(Ordering::Relaxed)
    }

    /// Judges an answer: `refusal` is why it was refused, if it was.
    fn judge(&self, mischief: Option<Mischief>, refusal: Option<&str>) {
        let count = |counter: &AtomicU64| {
            counter.fetch_add(1, Ordering::Relaxed);
        };
        let must_fail = mischief.is_some_and(Mischief::must_fail);
        match (must_fail, refusal) {
            (false, None) => count(&self.0.taken),
            (true, Some(_)) => count(&self.0.refused),
            (false, Some(reason)) => self.surprise(|| format!("a good request was refused: {reason}")),
            (true, None) => {
                let name = mischief.map_or("", Mischief::name);
                self.surprise(|| format!("a bad request ({name}) was taken"));
            }
        }
    }

    fn surprise(&self, what: impl FnOnce() -> String) {
        self.0.unexpected.fetch_add(1, Ordering::Relaxed);
        if let Ok(mut examples) = self.0.examples.lock()
            && examples.len() < EXAMPLES
        {
            examples.push(what());
        }
    }

    fn joined(&self) {
        self.0.joined.fetch_add(1, Ordering::Relaxed);
    }

    fn left(&self) {
        self.0.left.fetch_add(1, Ordering::Relaxed);
    }
}

/// The latencies of planned requests: from when they were due, and from when they were sent.
struct Measured {
    corrected: Latencies,
    service: Latencies,
}

impl Measured {
    fn new() -> io::Result<Self> {
        Ok(Self { corrected: Latencies::new()?, service: Latencies::new()? })
    }
}

impl Load {
    /// Registers the agents and runs the load.
    ///
    /// # Errors
    /// If the coordinator cannot be reached, or a connection breaks.
    pub async fn run(&self, progress: &Progress) -> io::Result<Report> {
        let connections = self.swarm.connections.min(self.agents);
        let registrars = Swarm {
            connections: (self.agents / 64).clamp(connections, REGISTRARS.max(connections)),
            ..self.swarm.clone()
        };
        let registering = Instant::now();
        let mut agents = registrars.register(self.agents).await?;
        let registered_in = registering.elapsed();
        // In the same order in every run, whoever was answered first.
        agents.sort_unstable_by_key(|one| one.agent);

        let start = Instant::now();
        let mut tasks = JoinSet::new();
        for place in 0..connections {
            let own = agents.iter().skip(place).step_by(connections).copied().collect();
            let task = task::Task::new(self.clone(), progress.clone(), place as u64, own);
            let pace = Pace::per_second(self.rate / self.batch as f64);
            tasks.spawn(task.run(pace, connections as u64, start));
        }
        if self.churn > 0.0 {
            tasks.spawn(churn::run(self.clone(), progress.clone(), start));
        }
        let mut all = Measured::new()?;
        while let Some(measured) = tasks.join_next().await {
            let measured = measured.map_err(io::Error::other)??;
            all.corrected.add(&measured.corrected)?;
            all.service.add(&measured.service)?;
        }
        Ok(Report::new(self, progress, &all, registered_in, start.elapsed()))
    }
}
