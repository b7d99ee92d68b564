//! The thread that makes steps durable: it takes every batch that waits, commits all of them with one flush, and answers.
//!
//! A failed commit ends the thread: what is on the disk is then unknown, and a restart reads it.

use std::{sync::Arc, thread, time::Instant};

use meanfield_common::{invalid::Invalid, trajectory::Appended};
use parking_lot::Mutex;
use tokio::sync::{mpsc, oneshot};

use super::{
    books::{Batch, Books, LONGEST, Refused},
    retention::Retention,
    store::{self, Store},
};
use crate::{clock::Clock, error::Error, metrics::TrajectoryMetrics};

/// How many batches may wait before callers wait to hand theirs in; and how many share a flush at most.
const QUEUE: usize = 256;

type Reply = Result<Appended, Error>;

enum Job {
    Append(Box<Batch>, oneshot::Sender<Reply>),
    Weigh(Box<Batch>, oneshot::Sender<Reply>),
    Retain(oneshot::Sender<Reply>),
}

/// The handle of the thread; dropping it waits for the thread to finish.
pub(super) struct Writer {
    queue: Mutex<Option<mpsc::Sender<Job>>>,
    thread: Mutex<Option<thread::JoinHandle<()>>>,
    failure: Arc<Mutex<Option<Arc<store::Error>>>>,
}

impl Writer {
    pub(super) fn start(
        store: Arc<dyn Store>,
        retention: Retention,
        clock: Clock,
        metrics: TrajectoryMetrics,
    ) -> Result<Self, Error> {
        let books = Books::open(store, retention.segment_bytes())?;
        let (queue, jobs) = mpsc::channel(QUEUE);
        let failure = Arc::default();
        let mut work = Work { books, retention, clock, metrics, failure: Arc::clone(&failure) };
        work.measure();
        let thread = thread::Builder::new()
            .name("trajectories".to_owned())
            .spawn(move || work.run(jobs))
            .map_err(|reason| Error::Io { what: "starting the thread of trajectories", reason })?;
        Ok(Self { queue: Mutex::new(Some(queue)), thread: Mutex::new(Some(thread)), failure })
    }

    /// Returns when the batch is durable, or refused.
    pub(super) async fn append(&self, batch: Batch) -> Reply {
        self.submit(|reply| Job::Append(Box::new(batch), reply)).await
    }

    /// What would come of a batch, which is not taken.
    pub(super) async fn weigh(&self, batch: Batch) -> Reply {
        self.submit(|reply| Job::Weigh(Box::new(batch), reply)).await
    }

    /// Returns when nothing is left that has to be removed.
    pub(super) async fn retain(&self) -> Result<(), Error> {
        self.submit(Job::Retain).await.map(drop)
    }

    async fn submit(&self, job: impl FnOnce(oneshot::Sender<Reply>) -> Job) -> Reply {
        let (reply, answer) = oneshot::channel();
        let queue = self.queue.lock().clone().ok_or(Error::Closed)?;
        queue.send(job(reply)).await.map_err(|_| self.ended())?;
        drop(queue);
        answer.await.map_err(|_| self.ended())?
    }

    /// Why no step can be taken any more, if so.
    pub(super) fn hindrance(&self) -> Option<Error> {
        let open = self.queue.lock().as_ref().is_some_and(|queue| !queue.is_closed());
        (!open || self.failure.lock().is_some()).then(|| self.ended())
    }

    fn ended(&self) -> Error {
        self.failure.lock().clone().map_or(Error::Closed, Error::Store)
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        self.queue.lock().take();
        if let Some(thread) = self.thread.lock().take() {
            // A panic over there was reported by the panic hook, and its callers by the dropped replies.
            let _ = thread.join();
        }
    }
}

struct Work {
    books: Books,
    retention: Retention,
    clock: Clock,
    metrics: TrajectoryMetrics,
    failure: Arc<Mutex<Option<Arc<store::Error>>>>,
}

type Answers = Vec<(Appended, oneshot::Sender<Reply>)>;

impl Work {
    fn run(&mut self, mut jobs: mpsc::Receiver<Job>) {
        let mut waiting = Vec::new();
        while jobs.blocking_recv_many(&mut waiting, QUEUE) > 0 {
            let mut answers = Answers::new();
            let outcome = waiting.drain(..).try_for_each(|job| match job {
                Job::Append(mut batch, reply) => self.append(&mut batch, reply, &mut answers),
                Job::Weigh(batch, reply) => self.weigh(&batch, reply, &mut answers),
                Job::Retain(reply) => self.retain(reply, &mut answers),
            });
            if outcome.and_then(|()| self.settle(&mut answers)).is_err() {
                return;
            }
        }
    }

    fn append(
        &mut self,
        batch: &mut Batch,
        reply: oneshot::Sender<Reply>,
        answers: &mut Answers,
    ) -> Result<(), Failed> {
        let now = self.clock.wall();
        let mut taken = self.books.take(batch, now);
        if matches!(taken, Err(Refused::Later)) {
            self.settle(answers)?;
            taken = self.books.take(batch, now);
        }
        match taken {
            Ok(appended) => answers.push((appended, reply)),
            Err(Refused::Failed(error)) => {
                answers.push((Appended::default(), reply));
                return Err(self.fail(error, answers));
            }
            Err(refused) => drop(reply.send(Err(refused.into()))),
        }
        Ok(())
    }

    fn weigh(&mut self, batch: &Batch, reply: oneshot::Sender<Reply>, answers: &mut Answers) -> Result<(), Failed> {
        self.settle(answers)?;
        drop(reply.send(self.books.weigh(batch).map_err(Error::from)));
        Ok(())
    }

