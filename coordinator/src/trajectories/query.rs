//! Questions about what is there. None reads all steps: the summaries and their orders lead to the few that are wanted.

use std::{fmt, ops::ControlFlow, str::FromStr};

use meanfield_common::{
    identity::{AgentId, Category, Epoch, PoolName},
    invalid::Invalid,
    reward::Reward,
    trajectory::Recorded,
};
use rand_chacha::{ChaCha8Rng, rand_core::SeedableRng};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{
    books::read_summary,
    keys::{self, EpisodeId},
    layout::{self, Chunk, Summary},
    store::{Direction, Error, Store, Table},
};

/// Episodes that are looked at for one page at most, and between two looks at the store.
const AT_ONCE: usize = 1000;

/// Which episodes.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Filter {
    /// Only of this agent.
    pub agent: Option<AgentId>,
    /// Only of this pool.
    pub pool: Option<PoolName>,
    /// Only of this category.
    pub category: Option<Category>,
    /// Only those whose first step arrived then or later, in milliseconds since 1970.
    pub since: Option<u64>,
    /// Only those whose first step arrived before then.
    pub until: Option<u64>,
}

impl Filter {
    fn admits(&self, id: &EpisodeId, summary: &Summary) -> bool {
        self.agent.is_none_or(|agent| agent == id.agent)
            && self.pool.as_ref().is_none_or(|pool| *pool == summary.pool)
            && self.category.is_none_or(|category| category == summary.category)
            && self.since.is_none_or(|since| since <= summary.since)
            && self.until.is_none_or(|until| summary.since < until)
    }
}

/// One episode.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct EpisodeView {
    /// Whose.
    pub agent: AgentId,
    /// Of which registration.
    pub epoch: Epoch,
    /// Which one.
    pub episode: u64,
    /// The agent's pool.
    pub pool: PoolName,
    /// What its workload needs most.
    pub category: Category,
    /// How many steps are there.
    pub steps: u32,
    /// The lowest number of a step.
    pub first_step: u32,
    /// The highest number of a step.
    pub last_step: u32,
    /// The sum of the rewards.
    pub reward: f64,
    /// When its first step arrived, in milliseconds since 1970.
    pub since_ms: u64,
    /// When its last step arrived.
    pub until_ms: u64,
    /// How many bytes its steps take.
    pub bytes: u64,
}

impl EpisodeView {
    fn new(id: &EpisodeId, summary: Summary) -> Self {
        Self {
            agent: id.agent,
            epoch: id.epoch,
            episode: id.episode,
            pool: summary.pool,
            category: summary.category,
            steps: summary.steps,
            first_step: summary.first,
            last_step: summary.last,
            reward: summary.reward,
            since_ms: summary.since,
            until_ms: summary.until,
            bytes: summary.bytes,
        }
    }
}

/// One reward.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Earned {
    /// Of which registration.
    pub epoch: Epoch,
    /// In which episode.
    pub episode: u64,
    /// At which step.
    pub step: u32,
    /// How much.
    pub reward: Reward,
}

/// One step, and whose it is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Sample {
    /// Whose.
    pub agent: AgentId,
    /// Of which registration.
    pub epoch: Epoch,
    /// The agent's pool.
    pub pool: PoolName,
    /// What its workload needs most.
    pub category: Category,
    /// The step.
    pub step: Recorded,
}

/// A place in the order of time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cursor {
    since: u64,
    id: EpisodeId,
}

impl fmt::Display for Cursor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let EpisodeId { agent, epoch, episode } = self.id;
        write!(f, "{}:{agent}:{}:{episode}", self.since, epoch.0)
    }
}

impl FromStr for Cursor {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let read = || {
            let mut parts = text.split(':');
            let since = parts.next()?.parse().ok()?;
            let agent = parts.next()?.parse().ok()?;
            let epoch = Epoch(parts.next()?.parse().ok()?);
            let episode = parts.next()?.parse().ok()?;
            parts.next().is_none().then_some(Self { since, id: EpisodeId { agent, epoch, episode } })
        };
        read().ok_or_else(|| Invalid::new("after", format!("{text:?}"), "the `next` of an earlier page"))
    }
}

/// The chunks of an episode with steps from a number on, in no order between segments.
fn chunks(store: &dyn Store, id: &EpisodeId, summary: &Summary, from: u32) -> Result<Vec<Chunk>, Error> {
    let (from, to) = (keys::chunk(id, from), keys::behind(&id.bytes()));
    let mut chunks = Vec::new();
    for &segment in &summary.segments {
        store.scan(Table::Segment(segment), &from, &to, Direction::Up, &mut |key, value| {
            let chunk = layout::decode(id.episode, value);
            chunks.push(chunk.map_err(|damage| store.corrupt(key, &damage.to_string()))?);
            Ok(ControlFlow::Continue(()))
        })?;
    }
    Ok(chunks)
}

