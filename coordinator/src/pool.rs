//! One pool's mean field: exact sums over its members' latest contributions, and over those of the round before.
//!
//! Real-time agents are answered from the latest sums. Lock-step agents name a round, and all of them must get the
//! same answer whatever the order in which they report, so the first report of a round freezes the sums as the
//! rounds before left them and the whole round is answered from there.
//!
//! What members claim of the pool's capacity is frozen and answered in the same way ([`crate::claims`]).
//!
//! Locking: a member's [`Share`] and its latest report live in its membership entry. Whoever changes them holds that
//! entry exclusively and takes the pool's lock inside, never the other way round; the sums therefore always equal them.

use std::{collections::HashMap, sync::Arc};

use meanfield_common::{
    digest::Digest,
    identity::{AgentId, AgentName, PoolName},
    mean_field::{Aspects, Contribution, Detail, Details, Sums},
    scarcity::{self, Capacity, Claim, Entitlement, Scarcity},
};
use parking_lot::Mutex;

use crate::{
    claims::{Claims, Place},
    error::Error,
    forecast::Forecast,
    orders::OfPool,
    settings::{Settings, TeamReward},
    view::{CutFilter, CutView, ScarcityView, States},
};

/// A pool and its sums.
#[derive(Debug)]
pub(crate) struct Pool {
    pub(crate) name: PoolName,
    /// Whether the configuration names it.
    pub(crate) configured: bool,
    /// What is ordered about it.
    pub(crate) orders: OfPool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    latest: Sums,
    frozen: Sums,
    /// What agents are told beyond the sums if they ask; both kept like them.
    latest_details: Details,
    frozen_details: Details,
    /// How the frozen team reward is made: of the whole round alike.
    frozen_team: TeamReward,
    round: Option<u64>,
    /// How often the sums were frozen: tells whether a share changed since.
    freezes: u64,
    /// Contributions in `frozen` whose agents have left since: one that comes back within the round must still be
    /// answered without its own. Emptied at each freeze.
    departed: HashMap<AgentId, Contribution>,
    claims: Claims,
    settings: Settings,
    /// The network that its members share.
    forecast: Option<Arc<Forecast>>,
    members: u64,
    /// How many of them have been silent for too long.
    suspects: u64,
    /// Whether all members have left since the last report of a round. The next may then be of an earlier round, as
    /// the first of a new run; one of the same round still belongs to it, for it must not matter whether those who
    /// leave and come back within a round are all away at the same time.
    vacated: bool,
}

/// What one member has in its pool's sums beyond its latest contribution, which follows from its last heartbeat and is
/// not kept twice.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// What was in the frozen sums, if the latest changed after they were frozen.
    frozen: Option<Contribution>,
    /// The pool's `freezes` when the latest changed last.
    since: u64,
    /// Its place among the claims.
    place: Place,
}

impl Share {
    fn frozen(&self, freezes: u64, latest: Option<Contribution>) -> Option<Contribution> {
        if self.since < freezes { latest } else { self.frozen }
    }
}

/// A member as [`Pool::audit`] wants it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Audited {
    pub(crate) share: Share,
    pub(crate) latest: Option<Contribution>,
    pub(crate) claim: Option<Claim>,
    pub(crate) suspect: bool,
}

/// The sums that answer a heartbeat, and what the agent itself has in them.
#[derive(Debug, Clone)]
pub(crate) struct Snapshot {
    team: Sums,
    own: Option<Contribution>,
    pub(crate) team_reward: Option<f64>,
    /// More about the others, if the agent asked.
    pub(crate) detail: Option<Box<Detail>>,
    pub(crate) scarcity: Option<Scarcity>,
    /// What the pool's forecast network is known by.
    pub(crate) forecast: Option<Digest>,
    /// Whether a claim that was taken now counts less than it says.
    pub(crate) capped: bool,
}

