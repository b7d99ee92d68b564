//! The ledger of cuts: who got less than it would have taken, for whom, how much of what, why, and for how long.
//!
//! It is written after each allocation, at transitions: a cut is opened when somebody gets a cap, goes on while it has one
//! for the same reason, and is ended when that is over. It is a ring in memory with its space set aside, so that
//! heartbeats allocate nothing; when it is full, the oldest go first, also those that are open: which are is known by slot,
//! so that one goes on, and is counted, whether or not it is still listed. What operators ordered stays in the audit log.

use std::collections::VecDeque;

use meanfield_common::{
    identity::AgentName,
    scarcity::{
        Amount, Grant, Reason,
        allocation::{Slot, margin},
    },
};

use crate::view::{CutFilter, CutView};

/// How many cuts are kept.
const KEPT: usize = 1024;
/// How many of those who are served instead are named.
const NAMED: usize = 3;

#[derive(Debug, Default)]
pub(crate) struct Cuts {
    ring: VecDeque<Cut>,
    /// How many there ever were.
    count: u64,
    /// The cut of each slot that is open, and how many are for which reason.
    open: Vec<Option<Open>>,
    counts: [u64; Reason::ALL.len()],
}

#[derive(Debug, Clone, Copy)]
struct Open {
    number: u64,
    reason: Reason,
}

#[derive(Debug, Clone)]
struct Cut {
    number: u64,
    agent: AgentName,
    since: u64,
    until: Option<u64>,
    reason: Reason,
    enforced: bool,
    wanted: Amount,
    granted: Grant,
    worth: f64,
    /// The worth of the least valuable one that is served, and who they are.
    served: Option<f64>,
    instead: [Option<AgentName>; NAMED],
}

impl Cuts {
    /// Space for the ledger, and for so many slots.
    pub(crate) fn prepare(&mut self, slots: usize) {
        self.ring.reserve(KEPT.saturating_sub(self.ring.len()));
        self.open.reserve(slots.saturating_sub(self.open.len()));
    }

    /// Notes what an allocation made of the slots; `order` is as it left it.
    pub(crate) fn note(&mut self, slots: &[Slot], order: &[usize], enforced: bool, now: u64) {
        (slots.len()..self.open.len()).for_each(|place| self.end(place, now));
        self.open.resize(slots.len(), None);
        let mut margin = margin(slots, order);
        let least: [Option<&Slot>; NAMED] = std::array::from_fn(|_| margin.next());
        for (place, slot) in slots.iter().enumerate() {
            let Some((reason, granted)) = slot.reason().zip(slot.grant) else {
                self.end(place, now);
                continue;
            };
            if let Some(open) = self.open[place].filter(|open| open.reason == reason) {
                if let Some(cut) = self.find(open.number) {
                    (cut.wanted, cut.granted) = (slot.wanted(), granted);
                }
                continue;
            }
            self.end(place, now);
            self.count += 1;
            self.open[place] = Some(Open { number: self.count, reason });
            self.counts[reason as usize] += 1;
            if self.ring.len() >= KEPT {
                self.ring.pop_front();
            }
            let served = if reason == Reason::Comfort { [None; NAMED] } else { least };
            self.ring.push_back(Cut {
                number: self.count,
                agent: slot.name.clone(),
                since: now,
                until: None,
                reason,
                enforced,
                wanted: slot.wanted(),
                granted,
                worth: slot.worth(),
                served: served[0].map(Slot::worth),
                instead: served.map(|slot| slot.map(|slot| slot.name.clone())),
            });
        }
    }

    /// Numbers follow each other, so that one is found by counting; none if it is no longer kept.
    fn find(&mut self, number: u64) -> Option<&mut Cut> {
        let first = self.ring.front()?.number;
        self.ring.get_mut(usize::try_from(number.checked_sub(first)?).ok()?)
    }

