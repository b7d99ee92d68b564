//! Orders as heartbeats see them: flags and counters that are read without a lock in nearly every case.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use dashmap::DashMap;
use meanfield_common::{
    budget::{Budget, Moving},
    identity::AgentId,
    scarcity::Capacity,
    wire::Directives,
};
use parking_lot::{Mutex, RwLock};

use super::{AgentOrder, Orders, PoolOrder};
use crate::budget::Window;

/// What heartbeats are told, but for what is told to pools: each has that itself, [`OfPool`].
#[derive(Debug, Default)]
pub(crate) struct Live {
    fallback: AtomicBool,
    /// Whether anything is ordered about single agents: most of the time nobody has to be looked up.
    any: AtomicBool,
    agents: DashMap<AgentId, AgentOrder>,
    /// All of it, for those who look: shared with them, so that looking copies nothing.
    all: RwLock<Arc<Orders>>,
}

impl Live {
    /// Puts all orders in effect, but for those about pools.
    pub(crate) fn set(&self, orders: Orders) {
        self.fallback.store(orders.fallback, Ordering::Relaxed);
        self.agents.retain(|agent, _| orders.agents.contains_key(agent));
        for (agent, order) in &orders.agents {
            self.agents.insert(*agent, *order);
        }
        self.any.store(!orders.agents.is_empty(), Ordering::Relaxed);
        *self.all.write() = Arc::new(orders);
    }

    /// Puts what is ordered about one agent in effect, and leaves all else alone: there may be as many orders as agents.
    pub(crate) fn set_agent(&self, agent: AgentId, order: AgentOrder) {
        let mut all = self.all.write();
        // A copy is made only while somebody looks.
        let agents = &mut Arc::make_mut(&mut all).agents;
        if order == AgentOrder::default() {
            self.agents.remove(&agent);
            agents.remove(&agent);
        } else {
            self.agents.insert(agent, order);
            agents.insert(agent, order);
        }
        self.any.store(!agents.is_empty(), Ordering::Relaxed);
    }

    pub(crate) fn orders(&self) -> Arc<Orders> {
        Arc::clone(&self.all.read())
    }

    pub(crate) fn fallback(&self) -> bool {
        self.fallback.load(Ordering::Relaxed)
    }

    pub(crate) fn agent(&self, agent: AgentId) -> AgentOrder {
        if !self.any.load(Ordering::Relaxed) {
            return AgentOrder::default();
        }
        self.agents.get(&agent).map(|order| *order).unwrap_or_default()
    }

    /// What an agent is told, its pause apart.
    pub(crate) fn directives(&self, agent: AgentId, pool: &OfPool) -> Directives {
        let AgentOrder { fallback, lifecycle, .. } = self.agent(agent);
        Directives { paused: false, fallback: fallback || self.fallback() || pool.fallback(), lifecycle }
    }
}

/// A budget, what it makes in amounts, and how much is left.
pub(crate) type BudgetNow = (Budget, Option<Moving>, Option<Moving>);

/// What the heartbeats of one pool are told.
#[derive(Debug, Default)]
pub(crate) struct OfPool {
    fallback: AtomicBool,
    /// Whether there is a limit: without one nobody has to take the lock.
    limited: AtomicBool,
    budget: Mutex<Option<Budget>>,
    window: Mutex<Window>,
}

impl OfPool {
    /// Puts what is ordered about the pool in effect.
    pub(crate) fn set(&self, order: PoolOrder, capacity: Option<Capacity>) {
        self.fallback.store(order.fallback, Ordering::Relaxed);
        *self.budget.lock() = order.budget;
        self.fit(capacity);
    }

    /// Makes the budget one of this capacity. While that is not known, the limit stays what it was, and nothing may be moved
    /// if there was none: a budget is never lifted but by an order.
    pub(crate) fn fit(&self, capacity: Option<Capacity>) {
        let budget = *self.budget.lock();
        let mut window = self.window.lock();
        let before = window.limit().unwrap_or_default();
        let limit = budget.map(|budget| capacity.map_or(before, |capacity| budget.limit(&capacity)));
        window.set_limit(limit);
        self.limited.store(limit.is_some(), Ordering::Relaxed);
    }

    /// Whether the pool has a fallback of its own.
    fn fallback(&self) -> bool {
        self.fallback.load(Ordering::Relaxed)
    }

    /// What an agent may move of the pool's capacity; none where there is no budget.
    pub(crate) fn grant(&self, wanted: Option<Moving>, now: u64) -> Option<Moving> {
        if !self.limited.load(Ordering::Relaxed) {
            return None;
        }
        self.window.lock().grant(wanted.unwrap_or_default(), now)
    }

    /// The budget, what it makes in amounts, and how much is left of that now.
    pub(crate) fn budget(&self, now: u64) -> Option<BudgetNow> {
        let budget = (*self.budget.lock())?;
        let mut window = self.window.lock();
        Some((budget, window.limit(), window.left(now)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn one_agents_order_costs_the_same_however_many_there_are() {
        let some = AgentOrder { fallback: true, ..AgentOrder::default() };
        let id = |number: u128| AgentId(Uuid::from_u128(number));
        let live = Live::default();
        live.set(Orders { agents: (0..10_000).map(|number| (id(number), some)).collect(), ..Orders::default() });
        let counted = allocation_counter::measure(|| {
            live.set_agent(id(5), AgentOrder::default());
            live.set_agent(id(20_000), some);
            assert_eq!(live.orders().agents.len(), 10_000);
        });
        // A copy of all would be ten thousand orders.
        assert!(counted.bytes_total < 10_000, "{counted:?}");
        assert_eq!((live.agent(id(5)), live.agent(id(20_000)), live.agent(id(6))), (AgentOrder::default(), some, some));
        let seen = live.orders();
        (0..20_001).for_each(|number| live.set_agent(id(number), AgentOrder::default()));
        assert!(live.orders().agents.is_empty() && seen.agents.len() == 10_000, "who looks sees what was there");
    }
}
