//! The handle through which everything happens, in process or behind HTTP.

mod models;
mod operator;
mod tokens;
mod trajectories;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use meanfield_common::{
    identity::{AgentId, PoolName},
    wire::{Answer, Heartbeat, Leave, Register, Registered},
};

use tokio::{sync::Semaphore, task::spawn_blocking};

use crate::{
    access::{Caller, Registry},
    audit::Log,
    clock::{Clock, milliseconds},
    error::Error,
    events::Kind,
    forecast::Forecast,
    ledger::{Change, Ledger},
    membership::{Deadlines, Membership},
    metrics::{Board, Metrics},
    models::Models,
    options::Options,
    store::{self, Store},
    token,
    trajectories::Trajectories,
    view::{AgentView, Cursor, Filter, PoolView},
    writer::{Live, Outcome, Writer},
};

pub use tokens::Made;
pub(crate) use trajectories::TRANSFERS;

/// A running coordinator. Clones are handles to the same one; dropping the last closes the store.
#[derive(Clone)]
pub struct Coordinator(Arc<Inner>);

struct Inner {
    options: Options,
    clock: Clock,
    registry: Arc<Registry>,
    membership: Arc<Membership>,
    writer: Writer,
    trajectories: Trajectories,
    log: Log,
    metrics: Metrics,
    models: Models,
    draining: AtomicBool,
    lists: Arc<Semaphore>,
    transfers: Arc<Semaphore>,
}

/// How many lists of members are made at a time.
const LISTS: usize = 1;

/// What a sweep found.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Swept {
    /// How many agents became suspect.
    pub suspect: usize,
    /// How many agents are gone.
    pub gone: usize,
}

impl Coordinator {
    /// Starts a coordinator from what its data directory holds. Members of an earlier run are members again, with a
    /// fresh deadline; they count in the mean field when they report.
    ///
    /// # Errors
    /// If an option is out of bounds, or the data directory cannot be used or is damaged.
    pub fn open(options: Options, clock: Clock) -> Result<Self, Error> {
        options.validate()?;
        let Some(directory) = &options.data_dir else {
            return Self::with_store(options, clock, Box::new(store::Memory));
        };
        // All that is there is looked at before anything is opened, since databases rewrite their files while they open.
        if options.token.is_none() {
            token::existing(directory)?;
        }
        let rehearsed = store::Disk::rehearse(directory)?;
        Trajectories::rehearse(directory)?;
        Models::rehearse(directory, rehearsed.models())?;
        let store = Box::new(rehearsed.open()?);
        Self::with_store(options, clock, store)
    }

    fn with_store(options: Options, clock: Clock, mut store: Box<dyn Store>) -> Result<Self, Error> {
        let mut contents = store.load()?;
        let deadlines = Deadlines {
            suspect_after: milliseconds(options.suspect_after),
            gone_after: milliseconds(options.gone_after),
        };
        let membership = Arc::new(Membership::new(&options.pools, deadlines, clock.clone()));
        membership.configure(&options.capacities);
        for (pool, record) in
            contents.pools.iter().filter(|(pool, record)| record.created || options.pools.contains(pool))
        {
            membership.set_pool(pool, record.settings.clone());
        }
        contents.capacities.iter().for_each(|(pool, capacity)| membership.set_capacity(pool, *capacity));
        let settings = contents.pool_orders.iter().filter_map(|(pool, order)| Some((pool, order.scarcity?)));
        settings.for_each(|(pool, settings)| membership.set_scarcity(pool, settings));
        for (pool, bytes) in contents.forecasts.iter().filter_map(|(pool, bytes)| Some((pool, bytes.as_ref()?))) {
            match Forecast::new(bytes.clone()) {
                Ok(forecast) => membership.set_forecast(pool, Some(Arc::new(forecast))),
                // Given to another version. It is no reason not to start, since agents have one of their own.
                Err(error) => tracing::warn!(%pool, %error, "a pool's forecast network does not fit: it is not shared"),
            }
        }
        membership.pause_all(contents.paused);
        let mut homeless = 0;
        for (id, record) in contents.agents.iter().filter(|(_, record)| record.member) {
            homeless += usize::from(!membership.join(*id, record, clock.now()));
        }
        if homeless > 0 {
            tracing::warn!(agents = homeless, "some members' pools are not there: they count when these are again");
        }
        let token = match (&options.token, &options.data_dir) {
            (Some(token), _) => token.clone(),
            (None, Some(directory)) => token::read_or_create(directory)?.into(),
            (None, None) => token::generate()?.into(),
        };
        let registry = Arc::new(Registry::new(token, options.rates, clock.clone()));
        contents.tokens.iter().for_each(|(id, record)| registry.insert(*id, record.clone()));
        let (metrics, draining) = (Metrics::new(), AtomicBool::new(false));
        let log = Log::new(std::mem::take(&mut contents.trail), options.audit_keep);
        // Behind the store, whose lock keeps others out of the directory.
        let documents = std::mem::take(&mut contents.models);
        let documents = models::settle(store.as_mut(), &log, options.data_dir.as_deref(), documents, clock.wall())?;
        let models = Models::open(options.data_dir.as_deref(), documents, options.models.clone())?;
        let (directory, counted) = (options.data_dir.as_deref(), metrics.trajectories.clone());
        let trajectories = Trajectories::open(directory, options.trajectories, clock.clone(), counted)?;
        let ledger = Ledger::new(contents, &options);
        membership.set_orders(ledger.orders().clone());
        let live = Live {
            membership: Arc::clone(&membership),
            registry: Arc::clone(&registry),
            log: log.clone(),
            flush_seconds: metrics.store_flush_seconds.clone(),
        };
        let writer = Writer::start(store, ledger, live, clock.clone())?;
        Ok(Self(Arc::new(Inner {
            options,
            clock,
            registry,
            membership,
            writer,
            trajectories,
            log,
            metrics,
            models,
            draining,
            lists: Arc::new(Semaphore::new(LISTS)),
            transfers: Arc::new(Semaphore::new(TRANSFERS)),
        })))
    }

