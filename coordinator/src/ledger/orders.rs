//! Orders of operators, decided on the ledger: conditions first, then the change and what it came to.

use std::collections::BTreeMap;

use meanfield_common::{
    digest::Digest,
    identity::{AgentId, PoolName},
    invalid::Invalid,
    scarcity::{Amount, Capacity, Entitlement, Source},
};

use super::{Aftermath, Dirty, Effect, Ledger, Reported};
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
        reported: Reported<'_>,
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
            self.check_minimum(*agent, least, reported)?;
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
    fn check_minimum(&self, agent: AgentId, least: &Amount, reported: Reported<'_>) -> Result<(), Error> {
        let pool = self.agents.record(self.member(agent)?).pool;
        let Some(size) = self.capacity(&pool, reported) else { return Ok(()) };
        let mut others = [0.0; 2];
        for (id, order) in self.orders.agents.iter().filter(|(id, _)| **id != agent) {
            let Some(given) = order.entitlement.and_then(|given| given.minimum) else { continue };
            if self.member(*id).is_ok_and(|entry| self.agents.record(entry).pool == pool) {
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

    /// What a pool's members may reserve together, with all orders that were decided so far: those of the same commit are
    /// not in effect yet.
    fn capacity(&self, pool: &PoolName, reported: Reported<'_>) -> Option<Capacity> {
        let declared = self.orders.capacities.get(pool).or_else(|| self.capacities.get(pool)).copied();
        let settings = self.orders.pool(pool).scarcity.unwrap_or_default();
        let reported = (settings.capacity == Source::Reported).then(|| reported(pool)).flatten();
        [declared, reported].into_iter().flatten().reduce(Capacity::min)
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
                self.set_agent(*id, dirty, |order| order.entitlement = *given);
            }
            Order::Fallback(Scope::Agent(id), on) => {
                self.set_agent(*id, dirty, |order| order.fallback = *on);
            }
            Order::Lifecycle(id, state) => {
                self.set_agent(*id, dirty, |order| order.lifecycle = *state);
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
        Ok(Aftermath::default())
    }

    /// Changes what is ordered about an agent.
    fn set_agent(&mut self, id: AgentId, dirty: &mut Dirty, change: impl FnOnce(&mut AgentOrder)) {
        let mut order = self.orders.agent(id);
        change(&mut order);
        set(&mut self.orders.agents, &id, Some(order).filter(|order| *order != AgentOrder::default()));
        dirty.agent_orders.insert(id, order);
    }
}

fn set<K: Ord + Clone, V>(map: &mut BTreeMap<K, V>, key: &K, value: Option<V>) {
    match value {
        Some(value) => drop(map.insert(key.clone(), value)),
        None => drop(map.remove(key)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{ledger::Change, options::Options};
    use meanfield_common::{
        identity::Category,
        mean_field::Aspects,
        scarcity::{Cores, Gibibytes, Settings},
        wire::Register,
    };

    /// Decides one after the other as one commit: none is in effect before the last one is decided.
    #[test]
    fn a_minimum_must_fit_into_what_was_ordered_just_before() {
        let pool: PoolName = "default".parse().unwrap();
        let capacities = vec![(pool.clone(), Capacity::new(10.0, 64.0).unwrap())];
        let options = Options { capacities, ..Options::default() };
        let mut ledger = Ledger::new(Contents::default(), &options);
        let (mut dirty, terms) = (Dirty::default(), Terms::default());
        let mut nodes = None;
        let mut decide = |change: Change, nodes: Option<Capacity>| {
            ledger.decide(change, &terms, &|_| nodes, &mut dirty).map(|(effect, _)| effect)
        };
        let (name, category) = ("a".parse().unwrap(), Category::Cpu);
        let register = Register { name, pool: pool.clone(), category, wants: Aspects::NONE };
        let Ok(Effect::Joined(agent, _)) = decide(Change::Register(register), nodes) else { panic!("refused") };
        let least = |cores| Amount { cores: Cores::clamped(cores), memory_gib: Gibibytes::clamped(0.0) };
        let minimum = |cores| Entitlement { weight: None, minimum: Some(least(cores)) };
        let give = |cores| Change::Order(Order::Entitlement(agent, Some(minimum(cores))));
        let capacity = |cores| Change::Order(Order::Capacity(pool.clone(), Capacity::new(cores, 64.0).ok()));
        decide(give(8.0), nodes).unwrap();
        decide(capacity(4.0), nodes).unwrap();
        decide(give(8.0), nodes).unwrap_err();
        decide(give(4.0), nodes).unwrap();
        decide(capacity(20.0), nodes).unwrap();
        decide(give(12.0), nodes).unwrap();
        // What agents report counts where it is asked for.
        nodes = Capacity::new(6.0, 64.0).ok();
        decide(give(12.0), nodes).unwrap();
        let settings = Settings { capacity: Source::Reported, ..Settings::default() };
        decide(Change::Order(Order::Scarcity(pool.clone(), Some(settings))), nodes).unwrap();
        decide(give(12.0), nodes).unwrap_err();
        decide(give(6.0), nodes).unwrap();
    }
}
