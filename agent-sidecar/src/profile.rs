//! What a workload needs most, from what it was seen to use.
//!
//! Two numbers of a step depend little on the load and on how the workload is scaled: for how much of its time in flight a
//! request computes, as fast as its limit lets it; and how much memory is held for each core that computes. Each step
//! votes on both, and what counts is the share of the votes of the last hour or so, so that a step with a backlog, in which
//! thousands wait, is one vote like any other.
//!
//! | category | rule |
//! |---|---|
//! | `io` | in most steps, requests computed for less than [`COMPUTING`] of their time in flight |
//! | `memory` | otherwise, and in most steps more than [`GIBIBYTES`] were held for each core in use |
//! | `cpu` | otherwise |
//!
//! Steps in which the CPU was busy for more than [`CALM`] of its limit have no vote: requests that wait for the CPU look as if
//! they waited for a disk. A category is named after [`FIRST`] votes. To become another one, the share has to be [`MARGIN`]
//! beyond a half for [`FIRST`] votes in a row, so that a workload between two stays what it is.

use meanfield_common::{identity::Category, observation::Observation};

/// A request that computes for less than this share of its time in flight waits for something else a lot.
pub const COMPUTING: f64 = 0.75;
/// Above so many gibibytes for each core in use, a workload holds much memory.
pub const GIBIBYTES: f64 = 0.3;
/// The CPU utilisation up to which a step votes.
pub const CALM: f64 = 0.6;
/// Votes before a category is named, and in a row before another one is: ten minutes of 15 s.
pub const FIRST: u32 = 40;
/// How far beyond a half of the votes it takes to become something else.
pub const MARGIN: f64 = 0.15;
/// What a vote leaves of those before it: half of one is forgotten after an hour of 15 s.
const KEPT: f64 = 0.997;

/// What is known of a workload so far.
#[derive(Debug, Clone, Default)]
pub struct Profile {
    /// Votes, those for waiting, and those for much memory, each fading.
    votes: f64,
    waiting: f64,
    holding: f64,
    /// Votes that do not fade.
    steps: u32,
    named: Option<Category>,
    /// Another category, and for how many votes in a row.
    rival: Option<(Category, u32)>,
}

impl Profile {
    /// Takes a step in, and names the category if that is new.
    pub fn observe(&mut self, seen: &Observation) -> Option<Category> {
        let (cores, memory) = (seen.cpu_used.cores(), seen.memory_used.as_mebi() / 1024.0);
        // A request runs on one core at a time, or on what of it the limit leaves.
        let fastest = seen.concurrency * seen.scale.limit.cpu.cores().min(1.0);
        if seen.cpu_utilisation() > CALM || seen.oom_kills > 0 || cores <= 0.0 || fastest <= 0.0 {
            return None;
        }
        let vote = |sum: f64, yes: bool| KEPT * sum + f64::from(u8::from(yes));
        self.votes = vote(self.votes, true);
        self.waiting = vote(self.waiting, cores / fastest < COMPUTING);
        self.holding = vote(self.holding, memory / cores > GIBIBYTES);
        self.steps = self.steps.saturating_add(1);
        if self.steps < FIRST {
            return None;
        }
        let category = self.category();
        let Some(named) = self.named else {
            self.named = Some(category);
            return self.named;
        };
        self.rival = match self.rival {
            _ if category == named => None,
            Some((rival, votes)) if rival == category => Some((rival, votes + 1)),
            _ => Some((category, 1)),
        };
        self.rival.filter(|(_, votes)| *votes >= FIRST)?;
        (self.named, self.rival) = (Some(category), None);
        self.named
    }

    /// The category by the rule; what a workload is already needs fewer votes, and others more.
    fn category(&self) -> Category {
        let most = |sum: f64, category| {
            let needed = match self.named {
                None => 0.5,
                Some(named) if named == category => 0.5 - MARGIN,
                Some(_) => 0.5 + MARGIN,
            };
            sum > needed * self.votes
        };
        if most(self.waiting, Category::Io) {
            Category::Io
        } else if most(self.holding, Category::Memory) {
            Category::Memory
        } else {
            Category::Cpu
        }
    }
}
