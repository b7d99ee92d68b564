//! An agent's record in a few bytes, since there may be a million of them and every start reads them all.
//!
//! | bytes | hold |
//! |---|---|
//! | 0 | category (0 CPU, 1 memory, 2 I/O), + 4 for a member, + 8 for one that is paused, + 16 times the details of g that it is told |
//! | 1 to 8 | epoch, little-endian |
//! | 9 | length of the pool's name |
//! | 10 and on | the pool's name, then the agent's |
//!
//! The key is `agent/` and the sixteen bytes of the id. Formats before 4 had the id as text there, and JSON as the value.

use meanfield_common::{
    identity::{AgentId, Category, Epoch, PoolName},
    mean_field::Aspects,
};
use uuid::Uuid;

use super::Record;

/// In front of every agent's key.
const AGENT: &[u8] = b"agent/";

const MEMBER: u8 = 4;
const PAUSED: u8 = 8;
/// Times the bits of the details.
const ASPECTS: u8 = 16;
const HEAD: usize = 10;

pub(super) fn key(id: AgentId) -> Vec<u8> {
    [AGENT, id.0.as_bytes()].concat()
}

pub(super) fn id(key: &[u8]) -> Option<AgentId> {
    Uuid::from_slice(key.strip_prefix(AGENT)?).ok().map(AgentId)
}

pub(super) fn encode(record: &Record) -> Vec<u8> {
    let Record { pool, name, category, epoch, aspects, member, paused } = record;
    let (pool, name) = (pool.as_str().as_bytes(), name.as_str().as_bytes());
    let flags = u8::from(*member) * MEMBER + u8::from(*paused) * PAUSED + aspects.bits() * ASPECTS;
    let mut bytes = Vec::with_capacity(HEAD + pool.len() + name.len());
    bytes.push(*category as u8 | flags);
    bytes.extend_from_slice(&epoch.0.to_le_bytes());
    // Names are at most 128 bytes long.
    bytes.push(pool.len() as u8);
    bytes.extend_from_slice(pool);
    bytes.extend_from_slice(name);
    bytes
}

/// Reads a record; `pools` are those of earlier ones, whose names are shared instead of kept a million times.
pub(super) fn decode(bytes: &[u8], pools: &mut Vec<PoolName>) -> Option<Record> {
    let (head, names) = bytes.split_at_checked(HEAD)?;
    let category = *Category::ALL.get(usize::from(head[0] & 3))?;
    if head[0] >= 8 * ASPECTS {
        return None;
    }
    let (pool, name) = names.split_at_checked(head[9].into())?;
    let (pool, name) = (std::str::from_utf8(pool).ok()?, std::str::from_utf8(name).ok()?);
    let pool = match pools.iter().find(|known| known.as_str() == pool) {
        Some(known) => known.clone(),
        None => {
            let new: PoolName = pool.parse().ok()?;
            pools.push(new.clone());
            new
        }
    };
    Some(Record {
        pool,
        name: name.parse().ok()?,
        category,
        epoch: Epoch(u64::from_le_bytes(head[1..9].try_into().ok()?)),
        aspects: Aspects::from_bits(head[0] / ASPECTS),
        member: head[0] & MEMBER != 0,
        paused: head[0] & PAUSED != 0,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_as_written_and_nothing_else() {
        let mut pools = Vec::new();
        for (place, category) in Category::ALL.into_iter().enumerate() {
            let record = Record {
                pool: "a/b".parse().unwrap(),
                name: format!("shop/cart-{place}").parse().unwrap(),
                category,
                epoch: Epoch(u64::MAX - place as u64),
                aspects: Aspects::from_bits(place as u8 * 3),
                member: place % 2 == 0,
                paused: place == 1,
            };
            let bytes = encode(&record);
            assert_eq!(decode(&bytes, &mut pools), Some(record));
            // Cut within the names it may still be a record; the store's digest notices that.
            for cut in 0..=HEAD + 3 {
                assert_eq!(decode(&bytes[..cut], &mut pools), None, "{cut}");
            }
            for (at, bad) in [(0, 3), (0, 128), (9, 0), (9, 255), (10, b'A'), (14, 0xff)] {
                let mut bytes = bytes.clone();
                bytes[at] = bad;
                assert_eq!(decode(&bytes, &mut pools), None, "{bad} at {at}");
            }
        }
        assert_eq!(pools.len(), 1, "shared");
        let agent = AgentId(Uuid::from_u128(7));
        assert_eq!(id(&key(agent)), Some(agent));
        assert_eq!((id(b"agent/"), id(b"paused"), id(format!("agent/{agent}").as_bytes())), (None, None, None));
    }
}
