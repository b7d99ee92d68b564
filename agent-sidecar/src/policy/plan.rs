//! The queue model as a policy: measures what a request costs, and buys as many cores as a miss is worth.
//!
//! It is told nothing about the workload but its objective, and the operator's price for a window that misses it. What
//! requests need is estimated while it runs ([`estimate`]); what may come is somebody else's word ([`super::outlook`]).
//! The scale is then the one whose cost, with the expected price of a miss, is least. Two levers share the work:
//! replicas, which take time to start, are chosen for the highest load of the next minute and given back late; CPU,
//! which is resized in place, is chosen for the next step with the replicas that are ready.

pub mod estimate;
mod memory;

use std::collections::VecDeque;

use meanfield_common::{
    invalid::{Invalid, within},
    observation::Observation,
    resources::{MilliCores, Resources, Scale},
};

use self::{
    estimate::{Estimate, in_force},
    memory::Memory,
};
use super::{
    Decision, Policy, View,
    outlook::{Foresee, Outlook, Spread},
    recent::push,
};
use crate::yardstick::GIB_IN_CORES;

/// Steps for which fewer replicas must have been enough before some are stopped: five minutes of 15 s.
const STABLE: usize = 20;
/// Factors between CPU limits that are compared: to choose one, and to choose how many replicas share one.
const CPU_STEP: f64 = 1.1;
const COARSE_STEP: f64 = CPU_STEP * CPU_STEP;
/// Larger limits are looked at until so many in a row have cost more than the best.
const WORSE: u32 = 3;
/// Below this part of what was asked for a resize counts as deferred.
const DEFERRED: f64 = 0.95;
/// What is left of the usual request after a step in which nodes had no room for it; the least; and how fast it comes back.
const ROOM_LEFT: f64 = 0.7;
const LEAST_ROOM: f64 = 0.3;
const ROOM_BACK: f64 = 1.02;
/// The part of a CPU limit below which less of it is worth a resize.
const ENOUGH: f64 = 0.8;
/// The probability of a miss at the median load from which on a scale is no help.
const HOPELESS: f64 = 0.9;
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
    /// CPU request over limit by the rule that is in force; none before the first step.
    share: Option<f64>,
    /// The part of that request that nodes have room for.
    room: f64,
    memory: Memory,
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
            share: None,
            room: 1.0,
            memory: Memory::default(),
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
        let killed = Memory::too_low(view.seen, scale.limit.memory);
        // What cannot be served at all weighs more than a miss, but one such step must not outweigh all others.
        let miss = self.estimate.miss(&view.target.slo, cores, serving, rate).min(MOST_MISS);
        let gib = scale.limit.memory.as_mebi() / 1024.0;
        f64::from(scale.replicas) * (cores * self.share.unwrap_or(1.0) + GIB_IN_CORES * gib)
            + self.options.price * if killed { miss.max(1.0) } else { miss }
    }

    /// Where a resize is deferred or replicas wait for a node, the reservation may be all that stands in the way: asking
    /// for less of it, under the same limit, gets both through, unless it is memory that is short.
    fn learn_room(&mut self, seen: &Observation) {
        if self.room >= 1.0 || self.share.is_none() {
            self.share = Some((seen.request.cpu.0 as f64 / (seen.scale.limit.cpu.0 as f64).max(1.0)).clamp(0.01, 1.0));
        }
        let deferred = seen.ready > 0 && in_force(seen) < DEFERRED * seen.scale.limit.cpu.cores();
        self.room = if deferred || seen.pending > 0 {
            (ROOM_LEFT * self.room).max(LEAST_ROOM)
        } else {
            (ROOM_BACK * self.room).min(1.0)
        };
    }

    /// Replicas for what comes in the next minute; fewer only when that was enough for a while.
    fn replicas(&mut self, view: &View<'_>, ahead: &Spread) -> u32 {
        let (range, current) = (view.target.bounds.replicas(), view.uncut.replicas);
        let candidates =
            current.saturating_sub(REACH).max(*range.start())..=current.saturating_add(REACH).min(*range.end());
        let (mut best, mut least) = (current, f64::INFINITY);
        for replicas in candidates {
            let (_, cost) = self.cheapest(view, (replicas, replicas), ahead, COARSE_STEP, least);
            if cost < least {
                (best, least) = (replicas, cost);
            }
        }
        push(&mut self.wanted, best, STABLE);
        let lately = self.wanted.iter().copied().max().unwrap_or(best);
        if best > current { best } else { current.min(lately) }
    }

    /// Whether even the largest scale within reach would miss: then something else is slow, and what is there stays until
    /// that is over.
    fn hopeless(&self, view: &View<'_>, next: &Spread) -> bool {
        let bounds = &view.target.bounds;
        let most = view.uncut.replicas.saturating_add(REACH).min(*bounds.replicas().end());
        self.estimate.miss(&view.target.slo, bounds.cpu().end().cores(), f64::from(most), next.0[0]) > HOPELESS
    }

    /// The CPU limit with which so many replicas, of which some serve, cost least, among those a factor apart; and what
    /// they cost. What costs more than `most` is of no interest.
    fn cheapest(
        &self,
        view: &View<'_>,
        (replicas, serving): (u32, u32),
        load: &Spread,
        step: f64,
        most: f64,
    ) -> (MilliCores, f64) {
        let (seen, slo, bounds) = (view.seen, &view.target.slo, &view.target.bounds);
        let reserved = self.share.unwrap_or(1.0);
        let (count, serving) = (f64::from(replicas), f64::from(serving.max(1)));
        let waiting = if seen.seconds > 0.0 { seen.backlog / seen.seconds } else { 0.0 };
        let gib = self.memory.limit(seen).as_mebi() / 1024.0;
        let rates = || load.atoms().map(|(weight, rate)| (weight, rate + waiting));
        let least = bounds.cpu().start().0.max(1);
        let largest = bounds.cpu().end().0.max(least);
        let mut best = (MilliCores(least), f64::INFINITY);
        let (mut cpu, mut worse) = (least as f64, 0);
        loop {
            let at = MilliCores((cpu as u64).min(largest));
            let paid = count * (at.cores() * reserved + GIB_IN_CORES * gib);
            if paid >= best.1.min(most) {
                return best;
            }
            let now = paid + self.options.price * self.estimate.misses(slo, at.cores(), serving, rates());
            if now < best.1 {
                (best, worse) = ((at, now), 0);
            } else {
                worse += 1;
            }
            // While everything misses, cost only grows for a while: that is no reason to stop.
            if at.0 >= largest || (worse >= WORSE && best.1 < 0.5 * self.options.price) {
                return best;
            }
            cpu *= step;
        }
    }
}

