//! The queue model as a policy: measures what a request costs, and buys as many cores as a miss is worth.
//!
//! It is told nothing about the workload but its objective, and the operator's price for a window that misses it. What
//! requests need is estimated while it runs ([`estimate`]); what may come is somebody else's word ([`super::outlook`]).
//! The scale is then the one whose cost, with the expected price of a miss, is least. Two levers share the work:
//! replicas, which take time to start, are chosen for the highest load of the next minute and given back late; CPU,
//! which is resized in place, is chosen for the next step with the replicas that are ready.

pub mod estimate;

use std::collections::VecDeque;

use meanfield_common::{
    invalid::{Invalid, within},
    observation::Observation,
    resources::{Bytes, MilliCores, Resources, Scale},
};

use self::estimate::{Estimate, in_force};
use super::{
    Decision, Policy, View,
    outlook::{Foresee, Outlook, Spread},
    recent::{memory_peak, push},
};
use crate::yardstick::GIB_IN_CORES;

/// Steps for which fewer replicas must have been enough before some are stopped: five minutes of 15 s.
const STABLE: usize = 20;
/// What is left of a memory peak after a step: half of it after a day of 15 s.
const MEMORY_FADE: f64 = 0.999_88;
/// Room above the memory peak, and growth after a kill.
const MEMORY_MARGIN: f64 = 1.25;
const OOM_BUMP: f64 = 1.4;
/// The part of a limit below which less of it is worth a resize.
const ENOUGH: f64 = 0.9;
/// Factor between CPU limits that are compared.
const CPU_STEP: f64 = 1.1;
/// Larger limits are looked at until so many in a row have cost more than the best.
const WORSE: u32 = 3;
/// Below this part of what was asked for a resize counts as deferred; that a node is full is forgotten in minutes.
const DEFERRED: f64 = 0.95;
const ROOF_FADE: f64 = 1.05;
/// Replicas that one decision may add or take away.
const REACH: u32 = 4;

/// What a window that misses the objective costs unless the operator says otherwise, in cores for that window.
pub const PRICE: f64 = 100.0;

/// The most misses that a step counts for afterwards.
const MOST_MISS: f64 = 2.0;

/// The operator's settings.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// What a window that misses the objective costs, in cores reserved for that window.
    pub price: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self { price: PRICE }
    }
}

/// The policy.
#[derive(Debug, Clone)]
pub struct Plan<F> {
    options: Options,
    foresee: F,
    estimate: Estimate,
    wanted: VecDeque<u32>,
    /// Cores that a replica can have where it is, while its node has no room for more.
    roof: f64,
    /// The highest memory that a replica was seen to need, fading slowly.
    memory: f64,
    /// What was expected when it last decided.
    outlook: Option<Outlook>,
}

impl<F: Foresee> Plan<F> {
    /// Plans with somebody's outlook.
    pub fn new(options: Options, foresee: F) -> Result<Self, Invalid> {
        within("plan.price", options.price, 0.0, 1e9)?;
        Ok(Self {
            options,
            foresee,
            estimate: Estimate::default(),
            wanted: VecDeque::new(),
            roof: f64::INFINITY,
            memory: 0.0,
            outlook: None,
        })
    }

    /// What it knows about requests.
    #[must_use]
    pub fn estimate(&self) -> &Estimate {
        &self.estimate
    }

    /// What it expected when it last decided; none before.
    #[must_use]
    pub fn outlook(&self) -> Option<&Outlook> {
        self.outlook.as_ref()
    }

    /// What a step costs with a scale of which so many replicas serve, at a rate, in cores: what is reserved, and the
    /// price of a miss as likely as the model says. Memory below what the step in view needed is a sure miss.
    #[must_use]
    pub fn cost(&self, view: &View<'_>, scale: &Scale, serving: u32, rate: f64) -> f64 {
        let (cores, serving) = (scale.limit.cpu.cores(), f64::from(serving.max(1)));
        let killed = memory_peak(view.seen, OOM_BUMP).is_some_and(|needed| needed > scale.limit.memory.0);
        // What cannot be served at all weighs more than a miss, but one such step must not outweigh all others.
        let miss = self.estimate.miss(&view.target.slo, cores, serving, rate).min(MOST_MISS);
        let gib = scale.limit.memory.as_mebi() / 1024.0;
        f64::from(scale.replicas) * (cores * reserved(view.seen) + GIB_IN_CORES * gib)
            + self.options.price * if killed { miss.max(1.0) } else { miss }
    }

    fn memory(&mut self, seen: &Observation) -> Bytes {
        self.memory *= MEMORY_FADE;
        if let Some(peak) = memory_peak(seen, OOM_BUMP) {
            self.memory = self.memory.max(peak as f64);
        }
        if self.memory <= 0.0 {
            return seen.scale.limit.memory;
        }
        let wanted = (self.memory * MEMORY_MARGIN) as u64;
        let held = seen.scale.limit.memory.0;
        // A little less is not worth a resize.
        Bytes(if (held as f64 * ENOUGH..=held as f64).contains(&(wanted as f64)) { held } else { wanted })
    }

