//! Orders of operators, decided on the ledger: conditions first, then the change and what it came to.

use std::collections::BTreeMap;

use meanfield_common::{digest::Digest, identity::Epoch};

use super::{Dirty, Effect, Ledger};
use crate::{
    audit::Note,
    error::Error,
    orders::{AgentOrder, Order, Ordered, Orders, Recorded, Scope, Terms},
    store::Contents,
};

/// What a store holds of orders.
pub(crate) fn of(contents: &Contents) -> Orders {
    let capacities = contents.capacities.iter().filter_map(|(pool, capacity)| Some((pool.clone(), (*capacity)?)));
    let forecasts = contents.forecasts.iter();
    let forecasts = forecasts.filter_map(|(pool, bytes)| Some((pool.clone(), Digest::of(bytes.as_ref()?))));
    Orders {
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
        terms.check(&resource, resource.tag(&before))?;
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
        let ended = self.carry_out(&order, dirty)?;
        Ok((Effect::Ordered(order, ordered, ended), note))
    }

    fn carry_out(&mut self, order: &Order, dirty: &mut Dirty) -> Result<Option<Epoch>, Error> {
        match order {
            Order::Remove(id) => {
                let epoch = self.update(*id, dirty, |record| (record.member, record.paused) = (false, false))?;
                if self.orders.agents.remove(id).is_some() {
                    dirty.agent_orders.insert(*id, AgentOrder::default());
                }
                return Ok(Some(epoch));
            }
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
        Ok(None)
    }
}

fn set<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value)),
        None => drop(map.remove(key)),
    }
}
