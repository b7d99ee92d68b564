//! Pools, decided on the ledger: which there are, and who keeps one from being removed.
//!
//! Those of the configuration are there at every start. Those that operators made are there until they remove them. What
//! an operator said about a configured one waits, when it is configured no longer, until it is again.

use std::collections::{BTreeMap, BTreeSet};

use meanfield_common::identity::PoolName;

use super::{Aftermath, Dirty, Ledger};
use crate::{
    error::Error,
    membership::names,
    orders::{Order, PoolOrder},
    settings::{PoolRecord, Settings},
    store::Contents,
};

#[derive(Debug, Default)]
pub(super) struct Pools {
    configured: BTreeSet<PoolName>,
    /// Those that operators made.
    created: BTreeSet<PoolName>,
    /// How many there may be before another is made.
    most: usize,
}

impl Pools {
    pub(super) fn new(contents: &Contents, configured: &[PoolName], most: usize) -> Self {
        let created = contents.pools.iter().filter(|(_, record)| record.created).map(|(pool, _)| pool.clone());
        Self { configured: configured.iter().cloned().collect(), created: created.collect(), most }
    }

    /// Every pool that there is.
    pub(super) fn settings(&self, contents: &Contents) -> BTreeMap<PoolName, Settings> {
        let all = self.configured.union(&self.created);
        let mut settings: BTreeMap<_, _> = all.map(|pool| (pool.clone(), Settings::default())).collect();
        for (pool, record) in &contents.pools {
            if let Some(known) = settings.get_mut(pool) {
                known.clone_from(&record.settings);
            }
        }
        settings
    }
}

impl Ledger {
    /// Refuses an order about a pool that there is not, unless it makes it.
    pub(super) fn check_pools(&self, order: &Order) -> Result<(), Error> {
        let resource = order.resource();
        match (order, resource.pool()) {
            (Order::Pool(_, Some(_)), _) | (_, None) => Ok(()),
            (_, Some(pool)) if self.orders.settings.contains_key(pool) => Ok(()),
            (_, Some(pool)) => {
                Err(Error::UnknownPool { name: pool.clone(), known: names(self.orders.settings.keys()) })
            }
        }
    }

    /// Refuses a pool too many, and to remove one that is needed.
    pub(super) fn check_room(&self, order: &Order) -> Result<(), Error> {
        let there = self.orders.settings.len();
        match order {
            Order::Pool(pool, Some(_)) if !self.orders.settings.contains_key(pool) && there >= self.pools.most => {
                Err(Error::TooManyPools(there))
            }
            Order::Pool(pool, None) if self.pools.configured.contains(pool) => Err(Error::ConfiguredPool(pool.clone())),
            Order::Pool(pool, None) => match self.agents.members(pool).count() {
                0 => Ok(()),
                members => Err(Error::PoolInUse { name: pool.clone(), members }),
            },
            _ => Ok(()),
        }
    }

    /// Gives a pool settings; one that is made begins with nothing else ordered about it.
    pub(super) fn set_pool(&mut self, pool: &PoolName, settings: &Settings, dirty: &mut Dirty) -> Aftermath {
        let made = self.orders.settings.insert(pool.clone(), settings.clone()).is_none();
        let mut aftermath = Aftermath::default();
        if made {
            self.pools.created.insert(pool.clone());
            self.forget_orders(pool, dirty);
            // Members of a time when the configuration had this pool: a restart would bring them back, so this does too.
            aftermath.housed = self.agents.members(pool).map(|entry| (entry.id, self.agents.record(entry))).collect();
        }
        let record = PoolRecord { settings: settings.clone(), created: self.pools.created.contains(pool) };
        dirty.pools.insert(pool.clone(), Some(record));
        aftermath
    }

    pub(super) fn remove_pool(&mut self, pool: &PoolName, dirty: &mut Dirty) {
        self.orders.settings.remove(pool);
        self.pools.created.remove(pool);
        dirty.pools.insert(pool.clone(), None);
        self.forget_orders(pool, dirty);
    }

    /// Takes back all that was ordered about a pool.
    fn forget_orders(&mut self, pool: &PoolName, dirty: &mut Dirty) {
        if self.orders.pools.remove(pool).is_some() {
            dirty.pool_orders.insert(pool.clone(), PoolOrder::default());
        }
        if self.orders.capacities.remove(pool).is_some() {
            dirty.capacities.insert(pool.clone(), None);
        }
        if self.orders.forecasts.remove(pool).is_some() {
            dirty.forecasts.insert(pool.clone(), None);
        }
    }
}
