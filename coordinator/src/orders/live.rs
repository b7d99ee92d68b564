//! Orders as heartbeats see them: flags and counters that are read without a lock in nearly every case.

use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use meanfield_common::{
    budget::{Budget, Moving},
    identity::{AgentId, PoolName},
    scarcity::Capacity,
    wire::Directives,
};
use parking_lot::{Mutex, RwLock};

use super::{AgentOrder, Orders};
use crate::budget::Window;

/// What heartbeats are told, by pool in the order of the configuration.
#[derive(Debug)]
pub(crate) struct Live {
    fallback: AtomicBool,
    pools: Vec<OfPool>,
    /// Whether anything is ordered about single agents: most of the time nobody has to be looked up.
    any: AtomicBool,
    agents: DashMap<AgentId, AgentOrder>,
    /// All of it, for those who look.
    all: RwLock<Orders>,
}

#[derive(Debug, Default)]
struct OfPool {
    fallback: AtomicBool,
    /// Whether there is a limit: without one nobody has to take the lock.
    limited: AtomicBool,
    budget: Mutex<Option<Budget>>,
    window: Mutex<Window>,
}

impl Live {
    pub(crate) fn new(pools: usize) -> Self {
        Self {
            fallback: AtomicBool::new(false),
            pools: (0..pools).map(|_| OfPool::default()).collect(),
            any: AtomicBool::new(false),
            agents: DashMap::new(),
            all: RwLock::default(),
        }
    }

    /// Puts all orders in effect; `names` are the pools with their capacities.
    pub(crate) fn set(&self, orders: Orders, names: &[(&PoolName, Option<Capacity>)]) {
        self.fallback.store(orders.fallback, Ordering::Relaxed);
        for (live, (name, capacity)) in self.pools.iter().zip(names) {
            let order = orders.pool(name);
            live.fallback.store(order.fallback, Ordering::Relaxed);
            *live.budget.lock() = order.budget;
            live.fit(*capacity);
        }
        self.agents.retain(|agent, _| orders.agents.contains_key(agent));
        for (agent, order) in &orders.agents {
            self.agents.insert(*agent, *order);
        }
        self.any.store(!orders.agents.is_empty(), Ordering::Relaxed);
        *self.all.write() = orders;
    }

    /// Makes a pool's budget one of this capacity.
    pub(crate) fn fit(&self, pool: usize, capacity: Option<Capacity>) {
        if let Some(live) = self.pools.get(pool) {
            live.fit(capacity);
        }
    }

    pub(crate) fn orders(&self) -> Orders {
        self.all.read().clone()
    }

    pub(crate) fn fallback(&self) -> bool {
        self.fallback.load(Ordering::Relaxed)
    }

    /// Whether a pool has a fallback of its own.
    pub(crate) fn pool_fallback(&self, pool: usize) -> bool {
        self.pools.get(pool).is_some_and(|live| live.fallback.load(Ordering::Relaxed))
    }

    pub(crate) fn agent(&self, agent: AgentId) -> AgentOrder {
        if !self.any.load(Ordering::Relaxed) {
            return AgentOrder::default();
        }
        self.agents.get(&agent).map(|order| *order).unwrap_or_default()
    }

    /// What an agent is told, its pause apart.
    pub(crate) fn directives(&self, agent: AgentId, pool: usize) -> Directives {
        let AgentOrder { fallback, lifecycle } = self.agent(agent);
        Directives { paused: false, fallback: fallback || self.fallback() || self.pool_fallback(pool), lifecycle }
    }

    /// What an agent may move of its pool's capacity; none where there is no budget.
    pub(crate) fn grant(&self, pool: usize, wanted: Option<Moving>, now: u64) -> Option<Moving> {
        let live = self.pools.get(pool).filter(|live| live.limited.load(Ordering::Relaxed))?;
        live.window.lock().grant(wanted.unwrap_or_default(), now)
    }

    /// A pool's budget, what it makes in amounts, and how much is left of that now.
    pub(crate) fn budget(&self, pool: usize, capacity: Option<Capacity>, now: u64) -> Option<BudgetNow> {
        let live = self.pools.get(pool)?;
        let budget = (*live.budget.lock())?;
        let limit = capacity.map(|capacity| budget.limit(&capacity));
        Some((budget, limit, live.window.lock().left(now)))
    }
}

/// A budget, what it makes in amounts, and how much is left.
pub(crate) type BudgetNow = (Budget, Option<Moving>, Option<Moving>);

impl OfPool {
    fn fit(&self, capacity: Option<Capacity>) {
        let budget = *self.budget.lock();
        let limit = budget.and_then(|budget| capacity.map(|capacity| budget.limit(&capacity)));
        self.window.lock().limit(limit);
        self.limited.store(limit.is_some(), Ordering::Relaxed);
    }
}
