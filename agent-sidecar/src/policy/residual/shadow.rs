//! Two wishes for the same step, scored afterwards with the load that really came: whoever is cheaper has earned it.
//!
//! Only one of them was carried out, so what the other would have brought is the queue model's word: what it reserves,
//! and the price of a miss times its probability at the rate that came. Arrivals do not depend on who acts, so the
//! comparison is paired: what neither could foresee costs both the same.

use std::collections::VecDeque;

use meanfield_common::resources::Scale;

use super::{Base, View};
use crate::policy::outlook::NEAR;

/// How much of the rolling scores the newest step is: about half an hour of 15 s.
const FOLLOW: f64 = 0.01;
/// Wishes that are not scored, while the base gets to know its workload.
const SETTLING: u32 = 20;
/// Wishes that must have been scored before anybody but the base may act.
const LEAST: u32 = 40;
/// The part of the cost by which the correction must be cheaper.
const MARGIN: f64 = 0.02;

/// Wishes that wait for what comes.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// The base's, and the corrected one.
    wishes: [Scale; 2],
    /// Replicas that were ready, and requests a second that waited.
    ready: u32,
    waiting: f64,
    costs: [f64; 2],
    age: usize,
}

/// The rolling evaluation.
#[derive(Debug, Clone, Default)]
pub struct Shadow {
    pending: VecDeque<Pending>,
    scores: [f64; 2],
    scored: u32,
    skipped: u32,
}

impl Shadow {
    /// What a step costs with the base's wishes and with the corrected ones, in cores, averaged over the recent past.
    #[must_use]
    pub fn scores(&self) -> [f64; 2] {
        self.scores
    }

    /// Whether the correction has earned to act.
    #[must_use]
    pub fn acts(&self) -> bool {
        self.scored >= LEAST && self.scores[1] < (1.0 - MARGIN) * self.scores[0]
    }

    /// Scores older wishes with the step in view, and takes in what both wish now.
    pub fn step(&mut self, base: &dyn Base, view: &View<'_>, wishes: [Scale; 2]) {
        let seen = view.seen;
        for pending in &mut self.pending {
            pending.age += 1;
            // Replicas that start serve in the step after; what waited is served in the first one.
            let first = pending.age == 1;
            let rate = seen.arrival_rate + if first { pending.waiting } else { 0.0 };
            for (cost, wish) in pending.costs.iter_mut().zip(&pending.wishes) {
                let serving = if first { wish.replicas.min(pending.ready) } else { wish.replicas };
                *cost += base.cost(view, wish, serving, rate) / NEAR as f64;
            }
        }
        while let Some(done) = self.pending.pop_front_if(|oldest| oldest.age >= NEAR) {
            if self.skipped < SETTLING {
                self.skipped += 1;
                continue;
            }
            self.scored = self.scored.saturating_add(1);
            let share = FOLLOW.max(1.0 / f64::from(self.scored));
            for (score, cost) in self.scores.iter_mut().zip(done.costs) {
                *score += share * (cost - *score);
            }
        }
        if !view.paused {
            let waiting = if seen.seconds > 0.0 { seen.backlog / seen.seconds } else { 0.0 };
            self.pending.push_back(Pending { wishes, ready: seen.ready, waiting, costs: [0.0; 2], age: 0 });
        }
    }
}
