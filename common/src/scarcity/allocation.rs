//! Who yields: comfort first, and then the least valuable need.
//!
//! Most of a claim is the work itself and a little room above it, the bare need; the rest is comfort. When claims do
//! not fit but bare needs do, everybody's comfort shrinks in proportion. When those do not fit either, sharing helps
//! nobody: an objective is a step, and a workload that gets four fifths of its bare need misses it like one that gets half. So
//! needs are served whole, those first that are worth most per core, and the others yield all but a small floor. What
//! is then left is comfort for those who are served, and for the requests of the others, the most valuable first.
//!
//! Needs are integers, sums over them are exact, and ties are broken by name: the result does not depend on the order
//! of the slots, nor on how they came to be.

use std::cmp::Ordering;

use super::{Capacity, Claim, Cores, Gibibytes, Grant, Headroom};
use crate::{
    fixed::{Fixed, sum_to_f64},
    identity::AgentName,
};

/// A claim counts up to so many times the offered work, and a little more for those with hardly any. What is wanted
/// beyond is comfort, which nobody else is cut for.
pub const EVIDENCE: f64 = 1.5;
/// What may be claimed beyond [`EVIDENCE`]: cores, and gibibytes.
pub const EVIDENCE_FLOOR: [f64; 2] = [1.0, 4.0];
/// Gibibytes that may be claimed for each core of offered work.
pub const EVIDENCE_MEMORY: f64 = 24.0;
/// The bare need of CPU: so many times the offered work, and so many cores for those with hardly any.
pub const BARE: f64 = 1.2;
/// See [`BARE`].
pub const BARE_FLOOR: f64 = 0.3;
/// What nobody is cut below, in cores and gibibytes: enough for one small replica.
pub const FLOOR: [f64; 2] = [0.25, 0.25];
/// How much more work than before one who yields may bring, so that what waits does not keep it out for ever.
const MOST_MORE: f64 = 1.25;
/// How much larger the need of one who yields already counts, so that nobody takes turns every round.
pub const STAY: f64 = 1.25;
/// How far the price moves in a step, for every multiple of the capacity that is asked for too much.
const ASCENT: f64 = 0.5;
/// How much lower the price must be before one who yields to it asks again.
const RETURN: f64 = 0.8;
/// What is left of the price after a step in which everybody's need fits.
const EASE: f64 = 0.5;
/// The highest price.
const HIGHEST_PRICE: f64 = 1e6;

/// What one agent is taken to need: its claim within the evidence, as exact numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Cores and memory: the claim, and what of it counts.
    asked: [i64; 2],
    wanted: [i64; 2],
    /// What of that is no comfort; memory never is.
    bare: [i64; 2],
    held: [i64; 2],
    offered: i64,
    weight: i64,
    pending: u32,
    nodes: i64,
    /// Whether the claim was above the evidence.
    pub capped: bool,
}

impl From<&Claim> for Need {
    fn from(claim: &Claim) -> Self {
        let offered = claim.offered.get();
        let fixed = |value: f64| Fixed::nearest(value).raw();
        let most =
            [fixed(EVIDENCE * offered + EVIDENCE_FLOOR[0]), fixed(EVIDENCE_MEMORY * offered + EVIDENCE_FLOOR[1])];
        let asked = [claim.wanted.cores.fixed(), claim.wanted.memory_gib.fixed()];
        let held = [claim.held.cores.fixed(), claim.held.memory_gib.fixed()];
        // Whoever asks for less than its work needs at least that.
        let wanted = [asked[0].min(most[0]).max(claim.offered.fixed()), asked[1].min(most[1])];
        Self {
            asked,
            wanted,
            bare: [wanted[0].min(fixed(BARE * offered + BARE_FLOOR)), wanted[1]],
            held,
            offered: claim.offered.fixed(),
            weight: claim.weight.fixed(),
            pending: claim.pending.get(),
            nodes: claim.node_utilisation.fixed(),
            capped: (0..2).any(|which| asked[which] > most[which]),
        }
    }
}

/// What a pool remembers of one agent.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The agent's name, which breaks ties.
    pub name: AgentName,
    /// Its need, once it has claimed anything.
    pub need: Option<Need>,
    /// Its cap, if it has one.
    pub grant: Option<Grant>,
    cut: Option<Cut>,
    /// Whether the price is above what it is worth.
    yields: bool,
    /// Scratch: what it would take in this allocation, what of that it needs, and what it gets.
    takes: [i64; 2],
    asks: [i64; 2],
    gets: [i64; 2],
    /// Scratch: worth over need.
    worth: f64,
}

/// What an agent needed when it began to yield, and for how much work.
#[derive(Debug, Clone, Copy)]
struct Cut {
    bare: [i64; 2],
    offered: i64,
}

impl Slot {
    /// The slot of an agent that has claimed nothing yet.
    #[must_use]
    pub fn new(name: AgentName) -> Self {
        Self {
            name,
            need: None,
            grant: None,
            cut: None,
            yields: false,
            takes: [0; 2],
            asks: [0; 2],
            gets: [0; 2],
            worth: 0.0,
        }
    }

