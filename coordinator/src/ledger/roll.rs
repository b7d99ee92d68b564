//! Everybody who ever registered, found by id and by name.
//!
//! There may be a million of them, and none is ever forgotten, since epochs must keep growing. So each is one entry of a
//! list, the two tables hold places in it, names are shared with the live membership, and pools are numbers.

use std::{
    collections::HashMap,
    hash::{BuildHasher, RandomState},
};

use hashbrown::HashTable;
use meanfield_common::{
    identity::{AgentId, AgentName, Category, Epoch, PoolName},
    mean_field::Aspects,
};

use crate::store::Record;

#[derive(Debug, Default)]
pub(super) struct Roll {
    entries: Vec<Entry>,
    by_id: HashTable<u32>,
    by_name: HashTable<u32>,
    pools: Vec<PoolName>,
    by_pool: HashMap<PoolName, u32>,
    hasher: RandomState,
}

/// A [`Record`] with its id, and with the pool by its number.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Entry {
    pub(super) id: AgentId,
    name: AgentName,
    pub(super) epoch: Epoch,
    pool: u32,
    pub(super) category: Category,
    pub(super) aspects: Aspects,
    pub(super) member: bool,
    pub(super) paused: bool,
}

impl Roll {
    pub(super) fn new(agents: Vec<(AgentId, Record)>) -> Self {
        let mut roll = Self::default();
        roll.entries.reserve_exact(agents.len());
        for (id, record) in agents {
            roll.insert(id, record);
        }
        roll
    }

    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// One that nobody has the id or the name of.
    pub(super) fn insert(&mut self, id: AgentId, record: Record) -> &mut Entry {
        let Record { pool, name, category, epoch, aspects, member, paused } = record;
        // More than 2^32 of them, or as many agents, fit into no memory there is.
        let pool = self.by_pool.get(&pool).copied().unwrap_or_else(|| {
            let number = self.pools.len() as u32;
            self.pools.push(pool.clone());
            self.by_pool.insert(pool, number);
            number
        });
        let Self { entries, by_id, by_name, hasher, .. } = self;
        let place = entries.len();
        entries.push(Entry { id, name, epoch, pool, category, aspects, member, paused });
        let id_hash = |place: &u32| hasher.hash_one(entries[*place as usize].id);
        let name_hash = |place: &u32| entries[*place as usize].name_hash(hasher);
        let key = place as u32;
        by_id.insert_unique(id_hash(&key), key, id_hash);
        by_name.insert_unique(name_hash(&key), key, name_hash);
        &mut entries[place]
    }

    pub(super) fn get(&self, id: AgentId) -> Option<&Entry> {
        self.place(id).map(|place| &self.entries[place])
    }

    pub(super) fn get_mut(&mut self, id: AgentId) -> Option<&mut Entry> {
        self.place(id).map(|place| &mut self.entries[place])
    }

    fn place(&self, id: AgentId) -> Option<usize> {
        let found = self.by_id.find(self.hasher.hash_one(id), |place| self.entries[*place as usize].id == id);
        found.map(|place| *place as usize)
    }

    /// Whose name this is in this pool.
    pub(super) fn named(&self, pool: &PoolName, name: &AgentName) -> Option<AgentId> {
        let pool = *self.by_pool.get(pool)?;
        let found = self.by_name.find(self.hasher.hash_one((pool, name)), |place| {
            let entry = &self.entries[*place as usize];
            entry.pool == pool && entry.name == *name
        });
        found.map(|place| self.entries[*place as usize].id)
    }

    /// All members of a pool: a look at everybody, for what is seldom asked.
    pub(super) fn members(&self, pool: &PoolName) -> impl Iterator<Item = &Entry> {
        let pool = self.by_pool.get(pool).copied();
        self.entries.iter().filter(move |entry| entry.member && Some(entry.pool) == pool)
    }

    /// An entry as the store has it.
    pub(super) fn record(&self, entry: &Entry) -> Record {
        let Entry { name, epoch, pool, category, aspects, member, paused, .. } = entry.clone();
        Record { pool: self.pools[pool as usize].clone(), name, category, epoch, aspects, member, paused }
    }
}

impl Entry {
    fn name_hash(&self, hasher: &RandomState) -> u64 {
        hasher.hash_one((self.pool, &self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn finds_everybody_by_id_and_by_name_within_the_pool() {
        let record = |pool: &str, name: u128| Record {
            pool: pool.parse().unwrap(),
            name: format!("agent-{name}").parse().unwrap(),
            category: Category::Io,
            epoch: Epoch(name as u64),
            aspects: Aspects::from_bits(name as u8),
            member: name.is_multiple_of(2),
            paused: name.is_multiple_of(3),
        };
        let id = |pool: &str, name: u128| AgentId(Uuid::from_u128(name << 1 | u128::from(pool == "b")));
        let (first, later) = ((0..500).map(|name| ("a", name)), (0..500).map(|name| ("b", name)));
        let mut roll = Roll::new(first.clone().map(|(pool, name)| (id(pool, name), record(pool, name))).collect());
        for (pool, name) in later.clone() {
            roll.insert(id(pool, name), record(pool, name));
        }
        for (pool, name) in first.chain(later) {
            let (id, record) = (id(pool, name), record(pool, name));
            assert_eq!(roll.named(&record.pool, &record.name), Some(id));
            assert_eq!(roll.get(id).map(|entry| roll.record(entry)), Some(record));
        }
        assert_eq!(roll.members(&"b".parse().unwrap()).count(), 250);
        assert_eq!(roll.members(&"c".parse().unwrap()).count(), 0);
        assert_eq!(roll.named(&"c".parse().unwrap(), &"agent-1".parse().unwrap()), None);
        assert_eq!(roll.named(&"a".parse().unwrap(), &"agent-500".parse().unwrap()), None);
        assert_eq!(roll.get(AgentId(Uuid::from_u128(1000))), None);
    }
}
