//! What an agent saw, did and earned, handed in to the coordinator's database of trajectories.
//!
//! A step never waits for this: [`Recorder::step`] puts what was recorded into a bounded queue, and a task of its own hands
//! in batches, tries again while the coordinator is away, and is given a grace at the end. What does not fit is dropped and
//! counted; its places in logical time stay empty, so whoever reads finds the gap.
//!
//! Nothing is ever stored twice. A step has its place (episode, step) from the moment it is recorded, counted over the
//! life of the process, and the coordinator keeps a place of a registration once. Every start of an agent is a new
//! registration, so a restart may count from the beginning. Where an agent has to register again while it runs, a batch
//! that may have arrived under the registration before is dropped, and all others go under the new one.

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use meanfield_common::{
    action::Action,
    digest::Digest,
    identity::{AgentId, AgentName, Epoch},
    reward::Reward,
    state::LocalState,
    trajectory::{Append, Dropped, MOST_STEPS, Recorded, Steps, Verdict, Verdicts},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use tokio::{
    select,
    sync::{mpsc, watch},
    task::JoinHandle,
    time::{sleep, timeout},
};
use tracing::{Instrument, info, warn};

use crate::{
    link::{Error, Link},
    membership::knows_no,
};

/// Steps of one episode: an hour of 15 s.
pub const EPISODE: u32 = 240;

/// How steps are handed in.
#[derive(Debug, Clone, Copy)]
pub struct Options {
    /// Steps that may wait, about 200 bytes each; those that come later are dropped.
    pub queue: usize,
    /// So many steps are handed in at once, more if more are there.
    pub batch: usize,
    /// A step waits no longer than this for others.
    pub linger: Duration,
    /// The first pause after a failure, doubled with each further one.
    pub first_pause: Duration,
    /// The longest pause.
    pub longest_pause: Duration,
    /// How long handing in the last ones may take when the agent stops.
    pub grace: Duration,
}

impl Default for Options {
    /// 17 hours of 15 s may wait, in less than a megabyte.
    fn default() -> Self {
        Self {
            queue: 4096,
            batch: 16,
            linger: Duration::from_mins(1),
            first_pause: Duration::from_secs(1),
            longest_pause: Duration::from_mins(1),
            grace: Duration::from_secs(5),
        }
    }
}

/// Under which registration steps are handed in.
pub type Member = (AgentId, Epoch);

/// A decision that waits for what comes of it.
#[derive(Debug)]
struct Decided {
    state: LocalState,
    action: Action,
    verdicts: Verdicts,
}

#[derive(Debug, Default)]
struct Counts {
    stored: AtomicU64,
    dropped: AtomicU64,
    /// Whether the last thing heard of was a loss; only changes are logged.
    losing: AtomicBool,
}

impl Counts {
    fn lose(&self, steps: usize, reason: &str) {
        self.dropped.fetch_add(steps as u64, Ordering::Relaxed);
        if !self.losing.swap(true, Ordering::Relaxed) {
            warn!(steps, reason, "recorded steps are dropped");
        }
    }

    fn store(&self, steps: usize) {
        self.stored.fetch_add(steps as u64, Ordering::Relaxed);
        if self.losing.swap(false, Ordering::Relaxed) {
            info!(dropped = self.dropped.load(Ordering::Relaxed), "recorded steps get through again");
        }
    }
}

/// What came of all that was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Outcome {
    /// Steps that the coordinator has on disk.
    pub stored: u64,
    /// Steps that it may not have: the queue was full, it refused them, or the grace was over.
    pub dropped: u64,
}

/// The agent's end of the queue.
#[derive(Debug)]
pub struct Recorder {
    queue: mpsc::Sender<Recorded>,
    member: watch::Sender<Option<Member>>,
    decided: Option<Decided>,
    /// The place of the next step.
    place: (u64, u32),
    recorded: u64,
    counts: Arc<Counts>,
    grace: Duration,
    task: JoinHandle<()>,
}

