//! Who yields: comfort first, and then the least valuable need.
//!
//! Most of a claim is the work itself and a little room above it, the bare need; the rest is comfort. When claims do
//! not fit but bare needs do, everybody's comfort shrinks in proportion. When those do not fit either, sharing helps
//! nobody: an objective is a step, and a workload that gets four fifths of its bare need misses it like one that gets half. So
//! needs are served whole, those first that are worth most per core, and the others yield all but a small floor. What
//! is then left is comfort for those who are served, and for the requests of the others, the most valuable first.
//!
//! What an operator guaranteed to somebody comes before all that, as far as it is asked for. Floors are smaller where
//! there are too many for them, and guarantees where they exceed the capacity, so that all together always fit.
//!
//! Needs are integers, sums over them are exact, and ties are broken by name: the result does not depend on the order
//! of the slots, nor on how they came to be.

mod need;
mod room;

use std::cmp::Ordering;

use super::{Amount, Capacity, Cores, Entitlement, Gibibytes, Grant, Headroom, Reason};
use crate::{
    fixed::{Fixed, sum_to_f64},
    identity::AgentName,
};
use room::{Totals, ascend};

pub use need::{BARE, BARE_FLOOR, EVIDENCE, EVIDENCE_FLOOR, EVIDENCE_MEMORY, Need};

/// What nobody is cut below, in cores and gibibytes: enough for one small replica. Where that does not fit for all who
/// ask for it, the same part of it for each.
pub const FLOOR: [f64; 2] = [0.25, 0.25];
/// How much more work than before one who yields may bring, so that what waits does not keep it out for ever.
const MOST_MORE: f64 = 1.25;
/// How much larger the need of one who yields already counts, so that nobody takes turns every round.
pub const STAY: f64 = 1.25;
/// Steps of an agent in a minute, by which ageing is paced.
pub const STEPS_A_MINUTE: f64 = 4.0;
/// Steps of being served in which what one has aged halves.
pub const AGE_HALVES: f64 = 8.0;
/// The most steps that count as age.
const OLDEST: f64 = 1e6;
/// The smallest share of a pool that a need counts as, so that also the worth of one who needs nothing is a number.
const LEAST_SHARE: f64 = 1e-9;

/// What a pool remembers of one agent.
#[derive(Debug, Clone)]
pub struct Slot {
    /// The agent's name, which breaks ties.
    pub name: AgentName,
    /// Its need, once it has claimed anything.
    pub need: Option<Need>,
    /// Whether it has been silent for too long: then it wants no more than it holds.
    pub silent: bool,
    /// Its cap, if it has one.
    pub grant: Option<Grant>,
    entitled: Entitled,
    cut: Option<Cut>,
    /// The steps for which it has yielded; fewer with each step in which it is served.
    age: f64,
    /// Whether the price is above what it is worth.
    yields: bool,
    /// Scratch: what it would take in this allocation, what of that it needs, what of that it has for sure, and what it
    /// gets.
    takes: [i64; 2],
    asks: [i64; 2],
    sure: [i64; 2],
    gets: [i64; 2],
    /// Scratch: worth over need.
    worth: f64,
}

