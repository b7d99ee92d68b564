//! The audit log: who ordered what, when, and what was there before, in a chain of hashes.
//!
//! Each entry's hash is the SHA-256 over the hash before it and the entry's canonical text, so whoever changes, removes or
//! moves one has to change all that follow, and the head, which others may have written down. An entry is part of the
//! same commit as its change: neither is ever there without the other.
//!
//! What is in it: every order of an operator or administrator that was taken, also one that changed nothing. What is not:
//! what agents do by themselves (register, report, leave, fall silent), which would drown it, and what was refused, since
//! strangers could fill it; the first are events ([`crate::events`]), the second is counted.
//!
//! The log is bounded. The hash of the last entry that was let go stays as the [`Anchor`], from which the rest is verified.

use std::{collections::VecDeque, fmt, sync::Arc};

use meanfield_common::{digest::Digest, invalid::Invalid};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::access::{Caller, OWN};

mod log;
mod verify;

pub(crate) use log::Log;
pub use verify::{Damage, verify};

/// Who gives an order, as the edge knows the caller.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Actor(Arc<str>);

impl Actor {
    /// The longest name of a caller.
    pub const LONGEST: usize = 128;

    /// A caller of this name.
    ///
    /// # Errors
    /// If the name is empty, too long, or not made of visible characters.
    pub fn new(name: &str) -> Result<Self, Invalid> {
        let good = (1..=Self::LONGEST).contains(&name.len()) && name.bytes().all(|byte| byte.is_ascii_graphic());
        let bound = || format!("1 to {} visible ASCII characters", Self::LONGEST);
        good.then(|| Self(name.into())).ok_or_else(|| Invalid::new("actor", format!("{name:?}"), bound()))
    }

    /// The coordinator itself, under the name of its own token.
    pub(crate) fn own() -> Self {
        Self(OWN.into())
    }

    /// The name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0
    }
}

/// By the name of the token, which is visible and short enough as all names of agents are.
impl From<&Caller> for Actor {
    fn from(caller: &Caller) -> Self {
        Self(caller.name().into())
    }
}

impl fmt::Display for Actor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// One entry. The order of its fields is part of the hash.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Entry {
    /// Its number: 1, 2, 3 and so on.
    pub sequence: u64,
    /// When, in milliseconds since 1970.
    pub at_ms: u64,
    /// Who.
    pub actor: String,
    /// What was done, such as `capacity.set`.
    pub action: String,
    /// To what, such as `pools/default/capacity`.
    pub target: String,
    /// What was there before, as JSON.
    pub before: String,
    /// What was ordered, as JSON.
    pub after: String,
    /// The hash of the entry before.
    pub previous: Digest,
    /// The SHA-256 over all of the above.
    pub hash: Digest,
}

/// All of an entry that its hash is over.
#[derive(Serialize)]
struct Canonical<'a> {
    sequence: u64,
    at_ms: u64,
    actor: &'a str,
    action: &'a str,
    target: &'a str,
    before: &'a str,
    after: &'a str,
}

impl Entry {
    /// The hash that this entry must have: SHA-256 over the text of the hash before, a line end, and the entry as JSON with
    /// its fields in order and without blanks.
    #[must_use]
    pub fn computed(&self) -> Digest {
        let Self { sequence, at_ms, actor, action, target, before, after, .. } = self;
        let canonical = Canonical { sequence: *sequence, at_ms: *at_ms, actor, action, target, before, after };
        // Numbers and strings always serialise.
        let text = serde_json::to_string(&canonical).unwrap_or_default();
        Digest::of(format!("{}\n{text}", self.previous).as_bytes())
    }
}

/// A place in the chain: an entry's number and hash.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Anchor {
    /// The entry's number; 0 before the first.
    pub sequence: u64,
    /// The entry's hash.
    pub hash: Digest,
}

impl Default for Anchor {
    fn default() -> Self {
        Self { sequence: 0, hash: Digest::of(b"meanfield audit log") }
    }
}

impl From<&Entry> for Anchor {
    fn from(entry: &Entry) -> Self {
        Self { sequence: entry.sequence, hash: entry.hash }
    }
}

/// What an entry says, before it has a place in the chain.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Note {
    pub(crate) actor: Actor,
    pub(crate) action: &'static str,
    pub(crate) target: String,
    pub(crate) before: String,
    pub(crate) after: String,
}

impl Note {
    /// The entry that follows another.
    pub(crate) fn follow(self, last: Anchor, at_ms: u64) -> Entry {
        let Self { actor, action, target, before, after } = self;
        let (actor, action) = (actor.name().to_owned(), action.to_owned());
        let sequence = last.sequence + 1;
        let mut entry =
            Entry { sequence, at_ms, actor, action, target, before, after, previous: last.hash, hash: last.hash };
        entry.hash = entry.computed();
        entry
    }
}

/// Which entries to show.
#[derive(Debug, Clone, Default)]
pub struct Filter {
    /// Only later than this, in milliseconds since 1970, or at it.
    pub since: Option<u64>,
    /// Only of this caller.
    pub actor: Option<String>,
    /// Only of this action.
    pub action: Option<String>,
    /// Only of this target, or of what is below it.
    pub target: Option<String>,
}

impl Filter {
    fn admits(&self, entry: &Entry) -> bool {
        let below = |target: &String| {
            entry.target.strip_prefix(target.as_str()).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
        };
        self.since.is_none_or(|since| entry.at_ms >= since)
            && self.actor.as_ref().is_none_or(|actor| *actor == entry.actor)
            && self.action.as_ref().is_none_or(|action| *action == entry.action)
            && self.target.as_ref().is_none_or(below)
    }
}

/// One page of the log. Without a filter, pages verify as a chain.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(as = AuditPage)]
pub struct Page {
    /// The last entry that is no longer kept.
    pub anchor: Anchor,
    /// The newest entry.
    pub head: Anchor,
    /// In order.
    pub entries: Vec<Entry>,
    /// What to give as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// The log as far as it is kept.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trail {
    /// The last entry that is no longer kept.
    pub anchor: Anchor,
    /// In order.
    pub entries: VecDeque<Entry>,
}

impl Trail {
    /// The newest entry's place.
    #[must_use]
    pub fn head(&self) -> Anchor {
        self.entries.back().map_or(self.anchor, Anchor::from)
    }

    /// How many of the oldest have to go so that `keep` are left when these are added; none until a tenth is to go, so
    /// that not every commit removes something.
    pub(crate) fn surplus(&self, added: usize, keep: usize) -> usize {
        let surplus = (self.entries.len() + added).saturating_sub(keep);
        if surplus > keep / 10 { surplus.min(self.entries.len()) } else { 0 }
    }

    pub(crate) fn page(&self, filter: &Filter, after: u64, limit: usize) -> Page {
        let first = self.entries.partition_point(|entry| entry.sequence <= after);
        let mut found = self.entries.range(first..).filter(|entry| filter.admits(entry));
        let entries: Vec<_> = found.by_ref().take(limit).cloned().collect();
        let next = entries.last().filter(|_| found.next().is_some()).map(|last| last.sequence);
        Page { anchor: self.anchor, head: self.head(), entries, next }
    }
}
