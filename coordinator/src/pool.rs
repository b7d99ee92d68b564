//! One pool's mean field: exact sums over its members' latest contributions, and over those of the round before.
//!
//! Real-time agents are answered from the latest sums. Lock-step agents name a round, and all of them must get the
//! same answer whatever the order in which they report, so the first report of a round freezes the sums as the
//! rounds before left them and the whole round is answered from there.
//!
//! What members claim of the pool's capacity is frozen and answered in the same way ([`crate::claims`]).
//!
//! Locking: a member's [`Share`] lives in its membership entry. Whoever changes one holds that entry exclusively and
//! takes the pool's lock inside, never the other way round; the sums therefore always equal the shares.

use std::{collections::HashMap, sync::Arc};

use meanfield_common::{
    digest::Digest,
    identity::{AgentId, AgentName, PoolName},
    mean_field::{Contribution, Detail, Details, Sums},
    scarcity::{Capacity, Claim, Scarcity},
};
use parking_lot::Mutex;

use crate::{claims::Claims, error::Error, forecast::Forecast, view::ScarcityView};

/// A pool and its sums.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: PoolName,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    latest: Sums,
    frozen: Sums,
    /// What agents are told beyond the sums if they ask; both kept like them.
    latest_details: Details,
    frozen_details: Details,
    round: Option<u64>,
    /// How often the sums were frozen: tells whether a share changed since.
    freezes: u64,
    /// Contributions in `frozen` whose agents have left since: one that comes back within the round must still be
    /// answered without its own. Emptied at each freeze.
    departed: HashMap<AgentId, Contribution>,
    claims: Claims,
    /// The network that its members share.
    forecast: Option<Arc<Forecast>>,
    members: usize,
    /// Whether all members have left since the last report of a round. The next may then be of an earlier round, as
    /// the first of a new run; one of the same round still belongs to it, for it must not matter whether those who
    /// leave and come back within a round are all away at the same time.
    vacated: bool,
}

/// What one member has in its pool's sums.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    latest: Option<Contribution>,
    /// What was in the frozen sums, if `latest` changed after they were frozen.
    frozen: Option<Contribution>,
    /// The pool's `freezes` when `latest` changed last.
    since: u64,
    /// Its place among the claims.
    slot: usize,
}

impl Share {
    fn frozen(&self, freezes: u64) -> Option<Contribution> {
        if self.since < freezes { self.latest } else { self.frozen }
    }
}

/// The sums that answer a heartbeat, and what the agent itself has in them.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Snapshot {
    pub(crate) team: Sums,
    own: Option<Contribution>,
    /// More about the others, if the agent asked.
    pub(crate) detail: Option<Detail>,
    pub(crate) scarcity: Option<Scarcity>,
    /// What the pool's forecast network is known by.
    pub(crate) forecast: Option<Digest>,
    /// Whether a claim that was taken now counts less than it says.
    pub(crate) capped: bool,
}

/// What a member reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    pub(crate) one: Contribution,
    pub(crate) claim: Option<&'a Claim>,
    pub(crate) round: Option<u64>,
    /// Whether more about the others is asked for.
    pub(crate) detail: bool,
    /// When, on the coordinator's clock.
    pub(crate) now: u64,
}

impl Snapshot {
    /// The sums without the agent itself.
    pub(crate) fn others(&self) -> Sums {
        self.own.as_ref().map_or(self.team, |own| self.team.without(own))
    }
}

impl Pool {
    pub(crate) fn new(name: PoolName) -> Self {
        Self { name, state: Mutex::default() }
    }

    /// The capacity of the configuration.
    pub(crate) fn configure(&self, capacity: Option<Capacity>) {
        self.state.lock().claims.configure(capacity);
    }

    /// The capacity that an operator ordered; none goes back to the configuration.
    pub(crate) fn set_capacity(&self, capacity: Option<Capacity>) {
        self.state.lock().claims.set_capacity(capacity);
    }

