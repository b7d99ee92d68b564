//! Slow and fast wander of the rate's logarithm, and switching between on and off.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::normal;

/// A first-order autoregression of the rate's logarithm: its marginal law is lognormal.
#[derive(Debug, Clone, PartialEq)]
pub struct Wander {
    /// Standard deviation of the logarithm in the long run.
    pub deviation: f64,
    /// Seconds after which a deviation has faded to 1/e.
    pub seconds: f64,
    /// Whether it begins in its long-run law, and not at the mean.
    pub settled: bool,
}

/// A wander on its way.
pub(super) struct Wandering {
    level: f64,
    keep: f64,
    push: f64,
}

impl Wander {
    pub(super) fn start(&self, step: f64, rng: &mut ChaCha8Rng) -> Wandering {
        let keep = (-step / self.seconds.max(1e-9)).exp();
        let level = if self.settled { self.deviation * normal(rng) } else { 0.0 };
        Wandering { level, keep, push: self.deviation * (1.0 - keep * keep).sqrt() }
    }
}

impl Wandering {
    pub(super) fn next(&mut self, rng: &mut ChaCha8Rng) -> f64 {
        self.level = self.keep * self.level + self.push * normal(rng);
        self.level
    }
}

/// On and off for exponential times, as rare functions are.
#[derive(Debug, Clone, PartialEq)]
pub struct Switching {
    /// Mean seconds on.
    pub on: f64,
    /// Mean seconds off.
    pub off: f64,
    /// The rate while off, as a share of the rate while on.
    pub rest: f64,
}

impl Switching {
    /// Whether it begins on.
    pub(super) fn start(&self, rng: &mut ChaCha8Rng) -> bool {
        rng.random::<f64>() * (self.on + self.off) < self.on
    }

    pub(super) fn next(&self, on: &mut bool, step: f64, rng: &mut ChaCha8Rng) -> f64 {
        let (level, mean) = if *on { (1.0, self.on) } else { (self.rest, self.off) };
        if rng.random::<f64>() >= (-step / mean.max(1e-9)).exp() {
            *on = !*on;
        }
        level
    }
}