    /// Commits everything that waits, and answers.
    fn settle(&mut self, answers: &mut Answers) -> Result<(), Failed> {
        let started = Instant::now();
        let writes = !self.books.writes.is_empty();
        if let Err(error) = self.books.commit() {
            return Err(self.fail(error, answers));
        }
        if writes {
            self.metrics.flush_seconds.observe(started.elapsed().as_secs_f64());
        }
        for (appended, reply) in answers.drain(..) {
            self.metrics.appended.inc_by(appended.stored);
            // Whoever asked may have gone away; the steps are there all the same.
            let _ = reply.send(Ok(appended));
        }
        self.remove(answers)?;
        self.metrics.level(self.books.steps(), self.books.bytes());
        Ok(())
    }

    fn retain(&mut self, reply: oneshot::Sender<Reply>, answers: &mut Answers) -> Result<(), Failed> {
        self.settle(answers)?;
        self.measure();
        let _ = reply.send(Ok(Appended::default()));
        Ok(())
    }

    fn remove(&mut self, answers: &mut Answers) -> Result<(), Failed> {
        loop {
            match self.retention.remove_one(&mut self.books, self.clock.wall()) {
                Ok(None) => return Ok(()),
                Ok(Some(removed)) => {
                    tracing::info!(steps = removed.steps, reason = ?removed.reason, "removed the oldest trajectories");
                    self.metrics.removed(removed.reason, removed.steps);
                }
                Err(error) => return Err(self.fail(error, answers)),
            }
        }
    }

    fn measure(&self) {
        self.metrics.level(self.books.steps(), self.books.bytes());
        self.metrics.space(self.books.store.space());
    }

    fn fail(&mut self, error: store::Error, answers: &mut Answers) -> Failed {
        tracing::error!(%error, "the store of trajectories failed: no step is taken until a restart");
        let error = Arc::new(error);
        // Before anybody is answered: whoever hears of it must find the coordinator not ready.
        *self.failure.lock() = Some(Arc::clone(&error));
        for (_, reply) in answers.drain(..) {
            let _ = reply.send(Err(Error::Store(Arc::clone(&error))));
        }
        Failed
    }
}

/// The store has failed, and everybody was told.
struct Failed;

impl From<Refused> for Error {
    fn from(refused: Refused) -> Self {
        match refused {
            Refused::Conflict { episode, step } => Self::ConflictingStep { episode, step },
            Refused::TooLong { episode, steps } => {
                let bound = format!("at most {LONGEST} steps");
                Invalid::new("steps", format!("{steps} of episode {episode}"), bound).into()
            }
            // It happens only while something waits, and nothing does.
            Refused::Later => Self::Closed,
            Refused::Unreadable(error) | Refused::Failed(error) => {
                tracing::error!(%error, "steps cannot be compared with what is there");
                error.into()
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use meanfield_common::{
        action::Action,
        identity::{AgentId, Category, Epoch},
        reward::Reward,
        state::LocalState,
        trajectory::{Recorded, Verdicts},
    };

    use super::*;
    use crate::trajectories::{
        books::Run,
        layout,
        store::{Direction, Memory, Table, Visit, Writes},
    };

    /// A disk that is full after so many commits.
    struct Full(Memory, u64);

    impl Store for Full {
        fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, store::Error> {
            self.0.get(table, key)
        }

        fn scan(
            &self,
            table: Table,
            from: &[u8],
            to: &[u8],
            direction: Direction,
            visit: Visit<'_>,
        ) -> Result<(), store::Error> {
            self.0.scan(table, from, to, direction, visit)
        }

        fn commit(&self, number: u64, writes: Writes) -> Result<(), store::Error> {
            if number > self.1 {
                return Err(store::Error::Database { path: "disk".into(), reason: "full".to_owned() });
            }
            self.0.commit(number, writes)
        }

        fn segments(&self) -> Vec<u64> {
            self.0.segments()
        }

        fn open_segment(&self, number: u64) -> Result<(), store::Error> {
            self.0.open_segment(number)
        }

        fn drop_segment(&self, number: u64) -> Result<(), store::Error> {
            self.0.drop_segment(number)
        }

        fn space(&self) -> u64 {
            self.0.space()
        }

        fn corrupt(&self, key: &[u8], reason: &str) -> store::Error {
            self.0.corrupt(key, reason)
        }
    }

    fn batch(step: u32) -> Batch {
        let steps = vec![Recorded {
            episode: 1,
            step,
            state: LocalState::default(),
            action: Action::HOLD,
            reward: Reward::default(),
            next_state: LocalState::default(),
            verdicts: Verdicts::default(),
        }];
        Batch {
            agent: AgentId(uuid::Uuid::from_u128(1)),
            epoch: Epoch::FIRST,
            pool: "default".parse().unwrap(),
            category: Category::Cpu,
            received: 0,
            runs: vec![Run { bytes: layout::encode(0, &steps), steps }],
        }
    }

    #[tokio::test]
    async fn a_full_disk_refuses_every_further_step_and_says_so() {
        let store = Arc::new(Full(Memory::default(), 2));
        let writer = Writer::start(store, Retention::default(), Clock::manual(), TrajectoryMetrics::new()).unwrap();
        for step in 0..2 {
            assert_eq!(writer.append(batch(step)).await.unwrap().stored, 1);
        }
        assert!(writer.hindrance().is_none());
        for step in 2..4 {
            let Err(Error::Store(error)) = writer.append(batch(step)).await else { panic!("taken") };
            assert!(error.to_string().contains("full"));
            assert!(writer.hindrance().is_some(), "whoever hears of it finds it not ready");
        }
        assert!(matches!(writer.retain().await, Err(Error::Store(_))));
    }
}