    /// Ends the cut of a slot, if one is open.
    pub(crate) fn end(&mut self, place: usize, now: u64) {
        let Some(open) = self.open.get_mut(place).and_then(Option::take) else { return };
        self.counts[open.reason as usize] -= 1;
        if let Some(cut) = self.find(open.number) {
            cut.until = Some(now);
        }
    }

    /// Ends all cuts, and forgets the slots.
    pub(crate) fn end_all(&mut self, now: u64) {
        (0..self.open.len()).for_each(|place| self.end(place, now));
        self.open.clear();
    }

    /// How many are open for each reason.
    pub(crate) fn by_reason(&self) -> impl Iterator<Item = (Reason, u64)> {
        Reason::ALL.iter().map(|reason| (*reason, self.counts[*reason as usize]))
    }

    /// The first `limit` after a number that a filter admits, and whether there are more. Times are of the coordinator's
    /// clock.
    pub(crate) fn page(&self, filter: &CutFilter, after: u64, limit: usize) -> (Vec<CutView>, bool) {
        let admits = |cut: &&Cut| {
            let open = cut.until.is_none();
            cut.number > after
                && filter.open.is_none_or(|wanted| wanted == open)
                && filter.agent.as_ref().is_none_or(|wanted| *wanted == cut.agent)
        };
        let mut found = self.ring.iter().filter(admits);
        let page = found.by_ref().take(limit).map(Cut::view).collect();
        (page, found.next().is_some())
    }
}