    /// Forgets that it had to yield.
    pub fn relieve(&mut self) {
        (self.grant, self.cut, self.yields) = (None, None, false);
    }

    /// What it needs. Once cut, an agent that moves in steps from where it is claims less, and one that takes its misses
    /// to heart claims more; so what it needed for its work before counts, in proportion to the work that is there now.
    /// Memory goes with replicas, not with work: there the larger of then and now counts.
    fn asks(&self, need: &Need) -> [i64; 2] {
        let Some(cut) = self.cut.filter(|cut| cut.offered > 0) else { return need.bare };
        let left = (need.offered as f64 / cut.offered as f64).min(MOST_MORE);
        [(cut.bare[0] as f64 * left) as i64, cut.bare[1].max(need.bare[1])]
    }

    /// What it would take: what it claims, needs, or has. Whoever claims less than it holds still holds it.
    fn takes(&self, need: &Need) -> [i64; 2] {
        [0, 1].map(|which| need.wanted[which].max(self.asks[which]).max(need.held[which]))
    }

    /// Whether it gets all of what it needs of what is scarce.
    fn is_whole(&self, scarce: [bool; 2]) -> bool {
        (0..2).all(|which| !scarce[which] || self.gets[which] >= self.asks[which])
    }

    /// Its cap, where it yields, or claims or holds more than it gets of what is scarce.
    fn cap(&self, scarce: [bool; 2]) -> Option<Grant> {
        let need = self.need?;
        let more = |which: usize| self.gets[which] < need.asked[which].max(need.held[which]);
        let over = |which: usize| scarce[which] && (self.cut.is_some() || more(which));
        let granted = |which: usize| over(which).then(|| amount(self.gets[which]));
        let grant = Grant { cores: granted(0).map(Cores::clamped), memory_gib: granted(1).map(Gibibytes::clamped) };
        (over(0) || over(1)).then_some(grant)
    }
}

/// The state of a pool's scarcity, computed anew with each allocation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// How much room is left.
    pub headroom: Headroom,
    /// What a core is worth.
    pub price: f64,
    /// How many have a cap.
    pub grants: u64,
    /// How many claims count less than they say.
    pub capped: u64,
}

/// Allocates a pool: fills in every slot's grant. `order` is scratch space and must hold as many as there are slots
/// without growing where nothing may be allocated; `steps` is how much time has passed, in steps of an agent.
#[must_use]
pub fn allocate(
    capacity: &Capacity,
    slots: &mut [Slot],
    order: &mut Vec<usize>,
    before: Outcome,
    steps: f64,
) -> Outcome {
    let size = [capacity.cores.fixed(), capacity.memory_gib.fixed()];
    let totals = Totals::of(slots);
    order.clear();
    for (index, slot) in slots.iter_mut().enumerate() {
        if let Some(need) = slot.need {
            slot.asks = slot.asks(&need);
            slot.takes = slot.takes(&need);
            order.push(index);
        }
        slot.grant = None;
    }
    let taken = order
        .iter()
        .fold([0_i128; 2], |sum, &index| [0, 1].map(|which| sum[which] + i128::from(slots[index].takes[which])));
    let scarce = [0, 1].map(|which| taken[which] > i128::from(size[which]));
    if scarce == [false; 2] {
        slots.iter_mut().for_each(|slot| slot.cut = None);
    } else {
        rank(size, scarce, slots, order);
        let left = fill(size, scarce, slots, order);
        share(left, scarce, slots, order);
    }
    Outcome {
        headroom: totals.headroom(size),
        price: ascend(before.price, size[0], slots, steps),
        grants: slots.iter().filter(|slot| slot.grant.is_some()).count() as u64,
        capped: slots.iter().filter(|slot| slot.need.is_some_and(|need| need.capped)).count() as u64,
    }
}

/// Puts the most valuable need first: weight over the share of what is scarce.
fn rank(size: [i64; 2], scarce: [bool; 2], slots: &mut [Slot], order: &mut [usize]) {
    for &index in order.iter() {
        let slot = &mut slots[index];
        let share = |which: usize| if scarce[which] { slot.asks[which] as f64 / size[which] as f64 } else { 0.0 };
        let stay = if slot.cut.is_some() { STAY } else { 1.0 };
        let weight = slot.need.map_or(0.0, |need| amount(need.weight));
        // One who needs nothing comes first.
        slot.worth = weight / (stay * share(0).max(share(1))).max(f64::MIN_POSITIVE);
    }
    order.sort_unstable_by(|&a, &b| match slots[b].worth.total_cmp(&slots[a].worth) {
        Ordering::Equal => slots[a].name.cmp(&slots[b].name),
        other => other,
    });
}