    /// A resize that is not in force by now waits for room on its node: replicas elsewhere are the way to more.
    fn learn_roof(&mut self, seen: &Observation) {
        self.roof *= ROOF_FADE;
        let had = in_force(seen);
        if seen.ready > 0 && had > 0.0 && had < DEFERRED * seen.scale.limit.cpu.cores() {
            self.roof = had;
        }
    }

    /// Replicas for what comes in the next minute; fewer only when that was enough for a while.
    fn replicas(&mut self, view: &View<'_>, ahead: &Spread, memory: Bytes) -> u32 {
        let (seen, range) = (view.seen, view.target.bounds.replicas());
        let current = seen.scale.replicas;
        let candidates = current.saturating_sub(REACH).max(*range.start())..=(current + REACH).min(*range.end());
        let cost = |replicas: u32| self.cheapest(view, replicas, replicas, ahead, memory).1;
        let best = candidates.map(|replicas| (replicas, cost(replicas))).min_by(|a, b| a.1.total_cmp(&b.1));
        let best = best.map_or(current, |(replicas, _)| replicas);
        push(&mut self.wanted, best, STABLE);
        let lately = self.wanted.iter().copied().max().unwrap_or(best);
        if best > current { best } else { current.min(lately) }
    }

    /// The CPU limit with which so many replicas, of which some serve, cost least; and what they cost.
    fn cheapest(
        &self,
        view: &View<'_>,
        replicas: u32,
        serving: u32,
        load: &Spread,
        memory: Bytes,
    ) -> (MilliCores, f64) {
        let (seen, slo, bounds) = (view.seen, &view.target.slo, &view.target.bounds);
        let reserved = reserved(seen);
        let (count, serving) = (f64::from(replicas), f64::from(serving.max(1)));
        let waiting = if seen.seconds > 0.0 { seen.backlog / seen.seconds } else { 0.0 };
        let gib = memory.as_mebi() / 1024.0;
        let cost = |cpu: MilliCores| {
            let cores = cpu.cores();
            let miss = |(weight, rate): (f64, f64)| weight * self.estimate.miss(slo, cores, serving, rate + waiting);
            let misses: f64 = load.atoms().map(miss).sum();
            count * (cores * reserved + GIB_IN_CORES * gib) + self.options.price * misses
        };
        let least = bounds.cpu().start().0.max(1);
        let most = ((1000.0 * self.roof) as u64).clamp(least, bounds.cpu().end().0.max(least));
        let mut best = (MilliCores(least), f64::INFINITY);
        let (mut cpu, mut worse) = (least as f64, 0);
        loop {
            let at = MilliCores((cpu as u64).min(most));
            let now = cost(at);
            if now < best.1 {
                (best, worse) = ((at, now), 0);
            } else {
                worse += 1;
            }
            // While everything misses, cost only grows for a while: that is no reason to stop.
            if at.0 >= most || (worse >= WORSE && best.1 < 0.5 * self.options.price) {
                return best;
            }
            cpu *= CPU_STEP;
        }
    }
}

/// What is reserved of a limit, by the rule that is in force.
fn reserved(seen: &Observation) -> f64 {
    (seen.request.cpu.0 as f64 / (seen.scale.limit.cpu.0 as f64).max(1.0)).clamp(0.01, 1.0)
}

impl<F: Foresee> Policy for Plan<F> {
    fn name(&self) -> &'static str {
        self.foresee.name()
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let seen = view.seen;
        self.estimate.learn(seen, &view.target.slo);
        self.learn_roof(seen);
        let memory = self.memory(seen);
        let outlook = self.foresee.outlook(seen.arrival_rate, seen.seconds);
        let Outlook { next, ahead } = *self.outlook.insert(outlook);
        if self.estimate.cpu().is_none() {
            // Nothing is known about requests yet: what the operator started with stays.
            return Ok(Decision::wish(view.target.bounds.clamp(&seen.scale)));
        }
        let wanted = self.replicas(view, &ahead, memory);
        // Replicas that start in this step serve in the one after; those that are stopped serve no more.
        let serving = seen.ready.min(wanted).max(1);
        let (cpu, _) = self.cheapest(view, wanted, serving, &next, memory);
        // Whoever stays must be large enough before anybody goes: a resize takes longer than stopping.
        let (limit, current) = (seen.scale.limit.cpu, seen.scale.replicas);
        let replicas = if cpu > limit { wanted.max(current) } else { wanted };
        Ok(Decision::wish(view.target.bounds.clamp(&Scale { replicas, limit: Resources { cpu, memory } })))
    }

    fn reset(&mut self) {
        self.foresee.reset();
        self.estimate = Estimate::default();
        self.wanted.clear();
        self.roof = f64::INFINITY;
        self.memory = 0.0;
        self.outlook = None;
    }
}
