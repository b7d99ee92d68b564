//! What the writer's thread keeps in mind: which segment is being filled, what each holds, and what waits to be committed.
//!
//! A batch is decided against what is durable and what waits together with it, all of it or none. Most batches continue an
//! episode behind its last step, which one look at the summary tells; others are compared step by step with what is there.

use std::{
    collections::{BTreeMap, HashMap},
    ops::ControlFlow,
    sync::Arc,
};

use meanfield_common::{
    identity::{AgentId, Category, Epoch, PoolName},
    trajectory::{Appended, Recorded},
};

use super::{
    keys::{self, EpisodeId},
    layout::{self, Summary},
    store::{Direction, Error, Store, Table, Writes},
};

/// The most steps of an episode, since one is read at once wherever it has to be compared, exported or drawn from.
pub(super) const LONGEST: u64 = 100_000;

/// The version of the index.
const FORMAT: u8 = 1;

/// Steps of one agent that arrived together.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) agent: AgentId,
    pub(super) epoch: Epoch,
    pub(super) pool: PoolName,
    pub(super) category: Category,
    pub(super) received: u64,
    /// In order of episode and step.
    pub(super) runs: Vec<Run>,
}

/// Steps of one episode, and their bytes.
#[derive(Debug, Clone)]
pub(super) struct Run {
    pub(super) steps: Vec<Recorded>,
    pub(super) bytes: Vec<u8>,
}

/// What a segment holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Segment {
    pub(super) steps: u64,
    pub(super) bytes: u64,
    /// When the last of it was written, by the clock of the coordinator.
    pub(super) newest: u64,
}

/// Why a batch is not taken.
#[derive(Debug)]
pub(super) enum Refused {
    /// This place has other content.
    Conflict { episode: u64, step: u32 },
    /// The episode would be longer than any may be.
    TooLong { episode: u64, steps: u64 },
    /// What waits has to be committed first: this batch has to be compared with it.
    Later,
    /// What it has to be compared with cannot be read.
    Unreadable(Error),
    /// The store failed, and a part of the batch may wait.
    Failed(Error),
}

impl From<Error> for Refused {
    fn from(error: Error) -> Self {
        Self::Unreadable(error)
    }
}

pub(super) struct Books {
    pub(super) store: Arc<dyn Store>,
    pub(super) segments: BTreeMap<u64, Segment>,
    commit: u64,
    pub(super) writes: Writes,
    /// Summaries that wait to be committed.
    summaries: HashMap<EpisodeId, Summary>,
    /// How many bytes a segment is filled to.
    segment_bytes: u64,
}

/// What is new in a run.
enum Fresh {
    All,
    Some(Vec<Recorded>),
}

type Decided = (EpisodeId, Option<Summary>, usize, Fresh);

impl Books {
    /// Reads what the store holds of segments and commits, and removes segments that were dropped half-way.
    pub(super) fn open(store: Arc<dyn Store>, segment_bytes: u64) -> Result<Self, Error> {
        match store.get(Table::Index, keys::FORMAT)?.as_deref() {
            None | Some([FORMAT]) => {}
            Some(_) => return Err(store.corrupt(keys::FORMAT, "is not version 1, which this program knows")),
        }
        let commit = match store.get(Table::Index, keys::COMMIT)? {
            None => 0,
            Some(bytes) => match bytes.try_into() {
                Ok(bytes) => u64::from_le_bytes(bytes),
                Err(_) => return Err(store.corrupt(keys::COMMIT, "is not a number")),
            },
        };
        let mut segments = BTreeMap::new();
        store.scan(Table::Index, keys::SEGMENTS, &keys::behind(keys::SEGMENTS), Direction::Up, &mut |key, value| {
            let read = keys::segment_number(key).zip(Segment::decode(value));
            let (number, segment) = read.ok_or_else(|| store.corrupt(key, "is not a segment's record"))?;
            segments.insert(number, segment);
            Ok(ControlFlow::Continue(()))
        })?;
        let existing = store.segments();
        if let Some(number) = segments.keys().find(|number| !existing.contains(number)) {
            return Err(store.corrupt(&keys::segment(*number), "has lost its segment"));
        }
        for number in existing.into_iter().filter(|number| !segments.contains_key(number)) {
            store.drop_segment(number)?;
        }
        let (writes, summaries) = (Writes::new(), HashMap::new());
        Ok(Self { store, segments, commit, writes, summaries, segment_bytes })
    }

