//! Orders of operators, decided on the ledger: conditions first, then the change and what it came to.

use std::collections::BTreeMap;

use meanfield_common::{
    digest::Digest,
    identity::AgentId,
    invalid::Invalid,
    scarcity::{Amount, Entitlement},
};

use super::{Aftermath, Capacities, Dirty, Effect, Ledger};
use crate::{
    audit::Note,
    error::Error,
    orders::{AgentOrder, Order, Ordered, Orders, Recorded, Scope, Terms},
    store::Contents,
};

/// What a store holds of orders, but for the pools themselves, some of which are configured.
pub(crate) fn of(contents: &Contents) -> Orders {
    let capacities = contents.capacities.iter().filter_map(|(pool, capacity)| Some((pool.clone(), (*capacity)?)));
    let forecasts = contents.forecasts.iter();
    let forecasts = forecasts.filter_map(|(pool, bytes)| Some((pool.clone(), Digest::of(bytes.as_ref()?))));
    Orders {
        settings: BTreeMap::new(),
        paused: contents.paused,
        fallback: contents.fallback,
        pools: contents.pool_orders.iter().cloned().collect(),
        agents: contents.agent_orders.iter().copied().filter(|(_, order)| *order != AgentOrder::default()).collect(),
        capacities: capacities.collect(),
        forecasts: forecasts.collect(),
    }
}

impl Ledger {
    /// Everything that is ordered now.
    pub(crate) fn orders(&self) -> &Orders {
        &self.orders
    }

    /// Decides an order: what it comes to, and what the audit log says of it.
    pub(crate) fn order(
        &mut self,
        order: Order,
        terms: &Terms,
        capacity: Capacities<'_>,
        dirty: &mut Dirty,
    ) -> Result<(Effect, Option<Note>), Error> {
        let resource = order.resource();
        let recorded = match resource.agent() {
            Some(agent) => {
                let record = self.member(agent)?;
                Some(Recorded { epoch: record.epoch, paused: record.paused })
            }
            None => None,
        };
        let before = resource.state(&self.orders, recorded);
        self.check_pools(&order)?;
        terms.check(&resource, resource.tag(&before))?;
        self.check_room(&order)?;
        if let Order::Entitlement(agent, Some(Entitlement { minimum: Some(least), .. })) = &order {
            self.check_minimum(*agent, least, capacity)?;
        }
        let after = order.wanted();
        let (action, target, changed) = (order.action(), resource.to_string(), before != after);
        let note = terms.actor.clone().map(|actor| Note {
            actor,
            action,
            target: target.clone(),
            before: before.to_string(),
            after: after.to_string(),
        });
        let (etag, dry_run) = (resource.tag(&after), terms.dry_run);
        let ordered = Box::new(Ordered { action: action.to_owned(), target, before, after, changed, dry_run, etag });
        if dry_run {
            return Ok((Effect::Tried(ordered), None));
        }
        let aftermath = self.carry_out(&order, dirty)?;
        Ok((Effect::Ordered(order, ordered, aftermath), note))
    }

    /// Refuses a minimum that does not fit beside those of the pool's other members. Whoever is away does not count: when
    /// it comes back, or the capacity shrinks, minimums shrink in proportion.
    fn check_minimum(&self, agent: AgentId, least: &Amount, capacity: Capacities<'_>) -> Result<(), Error> {
        let pool = self.agents.record(self.member(agent)?).pool;
        let Some(size) = capacity(&pool) else { return Ok(()) };
        let mut others = [0.0; 2];
        for (id, order) in self.orders.agents.iter().filter(|(id, _)| **id != agent) {
            let here = self.member(*id).is_ok_and(|entry| self.agents.record(entry).pool == pool);
            if let Some(given) = order.entitlement.and_then(|given| given.minimum).filter(|_| here) {
                others = [others[0] + given.cores.get(), others[1] + given.memory_gib.get()];
            }
        }
        for (field, wanted, size, others) in [
            ("minimum.cores", least.cores.get(), size.cores.get(), others[0]),
            ("minimum.memory_gib", least.memory_gib.get(), size.memory_gib.get(), others[1]),
        ] {
            let left = (size - others).max(0.0);
            if wanted > left {
                let bound = format!("at most {left}, what the capacity leaves beside the other minimums");
                return Err(Invalid::new(field, wanted, bound).into());
            }
        }
        Ok(())
    }

    fn carry_out(&mut self, order: &Order, dirty: &mut Dirty) -> Result<Aftermath, Error> {
        match order {
            Order::Remove(id) => {
                let epoch = self.update(*id, dirty, |record| (record.member, record.paused) = (false, false))?;
                if self.orders.agents.remove(id).is_some() {
                    dirty.agent_orders.insert(*id, AgentOrder::default());
                }
                return Ok(Aftermath { ended: Some(epoch), ..Aftermath::default() });
            }
            Order::Pool(pool, Some(settings)) => return Ok(self.set_pool(pool, settings, dirty)),
            Order::Pool(pool, None) => self.remove_pool(pool, dirty),
            Order::Pause(id, paused) => {
                self.update(*id, dirty, |record| record.paused = *paused)?;
            }
            Order::PauseAll(paused) => {
                if std::mem::replace(&mut self.orders.paused, *paused) != *paused {
                    dirty.paused = Some(*paused);
                }
            }
            Order::Fallback(Scope::All, on) => {
                if std::mem::replace(&mut self.orders.fallback, *on) != *on {
                    dirty.fallback = Some(*on);
                }
            }
            Order::Fallback(Scope::Pool(pool), on) => {
                let order = self.orders.pools.entry(pool.clone()).or_default();
                order.fallback = *on;
                dirty.pool_orders.insert(pool.clone(), *order);
            }
            Order::Budget(pool, budget) => {
                let order = self.orders.pools.entry(pool.clone()).or_default();
                order.budget = *budget;
                dirty.pool_orders.insert(pool.clone(), *order);
            }
            Order::Scarcity(pool, settings) => {
                let order = self.orders.pools.entry(pool.clone()).or_default();
                order.scarcity = *settings;
                dirty.pool_orders.insert(pool.clone(), *order);
            }
            Order::Entitlement(id, given) => {
                let order = self.orders.agents.entry(*id).or_default();
                order.entitlement = *given;
                dirty.agent_orders.insert(*id, *order);
            }
            Order::Fallback(Scope::Agent(id), on) => {
                let order = self.orders.agents.entry(*id).or_default();
                order.fallback = *on;
                dirty.agent_orders.insert(*id, *order);
            }
            Order::Lifecycle(id, state) => {
                let order = self.orders.agents.entry(*id).or_default();
                order.lifecycle = *state;
                dirty.agent_orders.insert(*id, *order);
            }
            Order::Capacity(pool, capacity) => {
                set(&mut self.orders.capacities, pool, *capacity);
                dirty.capacities.insert(pool.clone(), *capacity);
            }
            Order::Forecast(pool, forecast) => {
                set(&mut self.orders.forecasts, pool, forecast.as_ref().map(|forecast| forecast.digest()));
                dirty.forecasts.insert(pool.clone(), forecast.clone());
            }
        }
        self.orders.agents.retain(|_, order| *order != AgentOrder::default());
        Ok(Aftermath::default())
    }
}

fn set<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value)),
        None => drop(map.remove(key)),
    }
}