impl Cut {
    fn view(&self) -> CutView {
        CutView {
            number: self.number,
            agent: self.agent.clone(),
            reason: self.reason,
            enforced: self.enforced,
            since_ms: self.since,
            until_ms: self.until,
            wanted: self.wanted,
            granted: self.granted,
            worth: self.worth,
            served_worth: self.served,
            instead: self.instead.iter().flatten().cloned().collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::scarcity::{
        Capacity, Claim, Cores, Gibibytes, Pods, Share, Weight,
        allocation::{Need, Outcome, allocate},
    };

    fn slots(cores: &[f64]) -> Vec<Slot> {
        let slot = |(place, cores): (usize, &f64)| {
            let mut slot = Slot::new(format!("a{place:04}").parse().unwrap());
            let amount = Amount { cores: Cores::clamped(*cores), memory_gib: Gibibytes::clamped(0.1) };
            slot.need = Some(Need::from(&Claim {
                wanted: amount,
                held: amount,
                offered: Cores::clamped(0.75 * cores),
                weight: Weight::default(),
                pending: Pods::default(),
                node_utilisation: Share::clamped(0.5),
                node: None,
            }));
            slot
        };
        cores.iter().enumerate().map(slot).collect()
    }

    fn note(cuts: &mut Cuts, slots: &mut [Slot], cores: f64, now: u64) {
        let mut order = Vec::new();
        let capacity = Capacity::new(cores, 1000.0).unwrap();
        let _ = allocate(&capacity, slots, &mut order, Outcome::default(), 1.0, 0.0);
        cuts.note(slots, &order, true, now);
    }

    fn all(cuts: &Cuts) -> Vec<CutView> {
        cuts.page(&CutFilter::default(), 0, usize::MAX).0
    }

    #[test]
    fn a_cut_says_who_for_whom_how_much_why_and_for_how_long() {
        let (mut cuts, mut pool) = (Cuts::default(), slots(&[2.0, 6.0, 4.0]));
        note(&mut cuts, &mut pool, 20.0, 1);
        assert!(all(&cuts).is_empty(), "enough for everybody");
        note(&mut cuts, &mut pool, 10.0, 2);
        note(&mut cuts, &mut pool, 9.0, 3);
        let one = all(&cuts).remove(0);
        assert_eq!((one.number, one.agent.as_str(), one.since_ms, one.until_ms), (1, "a0001", 2, None));
        assert_eq!((one.reason, one.wanted.cores.get(), one.granted.cores.unwrap().get()), (Reason::Need, 6.0, 3.0));
        assert_eq!(one.instead.iter().map(AgentName::as_str).collect::<Vec<_>>(), ["a0002", "a0000"]);
        assert!(one.served_worth.is_some_and(|served| served > one.worth));
        // Another reason is another cut: now all needs fit, and comfort shrinks.
        note(&mut cuts, &mut pool, 11.65, 4);
        let reasons: Vec<_> = all(&cuts).iter().map(|cut| (cut.agent.to_string(), cut.reason, cut.until_ms)).collect();
        assert_eq!(reasons[0], ("a0001".to_owned(), Reason::Need, Some(4)));
        assert!(reasons[1..].iter().all(|(_, reason, until)| (*reason, *until) == (Reason::Comfort, None)));
        note(&mut cuts, &mut pool, 20.0, 5);
        assert!(all(&cuts).iter().all(|cut| cut.until_ms.is_some()));
        let open = CutFilter { open: Some(true), agent: None };
        assert_eq!(cuts.page(&open, 0, 10), (vec![], false));
        let named = CutFilter { open: None, agent: Some("a0001".parse().unwrap()) };
        assert!(cuts.page(&named, 0, 1).1, "it was cut twice");
        assert!(!cuts.page(&named, 1, 1).1);
    }

    #[test]
    fn the_ledger_is_bounded_and_grows_no_more() {
        let (mut cuts, mut pool) = (Cuts::default(), slots(&vec![2.0; KEPT + 300]));
        cuts.prepare(pool.len());
        let (mut order, tight) = (Vec::with_capacity(pool.len()), Capacity::new(100.0, 1e6).unwrap());
        let counted = allocation_counter::measure(|| {
            for now in 0..4 {
                if now % 2 == 0 {
                    let _ = allocate(&tight, &mut pool, &mut order, Outcome::default(), 1.0, 0.0);
                } else {
                    pool.iter_mut().for_each(Slot::relieve);
                }
                cuts.note(&pool, &order, false, now);
            }
        });
        assert_eq!((counted.count_total, all(&cuts).len()), (0, KEPT));
        assert!(all(&cuts).iter().all(|cut| cut.until_ms == Some(3) && !cut.enforced));
        assert_eq!(open(&cuts), 0);
    }

    fn open(cuts: &Cuts) -> u64 {
        for (reason, count) in cuts.by_reason() {
            let open = cuts.open.iter().flatten().filter(|open| open.reason == reason).count();
            assert_eq!(open as u64, count, "{reason:?}");
        }
        cuts.by_reason().map(|(_, count)| count).sum()
    }

    #[test]
    fn more_cuts_than_are_kept_go_on_all_the_same() {
        let (mut cuts, mut pool) = (Cuts::default(), slots(&[2.0; 2000]));
        for now in 1..4 {
            note(&mut cuts, &mut pool, 100.0, now);
            assert_eq!((cuts.count, open(&cuts), all(&cuts).len()), (2000, 2000, KEPT), "all of them once");
        }
        assert!(all(&cuts).iter().all(|cut| cut.since_ms == 1 && cut.until_ms.is_none()));
        note(&mut cuts, &mut pool, 10_000.0, 4);
        assert_eq!((cuts.count, open(&cuts)), (2000, 0));
        assert!(all(&cuts).iter().all(|cut| cut.until_ms == Some(4)));
    }

    /// Nobody is served, and to find that out is to look at everybody: done for each of them it would take minutes.
    #[test]
    fn a_large_pool_may_be_cut_at_once() {
        let (mut cuts, mut pool) = (Cuts::default(), slots(&[2.0; 50_000]));
        let mut order = Vec::new();
        let capacity = Capacity::new(1.0, 1e6).unwrap();
        let _ = allocate(&capacity, &mut pool, &mut order, Outcome::default(), 1.0, 0.0);
        cuts.note(&pool, &order, true, 1);
        assert_eq!(open(&cuts), 50_000);
    }
}