    pub(super) fn summary(&self, id: &EpisodeId) -> Result<Option<Summary>, Error> {
        match self.summaries.get(id) {
            Some(summary) => Ok(Some(summary.clone())),
            None => read_summary(&*self.store, id),
        }
    }

    /// What would come of a batch.
    pub(super) fn weigh(&self, batch: &Batch) -> Result<Appended, Refused> {
        self.decide(batch).map(|(appended, _)| appended)
    }

    /// Takes a batch, to be committed with the others that wait. One that is refused is left as it is.
    pub(super) fn take(&mut self, batch: &mut Batch, now: u64) -> Result<Appended, Refused> {
        let (appended, decided) = self.decide(batch)?;
        for (id, summary, at, fresh) in decided {
            let put = match fresh {
                Fresh::All => {
                    let bytes = std::mem::take(&mut batch.runs[at].bytes);
                    self.put(id, summary.as_ref(), batch, &batch.runs[at].steps, bytes, now)
                }
                Fresh::Some(steps) => {
                    let bytes = layout::encode(batch.received, &steps);
                    self.put(id, summary.as_ref(), batch, &steps, bytes, now)
                }
            };
            put.map_err(Refused::Failed)?;
        }
        Ok(appended)
    }

    /// What is new in each run of a batch, by its place there, and how much that is in all.
    fn decide(&self, batch: &Batch) -> Result<(Appended, Vec<Decided>), Refused> {
        let mut decided = Vec::with_capacity(batch.runs.len());
        let mut appended = Appended::default();
        for (at, run) in batch.runs.iter().enumerate() {
            let Some(first) = run.steps.first() else { continue };
            let id = EpisodeId { agent: batch.agent, epoch: batch.epoch, episode: first.episode };
            let summary = self.summary(&id)?;
            let fresh = match &summary {
                Some(summary) if first.step <= summary.last => self.compare(&id, summary, run)?,
                _ => Fresh::All,
            };
            let new = match &fresh {
                Fresh::All => run.steps.len(),
                Fresh::Some(steps) => steps.len(),
            };
            let steps = summary.as_ref().map_or(0, |summary| u64::from(summary.steps)) + new as u64;
            // What is known already is no more, also of one that was longer before there was a bound.
            if new > 0 && steps > LONGEST {
                return Err(Refused::TooLong { episode: first.episode, steps });
            }
            appended.stored += new as u64;
            appended.known += (run.steps.len() - new) as u64;
            decided.push((id, summary, at, fresh));
        }
        Ok((appended, decided))
    }

    /// Which steps of a run are new, given that some may be there.
    fn compare(&self, id: &EpisodeId, summary: &Summary, run: &Run) -> Result<Fresh, Refused> {
        if self.summaries.contains_key(id) {
            return Err(Refused::Later);
        }
        let (Some(first), Some(last)) = (run.steps.first(), run.steps.last()) else { return Ok(Fresh::All) };
        let mut known = HashMap::new();
        let (from, to) = (keys::chunk(id, first.step), keys::behind(&id.bytes()));
        for &segment in &summary.segments {
            self.store.scan(Table::Segment(segment), &from, &to, Direction::Up, &mut |key, value| {
                let chunk =
                    layout::decode(id.episode, value).map_err(|damage| self.store.corrupt(key, &damage.to_string()))?;
                let steps = chunk.steps.into_iter().filter(|one| (first.step..=last.step).contains(&one.step));
                known.extend(steps.map(|one| (one.step, one)));
                Ok(ControlFlow::Continue(()))
            })?;
        }
        let mut fresh = Vec::new();
        for one in &run.steps {
            match known.get(&one.step) {
                None => fresh.push(one.clone()),
                Some(same) if same == one => {}
                Some(_) => return Err(Refused::Conflict { episode: one.episode, step: one.step }),
            }
        }
        Ok(Fresh::Some(fresh))
    }

