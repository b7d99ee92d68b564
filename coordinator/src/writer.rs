//! The thread that makes changes durable.
//!
//! It takes every change that is waiting, decides them in order on the [`Ledger`], commits them to the store at
//! once, applies them to the live membership in the same order, and only then answers. One flush thus serves as many
//! callers as were waiting, and memory never runs ahead of the disk or changes in another order.
//!
//! A failed commit ends the thread: what is on the disk is then unknown, and a restart reads it.

use std::{sync::Arc, thread};

use meanfield_common::identity::{AgentId, Epoch};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use crate::{
    access::Registry,
    clock::Clock,
    error::Error,
    ledger::{Change, Dirty, Effect, Ledger},
    membership::Membership,
    store::{self, Store},
};

/// How many changes may wait before callers wait to hand theirs in.
const QUEUE: usize = 16 * 1024;

type Reply = Result<Outcome, Error>;

/// What came of a change.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Outcome {
    Joined(AgentId, Epoch),
    Done,
}

struct Job {
    change: Change,
    reply: oneshot::Sender<Reply>,
}

/// The handle of the thread; dropping it waits for the thread to finish.
pub(crate) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    failure: Arc<Mutex<Option<Arc<store::Error>>>>,
}

impl Writer {
    pub(crate) fn start(
        store: Box<dyn Store>,
        ledger: Ledger,
        membership: Arc<Membership>,
        registry: Arc<Registry>,
        clock: Clock,
    ) -> Result<Self, Error> {
        let (queue, jobs) = mpsc::channel(QUEUE);
        let failure = Arc::default();
        let mut work = Work { store, ledger, membership, registry, clock, failure: Arc::clone(&failure) };
        let thread = thread::Builder::new()
            .name("coordinator-store".to_owned())
            .spawn(move || work.run(jobs))
            .map_err(|reason| Error::Io { what: "starting the store's thread", reason })?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), failure })
    }

    /// Returns when the change is durable and in effect, or refused.
    pub(crate) async fn submit(&self, change: Change) -> Reply {
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.lock().clone().ok_or(Error::Closed)?;
        queue.send(Job { change, reply }).await.map_err(|_| self.ended())?;
        drop(queue);
        answer.await.map_err(|_| self.ended())?
    }

    /// Whether changes can still be made: neither closed, nor has the store failed, nor the thread died of a panic.
    pub(crate) fn works(&self) -> bool {
        self.queue.lock().as_ref().is_some_and(|queue| !queue.is_closed()) && self.failure.lock().is_none()
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
    membership: Arc<Membership>,
    registry: Arc<Registry>,
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
        let mut dirty = Dirty::default();
        let decided: Vec<_> =
            waiting.drain(..).map(|job| (self.ledger.decide(job.change, &mut dirty), job.reply)).collect();
        let writes = dirty.writes();
        if !writes.is_empty() {
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
            tracing::debug!(changes = decided.len(), records = writes.len(), "committed");
        }
        for (effect, reply) in decided {
            // Whoever asked may have gone away; the change holds all the same.
            let _ = reply.send(effect.map(|effect| self.apply(effect)));
        }
        Ok(())
    }

    fn apply(&self, effect: Effect) -> Outcome {
        match effect {
            Effect::Joined(id, record) => {
                self.membership.join(id, &record, self.clock.now());
                return Outcome::Joined(id, record.epoch);
            }
            Effect::Left(id, epoch) => {
                self.membership.part(id, epoch);
            }
            Effect::Paused(id, paused) => self.membership.pause(id, paused),
            Effect::PausedAll(paused) => self.membership.pause_all(paused),
            Effect::Capacity(pool, capacity) => self.membership.set_capacity(&pool, capacity),
            Effect::Forecast(pool, forecast) => self.membership.set_forecast(&pool, forecast),
            Effect::Issued(id, record) => self.registry.insert(id, record),
            Effect::Revoked(id) => self.registry.remove(id),
            Effect::Nothing => {}
        }
        Outcome::Done
    }
}
