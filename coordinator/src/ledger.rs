//! Who is a member and who is paused, as it is written down.
//!
//! The writer thread owns the ledger and decides every change here, in order; a decision is final once the store
//! took it, and only then becomes visible in [`crate::membership`].

mod orders;

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use meanfield_common::{
    identity::{AgentId, AgentName, Epoch, PoolName},
    scarcity::Capacity,
    wire::Register,
};
use uuid::Uuid;

use crate::{
    error::Error,
    forecast::Forecast,
    orders::{AgentOrder, Order, Ordered, Orders, PoolOrder, Terms},
    store::{Contents, Record, Write},
};

/// A change that must be durable before anybody hears of it.
#[derive(Debug)]
pub(crate) enum Change {
    Register(Register),
    Leave(AgentId, Epoch),
    /// Agents that were found silent in these epochs.
    Gone(Vec<(AgentId, Epoch)>),
    /// What an operator wants.
    Order(Order),
    /// Nothing: answered when everything before it is durable.
    Flush,
}

/// What a change means for the live membership.
#[derive(Debug, PartialEq)]
pub(crate) enum Effect {
    Joined(AgentId, Record),
    Left(AgentId, Epoch),
    /// An order was carried out, and this came of it. One that ends a membership has the epoch that it ended.
    Ordered(Order, Box<Ordered>, Option<Epoch>),
    /// An order was only tried.
    Tried(Box<Ordered>),
    Nothing,
}

#[derive(Debug, Default)]
pub(crate) struct Ledger {
    agents: HashMap<AgentId, Record>,
    ids: HashMap<(PoolName, AgentName), AgentId>,
    orders: Orders,
}

/// The records that changed since the last commit.
#[derive(Debug, Default)]
pub(crate) struct Dirty {
    agents: BTreeMap<AgentId, Record>,
    paused: Option<bool>,
    capacities: BTreeMap<PoolName, Option<Capacity>>,
    forecasts: BTreeMap<PoolName, Option<Arc<Forecast>>>,
    fallback: Option<bool>,
    pool_orders: BTreeMap<PoolName, PoolOrder>,
    agent_orders: BTreeMap<AgentId, AgentOrder>,
}

impl Dirty {
    pub(crate) fn writes(self) -> Vec<Write> {
        let agents = self.agents.into_iter().map(|(id, record)| Write::Agent(id, record));
        let capacities = self.capacities.into_iter().map(|(pool, capacity)| Write::Capacity(pool, capacity));
        let forecasts = self.forecasts.into_iter().map(|(pool, forecast)| Write::Forecast(pool, forecast));
        let pools = self.pool_orders.into_iter().map(|(pool, order)| Write::PoolOrder(pool, order));
        let ordered = self.agent_orders.into_iter().map(|(id, order)| Write::AgentOrder(id, order));
        let everybody = self.paused.map(Write::Paused).into_iter().chain(self.fallback.map(Write::Fallback));
        agents.chain(everybody).chain(capacities).chain(forecasts).chain(pools).chain(ordered).collect()
    }
}

impl Ledger {
    pub(crate) fn new(contents: Contents) -> Self {
        let ids = contents.agents.iter().map(|(id, record)| ((record.pool.clone(), record.name.clone()), *id));
        Self { ids: ids.collect(), orders: orders::of(&contents), agents: contents.agents.into_iter().collect() }
    }

    pub(crate) fn decide(&mut self, change: Change, dirty: &mut Dirty) -> Result<Effect, Error> {
        match change {
            Change::Register(register) => Ok(self.register(register, dirty)),
            Change::Leave(id, epoch) => {
                Error::check_epoch(id, epoch, self.member(id)?.epoch)?;
                self.update(id, dirty, |record| record.member = false)?;
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
            Change::Order(order) => self.order(order, &Terms::default(), dirty).map(|(effect, _)| effect),
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
