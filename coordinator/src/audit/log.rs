//! The log as the writer thread keeps it: drafts that are committed with their changes, and the trail that others read.

use std::{ops::Range, sync::Arc};

use parking_lot::RwLock;

use super::{Anchor, Entry, Note, Trail};
use crate::store::Write;

/// The log of a running coordinator. Clones are handles to the same one; only the writer thread appends.
#[derive(Debug, Clone)]
pub(crate) struct Log {
    trail: Arc<RwLock<Trail>>,
    keep: usize,
}

/// Entries that are not durable yet, and which older ones go when they are.
#[derive(Debug, Default)]
pub(crate) struct Draft {
    entries: Vec<Entry>,
    dropped: Option<(Range<u64>, Anchor)>,
}

impl Draft {
    pub(crate) fn writes(&self) -> Vec<Write> {
        let dropped = self.dropped.iter().cloned().map(|(range, anchor)| Write::AuditDropped(range, anchor));
        dropped.chain(self.entries.iter().cloned().map(|entry| Write::Audit(Box::new(entry)))).collect()
    }
}

impl Log {
    /// The log that a store holds, of which so many entries are kept.
    pub(crate) fn new(trail: Trail, keep: usize) -> Self {
        Self { trail: Arc::new(RwLock::new(trail)), keep }
    }

    /// The entries that follow.
    pub(crate) fn draft(&self, notes: Vec<Note>, at_ms: u64) -> Draft {
        if notes.is_empty() {
            return Draft::default();
        }
        let trail = self.trail.read();
        let mut last = trail.head();
        let entry = |note: Note| {
            let entry = note.follow(last, at_ms);
            last = Anchor::from(&entry);
            entry
        };
        let entries: Vec<_> = notes.into_iter().map(entry).collect();
        let surplus = trail.surplus(entries.len(), self.keep);
        let dropped = surplus.checked_sub(1).and_then(|last| trail.entries.get(last)).map(|last| {
            let first = trail.anchor.sequence + 1;
            (first..last.sequence + 1, Anchor::from(last))
        });
        Draft { entries, dropped }
    }

    /// Shows entries that are durable now.
    pub(crate) fn append(&self, draft: Draft) {
        let Draft { entries, dropped } = draft;
        if entries.is_empty() {
            return;
        }
        let mut trail = self.trail.write();
        if let Some((range, anchor)) = dropped {
            let gone = trail.entries.partition_point(|entry| entry.sequence < range.end);
            trail.entries.drain(..gone);
            trail.anchor = anchor;
        }
        trail.entries.extend(entries);
    }

    pub(crate) fn trail(&self) -> parking_lot::RwLockReadGuard<'_, Trail> {
        self.trail.read()
    }
}
