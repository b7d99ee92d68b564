//! Who is a member and who is paused, as it is written down.
//!
//! The writer thread owns the ledger and decides every change here, in order; a decision is final once the store
//! took it, and only then becomes visible in [`crate::membership`].

mod roll;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use meanfield_common::{
    identity::{AgentId, Epoch, PoolName},
    scarcity::Capacity,
    wire::Register,
};
use uuid::Uuid;

use crate::{
    access::{TokenId, TokenRecord},
    error::Error,
    forecast::Forecast,
    store::{Contents, Record, Write},
};
use roll::{Entry, Roll};

/// How many tokens there may be, each of which takes memory.
const MOST_TOKENS: usize = 100_000;

/// A change that must be durable before anybody hears of it.
#[derive(Debug)]
pub(crate) enum Change {
    Register(Register),
    Leave(AgentId, Epoch),
    Remove(AgentId),
    /// Agents that were found silent in these epochs.
    Gone(Vec<(AgentId, Epoch)>),
    Pause(AgentId, bool),
    PauseAll(bool),
    /// An operator's word on a pool's capacity; none goes back to the configuration.
    Capacity(PoolName, Option<Capacity>),
    /// The network that a pool's agents share from now on; none leaves each with the one it ships with.
    Forecast(PoolName, Option<Arc<Forecast>>),
    /// A token that counts from now on.
    Issue(TokenId, TokenRecord),
    /// A token that counts no more.
    Revoke(TokenId),
    /// Nothing: answered when everything before it is durable.
    Flush,
}

/// What a change means for the live membership.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    Joined(AgentId, Record),
    Left(AgentId, Epoch),
    Paused(AgentId, bool),
    PausedAll(bool),
    Capacity(PoolName, Option<Capacity>),
    Forecast(PoolName, Option<Arc<Forecast>>),
    Issued(TokenId, TokenRecord),
    Revoked(TokenId),
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    agents: Roll,
    paused: bool,
    tokens: HashSet<TokenId>,
}

/// The records that changed since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    agents: BTreeMap<AgentId, Record>,
    paused: Option<bool>,
    capacities: BTreeMap<PoolName, Option<Capacity>>,
    forecasts: BTreeMap<PoolName, Option<Arc<Forecast>>>,
    tokens: BTreeMap<TokenId, Option<TokenRecord>>,
}

impl Dirty {
    pub(crate) fn writes(self) -> Vec<Write> {
        let agents = self.agents.into_iter().map(|(id, record)| Write::Agent(id, record));
        let capacities = self.capacities.into_iter().map(|(pool, capacity)| Write::Capacity(pool, capacity));
        let forecasts = self.forecasts.into_iter().map(|(pool, forecast)| Write::Forecast(pool, forecast));
        let tokens = self.tokens.into_iter().map(|(id, record)| Write::Token(id, record));
        agents.chain(self.paused.map(Write::Paused)).chain(capacities).chain(forecasts).chain(tokens).collect()
    }
}

impl Ledger {
    pub(crate) fn new(contents: Contents) -> Self {
        let tokens = contents.tokens.iter().map(|(id, _)| *id).collect();
        Self { agents: Roll::new(contents.agents), paused: contents.paused, tokens }
    }

    pub(crate) fn decide(&mut self, change: Change, dirty: &mut Dirty) -> Result<Effect, Error> {
        match change {
            Change::Register(register) => Ok(self.register(register, dirty)),
            Change::Leave(id, epoch) => {
                Error::check_epoch(id, epoch, self.member(id)?.epoch)?;
                self.update(id, dirty, |record| record.member = false)?;
                Ok(Effect::Left(id, epoch))
            }
            Change::Remove(id) => {
                let epoch = self.update(id, dirty, |record| (record.member, record.paused) = (false, false))?;
                Ok(Effect::Left(id, epoch))
            }
            Change::Gone(agents) => {
                for (id, epoch) in agents {
                    // One that registered again in the meantime is not gone.
                    if self.member(id).is_ok_and(|record| record.epoch == epoch) {
                        self.update(id, dirty, |record| record.member = false)?;
                    }
                }
                Ok(Effect::Nothing)
            }
            Change::Pause(id, paused) => {
                self.update(id, dirty, |record| record.paused = paused)?;
                Ok(Effect::Paused(id, paused))
            }
            Change::PauseAll(paused) => {
                if self.paused != paused {
                    self.paused = paused;
                    dirty.paused = Some(paused);
                }
                Ok(Effect::PausedAll(paused))
            }
            Change::Capacity(pool, capacity) => {
                dirty.capacities.insert(pool.clone(), capacity);
                Ok(Effect::Capacity(pool, capacity))
            }
            Change::Forecast(pool, forecast) => {
                dirty.forecasts.insert(pool.clone(), forecast.clone());
                Ok(Effect::Forecast(pool, forecast))
            }
            Change::Issue(id, record) => {
                if self.tokens.len() >= MOST_TOKENS {
                    return Err(Error::TooManyTokens(self.tokens.len()));
                }
                self.tokens.insert(id);
                dirty.tokens.insert(id, Some(record.clone()));
                Ok(Effect::Issued(id, record))
            }
            Change::Revoke(id) => {
                if !self.tokens.remove(&id) {
                    return Err(Error::UnknownToken(id));
                }
                dirty.tokens.insert(id, None);
                Ok(Effect::Revoked(id))
            }
            Change::Flush => Ok(Effect::Nothing),
        }
    }

    fn register(&mut self, register: Register, dirty: &mut Dirty) -> Effect {
        let Register { name, pool, category } = register;
        let known = self.agents.named(&pool, &name);
        let entry = match known.and_then(|id| self.agents.get_mut(id)) {
            Some(entry) => {
                entry.epoch = entry.epoch.next();
                entry.member = true;
                entry.category = category;
                entry.clone()
            }
            None => {
                let record = Record { pool, name, category, epoch: Epoch::FIRST, member: true, paused: false };
                self.agents.insert(AgentId(Uuid::new_v4()), record).clone()
            }
        };
        let record = self.agents.record(&entry);
        dirty.agents.insert(entry.id, record.clone());
        Effect::Joined(entry.id, record)
    }

    fn member(&self, id: AgentId) -> Result<&Entry, Error> {
        self.agents.get(id).filter(|entry| entry.member).ok_or(Error::UnknownAgent(id))
    }

    /// Changes a member's record, and says which epoch it is in.
    fn update(&mut self, id: AgentId, dirty: &mut Dirty, change: impl FnOnce(&mut Entry)) -> Result<Epoch, Error> {
        let entry = self.agents.get_mut(id).filter(|entry| entry.member).ok_or(Error::UnknownAgent(id))?;
        let before = entry.clone();
        change(entry);
        let after = entry.clone();
        if after != before {
            dirty.agents.insert(id, self.agents.record(&after));
        }
        Ok(after.epoch)
    }
}