impl Recorder {
    /// Starts the task that hands in what is recorded. Has to be called on a tokio runtime.
    pub fn start<L: Link + 'static>(link: L, name: &AgentName, options: Options) -> Self {
        let (queue, steps) = mpsc::channel(options.queue.max(1));
        let (member, registered) = watch::channel(None);
        let counts = Arc::<Counts>::default();
        let [a, b, c, d, ..] = *Digest::of(name.as_str().as_bytes()).bytes();
        // By the name, so that agents which lost the same coordinator do not come back all at once.
        let random = ChaCha8Rng::seed_from_u64(u32::from_le_bytes([a, b, c, d]).into());
        let sender = Sender { link, steps, registered, options, random, counts: Arc::clone(&counts), told: 0 };
        let task = tokio::spawn(sender.run().instrument(tracing::info_span!("trajectories", agent = %name)));
        let (decided, place, recorded, grace) = (None, (1, 0), 0, options.grace);
        Self { queue, member, decided, place, recorded, counts, grace, task }
    }

    /// Hears of one step: what was seen, what the decision before has earned, and what was decided now.
    pub fn step(
        &mut self,
        member: Option<Member>,
        state: LocalState,
        reward: Reward,
        action: Action,
        verdicts: impl IntoIterator<Item = &'static str>,
    ) {
        self.member.send_if_modified(|known| mem::replace(known, member) != member);
        // Names of verdicts are ours, few and short.
        let verdicts: Vec<Verdict> = verdicts.into_iter().filter_map(|name| name.parse().ok()).collect();
        let verdicts = Verdicts::try_from(verdicts).unwrap_or_default();
        let before = self.decided.replace(Decided { state, action, verdicts });
        let Some(Decided { state: seen, action, verdicts }) = before else { return };
        let (episode, step) = self.place;
        self.place = if step + 1 == EPISODE { (episode + 1, 0) } else { (episode, step + 1) };
        self.recorded += 1;
        let recorded = Recorded { episode, step, state: seen, action, reward, next_state: state, verdicts };
        if self.queue.try_send(recorded).is_err() {
            self.counts.lose(1, "too many wait already");
        }
    }

    /// The next state does not follow from the last action: another workload, another cluster.
    pub fn interrupt(&mut self) {
        self.decided = None;
    }

    /// What came of it so far; the rest waits.
    #[must_use]
    pub fn outcome(&self) -> Outcome {
        let [stored, dropped] = [&self.counts.stored, &self.counts.dropped].map(|count| count.load(Ordering::Relaxed));
        Outcome { stored, dropped }
    }

    /// Hands in what still waits, within the grace.
    pub async fn finish(self) -> Outcome {
        let Self { queue, member, recorded, counts, grace, mut task, .. } = self;
        // The task ends when both are gone and nothing waits any more.
        drop((queue, member));
        if timeout(grace, &mut task).await.is_err() {
            task.abort();
        }
        let stored = counts.stored.load(Ordering::Relaxed);
        let outcome = Outcome { stored, dropped: recorded.saturating_sub(stored) };
        if outcome.dropped > 0 {
            warn!(stored, dropped = outcome.dropped, "not every recorded step was handed in");
        } else {
            info!(stored, "handed in every recorded step");
        }
        outcome
    }
}

/// The task's end of the queue.
struct Sender<L> {
    link: L,
    steps: mpsc::Receiver<Recorded>,
    registered: watch::Receiver<Option<Member>>,
    options: Options,
    random: ChaCha8Rng,
    counts: Arc<Counts>,
    /// How many of the dropped ones the coordinator knows of.
    told: u64,
}

impl<L: Link> Sender<L> {
    async fn run(mut self) {
        while let Some(first) = self.steps.recv().await {
            let mut batch = vec![first];
            let linger = sleep(self.options.linger);
            tokio::pin!(linger);
            while batch.len() < self.options.batch {
                select! {
                    biased;
                    step = self.steps.recv() => match step {
                        Some(step) => batch.push(step),
                        None => break,
                    },
                    () = &mut linger => break,
                }
            }
            while batch.len() < MOST_STEPS
                && let Ok(step) = self.steps.try_recv()
            {
                batch.push(step);
            }
            if !self.hand_in(batch).await {
                return;
            }
        }
    }

    /// Hands one batch in, however long that takes, or drops it. False if the agent stops and nobody is there to hand in to.
    async fn hand_in(&mut self, batch: Vec<Recorded>) -> bool {
        let count = batch.len();
        let lost = |counts: &Counts, reason: &str| {
            counts.lose(count, reason);
            true
        };
        let Ok(steps) = Steps::try_from(batch) else { return lost(&self.counts, "they are out of order") };
        let Some((mut agent, epoch)) = self.member().await else { return false };
        // With the steps of the next batch, which is stored once: so what was dropped is counted once as well.
        let dropped = Dropped::of(self.counts.dropped.load(Ordering::Relaxed) - self.told);
        let mut append = Append { epoch, steps, dropped };
        // Whether it may have arrived without our knowing. Then only the same again is safe.
        let (mut uncertain, mut failures, mut closing) = (false, 0, false);
        loop {
            match self.link.append(agent, &append).await {
                Ok(_) => {
                    self.told += dropped.get();
                    self.counts.store(count);
                    return true;
                }
                Err(Error::Unreachable(_)) => uncertain = true,
                // The next heartbeat registers again, or finds that another process has taken over.
                Err(Error::Unknown | Error::Superseded) => {}
                Err(Error::Refused(problem)) if !append.dropped.is_none() && knows_no(&problem, "dropped") => {
                    append.dropped = Dropped::default();
                    continue;
                }
                Err(Error::Refused(problem)) => return lost(&self.counts, &problem.detail),
            }
            // An agent that stops tries once more, and then does not wait for a coordinator that is away.
            if closing {
                return false;
            }
            failures += 1;
            closing = self.pause(failures).await;
            let registered = *self.registered.borrow_and_update();
            if let Some((id, epoch)) = registered.filter(|now| *now != (agent, append.epoch)) {
                if uncertain {
                    return lost(&self.counts, "they may have arrived under the registration before");
                }
                (agent, append.epoch) = (id, epoch);
            }
        }
    }

    /// The registration, as soon as there is one; none when the agent stops before.
    async fn member(&mut self) -> Option<Member> {
        self.registered.wait_for(Option::is_some).await.ok().and_then(|member| *member)
    }

    /// Waits before the next attempt, not as long if the agent registers again or stops; says whether it stops.
    async fn pause(&mut self, failures: u32) -> bool {
        let Options { first_pause, longest_pause, .. } = self.options;
        let pause = first_pause.saturating_mul(1 << failures.saturating_sub(1).min(20)).min(longest_pause);
        let pause = pause.mul_f64(self.random.random_range(0.5..=1.0));
        select! {
            () = sleep(pause) => self.registered.has_changed().is_err(),
            changed = self.registered.changed() => changed.is_err(),
        }
    }
}
