//! Tables that end with the process, for simulations.

use std::{collections::BTreeMap, ops::ControlFlow};

use parking_lot::RwLock;

use super::{Direction, Error, Store, Table, Visit, Writes};

type Entries = BTreeMap<Vec<u8>, Vec<u8>>;

/// Keeps nothing beyond the process.
#[derive(Debug, Default)]
pub struct Memory(RwLock<BTreeMap<Table, Entries>>);

impl Store for Memory {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        // Visitors of a scan ask too, so the lock may be held already.
        Ok(self.0.read_recursive().get(&table).and_then(|entries| entries.get(key).cloned()))
    }

    fn scan(&self, table: Table, from: &[u8], to: &[u8], direction: Direction, visit: Visit<'_>) -> Result<(), Error> {
        let tables = self.0.read_recursive();
        let Some(entries) = tables.get(&table).filter(|_| from < to) else { return Ok(()) };
        let mut range = entries.range(from.to_vec()..to.to_vec());
        loop {
            let entry = match direction {
                Direction::Up => range.next(),
                Direction::Down => range.next_back(),
            };
            let Some((key, value)) = entry else { return Ok(()) };
            if visit(key, value)? == ControlFlow::Break(()) {
                return Ok(());
            }
        }
    }

    fn commit(&self, _: u64, writes: Writes) -> Result<(), Error> {
        let mut tables = self.0.write();
        for ((table, key), value) in writes {
            let entries = tables.entry(table).or_default();
            match value {
                Some(value) => entries.insert(key, value),
                None => entries.remove(&key),
            };
        }
        Ok(())
    }

    fn segments(&self) -> Vec<u64> {
        let numbers = |table: &Table| match table {
            Table::Segment(number) => Some(*number),
            Table::Index => None,
        };
        self.0.read().keys().filter_map(numbers).collect()
    }

    fn open_segment(&self, number: u64) -> Result<(), Error> {
        self.0.write().entry(Table::Segment(number)).or_default();
        Ok(())
    }

    fn drop_segment(&self, number: u64) -> Result<(), Error> {
        self.0.write().remove(&Table::Segment(number));
        Ok(())
    }

    fn space(&self) -> u64 {
        // Nobody's disk.
        0
    }

    fn corrupt(&self, key: &[u8], reason: &str) -> Error {
        crate::store::corrupt("memory".as_ref(), key, reason)
    }
}