    fn put(
        &mut self,
        id: EpisodeId,
        before: Option<&Summary>,
        batch: &Batch,
        steps: &[Recorded],
        bytes: Vec<u8>,
        now: u64,
    ) -> Result<(), Error> {
        let (Some(first), Some(last)) = (steps.first(), steps.last()) else { return Ok(()) };
        let number = self.segment()?;
        let size = bytes.len() as u64;
        let mut after = before.cloned().unwrap_or_else(|| Summary {
            pool: batch.pool.clone(),
            category: batch.category,
            steps: 0,
            reward: 0.0,
            first: first.step,
            last: last.step,
            since: batch.received,
            until: batch.received,
            bytes: 0,
            segments: Vec::new(),
        });
        after.steps = after.steps.saturating_add(steps.len() as u32);
        after.reward += steps.iter().map(|one| one.reward.get()).sum::<f64>();
        after.first = after.first.min(first.step);
        after.last = after.last.max(last.step);
        after.since = after.since.min(batch.received);
        after.until = after.until.max(batch.received);
        after.bytes += size;
        if !after.segments.contains(&number) {
            after.segments.push(number);
            self.write(keys::in_segment(number, &id), Some(Vec::new()));
        }
        if let Some(before) = before {
            self.forget(&id, before);
        }
        self.write(keys::by_time(after.since, &id), Some(Vec::new()));
        self.write(keys::by_reward(&id, &after), Some(Vec::new()));
        self.write(keys::summary(&id), Some(after.encode()));
        self.summaries.insert(id, after);
        self.writes.insert((Table::Segment(number), keys::chunk(&id, last.step)), Some(bytes));
        if let Some(segment) = self.segments.get_mut(&number) {
            segment.steps += steps.len() as u64;
            segment.bytes += size;
            segment.newest = segment.newest.max(now);
            let value = segment.encode();
            self.write(keys::segment(number), Some(value));
        }
        Ok(())
    }

    /// Takes an episode out of the orders.
    pub(super) fn forget(&mut self, id: &EpisodeId, summary: &Summary) {
        self.write(keys::by_time(summary.since, id), None);
        self.write(keys::by_reward(id, summary), None);
    }

    pub(super) fn write(&mut self, key: Vec<u8>, value: Option<Vec<u8>>) {
        self.writes.insert((Table::Index, key), value);
    }

    /// The segment to write to: the last one until it is full, then a new one.
    fn segment(&mut self) -> Result<u64, Error> {
        match self.segments.last_key_value() {
            Some((number, segment)) if segment.bytes < self.segment_bytes => Ok(*number),
            _ => self.begin_segment(),
        }
    }

    pub(super) fn begin_segment(&mut self) -> Result<u64, Error> {
        let number = self.segments.last_key_value().map_or(1, |(last, _)| last + 1);
        self.store.open_segment(number)?;
        self.segments.insert(number, Segment::default());
        self.write(keys::segment(number), Some(Segment::default().encode()));
        Ok(number)
    }

    /// Makes everything that waits durable.
    pub(super) fn commit(&mut self) -> Result<(), Error> {
        self.summaries.clear();
        if self.writes.is_empty() {
            return Ok(());
        }
        let mut writes = std::mem::take(&mut self.writes);
        if self.commit == 0 {
            writes.insert((Table::Index, keys::FORMAT.to_vec()), Some(vec![FORMAT]));
        }
        self.commit += 1;
        self.store.commit(self.commit, writes)
    }

    pub(super) fn bytes(&self) -> u64 {
        self.segments.values().map(|segment| segment.bytes).sum()
    }

    pub(super) fn steps(&self) -> u64 {
        self.segments.values().map(|segment| segment.steps).sum()
    }
}

impl Segment {
    pub(super) fn encode(&self) -> Vec<u8> {
        let bytes = [self.steps, self.bytes, self.newest].iter().flat_map(|number| number.to_le_bytes()).collect();
        layout::seal(bytes)
    }

    fn decode(bytes: &[u8]) -> Option<Self> {
        let bytes = layout::checked(bytes).ok()?;
        let number = |at: usize| Some(u64::from_le_bytes(bytes.get(8 * at..8 * at + 8)?.try_into().ok()?));
        Some(Self { steps: number(0)?, bytes: number(1)?, newest: number(2)? })
    }
}

/// The summary of an episode, as committed.
pub(super) fn read_summary(store: &dyn Store, id: &EpisodeId) -> Result<Option<Summary>, Error> {
    let key = keys::summary(id);
    let Some(bytes) = store.get(Table::Index, &key)? else { return Ok(None) };
    Summary::decode(&bytes).map(Some).map_err(|damage| store.corrupt(&key, &damage.to_string()))
}
