//! Load averaged over the last seconds, one bucket a second.

use std::time::Duration;

use meanfield_common::invalid::{Invalid, within};

use crate::elementary::pow;

/// How the seconds of a window are weighed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Aggregation {
    /// All the same.
    #[default]
    Linear,
    /// The recent ones more, falling off exponentially.
    WeightedExponential,
}

/// A sliding window of one-second buckets.
#[derive(Debug, Clone, PartialEq)]
pub struct Window {
    buckets: Vec<f64>,
    /// The first second with a value, since the window was last without any.
    first: Option<i64>,
    /// The last second with a value.
    last: Option<i64>,
    total: f64,
    /// Weight of the newest second, and what each older one loses; unset when all weigh the same.
    smoothing: Option<f64>,
}

impl Window {
    /// An empty window of so many seconds, up to an hour.
    pub fn new(seconds: u32, aggregation: Aggregation) -> Result<Self, Invalid> {
        let length = within("seconds", seconds.into(), 1.0, 3600.0)?;
        let smoothing = match aggregation {
            Aggregation::Linear => None,
            // All weights but one ten-thousandth fall within the window, unless that would flatten a long one.
            Aggregation::WeightedExponential => Some((1.0 - 0.0001_f64.powf(1.0 / length)).max(0.2)),
        };
        Ok(Self { buckets: vec![0.0; seconds as usize], first: None, last: None, total: 0.0, smoothing })
    }

    /// Adds a value to the second in which `now` lies. One that is older than the window, negative or not finite is
    /// ignored.
    pub fn record(&mut self, now: Duration, value: f64) {
        if !(value >= 0.0 && value.is_finite()) {
            return;
        }
        let second = seconds(now);
        if self.last.is_some_and(|last| second + self.length() <= last) {
            return;
        }
        if self.first.is_none_or(|first| first > second) {
            self.first = Some(second);
        }
        match self.last {
            Some(last) if second <= last => {}
            Some(last) if second - last < self.length() => {
                for passed in last + 1..=second {
                    let bucket = self.bucket(passed);
                    self.total -= self.buckets[bucket];
                    self.buckets[bucket] = 0.0;
                }
                self.last = Some(second);
            }
            _ => {
                self.first = Some(second);
                self.last = Some(second);
                self.buckets.fill(0.0);
                self.total = 0.0;
            }
        }
        let bucket = self.bucket(second);
        self.buckets[bucket] += value;
        self.total += value;
    }

    /// The average; `None` when nothing was recorded for longer than the window.
    #[must_use]
    pub fn average(&self, now: Duration) -> Option<f64> {
        let now = seconds(now);
        let (first, last) = (self.first?, self.last?);
        if now - last > self.length() {
            return None;
        }
        Some(match self.smoothing {
            Some(smoothing) => self.weighted(now, last, smoothing),
            None => self.linear(now, first, last),
        })
    }

    fn linear(&self, now: i64, first: i64, last: i64) -> f64 {
        let silent = (now - last).max(0);
        if silent >= self.length() {
            return 0.0;
        }
        // Seconds that have slid out of the window without anything new being recorded.
        let total = (last + 1..=last + silent).fold(self.total, |total, old| total - self.buckets[self.bucket(old)]);
        let counted = (last - first + 1).min(self.length() - silent);
        (total / counted as f64 * 1e6).round() / 1e6
    }

    fn weighted(&self, now: i64, last: i64, smoothing: f64) -> f64 {
        let silent = (now - last).max(0);
        let mut weight = smoothing;
        if silent > 0 {
            weight *= pow(1.0 - smoothing, silent as i32);
        }
        let mut sum = 0.0;
        for age in 0..self.length() - silent {
            sum += self.buckets[self.bucket(last - age)] * weight;
            weight *= 1.0 - smoothing;
        }
        sum
    }

    fn length(&self) -> i64 {
        self.buckets.len() as i64
    }

    fn bucket(&self, second: i64) -> usize {
        second.rem_euclid(self.length()) as usize
    }
}

/// The second in which a time lies, held where sums with a window's length cannot overflow.
fn seconds(time: Duration) -> i64 {
    i64::try_from(time.as_secs()).map_or(i64::MAX / 2, |seconds| seconds.min(i64::MAX / 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(count: u64) -> Duration {
        Duration::from_secs(count)
    }

    fn window(aggregation: Aggregation) -> Window {
        Window::new(6, aggregation).unwrap()
    }

    #[test]
    fn averages_over_the_seconds_since_the_first_value() {
        let mut window = window(Aggregation::Linear);
        assert_eq!(window.average(second(0)), None);
        window.record(second(10), 6.0);
        assert_eq!(window.average(second(10)), Some(6.0));
        window.record(second(11), 3.0);
        assert_eq!(window.average(second(11)), Some(4.5));
        for later in 12..20 {
            window.record(second(later), 1.0);
        }
        assert_eq!(window.average(second(19)), Some(1.0));
    }

    #[test]
    fn silence_lets_old_seconds_slide_out() {
        let mut window = window(Aggregation::Linear);
        for at in 0..6 {
            window.record(second(at), if at < 3 { 9.0 } else { 1.0 });
        }
        assert_eq!(window.average(second(5)), Some(5.0));
        assert_eq!(window.average(second(8)), Some(1.0));
        assert_eq!(window.average(second(11)), Some(0.0));
        assert_eq!(window.average(second(12)), None);
    }

    #[test]
    fn recent_seconds_weigh_more_when_weighted() {
        let mut rising = window(Aggregation::WeightedExponential);
        let mut falling = rising.clone();
        for at in 0..6 {
            rising.record(second(at), at as f64);
            falling.record(second(at), 5.0 - at as f64);
        }
        assert!(rising.average(second(5)) > falling.average(second(5)));
    }

    #[test]
    fn nonsense_is_not_recorded() {
        let mut window = window(Aggregation::Linear);
        for nonsense in [f64::NAN, f64::INFINITY, -1.0] {
            window.record(second(1), nonsense);
        }
        assert_eq!(window.average(second(1)), None);
        window.record(Duration::MAX, 1.0);
        window.record(second(1), 1.0);
        assert_eq!(window.average(Duration::MAX), Some(1.0));
        assert!(Window::new(0, Aggregation::Linear).is_err());
    }
}
