//! One episode of a fleet on a fresh cluster.

use meanfield_learner::Turns;
use meanfield_simulator::scenario::{Scenario, Start};

use crate::{Error, fleet::Fleet, link::Link, policy::ppo::Ppo, turns::Rounds};

/// How an episode goes.
#[derive(Debug, Clone, Copy)]
pub(super) struct Course {
    pub horizon: usize,
    /// After how many rounds in a row in which at least half of the agents miss their SLO it ends early.
    pub patience: Option<usize>,
    pub turns: Turns,
}

/// Sums over the steps of an episode.
#[derive(Default, Clone, Copy)]
pub(super) struct Tally {
    pub reward: f64,
    pub violations: f64,
    pub cores: f64,
    pub steps: f64,
    pub rounds: f64,
}

impl Course {
    pub fn episode<L: Link>(&self, fleet: &mut Fleet<L, Ppo>, scenario: &Scenario, seed: u64) -> Result<Tally, Error> {
        fleet.reset(scenario, seed, Start::Random)?;
        let (mut tally, mut rounds, mut trouble) = (Tally::default(), Rounds::new(self.turns), 0);
        // Simulated agents never wait for anything, so each future is ready at its first poll.
        futures_executor::block_on(async {
            for step in 0..=self.horizon {
                let taken = rounds.next(fleet).await?;
                // The first observation is not the doing of this episode's actions.
                if step == 0 {
                    continue;
                }
                tally.rounds += 1.0;
                let before = tally.violations;
                for one in &taken {
                    tally.reward += one.report.reward;
                    tally.violations += f64::from(u8::from(one.report.violated));
                    tally.cores += one.outcome.cores;
                    tally.steps += 1.0;
                }
                let many = 2.0 * (tally.violations - before) >= taken.len() as f64;
                trouble = if many { trouble + 1 } else { 0 };
                if self.patience.is_some_and(|patience| trouble >= patience) {
                    break;
                }
            }
            Ok(tally)
        })
    }
}
