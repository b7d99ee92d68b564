//! Whose turn it is where agents act one at a time (CPQ-RL).
//!
//! A queue goes through all agents before anybody has a second turn, and takes whoever keeps its SLO worst first.

use std::collections::BTreeSet;

use meanfield_learner::Turns;

use crate::{
    Error,
    fleet::{Fleet, Step},
    link::Link,
    policy::ppo::Ppo,
};

/// Who has had its turn in this pass.
#[derive(Debug, Clone, Default)]
pub struct Queue {
    served: BTreeSet<usize>,
}

impl Queue {
    /// The place that may act next, among places with their SLO preservation.
    pub fn next(&mut self, agents: &[(usize, f64)]) -> Option<usize> {
        let waiting = |served: &BTreeSet<usize>| {
            let waiting = agents.iter().filter(|(place, _)| !served.contains(place));
            waiting.min_by(|a, b| a.1.total_cmp(&b.1).then(a.0.cmp(&b.0))).map(|(place, _)| *place)
        };
        let next = waiting(&self.served).or_else(|| {
            self.served.clear();
            waiting(&self.served)
        });
        self.served.extend(next);
        next
    }
}

/// Rounds of a fleet, with turns where there are any.
#[derive(Debug, Clone)]
pub struct Rounds {
    turns: Turns,
    queue: Queue,
    /// How each agent kept its SLO in the round before.
    keeping: Vec<(usize, f64)>,
}

impl Rounds {
    /// The rounds of a new episode.
    #[must_use]
    pub fn new(turns: Turns) -> Self {
        Self { turns, queue: Queue::default(), keeping: Vec::new() }
    }

    /// One round, one agent after the other.
    pub async fn next<L: Link>(&mut self, fleet: &mut Fleet<L, Ppo>) -> Result<Vec<Step>, Error> {
        if self.turns == Turns::One {
            if self.keeping.is_empty() {
                self.keeping = fleet.agents_mut().map(|(place, _)| (place, 1.0)).collect();
            }
            let acting = self.queue.next(&self.keeping);
            fleet.agents_mut().for_each(|(place, agent)| agent.policy_mut().hold(Some(place) != acting));
        }
        let steps = fleet.round_in_turn().await?;
        let keeping = |step: &Step| (step.place, step.report.excess.map_or(1.0, |excess| 1.0 / excess.max(1.0)));
        self.keeping = steps.iter().map(keeping).collect();
        Ok(steps)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn everybody_has_a_turn_and_the_worst_goes_first() {
        let mut queue = Queue::default();
        let mut agents = vec![(0, 1.0), (1, 0.5), (2, 1.0), (3, 0.2)];
        assert_eq!(queue.next(&agents), Some(3));
        assert_eq!(queue.next(&agents), Some(1), "3 has had its turn, however badly it does");
        agents[2].1 = 0.9;
        assert_eq!([queue.next(&agents), queue.next(&agents)], [Some(2), Some(0)]);
        assert_eq!(queue.next(&agents), Some(3), "a new pass");
        assert_eq!(queue.next(&[(7, 1.0)]), Some(7), "who joins is served");
        assert_eq!(Queue::default().next(&[]), None);
    }
}
