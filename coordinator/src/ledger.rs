//! Who is a member and who is paused, as it is written down.
//!
//! The writer thread owns the ledger and decides every change here, in order; a decision is final once the store
//! took it, and only then becomes visible in [`crate::membership`].

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    sync::Arc,
};

use meanfield_common::{
    identity::{AgentId, AgentName, Epoch, PoolName},
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
    agents: HashMap<AgentId, Record>,
    ids: HashMap<(PoolName, AgentName), AgentId>,
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
        let ids = contents.agents.iter().map(|(id, record)| ((record.pool.clone(), record.name.clone()), *id));
        let tokens = contents.tokens.iter().map(|(id, _)| *id).collect();
        Self { ids: ids.collect(), paused: contents.paused, tokens, agents: contents.agents.into_iter().collect() }
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
                let record = self.update(id, dirty, |record| (record.member, record.paused) = (false, false))?;
                Ok(Effect::Left(id, record.epoch))
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
        let id = *self.ids.entry((pool.clone(), name.clone())).or_insert_with(|| AgentId(Uuid::new_v4()));
        let record = self
            .agents
            .entry(id)
            .and_modify(|record| {
                record.epoch = record.epoch.next();
                record.member = true;
                record.category = category;
            })
            .or_insert(Record { pool, name, category, epoch: Epoch::FIRST, member: true, paused: false });
        dirty.agents.insert(id, record.clone());
        Effect::Joined(id, record.clone())
    }

    fn member(&self, id: AgentId) -> Result<&Record, Error> {
        self.agents.get(&id).filter(|record| record.member).ok_or(Error::UnknownAgent(id))
    }

    /// Changes a member's record.
    fn update(&mut self, id: AgentId, dirty: &mut Dirty, change: impl FnOnce(&mut Record)) -> Result<&Record, Error> {
        let record = self.agents.get_mut(&id).filter(|record| record.member).ok_or(Error::UnknownAgent(id))?;
        let before = record.clone();
        change(record);
        if *record != before {
            dirty.agents.insert(id, record.clone());
        }
        Ok(record)
    }
}
