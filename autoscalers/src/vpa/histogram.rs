//! Decaying histograms of usage with exponentially growing buckets.
//!
//! A sample's weight doubles with every half-life that it is younger, so instead of shrinking old samples the new ones
//! are added with more weight, relative to a reference time that is moved when the weights grow too large. Sizes are
//! fixed: a histogram never grows.

use std::time::Duration;

use crate::elementary::{exp2, log, pow, scale};

/// Each bucket is wider than the one before it by this factor.
const RATIO: f64 = 1.05;
/// A bucket below this weight counts as empty.
const EPSILON: f64 = 0.0001;
/// What both resources come to: the ranges are a hundred thousand times their first bucket.
const BUCKETS: usize = 176;
/// Half-lives after which the reference time moves.
const FURTHEST: i64 = 100;
/// Nanoseconds from the year 1, on whose multiples of a half-life reference times lie, to 1970.
const YEAR_ONE: i128 = 62_135_596_800 * 1_000_000_000;

/// Usage samples by value, the recent ones weighing more.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Histogram {
    first_bucket: f64,
    half_life: i64,
    weights: [f64; BUCKETS],
    total: f64,
    /// The first bucket that is not empty; the last one when all are.
    lowest: usize,
    /// The last bucket that is not empty; the first one when all are.
    highest: usize,
    /// The time at which a sample has the weight it is given; unset before the first sample.
    reference: Option<i64>,
}

impl Histogram {
    /// CPU in cores: the first bucket ends at 0.01 cores, the last begins at about 1000.
    pub(crate) fn cpu(half_life: Duration) -> Self {
        Self::new(0.01, half_life)
    }

    /// Memory in bytes: the first bucket ends at 10 MB, the last begins at about 1 TB.
    pub(crate) fn memory(half_life: Duration) -> Self {
        Self::new(1e7, half_life)
    }

    fn new(first_bucket: f64, half_life: Duration) -> Self {
        Self {
            first_bucket,
            half_life: super::nanos(half_life).max(1),
            weights: [0.0; BUCKETS],
            total: 0.0,
            lowest: BUCKETS - 1,
            highest: 0,
            reference: None,
        }
    }

    /// Counts a sample measured at `at`.
    pub(crate) fn add(&mut self, value: f64, weight: f64, at: i64) {
        let weight = weight * self.decay(at);
        let bucket = self.bucket(value);
        self.weights[bucket] += weight;
        self.total += weight;
        if self.weights[bucket] >= EPSILON {
            self.lowest = self.lowest.min(bucket);
            self.highest = self.highest.max(bucket);
        }
    }

    /// Takes back a sample that was counted with the same value, weight and time.
    pub(crate) fn subtract(&mut self, value: f64, weight: f64, at: i64) {
        let weight = weight * self.decay(at);
        let bucket = self.bucket(value);
        let less = |from: f64| if from - weight < EPSILON { 0.0 } else { from - weight };
        self.total = less(self.total);
        self.weights[bucket] = less(self.weights[bucket]);
        self.narrow();
    }

    /// The upper end of the bucket within which the given share of the weight is reached; 0 when empty.
    pub(crate) fn percentile(&self, share: f64) -> f64 {
        if self.weights[self.lowest] < EPSILON {
            return 0.0;
        }
        let threshold = share * self.total;
        let mut sum = 0.0;
        let mut bucket = self.lowest;
        while bucket < self.highest {
            sum += self.weights[bucket];
            if sum >= threshold {
                break;
            }
            bucket += 1;
        }
        // The last bucket has no end.
        self.start((bucket + 1).min(BUCKETS - 1))
    }

    fn bucket(&self, value: f64) -> usize {
        if value < self.first_bucket {
            return 0;
        }
        let bucket = log(value * (RATIO - 1.0) / self.first_bucket + 1.0) / log(RATIO);
        (bucket as usize).min(BUCKETS - 1)
    }

    fn start(&self, bucket: usize) -> f64 {
        if bucket == 0 { 0.0 } else { self.first_bucket * (pow(RATIO, bucket as i32) - 1.0) / (RATIO - 1.0) }
    }

