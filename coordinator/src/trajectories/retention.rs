//! What is removed when there is too much or it is too old: whole segments, oldest first.
//!
//! An episode goes with the first of its segments, also where it goes on in later ones: half an episode would have a wrong
//! summary. The index is cleared before the segment is dropped, so that a crash in between leaves a segment that is
//! cleared again, never a summary without its steps.

use std::{ops::ControlFlow, time::Duration};

use meanfield_common::invalid::Invalid;

use super::{
    books::Books,
    keys::{self, EpisodeId},
    store::{Direction, Error, Table},
};
use crate::clock::milliseconds;

/// How much is kept, and for how long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Retention {
    /// How many bytes of steps at most.
    pub bytes: u64,
    /// For how long at least; what is older goes when all that arrived with it is.
    pub age: Duration,
}

impl Default for Retention {
    fn default() -> Self {
        Self { bytes: 4 << 30, age: Duration::from_hours(30 * 24) }
    }
}

/// Segments of a full store: the share that is removed at once.
const SEGMENTS: u64 = 16;
const LARGEST_SEGMENT: u64 = 256 << 20;
const LEAST_BYTES: u64 = 1 << 20;
/// Episodes whose removal is committed at once.
const AT_ONCE: usize = 1000;

/// Why something was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// It was older than the retention says.
    Age,
    /// There was more than the retention says.
    Size,
}

/// What was removed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Removed {
    pub(super) reason: Reason,
    pub(super) steps: u64,
}

impl Retention {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that is out of its bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        if self.bytes < LEAST_BYTES {
            return Err(Invalid::new("trajectory_bytes", self.bytes, format!("at least {LEAST_BYTES} bytes")));
        }
        if self.age < Duration::from_secs(1) {
            return Err(Invalid::new("trajectory_age", format!("{} s", self.age.as_secs_f64()), "at least 1 s"));
        }
        Ok(())
    }

    pub(super) fn segment_bytes(&self) -> u64 {
        (self.bytes / SEGMENTS).min(LARGEST_SEGMENT)
    }

    /// Removes the oldest segment if it has to go.
    pub(super) fn remove_one(&self, books: &mut Books, now: u64) -> Result<Option<Removed>, Error> {
        let Some((&number, &oldest)) = books.segments.first_key_value() else { return Ok(None) };
        let reason = if books.bytes() > self.bytes {
            Reason::Size
        } else if (oldest.bytes > 0 || books.segments.len() > 1)
            && now.saturating_sub(oldest.newest) > milliseconds(self.age)
        {
            Reason::Age
        } else {
            return Ok(None);
        };
        let steps = books.steps();
        if books.segments.len() == 1 {
            // The one that is being filled: the next step goes elsewhere.
            books.begin_segment()?;
        }
        while clear(books, number)? > 0 {
            books.commit()?;
        }
        books.segments.remove(&number);
        books.write(keys::segment(number), None);
        books.commit()?;
        books.store.drop_segment(number)?;
        Ok(Some(Removed { reason, steps: steps - books.steps() }))
    }
}

/// Takes some episodes of a segment out of the index, and their chunks out of later segments.
fn clear(books: &mut Books, number: u64) -> Result<usize, Error> {
    let (prefix, mut ids) = (keys::all_in_segment(number), Vec::new());
    books.store.scan(Table::Index, &prefix, &keys::behind(&prefix), Direction::Up, &mut |key, _| {
        ids.push(EpisodeId::at_end_of(key).ok_or_else(|| books.store.corrupt(key, "names no episode"))?);
        Ok(if ids.len() < AT_ONCE { ControlFlow::Continue(()) } else { ControlFlow::Break(()) })
    })?;
    for id in &ids {
        books.write(keys::in_segment(number, id), None);
        let Some(summary) = books.summary(id)? else { continue };
        // A later segment's episode of the same name, begun after this one was removed, stays.
        if summary.segments.first() != Some(&number) {
            continue;
        }
        books.forget(id, &summary);
        books.write(keys::summary(id), None);
        for &later in summary.segments.iter().filter(|&&segment| segment != number) {
            books.write(keys::in_segment(later, id), None);
            let (mut chunks, mut bytes, mut steps) = (Vec::new(), 0, 0);
            let name = id.bytes();
            books.store.scan(
                Table::Segment(later),
                &name,
                &keys::behind(&name),
                Direction::Up,
                &mut |key, value| {
                    let chunk = super::layout::decode(id.episode, value);
                    steps += chunk.map_or(0, |chunk| chunk.steps.len() as u64);
                    bytes += value.len() as u64;
                    chunks.push(key.to_vec());
                    Ok(ControlFlow::Continue(()))
                },
            )?;
            books.writes.extend(chunks.into_iter().map(|key| ((Table::Segment(later), key), None)));
            if let Some(segment) = books.segments.get_mut(&later) {
                segment.bytes = segment.bytes.saturating_sub(bytes);
                segment.steps = segment.steps.saturating_sub(steps);
                let value = segment.encode();
                books.write(keys::segment(later), Some(value));
            }
        }
    }
    Ok(ids.len())
}
