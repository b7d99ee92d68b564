//! The live members: who they are, what they last said, and when.
//!
//! Changes of membership arrive here from the writer thread only, in the order in which they were made durable;
//! heartbeats and sweeps arrive from anywhere. A member's entry is locked first and its pool inside (see
//! [`crate::pool`]), and no entry is locked while another one is. A member holds its pool, so a heartbeat needs no list of
//! them; a pool is removed only when nobody is in it.
//!
//! A member is a box beside the table: the table is never more than seven eighths full and often less than half, and a
//! million empty places should not each be as large as a member.
//!
//! | module | holds |
//! |---|---|
//! | `member`, `last`, `moves` | one member, what it said last, what it asked to move |
//! | `directory`, `pools` | the pools by name, and what operators say about them |
//! | `sweep` | who has been silent for too long |
//! | `look` | what operators see |

mod directory;
mod last;
mod look;
mod member;
mod moves;
mod pools;
mod sweep;

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicU64, Ordering},
};

use dashmap::{DashMap, Entry};
use meanfield_common::{
    identity::{AgentId, Epoch, PoolName},
    mean_field::{Aspects, AuxiliaryState},
    scarcity::{Scarcity, Weight},
    wire::{Answer, Directives, Heartbeat},
};
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use crate::{
    clock::Clock,
    error::Error,
    events::{Hub, Kind},
    orders::Live,
    pool::{Pool, Report},
    store::Record,
};
pub(crate) use directory::names;
pub(crate) use sweep::Deadlines;

use directory::Directory;
use last::Last;
use member::Member;
use moves::{Move, Moves};

#[derive(Debug)]
pub(crate) struct Membership {
    pools: Directory,
    members: DashMap<AgentId, Box<Member>>,
    /// Pauses everybody, also those who join later.
    paused: AtomicBool,
    deadlines: Deadlines,
    /// Nobody's deadline passes before this: until then there is no need to look at everybody.
    due: AtomicU64,
    /// What else operators ordered.
    orders: Live,
    moves: Moves,
    events: Hub,
    settled: RwLock<()>,
}

impl Membership {
    /// A membership with the pools of the configuration.
    pub(crate) fn new(pools: &[PoolName], deadlines: Deadlines, clock: Clock) -> Self {
        let membership = Self {
            pools: Directory::default(),
            members: DashMap::new(),
            paused: AtomicBool::new(false),
            deadlines,
            due: AtomicU64::new(u64::MAX),
            orders: Live::default(),
            moves: Moves::default(),
            events: Hub::new(clock),
            settled: RwLock::default(),
        };
        pools.iter().for_each(|pool| membership.pools.insert(Arc::new(Pool::new(pool.clone(), true))));
        membership
    }

    pub(crate) fn events(&self) -> &Hub {
        &self.events
    }

