//! The live members: who they are, what they last said, and when.
//!
//! Changes of membership arrive here from the writer thread only, in the order in which they were made durable;
//! heartbeats and sweeps arrive from anywhere. A member's entry is locked first and its pool inside (see
//! [`crate::pool`]), and no entry is locked while another one is.

use std::{
    collections::BTreeMap,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
};

use dashmap::{DashMap, Entry};
use meanfield_common::{
    budget::Moving,
    identity::{AgentId, AgentName, Category, Epoch, PoolName},
    invalid::Invalid,
    mean_field::{AuxiliaryState, Contribution},
    scarcity::Capacity,
    wire::{Answer, Directives, Heartbeat},
};

use crate::{
    clock::Clock,
    error::Error,
    events::{About, Hub, Kind},
    forecast::Forecast,
    orders::{Live, Orders},
    pool::{Pool, Report, Share},
    store::Record,
    view::{AgentView, Cursor, Filter, PoolView, State, States},
};

#[derive(Debug)]
pub(crate) struct Membership {
    pools: Vec<Pool>,
    members: DashMap<AgentId, Member>,
    /// Pauses everybody, also those who join later.
    paused: AtomicBool,
    /// What else operators ordered.
    orders: Live,
    events: Hub,
}

#[derive(Debug)]
struct Member {
    name: AgentName,
    /// An index into the pools.
    pool: usize,
    category: Category,
    epoch: Epoch,
    paused: bool,
    suspect: bool,
    /// When it was last heard of, on the coordinator's clock.
    heard: u64,
    last: Option<Heartbeat>,
    /// What the last answer let it move, to be said again if it is asked again.
    allowance: Option<Moving>,
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
    pub(crate) fn new(pools: &[PoolName], clock: Clock) -> Self {
        Self {
            pools: pools.iter().cloned().map(Pool::new).collect(),
            members: DashMap::new(),
            paused: AtomicBool::new(false),
            orders: Live::new(pools.len()),
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
        let named = member.map(|member| (self.pools[member.pool].name.clone(), member.name.clone()));
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
        if let Some(index) = self.pool_index(name) {
            self.pools[index].set_capacity(capacity);
            self.orders.fit(index, self.pools[index].capacity());
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
            pool,
            category: record.category,
            epoch: record.epoch,
            paused: record.paused,
            suspect: false,
            heard: now,
            last: None,
            allowance: None,
            yields: false,
            share,
        };
        match self.members.entry(id) {
            Entry::Occupied(mut entry) => {
                let mut share = entry.get().share;
                self.pools[pool].clear(&mut share);
                entry.insert(member(share));
            }
            Entry::Vacant(entry) => {
                entry.insert(member(self.pools[pool].admit(id, &record.name)));
            }
        }
        true
    }

    /// Ends a membership, unless a later epoch has begun.
    pub(crate) fn part(&self, id: AgentId, epoch: Epoch) -> bool {
        self.part_if(id, |member| member.epoch == epoch)
    }

    /// Ends a membership if it is still silent: a heartbeat may have come since it was found overdue.
    pub(crate) fn part_overdue(&self, overdue: &Overdue, heard_before: u64) -> bool {
        self.part_if(overdue.id, |member| member.epoch == overdue.epoch && member.heard < heard_before)
    }

    fn part_if(&self, id: AgentId, condition: impl FnOnce(&Member) -> bool) -> bool {
        let Entry::Occupied(mut entry) = self.members.entry(id) else { return false };
        if !condition(entry.get()) {
            return false;
        }
        let member = entry.get_mut();
        self.pools[member.pool].part(id, &mut member.share);
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

    /// Takes a heartbeat and answers it, and says whether its claim counts less than it says. Nothing is allocated, and
    /// no step depends on the number of members, but for the sort of [`crate::claims`].
    pub(crate) fn heartbeat(&self, id: AgentId, beat: &Heartbeat, now: u64) -> Result<(Answer, bool), Error> {
        let mut entry = self.members.get_mut(&id).ok_or(Error::UnknownAgent(id))?;
        let member = &mut *entry;
        let pool = &self.pools[member.pool];
        Error::check_epoch(id, beat.epoch, member.epoch)?;
        let snapshot = if member.answered(beat)? {
            pool.again(&member.share, beat.round, beat.detail)?
        } else {
            let one = Contribution::new(&beat.state, &beat.action, beat.reward).of(member.category);
            let report = Report { one, claim: beat.claim.as_ref(), round: beat.round, detail: beat.detail, now };
            let snapshot = pool.report(&mut member.share, &report)?;
            member.last = Some(*beat);
            member.allowance = self.orders.grant(member.pool, beat.moving, now);
            snapshot
        };
        // Also a retry is a sign of life.
        member.heard = now;
        let (index, allowance) = (member.pool, member.allowance);
        let recovered = std::mem::replace(&mut member.suspect, false);
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
            allowance,
        };
        Ok((answer, snapshot.capped))
    }

    /// Marks who has been silent since `suspect_before`, and names who has been since `gone_before`.
    pub(crate) fn overdue(&self, suspect_before: u64, gone_before: u64) -> (Vec<Overdue>, Vec<Overdue>) {
        let (mut silent, mut gone) = (Vec::new(), Vec::new());
        for entry in &self.members {
            let member = entry.value();
            let overdue = || Overdue {
                id: *entry.key(),
                name: member.name.clone(),
                pool: self.pools[member.pool].name.clone(),
                epoch: member.epoch,
            };
            if member.heard < gone_before {
                gone.push(overdue());
            } else if member.heard < suspect_before && !member.suspect {
                silent.push(overdue());
            }
        }
        silent.retain(|overdue| match self.members.get_mut(&overdue.id) {
            Some(mut member) if member.heard < suspect_before => {
                member.suspect = true;
                true
            }
            _ => false,
        });
        (silent, gone)
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
            let of = &self.pools[member.pool].name;
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
        let (scarcity, claim_capped) = self.pools[member.pool].standing(&member.share);
        let (ordered, told) = (self.orders.agent(id), self.orders.directives(id, member.pool));
        AgentView {
            id,
            name: member.name.clone(),
            pool: self.pools[member.pool].name.clone(),
            category: member.category,
            epoch: member.epoch,
            state: member.state(),
            paused: member.paused || self.all_paused(),
            own_pause: member.paused,
            fallback: told.fallback,
            own_fallback: ordered.fallback,
            lifecycle: ordered.lifecycle,
            sequence: member.last.map(|last| last.sequence),
            silent_ms: now.saturating_sub(member.heard),
            local: member.last.map(|last| last.state),
            action: member.last.map(|last| last.action),
            reward: member.last.map(|last| last.reward),
            claim: member.last.and_then(|last| last.claim),
            claim_capped,
            grant: scarcity.and_then(|scarcity| scarcity.grant),
        }
    }

    pub(crate) fn pools(&self) -> Vec<PoolView> {
        let mut states = vec![States::default(); self.pools.len()];
        for member in &self.members {
            match member.state() {
                State::Active => states[member.pool].active += 1,
                State::Suspect => states[member.pool].suspect += 1,
            }
        }
        let orders = self.orders.orders();
        let view = |(pool, agents): (&Pool, States)| {
            let sums = pool.sums();
            let ordered = orders.pool(&pool.name);
            PoolView {
                name: pool.name.clone(),
                agents,
                round: pool.round(),
                mean_field: sums.auxiliary().into(),
                mean_reward: sums.mean_reward(),
                scarcity: pool.scarcity(),
                forecast: pool.forecast().map(|forecast| forecast.view()),
                fallback: ordered.fallback,
                budget: ordered.budget,
            }
        };
        self.pools.iter().zip(states).map(view).collect()
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
            members[member.pool].push((member.share, member.last.and_then(|last| last.claim)));
        }
        self.pools.iter().zip(&members).all(|(pool, members)| pool.audit(members))
    }
}

impl Member {
    /// Whether this very heartbeat was taken before.
    fn answered(&self, beat: &Heartbeat) -> Result<bool, Error> {
        let Some(last) = &self.last else { return Ok(false) };
        let (given, taken) = (beat.sequence, last.sequence);
        if given < taken {
            Err(Error::Replayed { given, last: taken })
        } else if given > taken {
            Ok(false)
        } else if beat == last {
            Ok(true)
        } else {
            Err(Error::Conflict(given))
        }
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
        let (membership, id) = (Membership::new(std::slice::from_ref(&pool), Clock::manual()), AgentId(Uuid::nil()));
        let found_silent = || membership.overdue(90, 50).1.remove(0);
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
        assert!(!membership.part_overdue(&overdue, 50));

        membership.join(id, &record(Epoch(2)), 0);
        let overdue = found_silent();
        membership.join(id, &record(Epoch(3)), 0);
        assert!(!membership.part_overdue(&overdue, 50), "it was another epoch that was silent");
        assert!(membership.part_overdue(&found_silent(), 50));
        assert!(membership.agent(id, 0).is_err() && membership.audit());
    }
}
