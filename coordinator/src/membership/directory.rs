//! The pools by name, which come and go while agents report.
//!
//! Heartbeats never look here: each member holds its pool. The lock is for those who have only a name, and it is held for
//! a look-up or a change, never while anything else is locked.

use std::{collections::BTreeMap, sync::Arc};

use meanfield_common::identity::PoolName;
use parking_lot::RwLock;

use crate::{error::Error, pool::Pool};

/// How many names an error message has.
const NAMED: usize = 10;

#[derive(Debug, Default)]
pub(super) struct Directory(RwLock<BTreeMap<PoolName, Arc<Pool>>>);

impl Directory {
    pub(super) fn get(&self, name: &PoolName) -> Option<Arc<Pool>> {
        self.0.read().get(name).cloned()
    }

    pub(super) fn known(&self, name: &PoolName) -> Result<Arc<Pool>, Error> {
        self.get(name).ok_or_else(|| Error::UnknownPool { name: name.clone(), known: self.names() })
    }

    /// In order of their names.
    pub(super) fn all(&self) -> Vec<Arc<Pool>> {
        self.0.read().values().cloned().collect()
    }

    pub(super) fn insert(&self, pool: Arc<Pool>) {
        self.0.write().insert(pool.name.clone(), pool);
    }

    pub(super) fn remove(&self, name: &PoolName) {
        self.0.write().remove(name);
    }

    /// The names, for an error message.
    pub(super) fn names(&self) -> String {
        names(self.0.read().keys())
    }
}

/// The first of these names, and how many more there are.
pub(crate) fn names<'a>(all: impl ExactSizeIterator<Item = &'a PoolName>) -> String {
    let more = all.len().saturating_sub(NAMED);
    let first = all.take(NAMED).map(PoolName::as_str).collect::<Vec<_>>().join(", ");
    if more > 0 { format!("{first} and {more} more") } else { first }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_error_names_a_few_and_counts_the_rest() {
        let directory = Directory::default();
        for number in 0..12 {
            directory.insert(Arc::new(Pool::new(format!("p{number:02}").parse().unwrap(), false)));
        }
        assert!(directory.names().ends_with("p08, p09 and 2 more"), "{}", directory.names());
        directory.remove(&"p11".parse().unwrap());
        directory.remove(&"p10".parse().unwrap());
        assert!(directory.names().ends_with("p08, p09"), "{}", directory.names());
    }
}