impl<F: Foresee> Policy for Plan<F> {
    fn name(&self) -> &'static str {
        self.foresee.name()
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let seen = view.seen;
        self.estimate.learn(seen, &view.target.slo);
        // What is asked for while paused is not carried out, so what nodes do is no answer to it.
        if !view.paused {
            self.learn_room(seen);
        }
        self.memory.learn(seen);
        let outlook = self.foresee.outlook(seen.arrival_rate, seen.seconds);
        let Outlook { next, ahead } = *self.outlook.insert(outlook);
        if self.estimate.cpu().is_none() {
            // Nothing is known about requests yet: what the operator started with stays.
            return Ok(Decision::wish(view.target.bounds.clamp(&view.uncut)));
        }
        let wanted = self.replicas(view, &ahead);
        // Replicas that start in this step serve in the one after; those that are stopped serve no more.
        let serving = seen.ready.min(wanted).max(1);
        let (cpu, _) = self.cheapest(view, (wanted, serving), &next, CPU_STEP, f64::INFINITY);
        let memory = self.memory.limit(seen);
        // Whoever stays must be large enough before anybody goes: a resize takes longer than stopping.
        let Scale { limit, replicas: current } = view.uncut;
        let hopeless = self.hopeless(view, &next);
        let cpu = if hopeless { cpu.max(limit.cpu) } else { cpu };
        // A little less is not worth a resize.
        let little = (ENOUGH * limit.cpu.0 as f64) as u64..=limit.cpu.0;
        let cpu = if little.contains(&cpu.0) { limit.cpu } else { cpu };
        let stays = hopeless || cpu > limit.cpu || memory > limit.memory;
        let replicas = if stays { wanted.max(current) } else { wanted };
        let scale = view.target.bounds.clamp(&Scale { replicas, limit: Resources { cpu, memory } });
        let request = self
            .share
            .filter(|_| self.room < 1.0)
            .map(|share| MilliCores((scale.limit.cpu.0 as f64 * share * self.room).ceil() as u64));
        Ok(Decision { request, ..Decision::wish(scale) })
    }

    fn reset(&mut self) {
        self.foresee.reset();
        self.estimate = Estimate::default();
        self.wanted.clear();
        (self.share, self.room) = (None, 1.0);
        self.memory = Memory::default();
        self.outlook = None;
    }
}
