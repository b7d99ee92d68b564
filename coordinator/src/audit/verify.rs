//! Whether a log is whole: recomputes every hash, and says what was changed, is missing, or stands elsewhere.

use std::{collections::BTreeSet, fmt};

use super::{Anchor, Entry};

/// What is wrong with a log.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Damage {
    /// The entry is not what its hash was made of.
    Changed(u64),
    /// The entry does not follow from the one before, so either was replaced.
    Unlinked(u64),
    /// Entries from the first to the second are not there.
    Missing(u64, u64),
    /// The entry stands in another place than its own.
    Moved(u64),
    /// The last entry is not the one that the head names.
    Head(u64),
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed(entry) => write!(f, "entry {entry} was changed: its hash is another"),
            Self::Unlinked(entry) => write!(f, "entry {entry} does not follow from the one before: one was replaced"),
            Self::Missing(from, to) if from == to => write!(f, "entry {from} is missing"),
            Self::Missing(from, to) => write!(f, "entries {from} to {to} are missing"),
            Self::Moved(entry) => write!(f, "entry {entry} stands in another place than its own"),
            Self::Head(entry) => write!(f, "the last entry is not {entry} with the hash that the head has"),
        }
    }
}

/// All that is wrong with these entries, which are to lead from an anchor to a head.
#[must_use]
pub fn verify(anchor: Anchor, entries: &[Entry], head: Anchor) -> Vec<Damage> {
    let present: BTreeSet<u64> = entries.iter().map(|entry| entry.sequence).collect();
    let mut damages = Vec::new();
    // What stands elsewhere is not missing. Gaps are jumped over, so that a forged number keeps nobody busy for ages.
    let missing = |from: u64, to: u64, damages: &mut Vec<Damage>| {
        let mut at = from;
        for &there in present.range(from..=to) {
            if there > at {
                damages.push(Damage::Missing(at, there - 1));
            }
            at = there.saturating_add(1);
        }
        if at <= to && !present.contains(&to) {
            damages.push(Damage::Missing(at, to));
        }
    };
    let mut last = anchor;
    for entry in entries {
        let next = last.sequence.saturating_add(1);
        if entry.sequence < next {
            damages.push(Damage::Moved(entry.sequence));
        } else if entry.sequence > next {
            missing(next, entry.sequence - 1, &mut damages);
        } else if entry.previous != last.hash {
            damages.push(Damage::Unlinked(entry.sequence));
        }
        if entry.computed() != entry.hash {
            damages.push(Damage::Changed(entry.sequence));
        }
        if entry.sequence >= next {
            last = Anchor::from(entry);
        }
    }
    if last.sequence < head.sequence {
        missing(last.sequence + 1, head.sequence, &mut damages);
    } else if last != head {
        damages.push(Damage::Head(head.sequence));
    }
    damages
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::audit::{Actor, Note};
    use proptest::prelude::*;

    fn chain(from: Anchor, count: u64) -> Vec<Entry> {
        let mut last = from;
        let one = |number: u64, last: &mut Anchor| {
            let (target, after) = ("pools/a/capacity".to_owned(), format!("{{\"cores\":{number}}}"));
            let note = Note {
                actor: Actor::new("token").unwrap(),
                action: "capacity.set",
                target,
                before: "null".into(),
                after,
            };
            let entry = note.follow(*last, 1000 * number);
            *last = Anchor::from(&entry);
            entry
        };
        (0..count).map(|number| one(number, &mut last)).collect()
    }

    fn head(entries: &[Entry]) -> Anchor {
        entries.last().map_or_else(Anchor::default, Anchor::from)
    }

    #[test]
    fn a_whole_chain_is_whole_also_from_an_anchor() {
        let all = chain(Anchor::default(), 20);
        assert_eq!(verify(Anchor::default(), &all, head(&all)), []);
        assert_eq!(verify(Anchor::from(&all[7]), &all[8..], head(&all)), [], "the rest of a longer one");
        assert_eq!(verify(Anchor::default(), &[], Anchor::default()), []);
    }

    #[test]
    fn what_was_done_to_it_is_named() {
        let whole = chain(Anchor::default(), 9);
        let end = head(&whole);
        let damage = |change: fn(&mut Vec<Entry>)| {
            let mut entries = whole.clone();
            change(&mut entries);
            verify(Anchor::default(), &entries, end)
        };
        assert_eq!(damage(|all| all[3].after.push(' ')), [Damage::Changed(4)]);
        assert_eq!(damage(|all| all[3].actor = "nobody".into()), [Damage::Changed(4)]);
        assert_eq!(damage(|all| drop(all.remove(3))), [Damage::Missing(4, 4)]);
        assert_eq!(damage(|all| drop(all.drain(2..5))), [Damage::Missing(3, 5)]);
        assert_eq!(damage(|all| all.swap(3, 4)), [Damage::Moved(4)]);
        assert_eq!(damage(|all| all.truncate(7)), [Damage::Missing(8, 9)]);
        assert_eq!(damage(|all| drop(all.remove(0))), [Damage::Missing(1, 1)]);
        // Whoever makes the changed entry's hash anew breaks the next one's.
        let forged = damage(|all| {
            all[3].actor = "nobody".into();
            all[3].hash = all[3].computed();
        });
        assert_eq!(forged, [Damage::Unlinked(5)]);
        let last = damage(|all| {
            all[8].actor = "nobody".into();
            all[8].hash = all[8].computed();
        });
        assert_eq!(last, [Damage::Head(9)]);
        assert_eq!(damage(|all| all[4].sequence = u64::MAX)[0], Damage::Missing(5, 5));
    }

    proptest! {
        #[test]
        fn any_one_change_is_found(at in 0..30_usize, part in 0..7_usize, other in 0..29_usize) {
            let whole = chain(Anchor::default(), 30);
            let mut entries = whole.clone();
            let entry = &mut entries[at];
            match part {
                0 => entry.at_ms += 1,
                1 => entry.actor.push('x'),
                2 => entry.action.push('x'),
                3 => entry.target.push('x'),
                4 => entry.before.push('x'),
                5 => drop(entries.remove(at)),
                _ => {
                    let entry = entries.remove(at);
                    entries.insert(if other < at { other } else { other + 1 }.min(29), entry);
                }
            }
            prop_assume!(entries != whole);
            prop_assert!(!verify(Anchor::default(), &entries, head(&whole)).is_empty());
        }
    }
}
