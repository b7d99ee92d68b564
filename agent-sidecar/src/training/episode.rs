//! One episode of a fleet on a fresh cluster.

use meanfield_common::scarcity::Weight;
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
    /// Whether the team's reward is a mean by priority.
    pub weighted: bool,
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

/// The mean of rewards by the weights of those who earned them; 0 over nobody.
fn by_priority(earned: impl Iterator<Item = (Weight, f64)>) -> f64 {
    let (mut sum, mut weights) = (0.0, 0.0);
    for (weight, reward) in earned {
        sum += weight.get() * reward;
        weights += weight.get();
    }
    if weights > 0.0 { sum / weights } else { 0.0 }
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
                if self.weighted {
                    let earned = taken.iter().map(|one| (scenario.weight(one.place), one.report.reward));
                    let team = by_priority(earned);
                    fleet.agents_mut().for_each(|(_, agent)| agent.policy_mut().credit(team));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_team_s_reward_by_priority_is_that_by_hand() {
        let weight = |weight: f64| Weight::try_from(weight).unwrap();
        let earned = [(weight(1.0), 0.5), (weight(3.0), -0.5), (weight(0.5), 2.0)];
        // (0.5 - 1.5 + 1.0) / 4.5 and (0.5 - 1.5) / 4; the plain means are 2 / 3 and 0.
        assert_eq!(by_priority(earned.into_iter()), 0.0);
        assert_eq!(by_priority(earned.into_iter().take(2)), -0.25);
        assert_eq!(by_priority([].into_iter()), 0.0);
    }
}
