//! One pool's claims: a slot for each member, and the allocation that was made from them last.
//!
//! Every report swaps one slot. Allocating sorts all of them, so it is done once a round in lock-step, from what the
//! rounds before left, and at most once a second in real time: a heartbeat costs the same for any number of agents,
//! but for its share of that one sort. Space for it is set aside when members join, so that heartbeats allocate nothing.
//!
//! A slot is given at the first claim, and only while there is anything to share: else a million agents would pay for it
//! in memory. Where that begins later, [`crate::membership`] brings the claims that it has kept.
//!
//! [`cuts`] keeps who was cut for whom, [`nodes`] what agents say of their nodes.

mod cuts;
mod nodes;

use std::collections::BTreeMap;

use meanfield_common::{
    identity::AgentName,
    scarcity::{
        Capacity, Claim, Entitlement, Headroom, Mode, Scarcity, Settings, Source,
        allocation::{Need, Outcome, Slot, allocate},
    },
};

use crate::view::{CutFilter, CutView, OpenCuts, ScarcityView, Yielding};
use cuts::Cuts;
use nodes::Nodes;

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
    settings: Settings,
    nodes: Nodes,
    cuts: Cuts,
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
    /// When anybody was last heard of.
    now: u64,
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

    /// An operator's word; none goes back to the configuration. Where there was nothing to share before and is now,
    /// whoever has claimed anything must claim again.
    pub(crate) fn set_capacity(&mut self, capacity: Option<Capacity>) {
        self.ordered = capacity;
        self.begin_anew();
    }

    /// How the pool goes about scarcity from now on; the same goes for claims.
    pub(crate) fn set_settings(&mut self, settings: Settings) {
        if settings.capacity != self.settings.capacity {
            self.nodes.clear();
        }
        self.settings = settings;
        self.begin_anew();
    }

    /// What was computed before is void at once.
    fn begin_anew(&mut self) {
        self.made = None;
        self.outcome = Outcome::default();
        self.cuts.end_all(self.now);
        if self.active() {
            self.slots.iter_mut().for_each(Slot::relieve);
        } else {
            (self.slots, self.free, self.order) = (Vec::new(), Vec::new(), Vec::new());
            self.generation = self.generation.wrapping_add(1);
        }
        self.make_space();
    }

    pub(crate) fn settings(&self) -> Settings {
        self.settings
    }

    /// The capacity that counts: nodes that agents report are never more than what was declared, if anything was.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        let declared = self.ordered.or(self.configured);
        [declared, self.reported()].into_iter().flatten().reduce(Capacity::min)
    }

    /// What the nodes have that agents report, where that counts and once it is known.
    pub(crate) fn reported(&self) -> Option<Capacity> {
        let reported = self.settings.capacity == Source::Reported;
        reported.then(|| self.nodes.capacity(self.now)).flatten()
    }

    /// How many nodes count, where they are the capacity.
    pub(crate) fn nodes(&self) -> Option<usize> {
        (self.settings.capacity == Source::Reported).then(|| self.nodes.len())
    }

    /// Whether claims are kept and shared between: reported nodes may come with any of them.
    pub(crate) fn active(&self) -> bool {
        self.settings.mode != Mode::Off && (self.settings.capacity == Source::Reported || self.capacity().is_some())
    }

    /// Space for everybody's claim; it costs nothing until it is used.
    fn make_space(&mut self) {
        if self.active() {
            self.slots.reserve(self.members.saturating_sub(self.slots.len()));
            self.order.reserve(self.members.saturating_sub(self.order.len()));
            self.cuts.prepare(self.members);
            if self.settings.capacity == Source::Reported {
                self.nodes.prepare();
            }
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
            slot.clear();
            self.cuts.end(place.slot as usize, self.now);
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

    /// What an operator gives to a member.
    pub(crate) fn entitle(&mut self, place: Place, given: &Entitlement) {
        if let Some(slot) = self.slot_mut(place) {
            slot.entitle(given);
        }
    }

    /// Whether a member has been silent for too long.
    pub(crate) fn silence(&mut self, place: Place, silent: bool) {
        if let Some(slot) = self.slot_mut(place) {
            slot.silent = silent;
        }
    }

    /// Puts a claim in the place of the member's last one. True if it claims more than its work bears out.
    pub(crate) fn claim(
        &mut self,
        place: &mut Place,
        name: &AgentName,
        claim: Option<&Claim>,
        given: Option<&Entitlement>,
    ) -> bool {
        let need = claim.map(Need::from);
        let capped = need.is_some_and(|need| need.capped);
        if !self.active() {
            return capped;
        }
        match self.slot_mut(*place) {
            Some(slot) => (slot.need, slot.silent) = (need, false),
            None if need.is_some() => {
                let mut slot = Slot::new(name.clone());
                slot.need = need;
                if let Some(given) = given {
                    slot.entitle(given);
                }
                *place = self.take(slot);
            }
            None => {}
        }
        if let (Source::Reported, Some(node)) = (self.settings.capacity, claim.and_then(|claim| claim.node)) {
            self.nodes.report(&node, place.slot, self.now);
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

    /// Somebody is heard of.
    pub(crate) fn hear(&mut self, now: u64) {
        self.now = self.now.max(now);
    }

    /// Allocates from what is there, as a new round begins.
    pub(crate) fn begin_round(&mut self) {
        self.allocate(1.0);
    }

    /// Allocates in real time, unless that was done a moment ago.
    pub(crate) fn refresh(&mut self, now: u64) {
        let since = self.made.map(|made| now.saturating_sub(made));
        if !self.active() || since.is_some_and(|since| since < EVERY) {
            return;
        }
        self.made = Some(now);
        self.allocate(since.map_or(1.0, |since| (since as f64 / STEP).min(MOST_STEPS)));
    }

    fn allocate(&mut self, steps: f64) {
        if !self.active() {
            return;
        }
        if self.settings.capacity == Source::Reported {
            self.nodes.expire(self.now);
        }
        let Settings { mode, ageing, .. } = self.settings;
        match self.capacity() {
            Some(capacity) => {
                let Self { slots, order, outcome, .. } = self;
                *outcome = allocate(&capacity, slots, order, *outcome, steps, ageing.get());
            }
            // It is not known what the nodes have: there is nothing to share, and as far as anybody knows room for everything.
            None => {
                self.slots.iter_mut().for_each(Slot::relieve);
                let headroom = Headroom { free: 1.0, ..Headroom::default() };
                self.outcome = Outcome { headroom, ..Outcome::default() };
            }
        }
        self.cuts.note(&self.slots, &self.order, mode == Mode::Enforce, self.now);
    }

    /// What a member is told.
    pub(crate) fn scarcity(&self, place: Place) -> Option<Scarcity> {
        if !self.active() {
            return None;
        }
        let Outcome { headroom, price, .. } = self.outcome;
        let cap = self.slot(place).and_then(|slot| slot.grant);
        let (grant, advice) = if self.settings.mode == Mode::Enforce { (cap, None) } else { (None, cap) };
        let nodes = self.settings.capacity == Source::Reported;
        Some(Scarcity { headroom, price, grant, valid_ms: None, advice, nodes })
    }

    /// What operators see, with so many of those who have a cap, [`LISTED`] at most.
    pub(crate) fn view(&self, listed: usize) -> Option<ScarcityView> {
        let capacity = self.capacity().filter(|_| self.active())?;
        let Outcome { headroom, price, grants, capped } = self.outcome;
        let yielding = self.yielding(listed.min(LISTED));
        let (Settings { mode, ageing, .. }, nodes) = (self.settings, self.nodes());
        let cuts = self.cuts.by_reason().map(|(reason, open)| OpenCuts { reason, open }).collect();
        Some(ScarcityView { mode, ageing, capacity, nodes, headroom, price, grants, capped, yielding, cuts })
    }

    /// The first ones with a cap, in order of names. Nobody is looked at for none.
    fn yielding(&self, listed: usize) -> Vec<Yielding> {
        let mut first = BTreeMap::new();
        let all = self.slots.iter().filter(|_| listed > 0);
        for (slot, grant) in all.filter_map(|slot| slot.grant.map(|grant| (slot, grant))) {
            if first.len() < listed {
                first.insert(&slot.name, grant);
            } else if first.last_key_value().is_some_and(|(last, _)| slot.name < **last) {
                first.insert(&slot.name, grant);
                first.pop_last();
            }
        }
        first.into_iter().map(|(name, grant)| Yielding { name: name.clone(), grant }).collect()
    }

    /// A page of the ledger, in times of the coordinator's clock, and whether there is more.
    pub(crate) fn cuts(&self, filter: &CutFilter, after: u64, limit: usize) -> (Vec<CutView>, bool) {
        self.cuts.page(filter, after, limit)
    }

    /// Whether the slots are what these members' latest claims make of them, and nobody else has one.
    pub(crate) fn audit(&self, members: &[(Place, Option<Claim>)]) -> bool {
        if !self.active() {
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