    /// What its members may reserve together.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        self.state.lock().claims.capacity()
    }

    /// The forecast network that members share from now on.
    pub(crate) fn set_forecast(&self, forecast: Option<Arc<Forecast>>) {
        self.state.lock().forecast = forecast;
    }

    /// The forecast network that members share.
    pub(crate) fn forecast(&self) -> Option<Arc<Forecast>> {
        self.state.lock().forecast.clone()
    }

    /// The share of an agent that joins: nothing until it reports.
    pub(crate) fn admit(&self, id: AgentId, name: &AgentName) -> Share {
        let mut state = self.state.lock();
        state.members += 1;
        let slot = state.claims.admit(name.as_str());
        Share { latest: None, frozen: state.departed.remove(&id), since: state.freezes, slot }
    }

    /// Puts a report in the place of the member's last one.
    pub(crate) fn report(&self, share: &mut Share, report: &Report<'_>) -> Result<Snapshot, Error> {
        let mut state = self.state.lock();
        state.enter(report.round)?;
        state.replace(share, Some(report.one));
        let capped = state.claims.claim(share.slot, report.claim);
        if report.round.is_none() {
            state.claims.refresh(report.now);
        }
        Ok(Snapshot { capped, ..state.snapshot(share, report.round, report.detail) })
    }

    /// The answer to a report that was taken before.
    pub(crate) fn again(&self, share: &Share, round: Option<u64>, detail: bool) -> Result<Snapshot, Error> {
        let state = self.state.lock();
        state.check(round)?;
        Ok(state.snapshot(share, round, detail))
    }

    /// Takes the member's contribution out; it stays a member.
    pub(crate) fn clear(&self, share: &mut Share) {
        let mut state = self.state.lock();
        state.replace(share, None);
        state.claims.clear(share.slot);
    }

    /// Takes the member's contribution out for good.
    pub(crate) fn part(&self, id: AgentId, share: &mut Share) {
        let mut state = self.state.lock();
        state.replace(share, None);
        state.claims.part(share.slot);
        if let Some(frozen) = share.frozen(state.freezes) {
            state.departed.insert(id, frozen);
        }
        state.members -= 1;
        state.vacated |= state.members == 0;
    }

    /// The latest sums.
    pub(crate) fn sums(&self) -> Sums {
        self.state.lock().latest
    }

    /// How scarce its capacity is; none without one.
    pub(crate) fn scarcity(&self) -> Option<ScarcityView> {
        self.state.lock().claims.view()
    }

    /// What a member is told about scarcity, and whether its claim counts less than it says.
    pub(crate) fn standing(&self, share: &Share) -> (Option<Scarcity>, bool) {
        let state = self.state.lock();
        (state.claims.scarcity(share.slot), state.claims.capped(share.slot))
    }

    /// The latest round of a pool that runs in lock-step.
    pub(crate) fn round(&self) -> Option<u64> {
        self.state.lock().round
    }

    /// Whether both sums are what these shares, which must be all of the members', add up to, and the claims theirs.
    pub(crate) fn audit(&self, members: &[(Share, Option<Claim>)]) -> bool {
        let state = self.state.lock();
        let (mut latest, mut frozen) = (Sums::default(), Sums::default());
        let (mut latest_details, mut frozen_details) = (Details::default(), Details::default());
        for (share, _) in members {
            if let Some(one) = &share.latest {
                latest.add(one);
                latest_details.add(one);
            }
            if let Some(one) = &share.frozen(state.freezes) {
                frozen.add(one);
                frozen_details.add(one);
            }
        }
        for one in state.departed.values() {
            frozen.add(one);
            frozen_details.add(one);
        }
        let claims: Vec<_> = members.iter().map(|(share, claim)| (share.slot, *claim)).collect();
        let sums = latest == state.latest && frozen == state.frozen && state.claims.audit(&claims);
        sums && latest_details == state.latest_details && frozen_details == state.frozen_details
    }
}

impl State {
    fn check(&self, round: Option<u64>) -> Result<(), Error> {
        match (round, self.round) {
            (Some(given), Some(current)) if given < current && !self.vacated => {
                Err(Error::StaleRound { given, current })
            }
            _ => Ok(()),
        }
    }

    /// Begins a round when this is its first report.
    fn enter(&mut self, round: Option<u64>) -> Result<(), Error> {
        self.check(round)?;
        if round.is_none() {
            return Ok(());
        }
        self.vacated = false;
        if round != self.round {
            self.round = round;
            self.frozen = self.latest;
            self.frozen_details.clone_from(&self.latest_details);
            self.freezes += 1;
            self.claims.begin_round();
            self.departed.clear();
        }
        Ok(())
    }

    fn replace(&mut self, share: &mut Share, one: Option<Contribution>) {
        if let Some(old) = &share.latest {
            self.latest.remove(old);
            self.latest_details.remove(old);
        }
        if let Some(new) = &one {
            self.latest.add(new);
            self.latest_details.add(new);
        }
        let frozen = share.frozen(self.freezes);
        *share = Share { latest: one, frozen, since: self.freezes, ..*share };
    }

    fn snapshot(&self, share: &Share, round: Option<u64>, detail: bool) -> Snapshot {
        let (team, details, own) = match round {
            None => (self.latest, &self.latest_details, share.latest),
            Some(_) => (self.frozen, &self.frozen_details, share.frozen(self.freezes)),
        };
        let detail = detail.then(|| details.detail(own.as_ref()));
        let (scarcity, forecast) = (self.claims.scarcity(share.slot), self.forecast.as_ref());
        Snapshot { team, own, detail, scarcity, forecast: forecast.map(|forecast| forecast.digest()), capped: false }
    }
}
