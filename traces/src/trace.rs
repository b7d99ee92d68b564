//! Counts per interval, and single arrivals.

use meanfield_common::invalid::{Invalid, within};
use serde::Serialize;

/// The longest series that is ever made, so that a stray time stamp cannot ask for all the memory there is.
pub const LONGEST: usize = 50_000_000;

/// How many requests came in each interval of a series.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Trace {
    /// Name of the series, unique within its file.
    pub name: String,
    /// When the first interval begins, in Unix seconds; absent where the source gives no date.
    pub start: Option<f64>,
    /// Length of an interval in seconds.
    pub interval: f64,
    /// Requests in each interval; not whole where the source gave rates or means.
    pub counts: Vec<f64>,
}

impl Trace {
    /// A series whose numbers have been checked.
    pub fn new(name: impl Into<String>, start: Option<f64>, interval: f64, counts: Vec<f64>) -> Result<Self, Invalid> {
        within("interval", interval, 1e-3, 1e9)?;
        for count in &counts {
            within("count", *count, 0.0, HIGHEST_COUNT)?;
        }
        Ok(Self { name: name.into(), start, interval, counts })
    }

    /// All requests.
    pub fn total(&self) -> f64 {
        self.counts.iter().sum()
    }

    /// Length in seconds.
    pub fn seconds(&self) -> f64 {
        self.interval * self.counts.len() as f64
    }

    /// Mean rate in requests a second; zero for an empty series.
    pub fn mean_rate(&self) -> f64 {
        if self.counts.is_empty() { 0.0 } else { self.total() / self.seconds() }
    }

    /// Whether there is enough to calibrate on: a request a minute of a day, and ten different counts.
    pub fn is_busy(&self) -> bool {
        let mut levels: Vec<_> = self.counts.iter().map(|count| *count as u64).collect();
        levels.sort_unstable();
        levels.dedup();
        self.total() >= 1440.0 && levels.len() >= 10
    }

    /// The same series with every count multiplied.
    ///
    /// Scaling up amplifies the counting noise of the source: a count of n has a variance of about n, and after
    /// scaling by k it has k² n where a really busier source would have k n.
    pub fn scaled(&self, factor: f64) -> Result<Self, Invalid> {
        within("factor", factor, 0.0, 1e12)?;
        let counts = self.counts.iter().map(|count| count * factor).collect();
        Self::new(self.name.clone(), self.start, self.interval, counts)
    }

    /// The same series in longer intervals: sums of `times` intervals each, without an incomplete last one.
    pub fn coarser(&self, times: usize) -> Self {
        let times = times.max(1);
        Self {
            name: self.name.clone(),
            start: self.start,
            interval: self.interval * times as f64,
            counts: self.counts.chunks_exact(times).map(|chunk| chunk.iter().sum()).collect(),
        }
    }
}

/// The largest count that is believed; sums of so many still add exactly enough.
pub const HIGHEST_COUNT: f64 = 1e15;

/// Single arrivals.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Events {
    /// Name of the series, unique within its file.
    pub name: String,
    /// What the times count from, in Unix seconds; absent where the source gives no date.
    pub start: Option<f64>,
    /// Seconds since the start, in order.
    times: Vec<f64>,
}

impl Events {
    /// Arrivals at `times` seconds after `start`, in any order.
    pub fn new(name: impl Into<String>, start: Option<f64>, mut times: Vec<f64>) -> Result<Self, Invalid> {
        for time in &times {
            within("time", *time, 0.0, 1e12)?;
        }
        times.sort_unstable_by(f64::total_cmp);
        Ok(Self { name: name.into(), start, times })
    }

    /// Seconds since the start, in order.
    pub fn times(&self) -> &[f64] {
        &self.times
    }

    /// Arrivals counted in intervals of so many seconds, from the start to the last arrival.
    ///
    /// The last interval is counted whole although the source may have ended within it.
    pub fn counts(&self, interval: f64) -> Result<Trace, Invalid> {
        within("interval", interval, 1e-3, 1e9)?;
        let last = self.times.last().map_or(0.0, |time| (time / interval).floor() + 1.0);
        within("intervals", last, 0.0, LONGEST as f64)?;
        let mut counts = vec![0.0; last as usize];
        for time in &self.times {
            if let Some(count) = counts.get_mut((time / interval) as usize) {
                *count += 1.0;
            }
        }
        Trace::new(self.name.clone(), self.start, interval, counts)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arrivals_are_counted_once_at_any_interval() {
        let events = Events::new("a", None, vec![61.0, 0.0, 59.9, 60.0, 180.0]).unwrap();
        assert_eq!(events.times(), [0.0, 59.9, 60.0, 61.0, 180.0]);
        assert_eq!(events.counts(60.0).unwrap().counts, [2.0, 2.0, 0.0, 1.0]);
        assert_eq!(events.counts(100.0).unwrap().counts, [4.0, 1.0]);
        assert!(events.counts(0.0).is_err() && events.counts(f64::NAN).is_err());
        assert!(Events::new("a", None, vec![1e11]).unwrap().counts(1.0).is_err(), "too long a series");
    }

    #[test]
    fn figures_of_a_series() {
        let trace = Trace::new("a", None, 60.0, vec![60.0, 0.0, 120.0]).unwrap();
        assert_eq!((trace.total(), trace.seconds(), trace.mean_rate()), (180.0, 180.0, 1.0));
        assert_eq!(trace.coarser(2).counts, [60.0]);
        assert_eq!(trace.scaled(0.5).unwrap().counts, [30.0, 0.0, 60.0]);
        assert_eq!(Trace::new("a", None, 60.0, vec![]).unwrap().mean_rate(), 0.0);
        for bad in [-1.0, f64::NAN, f64::INFINITY] {
            assert!(Trace::new("a", None, 60.0, vec![bad]).is_err());
        }
    }
}
