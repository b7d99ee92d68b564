//! Who is a member and who is paused, as it is written down.
//!
//! The writer thread owns the ledger and decides every change here, in order; a decision is final once the store
//! took it, and only then becomes visible in [`crate::membership`].

mod orders;
mod pools;
mod roll;
mod tokens;

use std::{
    collections::{BTreeMap, HashSet},
    sync::Arc,
};

use meanfield_common::{
    identity::{AgentId, Epoch, ModelName, PoolName},
    invalid::Invalid,
    scarcity::Capacity,
    wire::Register,
};
use uuid::Uuid;

use crate::{
    access::{Grant, TokenId, TokenRecord},
    audit::Note,
    error::Error,
    forecast::Forecast,
    membership::names,
    models::Document,
    options::Options,
    orders::{AgentOrder, Order, Ordered, Orders, PoolOrder, Terms},
    settings::PoolRecord,
    store::{Contents, Record, Write},
};
use pools::Pools;
use roll::{Entry, Roll};

/// A change that must be durable before anybody hears of it.
#[derive(Debug)]
pub(crate) enum Change {
    Register(Register),
    Leave(AgentId, Epoch),
    /// Agents that were found silent in these epochs.
    Gone(Vec<(AgentId, Epoch)>),
    /// What an operator wants.
    Order(Order),
    /// A token that counts from now on.
    Issue(TokenId, TokenRecord),
    /// A token that counts no more, and what it stood for.
    Revoke(TokenId, Grant),
    /// What a base model is from now on, its files being there already, and what is said of that if somebody ordered it.
    Model(ModelName, Option<Document>, Option<Note>),
    /// What was changed elsewhere and has to be in the audit log.
    Note(Note),
    /// Nothing: answered when everything before it is durable.
    Flush,
}

/// What the nodes of a pool have that agents report, if that is known: it is not written down.
pub(crate) type Reported<'a> = &'a dyn Fn(&PoolName) -> Option<Capacity>;

/// What a change means for the live membership.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    Joined(AgentId, Record),
    Left(AgentId, Epoch),
    /// An order was carried out, and this came of it.
    Ordered(Order, Box<Ordered>, Aftermath),
    /// An order was only tried.
    Tried(Box<Ordered>),
    Issued(TokenId, TokenRecord),
    Revoked(TokenId, Box<Ordered>),
    Nothing,
}

/// What an order means for members.
#[derive(Debug, PartialEq, Default)]
pub(crate) struct Aftermath {
    /// The epoch that the end of a membership ended.
    pub(crate) ended: Option<Epoch>,
    /// Who has a pool again.
    pub(crate) housed: Vec<(AgentId, Record)>,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    agents: Roll,
    max_agents: usize,
    pools: Pools,
    /// The capacities of the configuration.
    capacities: BTreeMap<PoolName, Capacity>,
    orders: Orders,
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
    models: BTreeMap<ModelName, Option<Document>>,
    fallback: Option<bool>,
    pools: BTreeMap<PoolName, Option<PoolRecord>>,
    pool_orders: BTreeMap<PoolName, PoolOrder>,
    agent_orders: BTreeMap<AgentId, AgentOrder>,
}

impl Dirty {
    pub(crate) fn writes(self) -> Vec<Write> {
        let agents = self.agents.into_iter().map(|(id, record)| Write::Agent(id, record));
        let capacities = self.capacities.into_iter().map(|(pool, capacity)| Write::Capacity(pool, capacity));
        let forecasts = self.forecasts.into_iter().map(|(pool, forecast)| Write::Forecast(pool, forecast));
        let tokens = self.tokens.into_iter().map(|(id, record)| Write::Token(id, record));
        let models = self.models.into_iter().map(|(name, document)| Write::Model(name, document));
        let pools = self.pools.into_iter().map(|(pool, record)| Write::Pool(pool, record));
        let of_pools = self.pool_orders.into_iter().map(|(pool, order)| Write::PoolOrder(pool, order));
        let ordered = self.agent_orders.into_iter().map(|(id, order)| Write::AgentOrder(id, order));
        let everybody = self.paused.map(Write::Paused).into_iter().chain(self.fallback.map(Write::Fallback));
        let pools = pools.chain(capacities).chain(forecasts).chain(of_pools);
        agents.chain(everybody).chain(pools).chain(ordered).chain(tokens).chain(models).collect()
    }
}

impl Ledger {
    /// What a store holds, with the pools and capacities of the configuration.
    pub(crate) fn new(contents: Contents, options: &Options) -> Self {
        let tokens = contents.tokens.iter().map(|(id, _)| *id).collect();
        let pools = Pools::new(&contents, &options.pools, options.max_pools);
        let capacities = options.capacities.iter().cloned().collect();
        let orders = Orders { settings: pools.settings(&contents), ..orders::of(&contents) };
        let (agents, max_agents) = (Roll::new(contents.agents), options.max_agents);
        Self { orders, pools, capacities, agents, max_agents, tokens }
    }

    /// Decides a change: what it means for the live membership, and what the audit log says of it.
    pub(crate) fn decide(
        &mut self,
        change: Change,
        terms: &Terms,
        reported: Reported<'_>,
        dirty: &mut Dirty,
    ) -> Result<(Effect, Option<Note>), Error> {
        match change {
            Change::Order(order) => self.order(order, terms, reported, dirty),
            Change::Issue(id, record) => self.issue(id, record, terms, dirty),
            Change::Revoke(id, grant) => self.revoke(id, &grant, terms, dirty),
            Change::Model(name, document, note) => {
                dirty.models.insert(name, document);
                Ok((Effect::Nothing, note))
            }
            Change::Note(note) => Ok((Effect::Nothing, Some(note))),
            Change::Register(register) => Ok((self.register(register, dirty)?, None)),
            Change::Leave(id, epoch) => {
                Error::check_epoch(id, epoch, self.member(id)?.epoch)?;
                self.update(id, dirty, |record| record.member = false)?;
                Ok((Effect::Left(id, epoch), None))
            }
            Change::Gone(agents) => {
                for (id, epoch) in agents {
                    // One that registered again in the meantime is not gone.
                    if self.member(id).is_ok_and(|record| record.epoch == epoch) {
                        self.update(id, dirty, |record| record.member = false)?;
                    }
                }
                Ok((Effect::Nothing, None))
            }
            Change::Flush => Ok((Effect::Nothing, None)),
        }
    }

    fn register(&mut self, register: Register, dirty: &mut Dirty) -> Result<Effect, Error> {
        let Register { name, pool, category, wants: aspects } = register;
        if !self.orders.settings.contains_key(&pool) {
            return Err(Invalid::new("pool", pool, format!("one of {}", names(self.orders.settings.keys()))).into());
        }
        let (known, registered) = (self.agents.named(&pool, &name), self.agents.len());
        let entry = match known.and_then(|id| self.agents.get_mut(id)) {
            Some(entry) => {
                entry.epoch = entry.epoch.next();
                entry.member = true;
                (entry.category, entry.aspects) = (category, aspects);
                entry.clone()
            }
            None if registered >= self.max_agents => return Err(Error::TooManyAgents(registered)),
            None => {
                let epoch = Epoch::FIRST;
                let record = Record { pool, name, category, epoch, aspects, member: true, paused: false };
                // Ordered by time: who registers together lies together, in the store and, after a start, in memory, and
                // often reports together too.
                self.agents.insert(AgentId(Uuid::now_v7()), record).clone()
            }
        };
        let record = self.agents.record(&entry);
        dirty.agents.insert(entry.id, record.clone());
        Ok(Effect::Joined(entry.id, record))
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