/// What a member reports.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Report<'a> {
    /// Who it is, for the claim.
    pub(crate) name: &'a AgentName,
    /// What it had in the sums until now.
    pub(crate) before: Option<Contribution>,
    pub(crate) one: Contribution,
    pub(crate) claim: Option<&'a Claim>,
    /// What an operator gave to it, for its first claim.
    pub(crate) given: Option<&'a Entitlement>,
    pub(crate) round: Option<u64>,
    /// What more about the others is told.
    pub(crate) detail: Aspects,
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
    pub(crate) fn new(name: PoolName, configured: bool) -> Self {
        Self { name, configured, orders: OfPool::default(), state: Mutex::default() }
    }

    /// What it is from now on.
    pub(crate) fn set(&self, settings: Settings) {
        self.state.lock().settings = settings;
    }

    /// What it is.
    pub(crate) fn settings(&self) -> Settings {
        self.state.lock().settings.clone()
    }

    /// The capacity of the configuration.
    pub(crate) fn configure(&self, capacity: Option<Capacity>) {
        self.state.lock().claims.configure(capacity);
    }

    /// The capacity that an operator ordered; none goes back to the configuration.
    pub(crate) fn set_capacity(&self, capacity: Option<Capacity>) {
        self.state.lock().claims.set_capacity(capacity);
    }

    /// How it goes about scarcity from now on.
    pub(crate) fn set_scarcity(&self, settings: scarcity::Settings) {
        self.state.lock().claims.set_settings(settings);
    }

    /// How it goes about scarcity, and how many nodes count where its capacity is theirs.
    pub(crate) fn scarcity_settings(&self) -> (scarcity::Settings, Option<usize>) {
        let state = self.state.lock();
        (state.claims.settings(), state.claims.nodes())
    }

    /// Whether claims are kept.
    pub(crate) fn shares(&self) -> bool {
        self.state.lock().claims.active()
    }

    /// What an operator gives to a member.
    pub(crate) fn entitle(&self, share: &Share, given: &Entitlement) {
        self.state.lock().claims.entitle(share.place, given);
    }

    /// A page of its ledger of cuts, in times of the coordinator's clock, and whether there is more.
    pub(crate) fn cuts(&self, filter: &CutFilter, after: u64, limit: usize) -> (Vec<CutView>, bool) {
        self.state.lock().claims.cuts(filter, after, limit)
    }

    /// What its members may reserve together.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        self.state.lock().claims.capacity()
    }

    /// What the nodes have that agents report, where that counts and once it is known.
    pub(crate) fn reported(&self) -> Option<Capacity> {
        self.state.lock().claims.reported()
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
    pub(crate) fn admit(&self, id: AgentId) -> Share {
        let mut state = self.state.lock();
        state.members += 1;
        state.claims.admit();
        Share { frozen: state.departed.remove(&id), since: state.freezes, place: Place::NONE }
    }

    /// Puts a report in the place of the member's last one.
    pub(crate) fn report(&self, share: &mut Share, report: &Report<'_>) -> Result<Snapshot, Error> {
        let mut state = self.state.lock();
        state.claims.hear(report.now);
        state.enter(report.round)?;
        state.replace(share, report.before, Some(report.one));
        let capped = state.claims.claim(&mut share.place, report.name, report.claim, report.given);
        if report.round.is_none() {
            state.claims.refresh(report.now);
        }
        Ok(Snapshot { capped, ..state.snapshot(share, Some(report.one), report.round, report.detail) })
    }

    /// The answer to a report that was taken before.
    pub(crate) fn again(
        &self,
        share: &Share,
        latest: Option<Contribution>,
        round: Option<u64>,
        detail: Aspects,
    ) -> Result<Snapshot, Error> {
        let state = self.state.lock();
        state.check(round)?;
        Ok(state.snapshot(share, latest, round, detail))
    }

    /// Brings a claim that was made while there was nothing to share.
    pub(crate) fn claim_again(
        &self,
        share: &mut Share,
        name: &AgentName,
        claim: &Claim,
        given: Option<&Entitlement>,
        suspect: bool,
    ) {
        let claims = &mut self.state.lock().claims;
        claims.claim(&mut share.place, name, Some(claim), given);
        claims.silence(share.place, suspect);
    }

    /// Takes the member's latest contribution out; it stays a member.
    pub(crate) fn clear(&self, share: &mut Share, latest: Option<Contribution>) {
        let mut state = self.state.lock();
        state.replace(share, latest, None);
        state.claims.clear(share.place);
    }

    /// Takes the member's latest contribution out for good.
    pub(crate) fn part(&self, id: AgentId, share: &mut Share, latest: Option<Contribution>) {
        let mut state = self.state.lock();
        state.replace(share, latest, None);
        state.claims.part(share.place);
        if let Some(frozen) = share.frozen(state.freezes, None) {
            state.departed.insert(id, frozen);
        }
        state.members -= 1;
        state.vacated |= state.members == 0;
    }

    /// Counts a member among the suspects, or no longer. One that is silent claims no more than it holds.
    pub(crate) fn suspect(&self, share: &Share, suspect: bool) {
        let mut state = self.state.lock();
        state.claims.silence(share.place, suspect);
        state.suspects = if suspect { state.suspects + 1 } else { state.suspects.saturating_sub(1) };
    }

    /// How many members are in which state.
    pub(crate) fn states(&self) -> States {
        let state = self.state.lock();
        States { active: state.members.saturating_sub(state.suspects), suspect: state.suspects }
    }

    /// The latest sums.
    pub(crate) fn sums(&self) -> Sums {
        self.state.lock().latest
    }

    /// How scarce its capacity is, with so many of those who have a cap; none without one.
    pub(crate) fn scarcity(&self, listed: usize) -> Option<ScarcityView> {
        self.state.lock().claims.view(listed)
    }

    /// What a member is told about scarcity.
    pub(crate) fn standing(&self, share: &Share) -> Option<Scarcity> {
        self.state.lock().claims.scarcity(share.place)
    }

    /// The latest round of a pool that runs in lock-step.
    pub(crate) fn round(&self) -> Option<u64> {
        self.state.lock().round
    }

    /// Whether both sums are what these members, who must be all of them, add up to, and the claims theirs.
    pub(crate) fn audit(&self, members: &[Audited]) -> bool {
        let state = self.state.lock();
        let (mut latest, mut frozen) = (Sums::default(), Sums::default());
        let (mut latest_details, mut frozen_details) = (Details::default(), Details::default());
        for member in members {
            if let Some(one) = &member.latest {
                latest.add(one);
                latest_details.add(one);
            }
            if let Some(one) = &member.share.frozen(state.freezes, member.latest) {
                frozen.add(one);
                frozen_details.add(one);
            }
        }
        for one in state.departed.values() {
            frozen.add(one);
            frozen_details.add(one);
        }
        let claims: Vec<_> = members.iter().map(|member| (member.share.place, member.claim)).collect();
        let suspects = members.iter().filter(|member| member.suspect).count();
        let counts = (members.len() as u64, suspects as u64) == (state.members, state.suspects);
        let sums = latest == state.latest && frozen == state.frozen && state.claims.audit(&claims);
        counts && sums && latest_details == state.latest_details && frozen_details == state.frozen_details
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
            self.frozen_team = self.settings.team_reward;
            self.frozen_details.clone_from(&self.latest_details);
            self.freezes += 1;
            self.claims.begin_round();
            self.departed.clear();
        }
        Ok(())
    }

    fn replace(&mut self, share: &mut Share, before: Option<Contribution>, one: Option<Contribution>) {
        match (&before, &one) {
            (Some(old), Some(new)) => {
                self.latest.replace(old, new);
                self.latest_details.replace(old, new);
            }
            (Some(old), None) => {
                self.latest.remove(old);
                self.latest_details.remove(old);
            }
            (None, Some(new)) => {
                self.latest.add(new);
                self.latest_details.add(new);
            }
            (None, None) => {}
        }
        share.frozen = share.frozen(self.freezes, before);
        share.since = self.freezes;
    }

    fn snapshot(&self, share: &Share, latest: Option<Contribution>, round: Option<u64>, detail: Aspects) -> Snapshot {
        let (team, how, details, own) = match round {
            None => (self.latest, self.settings.team_reward, &self.latest_details, latest),
            Some(_) => (self.frozen, self.frozen_team, &self.frozen_details, share.frozen(self.freezes, latest)),
        };
        let (detail, team_reward) = (details.detail(own.as_ref(), detail), how.of(&team));
        let (scarcity, forecast) = (self.claims.scarcity(share.place), self.forecast.as_ref());
        let forecast = forecast.map(|forecast| forecast.digest());
        Snapshot { team, own, team_reward, detail, scarcity, forecast, capped: false }
    }
}