    /// The factor that makes a sample of this time weigh what it should beside the others.
    fn decay(&mut self, at: i64) -> f64 {
        let furthest = self.half_life.saturating_mul(FURTHEST);
        let reference = match self.reference {
            Some(reference) if at <= reference.saturating_add(furthest) => reference,
            _ => self.shift(at),
        };
        exp2(at.saturating_sub(reference) as f64 / self.half_life as f64)
    }

    /// Moves the reference time to the multiple of the half-life nearest to `at`.
    fn shift(&mut self, at: i64) -> i64 {
        let half_life = i128::from(self.half_life);
        let since = i128::from(at) + YEAR_ONE;
        let over = since % half_life;
        let nearest = if over * 2 < half_life { since - over } else { since - over + half_life };
        let reference = (nearest - YEAR_ONE).clamp(i64::MIN.into(), i64::MAX.into()) as i64;
        if let Some(before) = self.reference {
            let exponent = (before.saturating_sub(reference) as f64 / self.half_life as f64 + 0.5).floor();
            self.scale(scale(1.0, exponent as i32));
        }
        self.reference = Some(reference);
        reference
    }

    fn scale(&mut self, factor: f64) {
        for bucket in self.lowest..=self.highest {
            self.weights[bucket] *= factor;
        }
        self.total *= factor;
        self.narrow();
    }

    fn narrow(&mut self) {
        while self.weights[self.lowest] < EPSILON && self.lowest < BUCKETS - 1 {
            self.lowest += 1;
        }
        while self.weights[self.highest] < EPSILON && self.highest > 0 {
            self.highest -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const DAY: i64 = 86_400_000_000_000;

    fn days(count: u64) -> Duration {
        Duration::from_secs(86_400 * count)
    }

    #[test]
    fn a_percentile_is_the_end_of_its_bucket() {
        let mut histogram = Histogram::cpu(days(1));
        assert_eq!(histogram.percentile(0.9), 0.0);
        for value in [0.005, 0.005, 0.005, 0.5] {
            histogram.add(value, 1.0, DAY);
        }
        assert!((histogram.percentile(0.5) - 0.01).abs() < 1e-12);
        let end = histogram.percentile(0.9);
        assert!(end > 0.5 && end < 0.55, "{end}");
    }

    #[test]
    fn a_sample_loses_half_its_weight_in_a_half_life() {
        let mut histogram = Histogram::cpu(days(1));
        histogram.add(0.005, 1.5, 0);
        histogram.add(5.0, 1.0, DAY);
        // 1.5 against 2: the older samples are three sevenths.
        assert!(histogram.percentile(0.42) < 1.0);
        assert!(histogram.percentile(0.44) > 1.0);
    }

    #[test]
    fn moving_the_reference_changes_no_percentile_and_forgets_the_ancient() {
        let mut histogram = Histogram::memory(days(1));
        histogram.add(1e8, 1.0, 0);
        histogram.add(1e9, 1.0, 99 * DAY);
        let before = histogram.percentile(0.9);
        histogram.add(1e9, 1.0, 101 * DAY);
        assert_eq!(histogram.percentile(0.9), before);
        assert_eq!(histogram.lowest, histogram.highest);
    }

    #[test]
    fn what_is_taken_back_is_gone() {
        let mut histogram = Histogram::memory(days(1));
        histogram.add(1e9, 1.0, DAY);
        histogram.subtract(1e9, 1.0, DAY);
        assert_eq!(histogram.percentile(1.0), 0.0);
        histogram.subtract(1e9, 1.0, DAY);
        assert_eq!(histogram.percentile(1.0), 0.0);
    }

    #[test]
    fn values_beyond_the_range_fall_into_the_last_bucket() {
        let mut histogram = Histogram::cpu(days(1));
        histogram.add(1e12, 1.0, 0);
        assert_eq!(histogram.percentile(1.0), histogram.start(BUCKETS - 1));
        assert!(histogram.percentile(1.0) > 1000.0);
    }
}
