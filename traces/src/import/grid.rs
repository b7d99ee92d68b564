//! Samples with times become a series of equal intervals.

use super::{Limits, Mended, Notes, time::Time};
use crate::Trace;

/// How far a time may be off its place, as a share of the interval.
const TOLERANCE: f64 = 0.01;

/// What stands in for a sample that is missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fill {
    /// A log without a line had no request.
    Zero,
    /// A measurement that is missing was probably between its neighbours.
    Line,
}

/// Samples of one series, in order.
#[derive(Debug)]
pub struct Samples {
    name: String,
    dated: bool,
    /// Time, value (absent: not a number), and line.
    rows: Vec<(f64, Option<f64>, u64)>,
}

/// A refusal: at a line, for a reason.
pub type Refusal = (u64, String);

impl Samples {
    pub fn new(name: String) -> Self {
        Self { name, dated: false, rows: Vec::new() }
    }

    /// Adds a sample, which must be later than the one before and of the same kind of time.
    pub fn push(&mut self, time: Time, value: Option<f64>, line: u64) -> Result<(), String> {
        let (dated, time) = match time {
            Time::Seconds(time) => (false, time),
            Time::Unix(time) => (true, time),
        };
        match self.rows.last() {
            None => self.dated = dated,
            Some(_) if dated != self.dated => return Err("dates and seconds since the start are mixed".to_owned()),
            Some((last, _, at)) if *last == time => {
                return Err(format!("the same time as at line {at}"));
            }
            Some((last, _, at)) if *last > time => {
                return Err(format!("earlier than the time at line {at}"));
            }
            Some(_) => {}
        }
        self.rows.push((time, value, line));
        Ok(())
    }

    /// The most frequent distance between samples, and another one that is as frequent.
    fn distance(&self) -> Option<(f64, Option<f64>)> {
        let mut distances: Vec<_> =
            self.rows.windows(2).map(|pair| ((pair[1].0 - pair[0].0) * 1000.0).round() as u64).collect();
        distances.sort_unstable();
        let groups: Vec<_> = distances.chunk_by(|a, b| a == b).collect();
        let most = groups.iter().map(|group| group.len()).max()?;
        let mut frequent = groups.iter().filter(|group| group.len() == most).filter_map(|group| group.first());
        let mut next = || frequent.next().map(|milliseconds| (*milliseconds).max(1) as f64 / 1000.0);
        Some((next()?, next()))
    }

    /// The series, in intervals of so many seconds or of the most frequent distance.
    pub fn finish(
        self,
        interval: Option<f64>,
        per_second: bool,
        fill: Fill,
        limits: &Limits,
        notes: &mut Notes,
    ) -> Result<Trace, Refusal> {
        let Some(&(start, _, line)) = self.rows.first() else { return Err((1, "the series has no row".to_owned())) };
        let interval = match (interval, self.distance()) {
            // A count of a minute is not that of each of its quarters; a rate is.
            (Some(interval), Some((usual, _))) if !per_second && interval < usual - TOLERANCE => {
                return Err((line, format!("the rows are {usual} s apart: {interval} s would invent requests")));
            }
            (Some(interval), _) => interval,
            (None, Some((one, Some(other)))) if !per_second => {
                return Err((line, format!("rows are {one} s and {other} s apart equally often: name the interval")));
            }
            (None, Some((usual, _))) => usual,
            (None, None) => {
                notes.add(Mended::Alone, 1, line);
                60.0
            }
        };
        if !self.dated && start > 0.0 {
            notes.add(Mended::Offset, 1, line);
        }
        let scale = if per_second { interval } else { 1.0 };
        let kind = if fill == Fill::Zero { Mended::GapsAsZero } else { Mended::GapsOnLine };
        let (mut counts, mut last): (Vec<f64>, usize) = (Vec::new(), 0);
        for (time, value, line) in self.rows {
            let place = (time - start) / interval;
            if (place - place.round()).abs() > TOLERANCE {
                return Err((line, format!("the time is not a multiple of {interval} s after the first")));
            }
            let place = place.round();
            if place >= limits.samples as f64 {
                return Err((line, format!("more than {} intervals", limits.samples)));
            }
            let place = place as usize;
            if place < counts.len() {
                return Err((line, format!("two rows within {interval} s")));
            }
            last = place + 1;
            let Some(value) = value else { continue };
            let value = value * scale;
            let gap = place - counts.len();
            if gap > 0 {
                notes.add(kind, gap as u64, line);
                let from = counts.last().copied().unwrap_or(value);
                for step in 1..=gap {
                    let share = step as f64 / (gap + 1) as f64;
                    counts.push(if fill == Fill::Zero { 0.0 } else { from + share * (value - from) });
                }
            }
            counts.push(value);
        }
        if counts.is_empty() {
            return Err((line, "the series has no number".to_owned()));
        }
        if last > counts.len() {
            notes.add(Mended::TrailingGaps, (last - counts.len()) as u64, line);
        }
        let dated = self.dated.then_some(start);
        Trace::new(self.name, dated, interval, counts).map_err(|invalid| (line, invalid.to_string()))
    }
}
