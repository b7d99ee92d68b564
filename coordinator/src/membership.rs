//! The live members: who they are, what they last said, and when.
//!
//! Changes of membership arrive here from the writer thread only, in the order in which they were made durable;
//! heartbeats and sweeps arrive from anywhere. A member's entry is locked first and its pool inside (see
//! [`crate::pool`]), and no entry is locked while another one is.
//!
//! A member is a box beside the table: the table is never more than seven eighths full and often less than half, and a
//! million empty places should not each be as large as a member.

mod last;
mod moves;

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use dashmap::{DashMap, Entry};
use meanfield_common::{
    budget::Moving,
    identity::{AgentId, AgentName, Category, Epoch, PoolName},
    invalid::Invalid,
    mean_field::{AuxiliaryState, Contribution},
    scarcity::{Capacity, allocation::Need},
    wire::{Answer, Directives, Heartbeat},
};

use crate::{
    clock::Clock,
    error::Error,
    events::{About, Hub, Kind},
    forecast::Forecast,
    orders::{Live, Orders},
    pool::{Audited, Pool, Report, Share},
    store::Record,
    view::{AgentView, Cursor, Filter, PoolView, State},
};
use last::Last;
use moves::{Move, Moves};

#[derive(Debug)]
pub(crate) struct Membership {
    pools: Vec<Pool>,
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
}

/// After how many milliseconds of silence a member is suspect, and after how many it is gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    pub(crate) suspect_after: u64,
    pub(crate) gone_after: u64,
}

#[derive(Debug)]
struct Member {
    name: AgentName,
    /// An index into the pools.
    pool: u32,
    category: Category,
    epoch: Epoch,
    paused: bool,
    suspect: bool,
    /// When it was last heard of, on the coordinator's clock.
    heard: u64,
    last: Option<Last>,
    /// Whether it was last told a cap.
    yields: bool,
    share: Share,
}

/// A member that has been silent for too long.
#[derive(Debug, Clone)]
pub(crate) struct Overdue {
    pub(crate) id: AgentId,
    pub(crate) name: AgentName,
    pub(crate) pool: PoolName,
    pub(crate) epoch: Epoch,
}

impl From<&Overdue> for About {
    fn from(agent: &Overdue) -> Self {
        let (pool, name) = (Some(agent.pool.clone()), Some(agent.name.clone()));
        Self { pool, name, agent: Some(agent.id), ..Self::default() }
    }
}

impl Membership {
    pub(crate) fn new(pools: &[PoolName], deadlines: Deadlines, clock: Clock) -> Self {
        Self {
            pools: pools.iter().cloned().map(Pool::new).collect(),
            members: DashMap::new(),
            paused: AtomicBool::new(false),
            deadlines,
            due: AtomicU64::new(u64::MAX),
            orders: Live::new(pools.len()),
            moves: Moves::default(),
            events: Hub::new(pools, clock),
        }
    }

    pub(crate) fn events(&self) -> &Hub {
        &self.events
    }

    pub(crate) fn orders(&self) -> &Live {
        &self.orders
    }

    /// Puts all that is ordered in effect, but for pauses, capacities and networks.
    pub(crate) fn set_orders(&self, orders: Orders) {
        let pools: Vec<_> = self.pools.iter().map(|pool| (&pool.name, pool.capacity())).collect();
        self.orders.set(orders, &pools);
    }

    /// A member in an event.
    pub(crate) fn about(&self, id: AgentId) -> About {
        let member = self.members.get(&id);
        let named = member.map(|member| (self.pool_of(&member).name.clone(), member.name.clone()));
        let (pool, name) = named.unzip();
        About { pool, name, agent: Some(id), ..About::default() }
    }

    /// Gives pools the capacities of the configuration.
    pub(crate) fn configure(&self, capacities: &[(PoolName, Capacity)]) {
        for pool in &self.pools {
            let found = capacities.iter().find(|(name, _)| *name == pool.name);
            pool.configure(found.map(|(_, capacity)| *capacity));
        }
    }

    /// An operator's word on a pool's capacity; none goes back to the configuration.
    pub(crate) fn set_capacity(&self, name: &PoolName, capacity: Option<Capacity>) {
        let Some(index) = self.pool_index(name) else { return };
        let pool = &self.pools[index];
        pool.set_capacity(capacity);
        self.orders.fit(index, pool.capacity());
        if pool.scarcity().is_none() {
            return;
        }
        // What was claimed while there was nothing to share counts from now on.
        for mut entry in self.members.iter_mut().filter(|member| member.pool as usize == index) {
            let claim = entry.last().and_then(|last| last.claim);
            let Member { name, share, .. } = &mut **entry;
            if let Some(claim) = &claim {
                pool.claim_again(share, name, claim);
            }
        }
    }