    /// The configuration.
    #[must_use]
    pub fn options(&self) -> &Options {
        &self.0.options
    }

    /// The coordinator's own token, which may do everything.
    #[must_use]
    pub fn token(&self) -> &str {
        self.0.registry.own().expose()
    }

    pub(crate) fn metrics(&self) -> &Metrics {
        &self.0.metrics
    }

    /// Makes an agent a member, or begins a new epoch of one, and returns when that is durable. The same name in the
    /// same pool always gets the same id. What an earlier epoch reported no longer counts.
    ///
    /// # Errors
    /// If there is no such pool or the store fails.
    pub async fn register(&self, register: Register) -> Result<Registered, Error> {
        // All that this version knows of is agreed on.
        let agreed = register.wants;
        let outcome = self.0.writer.submit(Change::Register(register)).await?;
        let Outcome::Joined(agent, epoch) = outcome else { return Err(Error::Closed) };
        self.0.metrics.registrations.inc();
        Ok(Registered { agent, epoch, heartbeat_within_ms: milliseconds(self.0.options.suspect_after), agreed })
    }

    /// Takes one step of one agent and answers with the mean field of the others: O(1), without allocating once the
    /// agent has claimed something, if it does, unless it is told details. Where the pool has a capacity, one sort over its members is added once
    /// a round, or at most once a second.
    ///
    /// In real time the answer is the latest. With a round it describes the pool as the earlier rounds left it, for
    /// everybody in the round alike. Rounds of a pool only grow, also over episodes of a simulation, until all of its
    /// members have left.
    ///
    /// # Errors
    /// If the agent is no member, or the message is from another epoch, out of sequence, or of an earlier round.
    pub fn heartbeat(&self, agent: AgentId, heartbeat: &Heartbeat) -> Result<Answer, Error> {
        let (answer, capped) = self.0.membership.heartbeat(agent, heartbeat, self.0.clock.now())?;
        self.0.metrics.heartbeats.inc();
        if capped {
            self.0.metrics.claims_capped.inc();
        }
        Ok(Answer { models: self.0.models.revision(), ..answer })
    }

    /// Ends a membership at the agent's own wish, and returns when that is durable. An operator's pause outlasts it.
    ///
    /// # Errors
    /// If the agent is no member, has registered again since, or the store fails.
    pub async fn leave(&self, agent: AgentId, leave: Leave) -> Result<(), Error> {
        self.0.writer.submit(Change::Leave(agent, leave.epoch)).await?;
        self.0.metrics.leaves.inc();
        Ok(())
    }

    /// The forecast network that the agents of a pool share.
    ///
    /// # Errors
    /// If there is no such pool, or it has none.
    pub fn forecast(&self, pool: &PoolName) -> Result<Arc<Forecast>, Error> {
        self.0.membership.forecast(pool)?.ok_or_else(|| Error::NoForecast(pool.clone()))
    }

