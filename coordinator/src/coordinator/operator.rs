//! What operators do: orders, and a look at what was ordered, done and happened.
//!
//! Every order goes through [`Coordinator::order`]; the methods with a name of their own are for programs that the
//! coordinator is part of, whose doings are not audited.

use std::sync::Arc;

use meanfield_common::{
    digest::Digest,
    identity::{AgentId, PoolName},
    invalid::Invalid,
    scarcity::{Capacity, Entitlement},
};
use serde_json::Value;

use super::Coordinator;
use crate::{
    access::Caller,
    audit::{self, Note},
    error::Error,
    events::{self, Event, Reader},
    forecast::Forecast,
    ledger::Change,
    metrics::Switches,
    orders::{Order, Ordered, Recorded, Resource, Scope, Terms},
    settings::Settings,
    view::{BudgetView, CapacityView, CutFilter, CutPage, FallbackView, SettingsView, Standing},
    writer::Outcome,
};

impl Coordinator {
    /// Carries out an order under its terms, or only says what would happen; returns when it is durable, and with it the
    /// entry in the audit log if somebody is named.
    ///
    /// # Errors
    /// If there is no such agent or pool, the order was made for another state than there is, or the store fails.
    pub async fn order(&self, order: Order, terms: Terms) -> Result<Ordered, Error> {
        if let Order::Budget(pool, Some(_)) = &order
            && self.0.membership.known(pool)?.capacity().is_none()
        {
            let bound = "a pool with a capacity, of which a budget is a part: order one first";
            return Err(Invalid::new("pool", pool, bound).into());
        }
        if let Order::Entitlement(_, Some(Entitlement { weight: None, minimum: None })) = &order {
            let bound = "a weight, a minimum or both: DELETE takes them back";
            return Err(Invalid::new("entitlement", "{}", bound).into());
        }
        let (removes, action) = (matches!(order, Order::Remove(_)), order.action());
        let actor = terms.actor.clone();
        let outcome = self.0.writer.submit_on(Change::Order(order), terms).await?;
        let Outcome::Ordered(ordered) = outcome else { return Err(Error::Closed) };
        if !ordered.dry_run {
            self.0.metrics.orders.inc();
            if removes {
                self.0.metrics.leaves.inc();
            }
            let actor = actor.as_ref().map_or("the program", |actor| actor.name());
            tracing::info!(actor, action, target = ordered.target, changed = ordered.changed, "ordered");
        }
        Ok(*ordered)
    }

    /// Has what a caller changed elsewhere, that is not in the store, in the audit log; returns when that is durable.
    pub(crate) async fn note(
        &self,
        caller: &Caller,
        action: &'static str,
        target: String,
        [before, after]: [Value; 2],
    ) -> Result<(), Error> {
        let (before, after) = (before.to_string(), after.to_string());
        let note = Note { actor: caller.into(), action, target, before, after };
        self.0.writer.submit(Change::Note(note)).await.map(drop)
    }

    async fn unaudited(&self, order: Order) -> Result<(), Error> {
        self.order(order, Terms::default()).await.map(drop)
    }

    /// Ends a membership, whatever its epoch, and takes back what was ordered about the agent.
    ///
    /// # Errors
    /// If the agent is no member or the store fails.
    pub async fn remove(&self, agent: AgentId) -> Result<(), Error> {
        self.unaudited(Order::Remove(agent)).await
    }

    /// Tells one agent, from its next heartbeat on, to change nothing.
    ///
    /// # Errors
    /// If the agent is no member or the store fails.
    pub async fn pause(&self, agent: AgentId) -> Result<(), Error> {
        self.unaudited(Order::Pause(agent, true)).await
    }

    /// Lifts an agent's own pause; the one for all still holds.
    ///
    /// # Errors
    /// If the agent is no member or the store fails.
    pub async fn resume(&self, agent: AgentId) -> Result<(), Error> {
        self.unaudited(Order::Pause(agent, false)).await
    }

