//! Who yields: the least valuable need first.
//!
//! An objective is a step: a workload that gets four fifths of what it needs misses it like one that gets half. So
//! scarce capacity is not shared but given away whole, to those who are worth most per core, and the others yield all
//! but a small floor. What is then left goes to them too, the most valuable first, for the requests that it serves.
//!
//! Needs are integers, sums over them are exact, and ties are broken by name: the result does not depend on the order
//! of the slots, nor on how they came to be.

use std::cmp::Ordering;

use super::{Capacity, Claim, Cores, Gibibytes, Grant, Headroom};
use crate::fixed::{Fixed, sum_to_f64};

/// A claim counts up to so many times the offered work, and a little more for those with hardly any. What is wanted
/// beyond is comfort, which nobody else is cut for.
pub const EVIDENCE: f64 = 1.5;
/// What may be claimed beyond [`EVIDENCE`]: cores, and gibibytes.
pub const EVIDENCE_FLOOR: [f64; 2] = [1.0, 4.0];
/// Gibibytes that may be claimed for each core of offered work.
pub const EVIDENCE_MEMORY: f64 = 24.0;
/// The part of what is held that counts whatever is claimed: one over this, as much as the guard lets go in a step.
const HELD: i128 = 2;
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
    /// Cores and memory.
    wanted: [i128; 2],
    held: [i128; 2],
    offered: i128,
    weight: i128,
    pending: u32,
    nodes: i128,
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
        // Whoever asks for less than its work needs at least that; and who holds much cannot look small.
        let least = [claim.offered.fixed().max(held[0] / HELD), held[1] / HELD];
        let wanted = [0, 1].map(|which| asked[which].min(most[which]).max(least[which]));
        Self {
            wanted,
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
    pub name: Box<str>,
    /// Its need, once it has claimed anything.
    pub need: Option<Need>,
    /// Its cap, if it yields.
    pub grant: Option<Grant>,
    cut: Option<Cut>,
    /// Whether the price is above what it is worth.
    yields: bool,
    /// Scratch: what it needs in this allocation, and what it gets.
    asks: [i128; 2],
    gets: [i128; 2],
    /// Scratch: worth over need.
    worth: f64,
}

/// What an agent needed when it began to yield, and for how much work.
#[derive(Debug, Clone, Copy)]
struct Cut {
    wanted: [i128; 2],
    offered: i128,
}

impl Slot {
    /// The slot of an agent that has claimed nothing yet.
    #[must_use]
    pub fn new(name: &str) -> Self {
        Self {
            name: name.into(),
            need: None,
            grant: None,
            cut: None,
            yields: false,
            asks: [0; 2],
            gets: [0; 2],
            worth: 0.0,
        }
    }

    /// What it needs. Once cut, an agent that moves in steps from where it is claims less, and one that takes its misses
    /// to heart claims more; so what it needed for its work before counts, in proportion to the work that is there now.
    fn asks(&self, need: &Need) -> [i128; 2] {
        let Some(cut) = self.cut.filter(|cut| cut.offered > 0) else { return need.wanted };
        let left = (need.offered as f64 / cut.offered as f64).min(MOST_MORE);
        [0, 1].map(|which| (cut.wanted[which] as f64 * left) as i128)
    }
}

/// The state of a pool's scarcity, computed anew with each allocation.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Outcome {
    /// How much room is left.
    pub headroom: Headroom,
    /// What a core is worth.
    pub price: f64,
    /// How many yield.
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
            order.push(index);
        }
        slot.grant = None;
    }
    let asked = order.iter().fold([0; 2], |sum, &index| [0, 1].map(|which| sum[which] + slots[index].asks[which]));
    let scarce = [0, 1].map(|which| asked[which] > size[which]);
    if scarce == [false; 2] {
        slots.iter_mut().for_each(|slot| slot.cut = None);
    } else {
        rank(size, scarce, slots, order);
        fill(size, scarce, slots, order);
    }
    Outcome {
        headroom: totals.headroom(size),
        price: ascend(before.price, size[0], slots, steps),
        grants: slots.iter().filter(|slot| slot.grant.is_some()).count() as u64,
        capped: slots.iter().filter(|slot| slot.need.is_some_and(|need| need.capped)).count() as u64,
    }
}

