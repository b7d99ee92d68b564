//! The thread that makes changes durable.
//!
//! It takes every change that is waiting, decides them in order on the [`Ledger`], commits them to the store at
//! once, applies them to the live membership in the same order, and only then answers. One flush thus serves as many
//! callers as were waiting, and memory never runs ahead of the disk or changes in another order.
//!
//! A failed commit ends the thread: what is on the disk is then unknown, and a restart reads it.

use std::{sync::Arc, thread, time::Instant};

use meanfield_common::identity::{AgentId, Epoch, PoolName};
use parking_lot::Mutex;
use prometheus_client::metrics::histogram::Histogram;
use serde_json::json;
use tokio::sync::{mpsc, oneshot};

use crate::{
    access::{Grant, Registry, TokenId},
    audit::Log,
    clock::Clock,
    error::Error,
    events::{About, Kind},
    ledger::{Aftermath, Change, Dirty, Effect, Ledger},
    membership::Membership,
    orders::{Order, Ordered, Terms},
    store::{self, Store},
};

/// How many changes may wait before callers wait to hand theirs in.
const QUEUE: usize = 16 * 1024;

type Reply = Result<Outcome, Error>;

/// What came of a change.
#[derive(Debug, Clone)]
pub(crate) enum Outcome {
    Joined(AgentId, Epoch),
    Ordered(Box<Ordered>),
    Done,
}

struct Job {
    change: Change,
    terms: Terms,
    reply: oneshot::Sender<Reply>,
}

/// What the thread puts changes in effect in, once they are durable.
pub(crate) struct Live {
    pub(crate) membership: Arc<Membership>,
    pub(crate) registry: Arc<Registry>,
    pub(crate) log: Log,
    /// How long commits take.
    pub(crate) flush_seconds: Histogram,
}

/// The handle of the thread; dropping it waits for the thread to finish.
pub(crate) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    failure: Arc<Mutex<Option<Arc<store::Error>>>>,
}

impl Writer {
    pub(crate) fn start(store: Box<dyn Store>, ledger: Ledger, live: Live, clock: Clock) -> Result<Self, Error> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let failure = Arc::default();
        let mut work = Work { store, ledger, live, clock, failure: Arc::clone(&failure) };
        let thread = thread::Builder::new()
            .name("coordinator-store".to_owned())
            .spawn(move || work.run(jobs))
            .map_err(|reason| Error::Io { what: "starting the store's thread", reason })?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), failure })
    }

    /// Returns when the change is durable and in effect, or refused.
    pub(crate) async fn submit(&self, change: Change) -> Reply {
        self.submit_on(change, Terms::default()).await
    }

    /// The same for an order that comes with terms.
    pub(crate) async fn submit_on(&self, change: Change, terms: Terms) -> Reply {
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.lock().clone().ok_or(Error::Closed)?;
        queue.send(Job { change, terms, reply }).await.map_err(|_| self.ended())?;
        drop(queue);
        answer.await.map_err(|_| self.ended())?
    }

    /// Why no change can be made any more: closed, or the store has failed, or the thread died of a panic.
    pub(crate) fn hindrance(&self) -> Option<Error> {
        let open = self.queue.lock().as_ref().is_some_and(|queue| !queue.is_closed());
        (!open || self.failure.lock().is_some()).then(|| self.ended())
    }

    fn ended(&self) -> Error {
        self.failure.lock().clone().map_or(Error::Closed, Error::Store)
    }

    /// Lets the thread finish what it has, and takes no more.
    fn close(&self) {
        self.queue.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            // A panic over there was reported by the panic hook, and its callers by the dropped replies.
            let _ = thread.join();
        }
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.close();
    }
}

struct Work {
    store: Box<dyn Store>,
    ledger: Ledger,
    live: Live,
    clock: Clock,
    failure: Arc<Mutex<Option<Arc<store::Error>>>>,
}

impl Work {
    fn run(&mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut waiting = Vec::new();
        while jobs.blocking_recv_many(&mut waiting, QUEUE) > 0 {
            if self.commit(&mut waiting).is_err() {
                return;
            }
        }
    }

    /// Commits everything that waits, and answers.
    fn commit(&mut self, waiting: &mut Vec<Job>) -> Result<(), Arc<store::Error>> {
        let (mut dirty, mut notes) = (Dirty::default(), Vec::new());
        let membership = &self.live.membership;
        let reported = |pool: &PoolName| membership.reported(pool);
        let decided: Vec<_> = waiting
            .drain(..)
            .map(|Job { change, terms, reply }| {
                let decision = self.ledger.decide(change, &terms, &reported, &mut dirty).map(|(effect, note)| {
                    notes.extend(note);
                    effect
                });
                (decision, reply)
            })
            .collect();
        let mut writes = dirty.writes();
        // A change and its entry are one commit.
        let draft = self.live.log.draft(notes, self.clock.wall());
        writes.extend(draft.writes());
        if !writes.is_empty() {
            let started = Instant::now();
            if let Err(error) = self.store.commit(&writes) {
                tracing::error!(%error, "the store failed: nothing can be changed until a restart");
                let error = Arc::new(error);
                // Before anybody is answered: whoever hears of it must find the coordinator not ready.
                *self.failure.lock() = Some(Arc::clone(&error));
                for (_, reply) in decided {
                    let _ = reply.send(Err(Error::Store(Arc::clone(&error))));
                }
                return Err(error);
            }
            self.live.flush_seconds.observe(started.elapsed().as_secs_f64());
            tracing::debug!(changes = decided.len(), records = writes.len(), "committed");
        }
        self.live.log.append(draft);
        let settling = self.live.membership.unsettle();
        self.put_in_effect(decided.iter().filter_map(|(decision, _)| decision.as_ref().ok()));
        let applied = decided.into_iter().map(|(effect, reply)| (effect.map(|effect| self.apply(effect)), reply));
        let applied: Vec<_> = applied.collect();
        drop(settling);
        for (outcome, reply) in applied {
            // Whoever asked may have gone away; the change holds all the same.
            let _ = reply.send(outcome);
        }
        Ok(())
    }

