//! What operators see of members and pools, and whether it all adds up.

use std::{collections::BTreeMap, sync::Arc};

use meanfield_common::{
    identity::{AgentId, AgentName, PoolName},
    scarcity::allocation::Need,
};

use super::{Member, Membership};
use crate::{
    error::Error,
    events::About,
    metrics::Board,
    orders::PoolOrder,
    pool::{Audited, Pool},
    view::{AgentView, Cursor, Filter, PoolView},
};

impl Membership {
    /// Asks something of a member's pool and name, which its id stands for and which never change.
    pub(crate) fn identify<T>(&self, id: AgentId, ask: impl FnOnce(&PoolName, &AgentName) -> T) -> Option<T> {
        let member = self.members.get(&id)?;
        Some(ask(&member.pool.name, &member.name))
    }

    pub(crate) fn agent(&self, id: AgentId, now: u64) -> Result<AgentView, Error> {
        let member = self.members.get(&id).ok_or(Error::UnknownAgent(id))?;
        Ok(self.view(id, &member, now))
    }

    /// The first `limit` members after a cursor, in order of pool and name.
    pub(crate) fn agents(&self, filter: &Filter, after: Option<&Cursor>, limit: usize, now: u64) -> Vec<AgentView> {
        let mut page = BTreeMap::new();
        for entry in &self.members {
            let member = entry.value();
            let of = &member.pool.name;
            let place = (of.as_str(), member.name.as_str());
            let wanted = filter.admits(of, &member.name, member.category, member.state());
            let wanted = wanted && after.is_none_or(|after| after.place() < place);
            if !wanted {
                continue;
            }
            let full = page.len() >= limit;
            if full && page.last_key_value().is_some_and(|(last, _): (&Cursor, _)| last.place() < place) {
                continue;
            }
            page.insert(Cursor::new(of, &member.name), self.view(*entry.key(), member, now));
            if full {
                page.pop_last();
            }
        }
        page.into_values().collect()
    }

    fn view(&self, id: AgentId, member: &Member, now: u64) -> AgentView {
        let scarcity = member.pool.standing(&member.share);
        let last = member.last();
        let claim = last.and_then(|last| last.claim);
        let (ordered, told) = (self.orders.agent(id), self.orders.directives(id, &member.pool.orders));
        AgentView {
            id,
            name: member.name.clone(),
            pool: member.pool.name.clone(),
            category: member.category,
            epoch: member.epoch,
            details: member.aspects,
            state: member.state(),
            paused: member.paused || self.all_paused(),
            own_pause: member.paused,
            fallback: told.fallback,
            own_fallback: ordered.fallback,
            lifecycle: ordered.lifecycle,
            sequence: last.map(|last| last.sequence),
            silent_ms: now.saturating_sub(member.heard),
            local: last.map(|last| last.state),
            action: last.map(|last| last.action),
            reward: last.map(|last| last.reward),
            claim,
            claim_capped: claim.as_ref().is_some_and(|claim| Need::from(claim).capped),
            grant: scarcity.and_then(|scarcity| scarcity.grant),
            advice: scarcity.and_then(|scarcity| scarcity.advice),
            entitlement: ordered.entitlement,
        }
    }

    pub(crate) fn pools(&self) -> Vec<PoolView> {
        let orders = self.orders.orders();
        self.pools.all().iter().map(|pool| pool_view(pool, orders.pool(&pool.name), usize::MAX)).collect()
    }

    /// The same for metrics, which nobody needs a token for: no look at anybody is taken for them.
    pub(crate) fn boards(&self) -> Vec<Board> {
        let orders = self.orders.orders();
        let board = |pool: &Arc<Pool>| {
            let (settings, nodes) = pool.scarcity_settings();
            Board { pool: pool_view(pool, orders.pool(&pool.name), 0), mode: settings.mode, nodes }
        };
        self.pools.all().iter().map(board).collect()
    }

    pub(crate) fn pool(&self, name: &PoolName) -> Result<PoolView, Error> {
        let pool = self.pools.known(name)?;
        Ok(pool_view(&pool, self.orders.orders().pool(name), usize::MAX))
    }

    /// Recomputes every pool's sums from its members and compares. True says that they agree; meaningful only while
    /// nobody joins, reports or leaves, since the members are not all looked at in the same instant.
    pub(crate) fn audit(&self) -> bool {
        let pools = self.pools.all();
        let mut members: BTreeMap<_, _> = pools.iter().map(|pool| (&pool.name, Vec::new())).collect();
        let mut homeless = false;
        for member in &self.members {
            let (share, latest, suspect) = (member.share, member.latest(), member.suspect);
            let claim = member.last().and_then(|last| last.claim);
            match members.get_mut(&member.pool.name) {
                Some(members) => members.push(Audited { share, latest, claim, suspect }),
                None => homeless = true,
            }
        }
        !homeless && pools.iter().all(|pool| members.get(&pool.name).is_some_and(|members| pool.audit(members)))
    }

    /// A member in an event.
    pub(crate) fn about(&self, id: AgentId) -> About {
        let member = self.members.get(&id);
        let named = member.map(|member| (member.pool.name.clone(), member.name.clone()));
        let (pool, name) = named.unzip();
        About { pool, name, agent: Some(id), ..About::default() }
    }
}

fn pool_view(pool: &Pool, ordered: PoolOrder, listed: usize) -> PoolView {
    let sums = pool.sums();
    PoolView {
        name: pool.name.clone(),
        settings: pool.settings(),
        configured: pool.configured,
        agents: pool.states(),
        round: pool.round(),
        mean_field: sums.auxiliary().into(),
        mean_reward: sums.mean_reward(),
        team_reward: pool.settings().team_reward.of(&sums),
        scarcity: pool.scarcity(listed),
        forecast: pool.forecast().map(|forecast| forecast.view()),
        fallback: ordered.fallback,
        budget: ordered.budget,
    }
}