    /// Whether the pause for all is on.
    #[must_use]
    pub fn all_paused(&self) -> bool {
        self.0.membership.all_paused()
    }

    /// All members, in order of pool and name.
    #[must_use]
    pub fn agents(&self) -> Vec<AgentView> {
        self.page(&Filter::default(), None, usize::MAX)
    }

    /// The first `limit` members after a place in that order, of those that a filter admits.
    #[must_use]
    pub fn page(&self, filter: &Filter, after: Option<&Cursor>, limit: usize) -> Vec<AgentView> {
        self.0.membership.agents(filter, after, limit, self.0.clock.now())
    }

    /// The same on a thread that may be kept, a few at a time: of a million members it is a long look.
    pub(crate) async fn page_aside(
        &self,
        filter: Filter,
        after: Option<Cursor>,
        limit: usize,
    ) -> Result<Vec<AgentView>, Error> {
        let permit = Arc::clone(&self.0.lists).acquire_owned().await.map_err(|_| Error::Closed)?;
        let coordinator = self.clone();
        let look = move || {
            let _permit = permit;
            coordinator.page(&filter, after.as_ref(), limit)
        };
        // An error means that the look has panicked, which the panic hook has reported.
        spawn_blocking(look).await.map_err(|_| Error::Closed)
    }

    /// One member.
    ///
    /// # Errors
    /// If the agent is no member.
    pub fn agent(&self, agent: AgentId) -> Result<AgentView, Error> {
        self.0.membership.agent(agent, self.0.clock.now())
    }

    /// All pools, in order of their names.
    #[must_use]
    pub fn pools(&self) -> Vec<PoolView> {
        self.0.membership.pools()
    }

    /// The same for metrics.
    pub(crate) fn boards(&self) -> Vec<Board> {
        self.0.membership.boards()
    }

