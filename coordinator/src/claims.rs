//! One pool's claims: a slot for each member, and the allocation that was made from them last.
//!
//! Every report swaps one slot. Allocating sorts all of them, so it is done once a round in lock-step, from what the
//! rounds before left, and at most once a second in real time: a heartbeat costs the same for any number of agents,
//! but for its share of that one sort. Space for it is made when members join, so that heartbeats allocate nothing.

use meanfield_common::scarcity::{
    Capacity, Claim, Scarcity,
    allocation::{Need, Outcome, Slot, allocate},
};

use crate::view::{ScarcityView, Yielding};

/// Milliseconds between two allocations in real time.
const EVERY: u64 = 1000;
/// Milliseconds of an agent's usual step, by which the price is paced in real time.
const STEP: f64 = 15_000.0;
/// How many steps the price may move at once after a pause.
const MOST_STEPS: f64 = 4.0;
/// How many of those who have a cap are listed.
const LISTED: usize = 100;

#[derive(Debug, Default)]
pub(crate) struct Claims {
    /// What the configuration says, unless an operator has said otherwise since.
    configured: Option<Capacity>,
    ordered: Option<Capacity>,
    slots: Vec<Slot>,
    /// Slots of those who left.
    free: Vec<usize>,
    order: Vec<usize>,
    outcome: Outcome,
    /// When the last allocation was made in real time.
    made: Option<u64>,
}

impl Claims {
    pub(crate) fn configure(&mut self, capacity: Option<Capacity>) {
        self.configured = capacity;
    }

    /// An operator's word; none goes back to the configuration.
    pub(crate) fn set_capacity(&mut self, capacity: Option<Capacity>) {
        self.ordered = capacity;
        // What was computed from the old one is void at once.
        self.made = None;
        self.outcome = Outcome::default();
        self.slots.iter_mut().for_each(Slot::relieve);
    }

    /// The capacity that counts.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        self.ordered.or(self.configured)
    }

    /// A slot for a member that joins.
    pub(crate) fn admit(&mut self, name: &str) -> usize {
        let slot = Slot::new(name);
        let index = match self.free.pop() {
            Some(index) => {
                self.slots[index] = slot;
                index
            }
            None => {
                self.slots.push(slot);
                self.slots.len() - 1
            }
        };
        self.order.reserve(self.slots.len().saturating_sub(self.order.len()));
        index
    }

    /// Forgets what a member claimed.
    pub(crate) fn clear(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Slot::new(&slot.name);
        }
    }

    /// Takes a member's slot back.
    pub(crate) fn part(&mut self, index: usize) {
        if let Some(slot) = self.slots.get_mut(index) {
            *slot = Slot::new("");
            self.free.push(index);
        }
    }

    /// Puts a claim in the place of the member's last one. True if it claims more than its work bears out.
    pub(crate) fn claim(&mut self, index: usize, claim: Option<&Claim>) -> bool {
        let need = claim.map(Need::from);
        if let Some(slot) = self.slots.get_mut(index) {
            slot.need = need;
        }
        need.is_some_and(|need| need.capped)
    }

    /// Allocates from what is there, as a new round begins.
    pub(crate) fn begin_round(&mut self) {
        self.allocate(1.0);
    }

    /// Allocates in real time, unless that was done a moment ago.
    pub(crate) fn refresh(&mut self, now: u64) {
        let since = self.made.map(|made| now.saturating_sub(made));
        if self.capacity().is_none() || since.is_some_and(|since| since < EVERY) {
            return;
        }
        self.made = Some(now);
        self.allocate(since.map_or(1.0, |since| (since as f64 / STEP).min(MOST_STEPS)));
    }

    fn allocate(&mut self, steps: f64) {
        if let Some(capacity) = self.capacity() {
            self.outcome = allocate(&capacity, &mut self.slots, &mut self.order, self.outcome, steps);
        }
    }

    /// What a member is told.
    pub(crate) fn scarcity(&self, index: usize) -> Option<Scarcity> {
        self.capacity()?;
        let Outcome { headroom, price, .. } = self.outcome;
        Some(Scarcity { headroom, price, grant: self.slots.get(index).and_then(|slot| slot.grant) })
    }

    /// Whether a member's claim counts less than it says.
    pub(crate) fn capped(&self, index: usize) -> bool {
        self.slots.get(index).and_then(|slot| slot.need).is_some_and(|need| need.capped)
    }

    /// What operators see.
    pub(crate) fn view(&self) -> Option<ScarcityView> {
        let capacity = self.capacity()?;
        let Outcome { headroom, price, grants, capped } = self.outcome;
        let yielding = |slot: &Slot| Some(Yielding { name: slot.name.parse().ok()?, grant: slot.grant? });
        let mut yielding: Vec<_> = self.slots.iter().filter_map(yielding).collect();
        yielding.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        yielding.truncate(LISTED);
        Some(ScarcityView { capacity, headroom, price, grants, capped, yielding })
    }

    /// Whether the slots are what these members' latest claims make of them, and nobody else has one.
    pub(crate) fn audit(&self, members: &[(usize, Option<Claim>)]) -> bool {
        let held = |(index, claim): &(usize, Option<Claim>)| {
            self.slots.get(*index).is_some_and(|slot| slot.need == claim.as_ref().map(Need::from))
        };
        members.iter().all(held) && self.slots.len() == members.len() + self.free.len()
    }
}