/// Puts the most valuable need first: weight over the share of what is scarce.
fn rank(size: [i128; 2], scarce: [bool; 2], slots: &mut [Slot], order: &mut [usize]) {
    for &index in order.iter() {
        let slot = &mut slots[index];
        let share = |which: usize| if scarce[which] { slot.asks[which] as f64 / size[which] as f64 } else { 0.0 };
        let stay = if slot.cut.is_some() { STAY } else { 1.0 };
        let weight = slot.need.map_or(0.0, |need| sum_to_f64(need.weight));
        // One who needs nothing comes first.
        slot.worth = weight / (stay * share(0).max(share(1))).max(f64::MIN_POSITIVE);
    }
    order.sort_unstable_by(|&a, &b| match slots[b].worth.total_cmp(&slots[a].worth) {
        Ordering::Equal => slots[a].name.cmp(&slots[b].name),
        other => other,
    });
}

/// Serves needs whole while they fit, in order, and leaves the others a floor and what remains.
fn fill(size: [i128; 2], scarce: [bool; 2], slots: &mut [Slot], order: &[usize]) {
    let floor = FLOOR.map(|amount| Fixed::nearest(amount).raw());
    let mut left = size;
    for &index in order {
        let slot = &mut slots[index];
        slot.gets = [0, 1].map(|which| slot.asks[which].min(floor[which]));
        left = [0, 1].map(|which| left[which] - slot.gets[which]);
    }
    let more = |slot: &Slot, which: usize| slot.asks[which] - slot.gets[which];
    for &index in order {
        let slot = &mut slots[index];
        if (0..2).all(|which| !scarce[which] || more(slot, which) <= left[which].max(0)) {
            left = [0, 1].map(|which| left[which] - more(slot, which));
            slot.gets = slot.asks;
        }
    }
    for &index in order {
        let slot = &mut slots[index];
        let Some(need) = slot.need else { continue };
        if (0..2).all(|which| !scarce[which] || slot.gets[which] == slot.asks[which]) {
            slot.cut = None;
            continue;
        }
        for which in (0..2).filter(|which| scarce[*which]) {
            let rest = more(slot, which).min(left[which].max(0));
            slot.gets[which] += rest;
            left[which] -= rest;
        }
        slot.cut.get_or_insert(Cut { wanted: need.wanted, offered: need.offered });
        let granted = |which: usize| scarce[which].then(|| sum_to_f64(slot.gets[which]));
        slot.grant =
            Some(Grant { cores: granted(0).map(Cores::clamped), memory_gib: granted(1).map(Gibibytes::clamped) });
    }
}

/// One step of dual ascent: the price of a core rises while those who would pay it ask for more than there is.
fn ascend(before: f64, size: i128, slots: &mut [Slot], steps: f64) -> f64 {
    let floor = Fixed::nearest(FLOOR[0]).raw();
    let (mut demand, mut weights, mut needs) = (0, 0, 0);
    for slot in slots.iter_mut() {
        let Some(need) = slot.need else { continue };
        let (asks, weight) = (slot.asks[0], need.weight);
        // Whoever has yielded comes back when the price is clearly below its worth.
        let price = if slot.yields { before / RETURN } else { before };
        slot.yields = price * sum_to_f64(asks) > sum_to_f64(weight);
        demand += if slot.yields { asks.min(floor) } else { asks };
        weights += weight;
        needs += asks;
    }
    if needs == 0 {
        return 0.0;
    }
    if needs <= size {
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
            sum.held = [0, 1].map(|which| sum.held[which] + need.held[which]);
            sum.offered += need.offered;
            sum.nodes += need.nodes;
            sum.pending += u64::from(need.pending);
        }
        sum
    }

    fn headroom(&self, size: [i128; 2]) -> Headroom {
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