/// The steps of an episode in order, each with when it arrived.
///
/// # Errors
/// If they cannot be read.
pub fn steps(store: &dyn Store, id: &EpisodeId, summary: &Summary) -> Result<Vec<(u64, Recorded)>, Error> {
    let chunks = chunks(store, id, summary, 0)?;
    let mut steps: Vec<_> =
        chunks.into_iter().flat_map(|chunk| chunk.steps.into_iter().map(move |step| (chunk.received, step))).collect();
    // Steps that came late are in chunks between others.
    steps.sort_by_key(|(_, step)| step.step);
    Ok(steps)
}

/// The last rewards of an agent in logical time, the last one first.
///
/// # Errors
/// If they cannot be read.
pub fn latest_rewards(store: &dyn Store, agent: AgentId, limit: usize) -> Result<Vec<Earned>, Error> {
    let prefix = keys::of_agent(agent);
    let mut earned = Vec::new();
    store.scan(Table::Index, &prefix, &keys::behind(&prefix), Direction::Down, &mut |key, value| {
        let (id, summary) = read_entry(store, key, value)?;
        let wanted = limit - earned.len();
        // The end of the episode first: enough of it in most cases.
        let mut from = summary.last.saturating_sub(u32::try_from(wanted).unwrap_or(u32::MAX));
        let found = loop {
            let mut found: Vec<_> =
                chunks(store, &id, &summary, from)?.into_iter().flat_map(|chunk| chunk.steps).collect();
            found.sort_by_key(|step| std::cmp::Reverse(step.step));
            found.retain(|step| step.step >= from);
            if found.len() >= wanted || from == 0 {
                break found;
            }
            from = 0;
        };
        let rewards = found.into_iter().take(wanted);
        earned.extend(rewards.map(|one| Earned {
            epoch: id.epoch,
            episode: id.episode,
            step: one.step,
            reward: one.reward,
        }));
        Ok(if earned.len() < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    Ok(earned)
}

fn read_entry(store: &dyn Store, key: &[u8], value: &[u8]) -> Result<(EpisodeId, Summary), Error> {
    let id = EpisodeId::at_end_of(key).ok_or_else(|| store.corrupt(key, "names no episode"))?;
    let summary = Summary::decode(value).map_err(|damage| store.corrupt(key, &damage.to_string()))?;
    Ok((id, summary))
}

/// One page of episodes in the order of time, and where the next one begins. A page may have fewer episodes than asked
/// for, or none, and still not be the last.
///
/// # Errors
/// If they cannot be read.
pub fn page(
    store: &dyn Store,
    filter: &Filter,
    after: Option<&Cursor>,
    limit: usize,
) -> Result<(Vec<EpisodeView>, Option<Cursor>), Error> {
    let (mut episodes, mut looked, mut last) = (Vec::new(), 0, None);
    let mut more = false;
    let from = match after {
        // The first key behind that of the cursor.
        Some(cursor) => [&keys::by_time(cursor.since, &cursor.id)[..], &[0]].concat(),
        None => keys::from_time(filter.since.unwrap_or(0)),
    };
    let to = filter.until.map_or_else(|| keys::behind(b"T"), keys::from_time);
    store.scan(Table::Index, &from, &to, Direction::Up, &mut |key, _| {
        if episodes.len() == limit || looked == AT_ONCE {
            more = true;
            return Ok(ControlFlow::Break(()));
        }
        looked += 1;
        let id = EpisodeId::at_end_of(key).ok_or_else(|| store.corrupt(key, "names no episode"))?;
        // Also one that retention removes meanwhile is a place to go on from.
        let since = keys::time(key).ok_or_else(|| store.corrupt(key, "names no time"))?;
        last = Some(Cursor { since, id });
        let Some(summary) = read_summary(store, &id)? else { return Ok(ControlFlow::Continue(())) };
        if filter.admits(&id, &summary) {
            episodes.push(EpisodeView::new(&id, summary));
        }
        Ok(ControlFlow::Continue(()))
    })?;
    Ok((episodes, last.filter(|_| more)))
}

/// The episodes with the highest sums of rewards, or the lowest, in that order.
///
/// # Errors
/// If they cannot be read.
pub fn ranked(store: &dyn Store, filter: &Filter, best: bool, limit: usize) -> Result<Vec<EpisodeView>, Error> {
    let pools = match &filter.pool {
        Some(pool) => vec![pool.clone()],
        None => ranked_pools(store)?,
    };
    let categories = filter.category.map_or_else(|| Category::ALL.to_vec(), |category| vec![category]);
    let direction = if best { Direction::Down } else { Direction::Up };
    let mut episodes = Vec::new();
    for prefix in pools.iter().flat_map(|pool| categories.iter().map(|&category| keys::ranking(pool, category))) {
        let mut found = 0;
        store.scan(Table::Index, &prefix, &keys::behind(&prefix), direction, &mut |key, _| {
            let id = EpisodeId::at_end_of(key).ok_or_else(|| store.corrupt(key, "names no episode"))?;
            let summary = read_summary(store, &id)?.filter(|summary| filter.admits(&id, summary));
            found += usize::from(summary.is_some());
            episodes.extend(summary.map(|summary| EpisodeView::new(&id, summary)));
            Ok(if found < limit { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
    }
    let order = |one: &EpisodeView, other: &EpisodeView| one.reward.total_cmp(&other.reward);
    episodes.sort_by(|one, other| if best { order(other, one) } else { order(one, other) });
    episodes.truncate(limit);
    Ok(episodes)
}

/// The pools that have episodes: one look for each.
fn ranked_pools(store: &dyn Store) -> Result<Vec<PoolName>, Error> {
    let (mut pools, mut from) = (Vec::new(), keys::RANKINGS.to_vec());
    let to = keys::behind(keys::RANKINGS);
    loop {
        let mut next = None;
        store.scan(Table::Index, &from, &to, Direction::Up, &mut |key, _| {
            next = Some(keys::ranked_pool(key).ok_or_else(|| store.corrupt(key, "names no pool"))?);
            Ok(ControlFlow::Break(()))
        })?;
        let Some((pool, behind)) = next else { return Ok(pools) };
        pools.push(pool);
        from = behind;
    }
}

/// Visits every episode that a filter admits, in the order of time.
///
/// # Errors
/// If one cannot be read, or the visitor says so.
pub fn each<E: From<Error>>(
    store: &dyn Store,
    filter: &Filter,
    mut visit: impl FnMut(&EpisodeId, &Summary) -> Result<(), E>,
) -> Result<(), E> {
    let mut from = keys::from_time(filter.since.unwrap_or(0));
    let to = filter.until.map_or_else(|| keys::behind(b"T"), keys::from_time);
    loop {
        // Some at once, so that nothing is held while they are visited.
        let mut ids = Vec::new();
        let mut last = None;
        store.scan(Table::Index, &from, &to, Direction::Up, &mut |key, _| {
            ids.push(EpisodeId::at_end_of(key).ok_or_else(|| store.corrupt(key, "names no episode"))?);
            last = Some(key.to_vec());
            Ok(if ids.len() < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
        })?;
        for id in &ids {
            // One that retention has removed in the meantime is passed over.
            if let Some(summary) = read_summary(store, id)?.filter(|summary| filter.admits(id, summary)) {
                visit(id, &summary)?;
            }
        }
        let Some(mut last) = last else { return Ok(()) };
        last.push(0);
        from = last;
    }
}

/// Steps for training, each as likely as any other, none twice. The same seed over the same steps gives the same.
///
/// # Errors
/// If they cannot be read.
pub fn sample(store: &dyn Store, filter: &Filter, seed: u64, count: usize) -> Result<Vec<Sample>, Error> {
    let mut total = 0_usize;
    each::<Error>(store, filter, |_, summary| {
        total += summary.steps as usize;
        Ok(())
    })?;
    let mut random = ChaCha8Rng::seed_from_u64(seed);
    let mut wanted = rand::seq::index::sample(&mut random, total, count.min(total)).into_vec();
    wanted.sort_unstable();
    let (mut wanted, mut passed, mut samples) = (wanted.into_iter().peekable(), 0, Vec::with_capacity(count));
    each::<Error>(store, filter, |id, summary| {
        let end = passed + summary.steps as usize;
        if wanted.peek().is_some_and(|next| *next < end) {
            let steps = steps(store, id, summary)?;
            while let Some(at) = wanted.next_if(|next| *next < end) {
                samples.extend(steps.get(at - passed).map(|(_, step)| Sample {
                    agent: id.agent,
                    epoch: id.epoch,
                    pool: summary.pool.clone(),
                    category: summary.category,
                    step: step.clone(),
                }));
            }
        }
        passed = end;
        Ok(())
    })?;
    Ok(samples)
}