    /// While this is held, everything shows the same commit: what is ordered, its entity tags, and what came of it.
    pub(crate) fn settled(&self) -> RwLockReadGuard<'_, ()> {
        self.settled.read()
    }

    /// Has whoever wants that wait until a commit is in effect.
    pub(crate) fn unsettle(&self) -> RwLockWriteGuard<'_, ()> {
        self.settled.write()
    }

    pub(crate) fn orders(&self) -> &Live {
        &self.orders
    }

    /// Makes an agent a member, or begins a new epoch of one: nothing that an earlier epoch reported counts any
    /// more. False if its pool is not one of ours.
    pub(crate) fn join(&self, id: AgentId, record: &Record, now: u64) -> bool {
        let Some(pool) = self.pools.get(&record.pool) else { return false };
        let member = |share| Member {
            name: record.name.clone(),
            pool: Arc::clone(&pool),
            category: record.category,
            epoch: record.epoch,
            aspects: record.aspects,
            paused: record.paused,
            suspect: false,
            heard: now,
            last: None,
            weight: Weight::default(),
            yields: false,
            share,
        };
        match self.members.entry(id) {
            Entry::Occupied(mut entry) => {
                let old = entry.get_mut();
                let (mut share, latest) = (old.share, old.latest());
                pool.clear(&mut share, latest);
                if old.suspect {
                    pool.suspect(&share, false);
                }
                **old = member(share);
                self.moves.set(id, Move::default());
            }
            Entry::Vacant(entry) => {
                entry.insert(Box::new(member(pool.admit(id))));
            }
        }
        self.expect_until(now.saturating_add(self.deadlines.suspect_after));
        true
    }

    /// Ends a membership, unless a later epoch has begun.
    pub(crate) fn part(&self, id: AgentId, epoch: Epoch) -> bool {
        self.part_if(id, |member| member.epoch == epoch)
    }

    fn part_if(&self, id: AgentId, condition: impl FnOnce(&Member) -> bool) -> bool {
        let Entry::Occupied(mut entry) = self.members.entry(id) else { return false };
        if !condition(entry.get()) {
            return false;
        }
        let member = entry.get_mut();
        let latest = member.latest();
        if member.suspect {
            member.pool.suspect(&member.share, false);
        }
        member.pool.part(id, &mut member.share, latest);
        self.moves.set(id, Move::default());
        entry.remove();
        true
    }

    pub(crate) fn pause(&self, id: AgentId, paused: bool) {
        if let Some(mut member) = self.members.get_mut(&id) {
            member.paused = paused;
        }
    }

    pub(crate) fn pause_all(&self, paused: bool) {
        self.paused.store(paused, Ordering::Relaxed);
    }

    pub(crate) fn all_paused(&self) -> bool {
        self.paused.load(Ordering::Relaxed)
    }

    /// Takes a heartbeat and answers it, and says whether its claim counts less than it says. Nothing is allocated, but
    /// for the box of a member's first claim, its place among those that ask for a budget, and the details of g where they
    /// are told; and no step depends on the number of members, but for the sort of [`crate::claims`].
    pub(crate) fn heartbeat(&self, id: AgentId, beat: &Heartbeat, now: u64) -> Result<(Answer, bool), Error> {
        let mut entry = self.members.get_mut(&id).ok_or(Error::UnknownAgent(id))?;
        let member = &mut **entry;
        let pool = &member.pool;
        Error::check_epoch(id, beat.epoch, member.epoch)?;
        let before = member.latest();
        let mut moved = self.moves.get(id);
        let detail = if beat.detail { Aspects::ALL } else { member.aspects };
        let snapshot = if member.answered(beat, moved.asked)? {
            pool.again(&member.share, before, beat.round, detail)?
        } else {
            let given = self.orders.agent(id).entitlement;
            let weight = Member::weight(beat, given.as_ref());
            let (name, one) = (&member.name, member.contribution(beat, weight));
            let (claim, round) = (beat.claim.as_ref(), beat.round);
            let report = Report { name, before, one, claim, given: given.as_ref(), round, detail, now };
            let snapshot = pool.report(&mut member.share, &report)?;
            member.weight = weight;
            match &mut member.last {
                Some(last) => last.replace(beat),
                None => member.last = Some(Last::pack(beat)),
            }
            moved = Move { asked: beat.moving, allowed: pool.orders.grant(beat.moving, now) };
            self.moves.set(id, moved);
            snapshot
        };
        // Also a retry is a sign of life.
        member.heard = now;
        let recovered = std::mem::replace(&mut member.suspect, false);
        if recovered {
            pool.suspect(&member.share, false);
            self.expect_until(member.silent_until(self.deadlines.suspect_after));
        }
        let yields = snapshot.scarcity.is_some_and(|scarcity| scarcity.grant.is_some());
        let yielded = std::mem::replace(&mut member.yields, yields);
        let paused = member.paused || self.all_paused();
        let directives = Directives { paused, ..self.orders.directives(id, &pool.orders) };
        let turned = (yields != yielded).then_some(if yields { Kind::Granted } else { Kind::Relieved });
        let happened = [recovered.then_some(Kind::Recovered), turned];
        let happened = happened.map(|kind| kind.map(|kind| (kind, pool.name.clone())));
        drop(entry);
        for (kind, pool) in happened.into_iter().flatten() {
            self.events.transition(kind, pool, id);
        }
        let others = snapshot.others().auxiliary();
        let answer = Answer {
            sequence: beat.sequence,
            auxiliary: AuxiliaryState { detail: snapshot.detail, ..others },
            team_reward: snapshot.team_reward,
            directives,
            scarcity: snapshot.scarcity.map(|told| {
                // As long as the coordinator itself would count on one of whom nothing is heard.
                Scarcity { valid_ms: told.grant.map(|_| self.deadlines.gone_after), ..told }
            }),
            forecast: snapshot.forecast,
            allowance: moved.allowed,
            models: None,
        };
        Ok((answer, snapshot.capped))
    }
}