    /// The network that a pool's members share; none leaves each with the one it ships with.
    pub(crate) fn set_forecast(&self, name: &PoolName, forecast: Option<Arc<Forecast>>) {
        if let Some(index) = self.pool_index(name) {
            self.pools[index].set_forecast(forecast);
        }
    }

    /// The network that a pool's members share.
    pub(crate) fn forecast(&self, name: &PoolName) -> Result<Option<Arc<Forecast>>, Error> {
        self.pool_index(name).map(|index| self.pools[index].forecast()).ok_or_else(|| self.unknown_pool(name))
    }

    fn unknown_pool(&self, name: &PoolName) -> Error {
        Error::UnknownPool { name: name.clone(), known: self.known_pools() }
    }

    /// The place of a pool.
    pub(crate) fn known(&self, name: &PoolName) -> Result<usize, Error> {
        self.pool_index(name).ok_or_else(|| self.unknown_pool(name))
    }

    /// What a pool's members may reserve together.
    pub(crate) fn capacity(&self, name: &PoolName) -> Option<Capacity> {
        self.pool_index(name).and_then(|index| self.pools[index].capacity())
    }

    fn pool_index(&self, name: &PoolName) -> Option<usize> {
        self.pools.iter().position(|pool| pool.name == *name)
    }

    /// The pools' names, for an error message.
    pub(crate) fn known_pools(&self) -> String {
        self.pools.iter().map(|pool| pool.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    pub(crate) fn check_pool(&self, name: &PoolName) -> Result<(), Invalid> {
        let bound = || format!("one of {}", self.known_pools());
        self.pool_index(name).map(|_| ()).ok_or_else(|| Invalid::new("pool", name, bound()))
    }

    /// Makes an agent a member, or begins a new epoch of one: nothing that an earlier epoch reported counts any
    /// more. False if its pool is not one of ours.
    pub(crate) fn join(&self, id: AgentId, record: &Record, now: u64) -> bool {
        let Some(pool) = self.pool_index(&record.pool) else { return false };
        let member = |share| Member {
            name: record.name.clone(),
            pool: pool as u32,
            category: record.category,
            epoch: record.epoch,
            paused: record.paused,
            suspect: false,
            heard: now,
            last: None,
            yields: false,
            share,
        };
        match self.members.entry(id) {
            Entry::Occupied(mut entry) => {
                let old = entry.get_mut();
                let (mut share, latest) = (old.share, old.latest());
                self.pools[pool].clear(&mut share, latest);
                if old.suspect {
                    self.pools[pool].suspect(false);
                }
                **old = member(share);
                self.moves.set(id, Move::default());
            }
            Entry::Vacant(entry) => {
                entry.insert(Box::new(member(self.pools[pool].admit(id))));
            }
        }
        self.expect_until(now.saturating_add(self.deadlines.suspect_after));
        true
    }

    /// Ends a membership, unless a later epoch has begun.
    pub(crate) fn part(&self, id: AgentId, epoch: Epoch) -> bool {
        self.part_if(id, |member| member.epoch == epoch)
    }

    /// Ends a membership if it is still silent: a heartbeat may have come since it was found overdue.
    pub(crate) fn part_overdue(&self, overdue: &Overdue, now: u64) -> bool {
        self.part_if(overdue.id, |member| {
            member.epoch == overdue.epoch && member.silent_until(self.deadlines.gone_after) <= now
        })
    }

    fn pool_of(&self, member: &Member) -> &Pool {
        &self.pools[member.pool as usize]
    }

    /// Somebody's deadline is then.
    fn expect_until(&self, deadline: u64) {
        self.due.fetch_min(deadline, Ordering::Relaxed);
    }

    fn part_if(&self, id: AgentId, condition: impl FnOnce(&Member) -> bool) -> bool {
        let Entry::Occupied(mut entry) = self.members.entry(id) else { return false };
        if !condition(entry.get()) {
            return false;
        }
        let member = entry.get_mut();
        let (pool, latest) = (&self.pools[member.pool as usize], member.latest());
        if member.suspect {
            pool.suspect(false);
        }
        pool.part(id, &mut member.share, latest);
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
    /// for the box of a member's first claim and its place among those that ask for a budget, and no step depends on the number of members, but for the sort of
    /// [`crate::claims`].
    pub(crate) fn heartbeat(&self, id: AgentId, beat: &Heartbeat, now: u64) -> Result<(Answer, bool), Error> {
        let mut entry = self.members.get_mut(&id).ok_or(Error::UnknownAgent(id))?;
        let member = &mut **entry;
        let pool = &self.pools[member.pool as usize];
        Error::check_epoch(id, beat.epoch, member.epoch)?;
        let before = member.latest();
        let (index, mut moved) = (member.pool as usize, self.moves.get(id));
        let snapshot = if member.answered(beat, moved.asked)? {
            pool.again(&member.share, before, beat.round, beat.detail)?
        } else {
            let (name, one) = (&member.name, member.contribution(beat));
            let (claim, round, detail) = (beat.claim.as_ref(), beat.round, beat.detail);
            let report = Report { name, before, one, claim, round, detail, now };
            let snapshot = pool.report(&mut member.share, &report)?;
            match &mut member.last {
                Some(last) => last.replace(beat),
                None => member.last = Some(Last::pack(beat)),
            }
            moved = Move { asked: beat.moving, allowed: self.orders.grant(index, beat.moving, now) };
            self.moves.set(id, moved);
            snapshot
        };
        // Also a retry is a sign of life.
        member.heard = now;
        let recovered = std::mem::replace(&mut member.suspect, false);
        if recovered {
            pool.suspect(false);
            self.expect_until(member.silent_until(self.deadlines.suspect_after));
        }
        let yields = snapshot.scarcity.is_some_and(|scarcity| scarcity.grant.is_some());
        let yielded = std::mem::replace(&mut member.yields, yields);
        let paused = member.paused || self.all_paused();
        drop(entry);
        if recovered {
            self.events.transition(Kind::Recovered, index, id);
        }
        if yields != yielded {
            self.events.transition(if yields { Kind::Granted } else { Kind::Relieved }, index, id);
        }
        let answer = Answer {
            sequence: beat.sequence,
            auxiliary: AuxiliaryState { detail: snapshot.detail, ..snapshot.others().auxiliary() },
            team_reward: snapshot.team.mean_reward(),
            directives: Directives { paused, ..self.orders.directives(id, index) },
            scarcity: snapshot.scarcity,
            forecast: snapshot.forecast,
            allowance: moved.allowed,
        };
        Ok((answer, snapshot.capped))
    }

    /// Marks who has become suspect, and names who is gone. A look at everybody is taken only when somebody's deadline
    /// may have passed: with a million members who report in time, that is seldom.
    pub(crate) fn overdue(&self, now: u64) -> (Vec<Overdue>, Vec<Overdue>) {
        if now < self.due.load(Ordering::Relaxed) {
            return Default::default();
        }
        // Before looking: whoever joins or speaks up meanwhile puts its own deadline here.
        self.due.store(u64::MAX, Ordering::Relaxed);
        let Deadlines { suspect_after, gone_after } = self.deadlines;
        let (mut silent, mut gone, mut due) = (Vec::new(), Vec::new(), u64::MAX);
        for entry in &self.members {
            let member = entry.value();
            let overdue = || Overdue {
                id: *entry.key(),
                name: member.name.clone(),
                pool: self.pool_of(member).name.clone(),
                epoch: member.epoch,
            };
            if member.silent_until(gone_after) <= now {
                gone.push(overdue());
            } else if member.silent_until(suspect_after) <= now && !member.suspect {
                silent.push(overdue());
            }
            due = due.min(member.silent_until(if member.suspect { gone_after } else { suspect_after }));
        }
        self.expect_until(due);
        silent.retain(|overdue| match self.members.get_mut(&overdue.id) {
            Some(mut member) if member.silent_until(suspect_after) <= now && !member.suspect => {
                member.suspect = true;
                self.pool_of(&member).suspect(true);
                true
            }
            _ => false,
        });
        (silent, gone)
    }

    /// Asks something of a member's pool and name, which its id stands for and which never change.
    pub(crate) fn identify<T>(&self, id: AgentId, ask: impl FnOnce(&PoolName, &AgentName) -> T) -> Option<T> {
        let member = self.members.get(&id)?;
        Some(ask(&self.pool_of(&member).name, &member.name))
    }

    pub(crate) fn agent(&self, id: AgentId, now: u64) -> Result<AgentView, Error> {
        let member = self.members.get(&id).ok_or(Error::UnknownAgent(id))?;
        Ok(self.view(id, &member, now))
    }

    /// The first `limit` members after a cursor, in order of pool and name.
    pub(crate) fn agents(&self, filter: &Filter, after: Option<&Cursor>, limit: usize, now: u64) -> Vec<AgentView> {
        let mut page = BTreeMap::new();
        for entry in &self.members {
            let member = entry.value();
            let of = &self.pool_of(member).name;
            let place = (of.as_str(), member.name.as_str());
            let wanted = filter.admits(of, &member.name, member.category, member.state());
            let wanted = wanted && after.is_none_or(|after| after.place() < place);
            if !wanted {
                continue;
            }
            let full = page.len() >= limit;
            if full && page.last_key_value().is_some_and(|(last, _): (&Cursor, _)| last.place() < place) {
                continue;
            }
            page.insert(Cursor::new(of, &member.name), self.view(*entry.key(), member, now));
            if full {
                page.pop_last();
            }
        }
        page.into_values().collect()
    }

    fn view(&self, id: AgentId, member: &Member, now: u64) -> AgentView {
        let scarcity = self.pool_of(member).standing(&member.share);
        let last = member.last();
        let claim = last.and_then(|last| last.claim);
        let (ordered, told) = (self.orders.agent(id), self.orders.directives(id, member.pool as usize));
        AgentView {
            id,
            name: member.name.clone(),
            pool: self.pool_of(member).name.clone(),
            category: member.category,
            epoch: member.epoch,
            state: member.state(),
            paused: member.paused || self.all_paused(),
            own_pause: member.paused,
            fallback: told.fallback,
            own_fallback: ordered.fallback,
            lifecycle: ordered.lifecycle,
            sequence: last.map(|last| last.sequence),
            silent_ms: now.saturating_sub(member.heard),
            local: last.map(|last| last.state),
            action: last.map(|last| last.action),
            reward: last.map(|last| last.reward),
            claim,
            claim_capped: claim.as_ref().is_some_and(|claim| Need::from(claim).capped),
            grant: scarcity.and_then(|scarcity| scarcity.grant),
        }
    }

    pub(crate) fn pools(&self) -> Vec<PoolView> {
        let orders = self.orders.orders();
        let view = |pool: &Pool| {
            let sums = pool.sums();
            let ordered = orders.pool(&pool.name);
            PoolView {
                name: pool.name.clone(),
                agents: pool.states(),
                round: pool.round(),
                mean_field: sums.auxiliary().into(),
                mean_reward: sums.mean_reward(),
                scarcity: pool.scarcity(),
                forecast: pool.forecast().map(|forecast| forecast.view()),
                fallback: ordered.fallback,
                budget: ordered.budget,
            }
        };
        self.pools.iter().map(view).collect()
    }

    pub(crate) fn pool(&self, name: &PoolName) -> Result<PoolView, Error> {
        let found = self.pools().into_iter().find(|pool| pool.name == *name);
        found.ok_or_else(|| self.unknown_pool(name))
    }

    /// Recomputes every pool's sums from its members and compares. True says that they agree; meaningful only while
    /// nobody joins, reports or leaves, since the members are not all looked at in the same instant.
    pub(crate) fn audit(&self) -> bool {
        let mut members = vec![Vec::new(); self.pools.len()];
        for member in &self.members {
            let (share, latest, suspect) = (member.share, member.latest(), member.suspect);
            let claim = member.last().and_then(|last| last.claim);
            members[member.pool as usize].push(Audited { share, latest, claim, suspect });
        }
        self.pools.iter().zip(&members).all(|(pool, members)| pool.audit(members))
    }
}

impl Member {
    /// Whether this very heartbeat was taken before, which asked to move so much.
    fn answered(&self, beat: &Heartbeat, asked: Option<Moving>) -> Result<bool, Error> {
        let Some(last) = &self.last else { return Ok(false) };
        let (given, taken) = (beat.sequence, last.sequence);
        if given < taken {
            Err(Error::Replayed { given, last: taken })
        } else if given > taken {
            Ok(false)
        } else if *beat == (Heartbeat { moving: asked, ..last.unpack(self.epoch) }) {
            Ok(true)
        } else {
            Err(Error::Conflict(given))
        }
    }

    /// What it said last in this epoch.
    fn last(&self) -> Option<Heartbeat> {
        self.last.as_ref().map(|last| last.unpack(self.epoch))
    }

    /// What a heartbeat of it puts into the sums.
    fn contribution(&self, beat: &Heartbeat) -> Contribution {
        Contribution::new(&beat.state, &beat.action, beat.reward).of(self.category)
    }

    /// What it has in the sums: computed anew each time, which takes less than the memory it would need is worth.
    fn latest(&self) -> Option<Contribution> {
        self.last().map(|last| self.contribution(&last))
    }

    /// When it will have been silent for so long.
    fn silent_until(&self, age: u64) -> u64 {
        self.heard.saturating_add(age)
    }

    fn state(&self) -> State {
        if self.suspect { State::Suspect } else { State::Active }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::{action::Action, identity::Sequence, reward::Reward, state::LocalState};
    use uuid::Uuid;

    #[test]
    fn one_that_speaks_up_after_it_was_found_silent_stays() {
        let pool: PoolName = "default".parse().unwrap();
        let record = |epoch| Record {
            pool: pool.clone(),
            name: "a".parse().unwrap(),
            category: Category::Io,
            epoch,
            member: true,
            paused: false,
        };
        let deadlines = Deadlines { suspect_after: 10, gone_after: 50 };
        let membership = Membership::new(std::slice::from_ref(&pool), deadlines, Clock::manual());
        let id = AgentId(Uuid::nil());
        let found_silent = || membership.overdue(100).1.remove(0);
        membership.join(id, &record(Epoch(1)), 0);

        let overdue = found_silent();
        let beat = Heartbeat {
            epoch: Epoch(1),
            sequence: Sequence(1),
            round: None,
            state: LocalState::default(),
            action: Action::HOLD,
            reward: Reward::default(),
            claim: None,
            detail: false,
            moving: None,
        };
        membership.heartbeat(id, &beat, 100).unwrap();
        assert!(!membership.part_overdue(&overdue, 100));

        membership.join(id, &record(Epoch(2)), 0);
        let overdue = found_silent();
        membership.join(id, &record(Epoch(3)), 0);
        assert!(!membership.part_overdue(&overdue, 100), "it was another epoch that was silent");
        assert!(membership.part_overdue(&found_silent(), 100));
        assert!(membership.agent(id, 0).is_err() && membership.audit());
    }
    #[test]
    fn nobodys_deadline_is_missed_because_nobody_looked() {
        let pool: PoolName = "default".parse().unwrap();
        let deadlines = Deadlines { suspect_after: 45, gone_after: 120 };
        let membership = Membership::new(std::slice::from_ref(&pool), deadlines, Clock::manual());
        let record = |name: &str| Record {
            pool: pool.clone(),
            name: name.parse().unwrap(),
            category: Category::Io,
            epoch: Epoch(1),
            member: true,
            paused: false,
        };
        let beat = Heartbeat {
            epoch: Epoch(1),
            sequence: Sequence(1),
            round: None,
            state: LocalState::default(),
            action: Action::HOLD,
            reward: Reward::default(),
            claim: None,
            detail: false,
            moving: None,
        };
        let ids = [1, 2].map(|number| AgentId(Uuid::from_u128(number)));
        let found = |now| {
            let (suspect, gone) = membership.overdue(now);
            assert!(membership.audit());
            let ids = |all: Vec<Overdue>| all.into_iter().map(|one| one.id).collect::<Vec<_>>();
            (ids(suspect), ids(gone))
        };
        membership.join(ids[0], &record("a"), 0);
        assert_eq!(found(44), (vec![], vec![]));
        assert_eq!(found(45), (vec![ids[0]], vec![]));
        membership.join(ids[1], &record("b"), 50);
        // A suspect that speaks up has an earlier deadline than it had as a suspect.
        membership.heartbeat(ids[0], &beat, 60).unwrap();
        assert_eq!(found(94), (vec![], vec![]));
        assert_eq!(found(95), (vec![ids[1]], vec![]));
        assert_eq!(found(105), (vec![ids[0]], vec![]));
        assert_eq!(found(170), (vec![], vec![ids[1]]));
        assert_eq!(found(171), (vec![], vec![ids[1]]), "as long as nobody takes it out");
        assert_eq!(membership.pools()[0].agents.suspect, 2);
    }
}