    /// Has heartbeats told what is ordered now. One agent's order leaves those of all others alone; others are few.
    fn put_in_effect<'a>(&self, effects: impl Iterator<Item = &'a Effect>) {
        let (orders, membership) = (self.ledger.orders(), &self.live.membership);
        let mut more = false;
        for effect in effects {
            let Effect::Ordered(order, ..) = effect else { continue };
            match order.resource().agent() {
                Some(agent) => membership.set_order(agent, orders.agent(agent)),
                None => more = true,
            }
        }
        if more {
            membership.set_orders(orders.clone());
        }
    }

    fn apply(&self, effect: Effect) -> Outcome {
        match effect {
            Effect::Joined(id, record) => {
                self.live.membership.join(id, &record, self.clock.now());
                let (pool, name) = (Some(record.pool), Some(record.name));
                self.happened(Kind::Joined, About { pool, name, agent: Some(id), ..About::default() });
                return Outcome::Joined(id, record.epoch);
            }
            Effect::Left(id, epoch) => self.part(Kind::Left, id, epoch),
            Effect::Ordered(order, ordered, aftermath) => {
                self.carry_out(order, &ordered, &aftermath);
                return Outcome::Ordered(ordered);
            }
            Effect::Tried(ordered) => return Outcome::Ordered(ordered),
            Effect::Issued(id, record) => {
                let about = about_token("token.create", id, &record.grant);
                self.live.registry.insert(id, record);
                self.happened(Kind::Token, about);
            }
            Effect::Revoked(id, ordered) => {
                let about = self.live.registry.grant(id).map(|grant| about_token("token.revoke", id, &grant));
                self.live.registry.remove(id);
                self.happened(Kind::Token, about.unwrap_or_default());
                return Outcome::Ordered(ordered);
            }
            Effect::Nothing => {}
        }
        Outcome::Done
    }

    fn part(&self, kind: Kind, id: AgentId, epoch: Epoch) {
        let about = self.live.membership.about(id);
        if self.live.membership.part(id, epoch) {
            self.happened(kind, about);
        }
    }

    /// Puts an order in effect, and tells whoever watches if it changed something.
    fn carry_out(&self, order: Order, ordered: &Ordered, aftermath: &Aftermath) {
        let resource = order.resource();
        let mut about = resource.agent().map_or_else(About::default, |agent| self.live.membership.about(agent));
        about.pool = about.pool.or_else(|| resource.pool().cloned());
        about.detail = Some(ordered.after.clone());
        let kind = match order {
            Order::Remove(id) => {
                return aftermath.ended.into_iter().for_each(|epoch| self.part(Kind::Removed, id, epoch));
            }
            Order::Pause(id, paused) => {
                self.live.membership.pause(id, paused);
                if paused { Kind::Paused } else { Kind::Resumed }
            }
            Order::PauseAll(paused) => {
                self.live.membership.pause_all(paused);
                if paused { Kind::Paused } else { Kind::Resumed }
            }
            Order::Capacity(pool, capacity) => {
                self.live.membership.set_capacity(&pool, capacity);
                Kind::Capacity
            }
            Order::Scarcity(pool, settings) => {
                self.live.membership.set_scarcity(&pool, settings.unwrap_or_default());
                Kind::Scarcity
            }
            Order::Entitlement(id, given) => {
                self.live.membership.entitle(id, given);
                Kind::Entitlement
            }
            Order::Forecast(pool, forecast) => {
                self.live.membership.set_forecast(&pool, forecast);
                Kind::Forecast
            }
            Order::Pool(pool, Some(settings)) => {
                self.live.membership.set_pool(&pool, settings);
                for (id, record) in &aftermath.housed {
                    self.live.membership.join(*id, record, self.clock.now());
                }
                Kind::Pool
            }
            Order::Pool(pool, None) => {
                self.live.membership.remove_pool(&pool);
                Kind::Pool
            }
            Order::Fallback(..) => Kind::Fallback,
            Order::Lifecycle(..) => Kind::Lifecycle,
            Order::Budget(..) => Kind::Budget,
        };
        if ordered.changed {
            self.happened(kind, about);
        }
    }

    fn happened(&self, kind: Kind, about: About) {
        self.live.membership.events().publish(kind, about);
    }
}

/// Who or what a token is for, and nothing of its secret. One of an agent is about the agent's pool.
fn about_token(action: &'static str, id: TokenId, grant: &Grant) -> About {
    let pool = grant.scope.as_ref().map(|scope| scope.pool.clone());
    let detail = json!({ "action": action, "token": id, "name": grant.name, "role": grant.role });
    About { pool, detail: Some(detail), ..About::default() }
}