/// What an operator gave to an agent, as exact numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Entitled {
    weight: Option<i64>,
    minimum: [i64; 2],
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
            silent: false,
            grant: None,
            entitled: Entitled::default(),
            cut: None,
            age: 0.0,
            yields: false,
            takes: [0; 2],
            asks: [0; 2],
            sure: [0; 2],
            gets: [0; 2],
            worth: 0.0,
        }
    }

    /// Gives it a weight and a minimum, or takes them back.
    pub fn entitle(&mut self, entitlement: &Entitlement) {
        let minimum = entitlement.minimum.map_or([0; 2], |least| [least.cores.fixed(), least.memory_gib.fixed()]);
        self.entitled = Entitled { weight: entitlement.weight.map(|weight| weight.fixed()), minimum };
    }

    /// Forgets what it claimed, but not what it was given.
    pub fn clear(&mut self) {
        *self = Self { entitled: self.entitled, ..Self::new(self.name.clone()) };
    }

    /// Forgets that it had to yield.
    pub fn relieve(&mut self) {
        (self.grant, self.cut, self.yields, self.age) = (None, None, false, 0.0);
    }

    /// Why it has a cap.
    #[must_use]
    pub fn reason(&self) -> Option<Reason> {
        let Grant { cores, memory_gib } = self.grant?;
        let short = |which: usize, capped: bool| capped && self.gets[which] < self.asks[which];
        Some(match (self.cut, short(0, cores.is_some()), short(1, memory_gib.is_some())) {
            (None, ..) => Reason::Comfort,
            (Some(_), false, true) => Reason::Memory,
            (Some(_), ..) => Reason::Need,
        })
    }

    /// What it would have taken in the last allocation.
    #[must_use]
    pub fn wanted(&self) -> Amount {
        let [cores, memory] = self.takes.map(amount);
        Amount { cores: Cores::clamped(cores), memory_gib: Gibibytes::clamped(memory) }
    }

    /// What a whole pool of its need is worth, in weight, in the last allocation in which anything was scarce.
    #[must_use]
    pub fn worth(&self) -> f64 {
        self.worth
    }

    fn weight(&self, need: &Need) -> i64 {
        self.entitled.weight.unwrap_or(need.weight)
    }

    /// Its need as it counts now: of one that is silent what it holds, and nothing that it wished for.
    fn counted(&self) -> Option<Need> {
        let need = self.need?;
        let Need { held, bare, .. } = need;
        let silent =
            || Need { asked: held, wanted: held, bare: [0, 1].map(|which| bare[which].min(held[which])), ..need };
        Some(if self.silent { silent() } else { need })
    }

    /// What it needs. Once cut, an agent that moves in steps from where it is claims less, and one that takes its misses
    /// to heart claims more; so what it needed for its work before counts, in proportion to the work that is there now.
    /// Memory goes with replicas, not with work: there the larger of then and now counts.
    fn asks(&self, need: &Need) -> [i64; 2] {
        let Some(cut) = self.cut.filter(|cut| cut.offered > 0 && !self.silent) else { return need.bare };
        let left = (need.offered as f64 / cut.offered as f64).min(MOST_MORE);
        [(cut.bare[0] as f64 * left) as i64, cut.bare[1].max(need.bare[1])]
    }

    /// What of its minimum it would take: as much as it asks for, whatever its work bears out.
    fn sure(&self, need: &Need) -> [i64; 2] {
        let most = |which: usize| need.asked[which].max(need.held[which]).max(self.asks[which]);
        [0, 1].map(|which| self.entitled.minimum[which].min(most(which)))
    }

    /// What it would take: what it claims, needs, or has. Whoever claims less than it holds still holds it.
    fn takes(&self, need: &Need) -> [i64; 2] {
        let more = |which: usize| self.asks[which].max(need.held[which]).max(self.sure[which]);
        [0, 1].map(|which| need.wanted[which].max(more(which)))
    }

    /// Whether it gets all of what it needs of what is scarce.
    fn is_whole(&self, scarce: [bool; 2]) -> bool {
        (0..2).all(|which| !scarce[which] || self.gets[which] >= self.asks[which])
    }

    /// Its cap on what is scarce, where it gets less than it needs, claims or holds. So a cap is below the minimum only where
    /// there is too little for all minimums: what of it is asked for comes first, and whoever asks for less has no cap.
    fn cap(&self, scarce: [bool; 2]) -> Option<Grant> {
        let need = self.counted()?;
        let most = |which: usize| need.asked[which].max(need.held[which]).max(self.asks[which]);
        let over = |which: usize| scarce[which] && self.gets[which] < most(which);
        let granted = |which: usize| over(which).then(|| amount(self.gets[which]));
        let grant = Grant { cores: granted(0).map(Cores::clamped), memory_gib: granted(1).map(Gibibytes::clamped) };
        (over(0) || over(1)).then_some(grant)
    }

    /// Older by so many steps of yielding.
    fn wait(&mut self, steps: f64) {
        self.age = (self.age + steps).min(OLDEST);
    }

    /// So many steps in which it is served.
    fn rest(&mut self, steps: f64) {
        self.cut = None;
        if self.age > 0.0 {
            self.age *= 0.5_f64.powf(steps / AGE_HALVES);
        }
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
/// without growing where nothing may be allocated; `steps` is how much time has passed, in steps of an agent; `ageing` is by
/// how much of its weight one who yields is worth more with each minute.
#[must_use]
pub fn allocate(
    capacity: &Capacity,
    slots: &mut [Slot],
    order: &mut Vec<usize>,
    before: Outcome,
    steps: f64,
    ageing: f64,
) -> Outcome {
    let size = [capacity.cores.fixed(), capacity.memory_gib.fixed()];
    let totals = Totals::of(slots);
    order.clear();
    for (index, slot) in slots.iter_mut().enumerate() {
        if let Some(need) = slot.counted() {
            slot.asks = slot.asks(&need);
            slot.sure = slot.sure(&need);
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
        slots.iter_mut().for_each(|slot| slot.rest(steps));
    } else {
        rank(size, scarce, ageing, slots, order);
        secure(size, slots, order);
        let left = fill(size, scarce, slots, order);
        share(left, scarce, steps, slots, order);
        order.iter().for_each(|&index| slots[index].grant = slots[index].cap(scarce));
    }
    Outcome {
        headroom: totals.headroom(size),
        price: ascend(before.price, size[0], slots, steps),
        grants: slots.iter().filter(|slot| slot.grant.is_some()).count() as u64,
        capped: slots.iter().filter(|slot| slot.need.is_some_and(|need| need.capped)).count() as u64,
    }
}

/// Puts the most valuable need first: weight over the share of what is scarce.
fn rank(size: [i64; 2], scarce: [bool; 2], ageing: f64, slots: &mut [Slot], order: &mut [usize]) {
    for &index in order.iter() {
        let slot = &mut slots[index];
        let share = |which: usize| if scarce[which] { slot.asks[which] as f64 / size[which] as f64 } else { 0.0 };
        let stay = if slot.cut.is_some() { STAY } else { 1.0 };
        let aged = 1.0 + ageing * slot.age / STEPS_A_MINUTE;
        let weight = slot.need.map_or(0.0, |need| amount(slot.weight(&need)) * aged);
        slot.worth = weight / (stay * share(0).max(share(1))).max(LEAST_SHARE);
    }
    order.sort_unstable_by(|&a, &b| match slots[b].worth.total_cmp(&slots[a].worth) {
        Ordering::Equal => slots[a].name.cmp(&slots[b].name),
        other => other,
    });
}

/// Gives everybody what it has for sure, and a floor. Where there is not enough for all minimums, and where the floors that
/// are asked for do not fit beside them, each gets its part of what there is.
fn secure(size: [i64; 2], slots: &mut [Slot], order: &[usize]) {
    for which in 0..2 {
        let least = Fixed::nearest(FLOOR[which]).raw();
        let floor = |slot: &Slot| slot.asks[which].min(least);
        let whole = i128::from(size[which]);
        let all: i128 = order.iter().map(|&index| i128::from(slots[index].sure[which])).sum();
        let floors: i128 = order.iter().map(|&index| i128::from(floor(&slots[index]))).sum();
        let room = (whole - all).max(0);
        for &index in order {
            let slot = &mut slots[index];
            slot.gets[which] = part(slot.sure[which], whole, all).max(part(floor(slot), room, floors));
        }
    }
}

/// All of one's own where all of everybody's fits; else its part, rounded down, so that all parts together fit.
fn part(own: i64, room: i128, all: i128) -> i64 {
    // No more than it was, so it still fits its type.
    if all <= room { own } else { (i128::from(own) * room / all) as i64 }
}

/// Serves needs whole while they fit, in order. Returns what remains.
fn fill(size: [i64; 2], scarce: [bool; 2], slots: &mut [Slot], order: &[usize]) -> [i64; 2] {
    let mut left = size;
    for &index in order {
        left = [0, 1].map(|which| left[which] - slots[index].gets[which]);
    }
    for &index in order {
        let slot = &mut slots[index];
        let more = [0, 1].map(|which| (slot.asks[which] - slot.gets[which]).max(0));
        if (0..2).all(|which| !scarce[which] || more[which] <= left[which].max(0)) {
            left = [0, 1].map(|which| left[which] - more[which]);
            slot.gets = [0, 1].map(|which| slot.gets[which] + more[which]);
        }
    }
    left
}

/// Gives away what remains: to those who are served as comfort, in proportion; then to the others, in order.
fn share(left: [i64; 2], scarce: [bool; 2], steps: f64, slots: &mut [Slot], order: &[usize]) {
    let comfort = |slot: &Slot| match slot.counted() {
        Some(need) if scarce[0] && slot.is_whole(scarce) => (need.wanted[0] - slot.gets[0]).max(0),
        _ => 0,
    };
    let mut left = left.map(|amount| amount.max(0));
    let all: i128 = order.iter().map(|&index| i128::from(comfort(&slots[index]))).sum();
    let spare = i128::from(left[0]);
    for &index in order {
        let slot = &mut slots[index];
        let Some(need) = slot.counted() else { continue };
        if slot.is_whole(scarce) {
            let more = part(comfort(slot), spare, all);
            slot.gets[0] += more;
            left[0] -= more;
            slot.rest(steps);
        } else {
            slot.cut.get_or_insert(Cut { bare: need.bare, offered: need.offered });
            slot.wait(steps);
        }
    }
    for &index in order {
        let slot = &mut slots[index];
        for which in (0..2).filter(|which| scarce[*which]) {
            let rest = (slot.asks[which] - slot.gets[which]).clamp(0, left[which]);
            slot.gets[which] += rest;
            left[which] -= rest;
        }
    }
}

/// Those who are served although they are worth least, the least first: for them others yield. `order` is what
/// [`allocate`] left there.
pub fn margin<'a>(slots: &'a [Slot], order: &'a [usize]) -> impl Iterator<Item = &'a Slot> {
    let served = |slot: &&Slot| slot.cut.is_none() && slot.asks.iter().any(|asks| *asks > 0);
    order.iter().rev().filter_map(|&index| slots.get(index)).filter(served)
}

/// One raw number as a float.
fn amount(raw: i64) -> f64 {
    sum_to_f64(raw.into())
}