/// Serves needs whole while they fit, in order, and leaves the others a floor. Returns what remains.
fn fill(size: [i64; 2], scarce: [bool; 2], slots: &mut [Slot], order: &[usize]) -> [i64; 2] {
    let floor = FLOOR.map(|amount| Fixed::nearest(amount).raw());
    let mut left = size;
    for &index in order {
        let slot = &mut slots[index];
        slot.gets = [0, 1].map(|which| slot.asks[which].min(floor[which]));
        left = [0, 1].map(|which| left[which] - slot.gets[which]);
    }
    for &index in order {
        let slot = &mut slots[index];
        let more = [0, 1].map(|which| slot.asks[which] - slot.gets[which]);
        if (0..2).all(|which| !scarce[which] || more[which] <= left[which].max(0)) {
            left = [0, 1].map(|which| left[which] - more[which]);
            slot.gets = slot.asks;
        }
    }
    left
}

/// Gives away what remains: to those who are served as comfort, in proportion; then to the others, in order. Everybody
/// who would take more than it gets is capped there.
fn share(left: [i64; 2], scarce: [bool; 2], slots: &mut [Slot], order: &[usize]) {
    let comfort = |slot: &Slot| match slot.need {
        Some(need) if scarce[0] && slot.is_whole(scarce) => (need.wanted[0] - slot.gets[0]).max(0),
        _ => 0,
    };
    let mut left = left.map(|amount| amount.max(0));
    let all: i128 = order.iter().map(|&index| i128::from(comfort(&slots[index]))).sum();
    let spare = i128::from(left[0]);
    for &index in order {
        let slot = &mut slots[index];
        let Some(need) = slot.need else { continue };
        if slot.is_whole(scarce) {
            // The whole of it, or its part of what there is; rounded down, so that all parts together fit.
            let part = match comfort(slot) {
                whole if all <= spare => whole,
                // No more than it was, so it still fits.
                whole => (i128::from(whole) * spare / all) as i64,
            };
            slot.gets[0] += part;
            left[0] -= part;
            slot.cut = None;
        } else {
            slot.cut.get_or_insert(Cut { bare: need.bare, offered: need.offered });
        }
    }
    for &index in order {
        let slot = &mut slots[index];
        for which in (0..2).filter(|which| scarce[*which]) {
            let rest = (slot.asks[which] - slot.gets[which]).clamp(0, left[which]);
            slot.gets[which] += rest;
            left[which] -= rest;
        }
        slot.grant = slot.cap(scarce);
    }
}

/// One raw number as a float.
fn amount(raw: i64) -> f64 {
    sum_to_f64(raw.into())
}

/// One step of dual ascent: the price of a core rises while those who would pay it ask for more than there is.
fn ascend(before: f64, size: i64, slots: &mut [Slot], steps: f64) -> f64 {
    let floor = Fixed::nearest(FLOOR[0]).raw();
    let (mut demand, mut weights, mut needs) = (0_i128, 0_i128, 0_i128);
    for slot in slots.iter_mut() {
        let Some(need) = slot.need else { continue };
        let (asks, weight) = (slot.takes[0], need.weight);
        // Whoever has yielded comes back when the price is clearly below its worth.
        let price = if slot.yields { before / RETURN } else { before };
        slot.yields = price * amount(asks) > amount(weight);
        demand += i128::from(if slot.yields { asks.min(floor) } else { asks });
        weights += i128::from(weight);
        needs += i128::from(asks);
    }
    if needs == 0 {
        return 0.0;
    }
    if needs <= i128::from(size) {
        return before * EASE.powf(steps);
    }
    let typical = weights as f64 / needs as f64;
    let excess = demand as f64 / size as f64 - 1.0;
    (before + ASCENT * steps * typical * excess).clamp(0.0, HIGHEST_PRICE)
}

/// Exact sums over what agents said.
#[derive(Debug, Clone, Copy, Default)]
struct Totals {
    agents: u64,
    held: [i128; 2],
    offered: i128,
    nodes: i128,
    pending: u64,
}

impl Totals {
    fn of(slots: &[Slot]) -> Self {
        let mut sum = Self::default();
        for need in slots.iter().filter_map(|slot| slot.need.as_ref()) {
            sum.agents += 1;
            sum.held = [0, 1].map(|which| sum.held[which] + i128::from(need.held[which]));
            sum.offered += i128::from(need.offered);
            sum.nodes += i128::from(need.nodes);
            sum.pending += u64::from(need.pending);
        }
        sum
    }

    fn headroom(&self, size: [i64; 2]) -> Headroom {
        let over = |sum: i128, which: usize| sum as f64 / size[which] as f64;
        let agents = self.agents.max(1) as f64;
        Headroom {
            free: (1.0 - over(self.held[0], 0)).clamp(-1.0, 1.0),
            load: over(self.offered, 0).min(2.0),
            saturation: (sum_to_f64(self.nodes) / agents).clamp(0.0, 1.0),
            unscheduled: self.pending as f64 / (self.pending as f64 + agents),
            memory: over(self.held[1], 1).min(2.0),
        }
    }
}