    /// One pool.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn pool(&self, name: &PoolName) -> Result<PoolView, Error> {
        self.0.membership.pool(name)
    }

    /// Marks who has been silent for too long as suspect, and takes out who is gone; returns when that is durable.
    /// Suspects still count in the mean field, and claim no more than they hold; the gone do neither.
    /// [`crate::serve`] calls this by itself.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn sweep(&self) -> Result<Swept, Error> {
        let now = self.0.clock.now();
        self.0.membership.refit();
        // A deadline is passed once it is over: silent for exactly `suspect_after` is already suspect.
        let (suspect, overdue) = self.0.membership.overdue(now);
        for agent in &suspect {
            tracing::warn!(agent = %agent.id, name = %agent.name, pool = %agent.pool, "agent is suspect");
            self.0.membership.events().publish(Kind::Suspect, agent.into());
        }
        // Out of the live membership first: a heartbeat that came after the write would be lost with the record.
        let mut gone = Vec::new();
        for agent in overdue {
            if self.0.membership.part_overdue(&agent, now) {
                tracing::warn!(agent = %agent.id, name = %agent.name, pool = %agent.pool, "agent is gone");
                self.0.membership.events().publish(Kind::Gone, (&agent).into());
                gone.push((agent.id, agent.epoch));
            }
        }
        let swept = Swept { suspect: suspect.len(), gone: gone.len() };
        self.0.metrics.gone.inc_by(gone.len() as u64);
        if !gone.is_empty() {
            self.0.writer.submit(Change::Gone(gone)).await?;
        }
        Ok(swept)
    }

    /// Returns when every change that was handed in before is durable.
    ///
    /// # Errors
    /// If the store fails.
    pub async fn flush(&self) -> Result<(), Error> {
        self.0.writer.submit(Change::Flush).await.map(drop)
    }

    /// Whether the sums of every pool are exactly what its members add up to. For tests; meaningful only while
    /// nobody joins, reports or leaves.
    #[must_use]
    pub fn audit(&self) -> bool {
        self.0.membership.audit()
    }

    /// Whether requests are welcome: the store works and no shutdown has begun.
    #[must_use]
    pub fn ready(&self) -> bool {
        self.hindrance().is_none()
    }

    /// Why requests are not welcome, if they are not. Anybody may read it, so it names no file.
    #[must_use]
    pub fn hindrance(&self) -> Option<String> {
        if self.draining() {
            return Some("shutting down".to_owned());
        }
        let told = |what: &str, error: Error| match error {
            Error::Store(error) => format!("{what} cannot be written: {}", error.reason()),
            _ => format!("{what} cannot be written"),
        };
        let (writer, trajectories) = (&self.0.writer, &self.0.trajectories);
        let members = writer.hindrance().map(|error| told("the store of members and orders", error));
        let steps = trajectories.hindrance().map(|error| told("the store of trajectories", error));
        match (members, steps) {
            (Some(one), Some(other)) => Some(format!("{one}; {other}")),
            (one, other) => one.or(other),
        }
    }

    /// Looks at several things as one commit left them: whoever changes what was seen by its tag must have seen that.
    pub(crate) fn at_once<T>(&self, look: impl FnOnce() -> T) -> T {
        let _settled = self.0.membership.settled();
        look()
    }

    /// Whether a token may be used for this member; who is no member is refused further on.
    pub(crate) fn covered(&self, caller: &Caller, agent: AgentId) -> bool {
        self.0.membership.identify(agent, |pool, name| caller.covers(pool, name)).unwrap_or(true)
    }

    pub(crate) fn draining(&self) -> bool {
        self.0.draining.load(Ordering::Relaxed)
    }

    pub(crate) fn drain(&self) {
        self.0.draining.store(true, Ordering::Relaxed);
        // Whoever watches would keep the server from its end.
        self.0.membership.events().close();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::{Contents, Write};
    use meanfield_common::{identity::Category, mean_field::Aspects};

    /// Takes so many commits and fails after that.
    struct Failing(usize);

    impl Store for Failing {
        fn load(&mut self) -> Result<Contents, store::Error> {
            Ok(Contents::default())
        }

        fn commit(&mut self, _: &[Write]) -> Result<(), store::Error> {
            let failed = || store::Error::Database { path: "disk".into(), reason: "full".to_owned() };
            self.0 = self.0.checked_sub(1).ok_or_else(failed)?;
            Ok(())
        }
    }

    /// Panics at the first commit.
    struct Panicking;

    impl Store for Panicking {
        fn load(&mut self) -> Result<Contents, store::Error> {
            Ok(Contents::default())
        }

        fn commit(&mut self, _: &[Write]) -> Result<(), store::Error> {
            panic!("as this test wants it");
        }
    }

    /// Holds what another version put there.
    struct Foreign;

    impl Store for Foreign {
        fn load(&mut self) -> Result<Contents, store::Error> {
            let forecasts = vec![("default".parse().unwrap(), Some(b"of another shape".to_vec()))];
            Ok(Contents { forecasts, ..Contents::default() })
        }

        fn commit(&mut self, _: &[Write]) -> Result<(), store::Error> {
            Ok(())
        }
    }

    fn with(store: Box<dyn Store>) -> Coordinator {
        Coordinator::with_store(Options::default(), Clock::manual(), store).unwrap()
    }

    #[test]
    fn a_forecast_network_of_another_version_is_not_shared_and_in_nobodys_way() {
        let coordinator = with(Box::new(Foreign));
        assert!(coordinator.ready());
        assert_eq!(coordinator.pools()[0].forecast, None);
    }

    fn register(name: &str) -> Register {
        Register {
            name: name.parse().unwrap(),
            pool: "default".parse().unwrap(),
            category: Category::Io,
            wants: Aspects::NONE,
        }
    }

    #[tokio::test]
    async fn a_failed_store_refuses_every_change_and_shows_none() {
        let coordinator = with(Box::new(Failing(1)));
        let first = coordinator.register(register("a")).await.unwrap();
        assert!(coordinator.ready());
        let Err(Error::Store(error)) = coordinator.register(register("b")).await else { panic!("taken") };
        assert!(error.to_string().contains("full"));
        assert!(!coordinator.ready());
        assert!(matches!(coordinator.pause(first.agent).await, Err(Error::Store(_))), "it stays refused");
        assert!(matches!(coordinator.flush().await, Err(Error::Store(_))));
        let agents = coordinator.agents();
        assert_eq!(agents.len(), 1);
        assert!(!agents[0].paused);
    }

    #[tokio::test]
    async fn a_store_that_panicked_is_not_ready() {
        let coordinator = with(Box::new(Panicking));
        assert!(coordinator.ready());
        assert!(matches!(coordinator.register(register("a")).await, Err(Error::Closed)));
        // Refused only once the thread has let go of its queue, which may be a moment after its last reply.
        assert!(matches!(coordinator.flush().await, Err(Error::Closed)));
        assert!(!coordinator.ready());
        assert!(coordinator.agents().is_empty());
    }
}
