//! Two wishes for the same step, scored afterwards with the load that really came: whoever is cheaper has earned it.
//!
//! Only one of them was carried out, so what the other would have brought is the queue model's word: what it reserves,
//! and the price of a miss times its probability at the rate that came. Arrivals do not depend on who acts, so the
//! comparison is paired: what neither could foresee costs both the same. The model may be too anxious or too bold, which
//! would favour whoever buys too much or too little; so its probabilities count as many times as misses really came for
//! each that it expected of what was there.

use std::collections::VecDeque;

use meanfield_common::resources::Scale;

use super::{Base, View};
use crate::policy::outlook::NEAR;

/// How much of the rolling scores the newest step is: about half an hour of 15 s.
const FOLLOW: f64 = 0.01;
/// What is left of a step's evidence on misses after another one: about six hours of 15 s, since misses are rare.
const FADE: f64 = 0.9995;
/// Misses that are taken to have been expected and to have come before anything was seen.
const BELIEVED: f64 = 1.0;
/// Wishes that are not scored, while the base gets to know its workload.
const SETTLING: u32 = 20;
/// Wishes that must have been scored before anybody but the base may act.
const LEAST: u32 = 40;
/// The part of the cost by which the correction must be cheaper.
const MARGIN: f64 = 0.02;

/// What a wish costs in a step, in cores.
#[derive(Debug, Clone, Copy, Default)]
struct Cost {
    reserved: f64,
    /// By the model's word.
    misses: f64,
}

/// Wishes that wait for what comes.
#[derive(Debug, Clone, Copy)]
struct Pending {
    /// The base's, and the corrected one.
    wishes: [Scale; 2],
    /// Replicas that were ready, and requests a second that waited.
    ready: u32,
    waiting: f64,
    costs: [Cost; 2],
    age: usize,
}

/// The rolling evaluation.
#[derive(Debug, Clone)]
pub struct Shadow {
    pending: VecDeque<Pending>,
    costs: [Cost; 2],
    scored: u32,
    skipped: u32,
    /// Misses that the model expected of what was there, and that came.
    expected: f64,
    came: f64,
}

impl Default for Shadow {
    fn default() -> Self {
        let (pending, costs) = (VecDeque::new(), [Cost::default(); 2]);
        Self { pending, costs, scored: 0, skipped: 0, expected: BELIEVED, came: BELIEVED }
    }
}

impl Shadow {
    /// What a step costs with the base's wishes and with the corrected ones, in cores, averaged over the recent past.
    #[must_use]
    pub fn scores(&self) -> [f64; 2] {
        self.costs.map(|cost| cost.reserved + self.borne_out() * cost.misses)
    }

    /// Misses that came for each that the model expected.
    #[must_use]
    pub fn borne_out(&self) -> f64 {
        self.came / self.expected
    }

    /// Whether the correction has earned to act.
    #[must_use]
    pub fn acts(&self) -> bool {
        let [base, corrected] = self.scores();
        self.scored >= LEAST && corrected < (1.0 - MARGIN) * base
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
                // Without requests there are no misses, unless memory was too little: that was seen, not predicted.
                let reserved = base.cost(view, wish, serving, 0.0);
                cost.reserved += reserved / NEAR as f64;
                cost.misses += (base.cost(view, wish, serving, rate) - reserved).max(0.0) / NEAR as f64;
            }
        }
        if self.skipped >= SETTLING {
            let waited = self.pending.back().map_or(0.0, |newest| newest.waiting);
            let likely = base.miss(view, &seen.scale, seen.ready, seen.arrival_rate + waited);
            let missed = f64::from(u8::from(view.target.slo.violated(seen)));
            self.expected = BELIEVED + FADE * (self.expected - BELIEVED) + likely.clamp(0.0, 1.0);
            self.came = BELIEVED + FADE * (self.came - BELIEVED) + missed;
        }
        while let Some(done) = self.pending.pop_front_if(|oldest| oldest.age >= NEAR) {
            if self.skipped < SETTLING {
                self.skipped += 1;
                continue;
            }
            self.scored = self.scored.saturating_add(1);
            let share = FOLLOW.max(1.0 / f64::from(self.scored));
            for (mean, cost) in self.costs.iter_mut().zip(done.costs) {
                mean.reserved += share * (cost.reserved - mean.reserved);
                mean.misses += share * (cost.misses - mean.misses);
            }
        }
        if !view.paused {
            let waiting = if seen.seconds > 0.0 { seen.backlog / seen.seconds } else { 0.0 };
            let costs = [Cost::default(); 2];
            self.pending.push_back(Pending { wishes, ready: seen.ready, waiting, costs, age: 0 });
        }
    }
}
