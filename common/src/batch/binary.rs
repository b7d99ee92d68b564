//! The compact form of a batch. All numbers are little-endian, floats are IEEE 754 doubles, and nothing is padded.
//!
//! A request, `application/vnd.meanfield.heartbeats`:
//!
//! | bytes | hold |
//! |---|---|
//! | 1 | version, 1 |
//! | 3 | zeros |
//! | 4 | how many heartbeats follow, at most [`MOST`] |
//!
//! and for each of them
//!
//! | bytes | hold |
//! |---|---|
//! | 1 | flags: 1 with a round, 2 with a claim, 4 asks for details, 8 asks to move, 16 (with a claim only) with a node |
//! | 3 | action: CPU, memory, replicas, each -1, 0 or 1 |
//! | 16 | the agent's id |
//! | 8, 8 | epoch, sequence |
//! | 7 x 8 | l: SP, RU of CPU, RU of memory, AC, CPU limit, memory limit, NC |
//! | 8 | reward |
//! | 8 | the round, if flagged |
//! | 7 x 8, 4 | the claim, if flagged: wanted cores and GiB, held cores and GiB, offered, weight, node utilisation; pending |
//! | 8, 2 x 8 | the node's id, its cores and GiB, if flagged |
//! | 4, 4 | the milli-cores and mebibytes to move, if flagged |
//!
//! The answer, `application/vnd.meanfield.answers`, begins with the same eight bytes, and has for each heartbeat either
//!
//! | bytes | hold |
//! |---|---|
//! | 1 | 0: refused |
//! | 1, n | the kind of problem, such as `stale-epoch`, behind its length |
//! | 2, n | what was wrong, behind its length |
//!
//! or
//!
//! | bytes | hold |
//! |---|---|
//! | 1 | 1: taken |
//! | 4 | flags: 1 paused, 2 with a team reward, 4 scarcity, 8 and 16 a cap of cores and of memory, 32 a forecast's digest, 64 details, 128 the fallback decides, 1024 an allowance, 2048 the base models' state, 4096 and 8192 an advised cap of cores and of memory, 16384 how long caps hold, 32768 nodes are wanted; 256 times the lifecycle: 1 fallback, 2 exploring, 3 serving |
//! | 8, 8 | sequence, number of others |
//! | 6 x 3 x 8 | g: sum, mean and deviation of CPU limit, memory limit, vertical, horizontal, SP, utilisation |
//! | 8 | the team reward, if flagged |
//! | 6 x 8 | headroom (free, load, saturation, unscheduled, memory) and price, if flagged |
//! | 8, 8 | each cap, if flagged |
//! | 8, 8 | each advised cap, if flagged |
//! | 8 | for how many milliseconds caps hold, if flagged |
//! | 32 | the digest, if flagged |
//! | 4, 4 | the milli-cores and mebibytes that may be moved, if flagged |
//! | 8 | the base models' state, if flagged |
//! | 1 | which details follow, if flagged: 1 the means of l, 2 the categories, 4 the percentiles |
//! | 7 x 8, 3 x (8 + 18 x 8), 18 x 8 | these details: means of l; others and fields by category; percentiles |
//!
//! A body that does not follow this is [`Malformed`] and refused whole. A number out of its bounds is the fault of that
//! heartbeat alone.

mod answers;
mod bytes;
mod heartbeats;

pub use answers::{Refused, answers, refused, taken};
pub use heartbeats::{Reader, write};

use super::MOST;
use bytes::Bytes;

/// The media type of a request.
pub const HEARTBEATS: &str = "application/vnd.meanfield.heartbeats";
/// The media type of an answer.
pub const ANSWERS: &str = "application/vnd.meanfield.answers";

const VERSION: u8 = 1;

/// Why a body is not a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// It is of another version, or something else altogether.
    #[error("it begins with {0:?} and not with version 1 and three zeros")]
    Version([u8; 4]),
    /// It has too many heartbeats.
    #[error("it announces {0} heartbeats; at most {MOST} are taken")]
    TooMany(u32),
    /// It ends early.
    #[error("it ends within number {0}")]
    Short(usize),
    /// It goes on after its end.
    #[error("it has {0} bytes too many")]
    Long(usize),
    /// A flag or a text that this version does not know.
    #[error("number {0} has flags or a text that version 1 does not know")]
    Unknown(usize),
}

/// The eight bytes in front of so many entries.
pub fn head(out: &mut Vec<u8>, count: usize) {
    out.extend_from_slice(&[VERSION, 0, 0, 0]);
    // Nothing that is refused for its size anyway is worth an error here.
    out.extend_from_slice(&u32::try_from(count).unwrap_or(u32::MAX).to_le_bytes());
}

/// How many entries follow, and they.
fn body(bytes: &[u8]) -> Result<(usize, Bytes<'_>), Malformed> {
    let mut bytes = Bytes(bytes);
    let version = bytes.take().ok_or(Malformed::Short(0))?;
    if version != [VERSION, 0, 0, 0] {
        return Err(Malformed::Version(version));
    }
    let count = u32::from_le_bytes(bytes.take().ok_or(Malformed::Short(0))?);
    let most = usize::try_from(count).ok().filter(|count| *count <= MOST);
    Ok((most.ok_or(Malformed::TooMany(count))?, bytes))
}