    /// Tells all agents, also those that join later, to change nothing.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn pause_all(&self) -> Result<(), Error> {
        self.unaudited(Order::PauseAll(true)).await
    }

    /// Lifts the pause for all. Agents with a pause of their own stay paused.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn resume_all(&self) -> Result<(), Error> {
        self.unaudited(Order::PauseAll(false)).await
    }

    /// Says what the members of a pool may reserve together, whatever the configuration says; none goes back to that.
    /// Returns when it is durable.
    ///
    /// # Errors
    /// If there is no such pool or the store fails.
    pub async fn set_capacity(&self, pool: &PoolName, capacity: Option<Capacity>) -> Result<(), Error> {
        self.unaudited(Order::Capacity(pool.clone(), capacity)).await
    }

    /// Makes a pool, or gives one new settings; none removes it, with all that was ordered about it. Returns when that is
    /// durable.
    ///
    /// # Errors
    /// If there are too many pools, the one to remove is not there, has members or is configured, or the store fails.
    pub async fn set_pool(&self, pool: &PoolName, settings: Option<Settings>) -> Result<(), Error> {
        self.unaudited(Order::Pool(pool.clone(), settings)).await
    }

    /// Gives the agents of a pool a forecast network to share, and returns when that is durable.
    ///
    /// # Errors
    /// If there is no such pool, the bytes are no forecast network of this version, or the store fails.
    pub async fn set_forecast(&self, pool: &PoolName, bytes: Vec<u8>) -> Result<(), Error> {
        self.share_forecast(pool, bytes, Terms::default()).await.map(drop)
    }

    /// The same under an operator's terms.
    ///
    /// # Errors
    /// As above, or if the order was made for another state than there is.
    pub async fn share_forecast(&self, pool: &PoolName, bytes: Vec<u8>, terms: Terms) -> Result<Ordered, Error> {
        self.0.membership.known(pool)?;
        let forecast = Arc::new(Forecast::new(bytes)?);
        let ordered = self.order(Order::Forecast(pool.clone(), Some(Arc::clone(&forecast))), terms).await?;
        if !ordered.dry_run {
            let (digest, provenance) = (forecast.digest(), forecast.provenance());
            tracing::info!(%pool, %digest, provenance, "shares a forecast network");
        }
        Ok(ordered)
    }

    /// Takes a pool's forecast network back, and returns when that is durable.
    ///
    /// # Errors
    /// If there is no such pool or the store fails.
    pub async fn clear_forecast(&self, pool: &PoolName) -> Result<(), Error> {
        self.unaudited(Order::Forecast(pool.clone(), None)).await
    }

    /// The state of something that operators order, and the tag by which that state is known.
    ///
    /// # Errors
    /// If there is no such agent or pool.
    pub fn standing(&self, resource: &Resource) -> Result<(Standing, Option<Digest>), Error> {
        if let Some(pool) = resource.pool() {
            self.0.membership.known(pool)?;
        }
        let recorded = match resource.agent() {
            Some(agent) => {
                let view = self.agent(agent)?;
                Some(Recorded { epoch: view.epoch, paused: view.own_pause })
            }
            None => None,
        };
        let state = resource.state(&self.0.membership.orders().orders(), recorded);
        let tag = resource.tag(&state);
        Ok((Standing { target: resource.to_string(), state }, tag))
    }

    /// A pool's capacity.
    ///
    /// # Errors
    /// If there is no such pool.
    pub fn capacity(&self, pool: &PoolName) -> Result<CapacityView, Error> {
        self.0.membership.known(pool)?;
        let ordered = self.0.membership.orders().orders().capacities.get(pool).copied();
        let configured = self.0.options.capacities.iter().find(|(name, _)| name == pool).map(|(_, capacity)| *capacity);
        Ok(CapacityView { ordered, configured, effective: self.0.membership.capacity(pool) })
    }

    /// How a pool goes about scarcity.
    ///
    /// # Errors
    /// If there is no such pool.
    pub fn scarcity_settings(&self, pool: &PoolName) -> Result<SettingsView, Error> {
        let (effective, nodes) = self.0.membership.scarcity_settings(pool)?;
        Ok(SettingsView { ordered: self.0.membership.orders().orders().pool(pool).scarcity, effective, nodes })
    }

    /// A page of a pool's ledger of cuts: the first `limit` after a number, of those that a filter admits.
    ///
    /// # Errors
    /// If there is no such pool.
    pub fn cuts(&self, pool: &PoolName, filter: &CutFilter, after: u64, limit: usize) -> Result<CutPage, Error> {
        let (mut cuts, more) = self.0.membership.cuts(pool, filter, after, limit)?;
        let (now, wall) = (self.0.clock.now(), self.0.clock.wall());
        let on_the_wall = |time: u64| wall.saturating_sub(now.saturating_sub(time));
        for cut in &mut cuts {
            (cut.since_ms, cut.until_ms) = (on_the_wall(cut.since_ms), cut.until_ms.map(on_the_wall));
        }
        let next = cuts.last().filter(|_| more).map(|cut| cut.number);
        Ok(CutPage { cuts, next })
    }

    /// A pool's change budget.
    ///
    /// # Errors
    /// If there is no such pool.
    pub fn budget(&self, pool: &PoolName) -> Result<BudgetView, Error> {
        let pool = self.0.membership.known(pool)?;
        let none = BudgetView { budget: None, limit: None, left: None };
        let found = pool.orders.budget(self.0.clock.now());
        Ok(found.map_or(none, |(budget, limit, left)| BudgetView { budget: Some(budget), limit, left }))
    }

    /// Whether everybody is told to decide by the fallback.
    #[must_use]
    pub fn all_fallback(&self) -> bool {
        self.0.membership.orders().fallback()
    }

    /// Who is told to decide by the fallback.
    #[must_use]
    pub fn fallbacks(&self) -> FallbackView {
        let orders = self.0.membership.orders().orders();
        let pools = orders.pools.iter().filter(|(_, order)| order.fallback).map(|(pool, _)| pool.clone());
        FallbackView {
            target: Resource::Fallback(Scope::All).to_string(),
            state: orders.fallback,
            pools: pools.collect(),
            agents: orders.agents.values().filter(|order| order.fallback).count(),
        }
    }

    pub(crate) fn switches(&self) -> Switches {
        let audit_entries = self.0.log.trail().head().sequence;
        Switches {
            paused: self.all_paused(),
            fallback: self.all_fallback(),
            agents_on_fallback: self.fallbacks().agents as u64,
            audit_entries,
            spans: self.options().exports.counts(),
        }
    }

    /// A page of the audit log: the first `limit` entries after a number, of those that a filter admits.
    #[must_use]
    pub fn audit_log(&self, filter: &audit::Filter, after: u64, limit: usize) -> audit::Page {
        self.0.log.trail().page(filter, after, limit)
    }

    /// A reader of the events that come, or of those that came after an id.
    #[must_use]
    pub fn events(&self, after: Option<u64>, filter: events::Filter) -> Reader {
        self.0.membership.events().reader(after, filter)
    }

    /// The next events, once there are some; none at the end.
    pub async fn next_events(&self, reader: &mut Reader) -> Option<Vec<Event>> {
        let mut events = self.0.membership.events().next(reader).await?;
        for event in &mut events {
            if let (Some(agent), None) = (event.agent, &event.name) {
                event.name = self.0.membership.about(agent).name;
            }
        }
        Some(events)
    }
}
