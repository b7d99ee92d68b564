//! A latency as a distribution: its percentiles and tails.

use super::normal_tail;

/// The z-score of the 99th percentile.
pub(super) const Z99: f64 = 2.326_347_874_040_841;

/// The latency of requests: something lognormal, and a constant.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Latency {
    /// Mean of the part that varies.
    pub(super) mean: f64,
    /// Its squared coefficient of variation.
    pub(super) variability: f64,
    pub(super) constant: f64,
}

impl Latency {
    /// Everything takes exactly so long.
    #[must_use]
    pub fn constant(seconds: f64) -> Self {
        Self { mean: 0.0, variability: 0.0, constant: seconds }
    }

    /// Mean seconds.
    #[must_use]
    pub fn mean(&self) -> f64 {
        self.mean + self.constant
    }

    /// What percentiles and tails are computed from; for more than one of them, ask for it once.
    #[must_use]
    pub fn shape(&self) -> Shape {
        // The median of something lognormal is its mean over sqrt(1 + v): e^(-spread^2 / 2).
        let median = self.mean / (1.0 + self.variability).sqrt();
        Shape { constant: self.constant, median, spread: self.variability.ln_1p().sqrt() }
    }

    /// Standard deviation of the logarithm of the part that varies.
    #[must_use]
    pub fn spread(&self) -> f64 {
        self.shape().spread()
    }

    /// Median and 99th percentile in seconds.
    #[must_use]
    pub fn percentiles(&self) -> [f64; 2] {
        self.shape().percentiles()
    }

    /// The share of requests that take longer than `seconds`.
    #[must_use]
    pub fn beyond(&self, seconds: f64) -> f64 {
        self.shape().beyond(seconds)
    }

    /// The same, so many times slower in the part that varies.
    #[must_use]
    pub fn slower(&self, times: f64) -> Self {
        Self { mean: self.mean * times, ..*self }
    }

    /// The same, later by so much.
    #[must_use]
    pub fn later(&self, seconds: f64) -> Self {
        Self { constant: self.constant + seconds, ..*self }
    }

    /// A mixture, given as (weight, latency): mean and variance are those of the mixture, the form stays lognormal.
    #[must_use]
    pub fn mixture(parts: &[(f64, Self)]) -> Self {
        let (mut weight, mut mean, mut constant) = (0.0, 0.0, f64::INFINITY);
        for (share, part) in parts {
            weight += share;
            mean += share * part.mean();
            constant = constant.min(part.constant);
        }
        let shift = |mean: f64| mean - constant;
        let mean = shift(mean / weight.max(f64::MIN_POSITIVE));
        if mean <= 0.0 || mean.is_nan() {
            return Self::constant(if constant.is_finite() { constant } else { 0.0 });
        }
        let square = parts
            .iter()
            .map(|(weight, part)| {
                let own = shift(part.mean());
                weight * (own * own + part.mean * part.mean * part.variability)
            })
            .sum::<f64>()
            / weight.max(f64::MIN_POSITIVE);
        Self { mean, variability: (square / (mean * mean) - 1.0).max(0.0), constant }
    }
}

/// A latency as its logarithm sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shape {
    constant: f64,
    /// Median of the part that varies.
    median: f64,
    /// Standard deviation of that part's logarithm.
    spread: f64,
}

impl Shape {
    /// Standard deviation of the logarithm of the part that varies.
    #[must_use]
    pub fn spread(&self) -> f64 {
        self.spread
    }

    /// Median and 99th percentile in seconds.
    #[must_use]
    pub fn percentiles(&self) -> [f64; 2] {
        [self.constant + self.median, self.constant + self.median * (Z99 * self.spread).exp()]
    }

    /// The share of requests that take longer than `seconds`.
    #[must_use]
    pub fn beyond(&self, seconds: f64) -> f64 {
        let rest = seconds - self.constant;
        if rest <= 0.0 || self.median <= 0.0 {
            return if rest < 0.0 || self.median > 0.0 { 1.0 } else { 0.0 };
        }
        if self.spread <= 1e-6 {
            return if rest < self.median { 1.0 } else { 0.0 };
        }
        normal_tail((rest / self.median).ln() / self.spread)
    }
}
