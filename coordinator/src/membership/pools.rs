//! What operators say about pools, put in effect.

use std::sync::Arc;

use meanfield_common::{
    identity::{AgentId, PoolName},
    invalid::Invalid,
    scarcity::{self, Capacity, Entitlement},
};

use super::{Member, Membership};
use crate::{
    error::Error,
    forecast::Forecast,
    orders::{AgentOrder, Orders},
    pool::Pool,
    settings::Settings,
    view::{CutFilter, CutView},
};

impl Membership {
    /// Gives a pool settings, and makes it if there is none.
    pub(crate) fn set_pool(&self, name: &PoolName, settings: Settings) {
        let pool = self.pools.get(name).unwrap_or_else(|| {
            let pool = Arc::new(Pool::new(name.clone(), false));
            pool.orders.set(self.orders.orders().pool(name), None);
            self.pools.insert(Arc::clone(&pool));
            pool
        });
        pool.set(settings);
    }

    /// Removes a pool that nobody is in.
    pub(crate) fn remove_pool(&self, name: &PoolName) {
        self.pools.remove(name);
    }

    /// Gives pools the capacities of the configuration.
    pub(crate) fn configure(&self, capacities: &[(PoolName, Capacity)]) {
        for pool in self.pools.all() {
            let found = capacities.iter().find(|(name, _)| *name == pool.name);
            pool.configure(found.map(|(_, capacity)| *capacity));
        }
    }

    /// An operator's word on a pool's capacity; none goes back to the configuration.
    pub(crate) fn set_capacity(&self, name: &PoolName, capacity: Option<Capacity>) {
        let Some(pool) = self.pools.get(name) else { return };
        pool.set_capacity(capacity);
        self.claim_again(&pool);
    }

    /// How a pool goes about scarcity from now on.
    pub(crate) fn set_scarcity(&self, name: &PoolName, settings: scarcity::Settings) {
        let Some(pool) = self.pools.get(name) else { return };
        pool.set_scarcity(settings);
        self.claim_again(&pool);
    }

    /// What was claimed while there was nothing to share counts from now on, if there is.
    fn claim_again(&self, pool: &Arc<Pool>) {
        pool.orders.fit(pool.capacity());
        if !pool.shares() {
            return;
        }
        for mut entry in self.members.iter_mut().filter(|member| Arc::ptr_eq(&member.pool, pool)) {
            let claim = entry.last().and_then(|last| last.claim);
            let given = self.orders.agent(*entry.key()).entitlement;
            let Member { name, share, suspect, .. } = &mut **entry;
            if let Some(claim) = &claim {
                pool.claim_again(share, name, claim, given.as_ref(), *suspect);
            }
        }
    }

    /// Fits change budgets to capacities that are reported, which change by themselves.
    pub(crate) fn refit(&self) {
        for pool in self.pools.all().iter().filter(|pool| pool.scarcity_settings().1.is_some()) {
            pool.orders.fit(pool.capacity());
        }
    }

    /// What an operator gives to an agent; none takes it back.
    pub(crate) fn entitle(&self, id: AgentId, given: Option<Entitlement>) {
        if let Some(member) = self.members.get(&id) {
            member.pool.entitle(&member.share, &given.unwrap_or_default());
        }
    }

    /// How a pool goes about scarcity, and how many nodes count where its capacity is theirs.
    pub(crate) fn scarcity_settings(&self, name: &PoolName) -> Result<(scarcity::Settings, Option<usize>), Error> {
        Ok(self.known(name)?.scarcity_settings())
    }

    /// A page of a pool's ledger of cuts, in times of the coordinator's clock, and whether there is more.
    pub(crate) fn cuts(
        &self,
        name: &PoolName,
        filter: &CutFilter,
        after: u64,
        limit: usize,
    ) -> Result<(Vec<CutView>, bool), Error> {
        Ok(self.known(name)?.cuts(filter, after, limit))
    }

    /// The network that a pool's members share; none leaves each with the one it ships with.
    pub(crate) fn set_forecast(&self, name: &PoolName, forecast: Option<Arc<Forecast>>) {
        if let Some(pool) = self.pools.get(name) {
            pool.set_forecast(forecast);
        }
    }

    /// The network that a pool's members share.
    pub(crate) fn forecast(&self, name: &PoolName) -> Result<Option<Arc<Forecast>>, Error> {
        Ok(self.known(name)?.forecast())
    }

    /// A pool that there is.
    pub(crate) fn known(&self, name: &PoolName) -> Result<Arc<Pool>, Error> {
        self.pools.known(name)
    }

    pub(crate) fn check_pool(&self, name: &PoolName) -> Result<(), Invalid> {
        let bound = || format!("one of {}", self.pools.names());
        self.pools.get(name).map(drop).ok_or_else(|| Invalid::new("pool", name, bound()))
    }

    /// What a pool's members may reserve together.
    pub(crate) fn capacity(&self, name: &PoolName) -> Option<Capacity> {
        self.pools.get(name).and_then(|pool| pool.capacity())
    }

    /// What a pool's nodes have that agents report, where that counts and once it is known.
    pub(crate) fn reported(&self, name: &PoolName) -> Option<Capacity> {
        self.pools.get(name).and_then(|pool| pool.reported())
    }

    /// Puts all that is ordered in effect, but for pauses, capacities and networks.
    pub(crate) fn set_orders(&self, orders: Orders) {
        for pool in self.pools.all() {
            pool.orders.set(orders.pool(&pool.name), pool.capacity());
        }
        self.orders.set(orders);
    }

    /// The same for what is ordered about one agent.
    pub(crate) fn set_order(&self, agent: AgentId, order: AgentOrder) {
        self.orders.set_agent(agent, order);
    }
}
