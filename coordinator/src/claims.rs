//! One pool's claims: a slot for each member, and the allocation that was made from them last.
//!
//! Every report swaps one slot. Allocating sorts all of them, so it is done once a round in lock-step, from what the
//! rounds before left, and at most once a second in real time: a heartbeat costs the same for any number of agents,
//! but for its share of that one sort. Space for it is set aside when members join, so that heartbeats allocate nothing.
//!
//! A slot is given at the first claim, and only while the pool has a capacity: without one there is nothing to share,
//! and a million agents would pay for it in memory. Where a capacity is ordered later, [`crate::membership`] brings the
//! claims that it has kept.

use meanfield_common::{
    identity::AgentName,
    scarcity::{
        Capacity, Claim, Scarcity,
        allocation::{Need, Outcome, Slot, allocate},
    },
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
    /// How many may claim.
    members: usize,
    slots: Vec<Slot>,
    /// Slots of those who left.
    free: Vec<u32>,
    /// How often all slots were given up: tells whether a place is still one.
    generation: u32,
    order: Vec<usize>,
    outcome: Outcome,
    /// When the last allocation was made in real time.
    made: Option<u64>,
}

/// Which slot is a member's, if it has one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Place {
    slot: u32,
    generation: u32,
}

impl Place {
    /// Of one that has claimed nothing yet.
    pub(crate) const NONE: Self = Self { slot: u32::MAX, generation: 0 };
}

impl Claims {
    pub(crate) fn configure(&mut self, capacity: Option<Capacity>) {
        self.configured = capacity;
    }

    /// An operator's word; none goes back to the configuration. Where there was no capacity before and is one now,
    /// whoever has claimed anything must claim again.
    pub(crate) fn set_capacity(&mut self, capacity: Option<Capacity>) {
        self.ordered = capacity;
        // What was computed from the old one is void at once.
        self.made = None;
        self.outcome = Outcome::default();
        if self.capacity().is_some() {
            self.slots.iter_mut().for_each(Slot::relieve);
        } else {
            (self.slots, self.free, self.order) = (Vec::new(), Vec::new(), Vec::new());
            self.generation = self.generation.wrapping_add(1);
        }
        self.make_space();
    }

    /// The capacity that counts.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        self.ordered.or(self.configured)
    }

    /// Space for everybody's claim; it costs nothing until it is used.
    fn make_space(&mut self) {
        if self.capacity().is_some() {
            self.slots.reserve(self.members.saturating_sub(self.slots.len()));
            self.order.reserve(self.members.saturating_sub(self.order.len()));
        }
    }

    fn slot(&self, place: Place) -> Option<&Slot> {
        self.slots.get(place.slot as usize).filter(|_| place.generation == self.generation)
    }

    fn slot_mut(&mut self, place: Place) -> Option<&mut Slot> {
        self.slots.get_mut(place.slot as usize).filter(|_| place.generation == self.generation)
    }

    /// One more may claim.
    pub(crate) fn admit(&mut self) {
        self.members += 1;
        self.make_space();
    }

    /// Forgets what a member claimed.
    pub(crate) fn clear(&mut self, place: Place) {
        if let Some(slot) = self.slot_mut(place) {
            *slot = Slot::new(slot.name.clone());
        }
    }

    /// Takes a member's slot back.
    pub(crate) fn part(&mut self, place: Place) {
        self.members = self.members.saturating_sub(1);
        self.clear(place);
        if self.slot(place).is_some() {
            self.free.push(place.slot);
        }
    }

    /// Puts a claim in the place of the member's last one. True if it claims more than its work bears out.
    pub(crate) fn claim(&mut self, place: &mut Place, name: &AgentName, claim: Option<&Claim>) -> bool {
        let need = claim.map(Need::from);
        let capped = need.is_some_and(|need| need.capped);
        if self.capacity().is_none() {
            return capped;
        }
        match self.slot_mut(*place) {
            Some(slot) => slot.need = need,
            None if need.is_some() => {
                let mut slot = Slot::new(name.clone());
                slot.need = need;
                *place = self.take(slot);
            }
            None => {}
        }
        capped
    }

    fn take(&mut self, slot: Slot) -> Place {
        let generation = self.generation;
        if let Some(free) = self.free.pop() {
            self.slots[free as usize] = slot;
            return Place { slot: free, generation };
        }
        self.slots.push(slot);
        // Fewer than 2^32 - 1 of them fit into any memory there is.
        Place { slot: (self.slots.len() - 1) as u32, generation }
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
    pub(crate) fn scarcity(&self, place: Place) -> Option<Scarcity> {
        self.capacity()?;
        let Outcome { headroom, price, .. } = self.outcome;
        Some(Scarcity { headroom, price, grant: self.slot(place).and_then(|slot| slot.grant) })
    }

    /// What operators see.
    pub(crate) fn view(&self) -> Option<ScarcityView> {
        let capacity = self.capacity()?;
        let Outcome { headroom, price, grants, capped } = self.outcome;
        let yielding = |slot: &Slot| Some(Yielding { name: slot.name.clone(), grant: slot.grant? });
        let mut yielding: Vec<_> = self.slots.iter().filter_map(yielding).collect();
        yielding.sort_unstable_by(|a, b| a.name.cmp(&b.name));
        yielding.truncate(LISTED);
        Some(ScarcityView { capacity, headroom, price, grants, capped, yielding })
    }

    /// Whether the slots are what these members' latest claims make of them, and nobody else has one.
    pub(crate) fn audit(&self, members: &[(Place, Option<Claim>)]) -> bool {
        if self.capacity().is_none() {
            return self.slots.is_empty();
        }
        let sound = |(place, claim): &(Place, Option<Claim>)| match self.slot(*place) {
            Some(slot) => slot.need == claim.as_ref().map(Need::from),
            None => claim.is_none(),
        };
        let held = members.iter().filter(|(place, _)| self.slot(*place).is_some()).count();
        members.iter().all(sound) && self.slots.len() == held + self.free.len() && self.members == members.len()
    }
}
