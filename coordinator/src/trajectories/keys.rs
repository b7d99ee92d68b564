//! The keys of the index. Numbers in them are big-endian, so that the order of bytes is the order of what they mean.
//!
//! | key | holds |
//! |---|---|
//! | `F` | the version of this layout |
//! | `C` | the number of the last commit |
//! | `E` agent epoch episode | the episode's summary |
//! | `T` time agent epoch episode | nothing: episodes by when their first step arrived |
//! | `R` pool 0 category reward agent epoch episode | nothing: episodes by the sum of their rewards |
//! | `G` segment | what a segment holds |
//! | `L` segment agent epoch episode | nothing: episodes with chunks in a segment |
//!
//! A segment's own keys are agent, epoch, episode and the last step of a chunk: from a step on, they lead to every chunk
//! that may hold it or a later one.

use meanfield_common::identity::{AgentId, Category, Epoch, PoolName};
use uuid::Uuid;

use super::layout::{Summary, category_number};

/// One episode of one registration of an agent.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EpisodeId {
    /// Whose.
    pub agent: AgentId,
    /// Of which registration.
    pub epoch: Epoch,
    /// Which one.
    pub episode: u64,
}

/// The length of an episode's name in keys.
const ID: usize = 32;

pub(super) const FORMAT: &[u8] = b"F";
/// Where the index keeps the number of the last commit.
pub const COMMIT: &[u8] = b"C";

impl EpisodeId {
    pub(super) fn bytes(&self) -> [u8; ID] {
        let mut bytes = [0; ID];
        bytes[..16].copy_from_slice(self.agent.0.as_bytes());
        bytes[16..24].copy_from_slice(&self.epoch.0.to_be_bytes());
        bytes[24..].copy_from_slice(&self.episode.to_be_bytes());
        bytes
    }

    fn read(bytes: &[u8]) -> Option<Self> {
        let agent = AgentId(Uuid::from_slice(bytes.get(..16)?).ok()?);
        let epoch = Epoch(u64::from_be_bytes(bytes.get(16..24)?.try_into().ok()?));
        let episode = u64::from_be_bytes(bytes.get(24..ID)?.try_into().ok()?);
        Some(Self { agent, epoch, episode })
    }

    /// The episode that a key ends with.
    pub(super) fn at_end_of(key: &[u8]) -> Option<Self> {
        Self::read(key.get(key.len().checked_sub(ID)?..)?)
    }
}

pub(super) fn summary(id: &EpisodeId) -> Vec<u8> {
    join(b'E', &[&id.bytes()])
}

pub(super) fn of_agent(agent: AgentId) -> Vec<u8> {
    join(b'E', &[agent.0.as_bytes()])
}

pub(super) fn by_time(since: u64, id: &EpisodeId) -> Vec<u8> {
    join(b'T', &[&since.to_be_bytes(), &id.bytes()])
}

/// The time in a key of [`by_time`].
pub(super) fn time(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(*key.get(1..)?.first_chunk()?))
}

pub(super) fn from_time(since: u64) -> Vec<u8> {
    join(b'T', &[&since.to_be_bytes()])
}

pub(super) fn by_reward(id: &EpisodeId, summary: &Summary) -> Vec<u8> {
    let mut key = ranking(&summary.pool, summary.category);
    key.extend(ordered(summary.reward).to_be_bytes());
    key.extend(id.bytes());
    key
}

/// In front of every episode of a pool and a category in the order of rewards.
pub(super) fn ranking(pool: &PoolName, category: Category) -> Vec<u8> {
    join(b'R', &[pool.as_str().as_bytes(), &[0, category_number(category)]])
}

/// In front of every episode in the order of rewards.
pub(super) const RANKINGS: &[u8] = b"R";

/// The pool in a key of that order, and a key behind all of the pool.
pub(super) fn ranked_pool(key: &[u8]) -> Option<(PoolName, Vec<u8>)> {
    let end = key.iter().position(|&byte| byte == 0)?;
    let pool = std::str::from_utf8(key.get(1..end)?).ok()?.parse().ok()?;
    let mut behind = key[..end].to_vec();
    behind.push(1);
    Some((pool, behind))
}

pub(super) const SEGMENTS: &[u8] = b"G";

pub(super) fn segment(number: u64) -> Vec<u8> {
    join(b'G', &[&number.to_be_bytes()])
}

pub(super) fn segment_number(key: &[u8]) -> Option<u64> {
    Some(u64::from_be_bytes(key.get(1..)?.try_into().ok()?))
}

pub(super) fn in_segment(number: u64, id: &EpisodeId) -> Vec<u8> {
    join(b'L', &[&number.to_be_bytes(), &id.bytes()])
}

pub(super) fn all_in_segment(number: u64) -> Vec<u8> {
    join(b'L', &[&number.to_be_bytes()])
}

pub(super) fn chunk(id: &EpisodeId, last: u32) -> Vec<u8> {
    [&id.bytes()[..], &last.to_be_bytes()].concat()
}

/// The first key behind all that begin with these bytes; none of ours is all 255.
pub(super) fn behind(prefix: &[u8]) -> Vec<u8> {
    let mut key = prefix.to_vec();
    while let Some(last) = key.pop() {
        if let Some(next) = last.checked_add(1) {
            key.push(next);
            break;
        }
    }
    key
}

/// A float as a number of the same order.
fn ordered(value: f64) -> u64 {
    let bits = value.to_bits();
    if bits >> 63 == 0 { bits | 1 << 63 } else { !bits }
}

fn join(prefix: u8, parts: &[&[u8]]) -> Vec<u8> {
    let mut key = vec![prefix];
    parts.iter().for_each(|part| key.extend_from_slice(part));
    key
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_keep_their_order() {
        let floats = [-1e9, -2.5, -0.0, 0.0, 1e-9, 3.0, 4e12];
        assert!(floats.windows(2).all(|pair| ordered(pair[0]) < ordered(pair[1])));
    }

    #[test]
    fn keys_read_back_and_end_where_the_next_begins() {
        let id = EpisodeId { agent: AgentId(Uuid::from_u128(77)), epoch: Epoch(3), episode: u64::MAX };
        assert_eq!(EpisodeId::at_end_of(&by_time(9, &id)), Some(id));
        assert_eq!((time(&by_time(9, &id)), time(b"T")), (Some(9), None));
        assert_eq!(EpisodeId::at_end_of(&in_segment(9, &id)), Some(id));
        assert_eq!(segment_number(&segment(12)), Some(12));
        assert_eq!(behind(b"ab"), b"ac");
        assert_eq!(behind(&[1, 255, 255]), [2]);
        let pool: PoolName = "a/b".parse().unwrap();
        let key = ranking(&pool, Category::Io);
        let (read, behind) = ranked_pool(&key).unwrap();
        assert_eq!(read, pool);
        assert!(behind > key && behind < ranking(&"a/b0".parse().unwrap(), Category::Cpu));
    }
}
