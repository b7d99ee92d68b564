//! Bursts: they start at random, rise, hold and fade.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::normal;

/// The law of a burst's size: what it adds, in multiples of the rate before it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Size {
    /// Between two bounds.
    Uniform {
        /// The smallest.
        low: f64,
        /// The largest.
        high: f64,
    },
    /// A lognormal law.
    Lognormal {
        /// The median.
        median: f64,
        /// Standard deviation of the logarithm.
        deviation: f64,
    },
    /// A power law, cut off.
    Pareto {
        /// The smallest.
        least: f64,
        /// The exponent: the smaller, the heavier the tail.
        exponent: f64,
        /// The largest.
        most: f64,
    },
}

impl Size {
    pub(super) fn draw(self, rng: &mut ChaCha8Rng) -> f64 {
        match self {
            Self::Uniform { low, high } => low + (high - low) * rng.random::<f64>(),
            Self::Lognormal { median, deviation } => median * (deviation * normal(rng)).exp(),
            Self::Pareto { least, exponent, most } => {
                (least * (1.0 - rng.random::<f64>()).powf(-1.0 / exponent.max(1e-3))).min(most)
            }
        }
    }
}

/// Bursts of one kind.
#[derive(Debug, Clone, PartialEq)]
pub struct Bursts {
    /// Mean seconds between starts; one that would start within another does not.
    pub every: f64,
    /// What a burst adds.
    pub size: Size,
    /// Longest rise in seconds; a rise takes up to it, at random.
    pub rise: f64,
    /// Shortest and longest hold in seconds.
    pub hold: (f64, f64),
    /// Seconds after which a burst has faded to 1/e.
    pub fade: f64,
}

/// Where a burst is.
#[derive(Default)]
pub(super) struct Bursting {
    extra: f64,
    target: f64,
    rise: f64,
    hold: u32,
}

impl Bursts {
    pub(super) fn next(&self, now: &mut Bursting, step: f64, rng: &mut ChaCha8Rng) -> f64 {
        let steps = |seconds: f64| (seconds / step).round().clamp(0.0, 1e9) as u32;
        let starts = rng.random::<f64>() < step / self.every;
        if starts && now.target == 0.0 {
            now.target = self.size.draw(rng);
            now.rise = now.target / f64::from(rng.random_range(1..=steps(self.rise).max(1)));
            let (short, long) = (steps(self.hold.0), steps(self.hold.1));
            now.hold = rng.random_range(short..=long.max(short));
        }
        if now.target > 0.0 {
            if now.extra < now.target {
                now.extra = (now.extra + now.rise).min(now.target);
            } else if now.hold > 0 {
                now.hold -= 1;
            } else {
                now.target = 0.0;
            }
        } else {
            now.extra *= (-step / self.fade.max(1e-9)).exp();
        }
        now.extra
    }
}
