//! Seeded arrival rates: a day's curve, bursts, and noise.
//!
//! A "day" lasts [`DAY_STEPS`] steps, two hours, so that an evaluation sees a whole one. On top of it come bursts that
//! rise within a minute and fade, a slow wander, and the counting noise of independent requests.

use std::f64::consts::TAU;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// Steps in a simulated day.
pub const DAY_STEPS: usize = 480;

/// Mean steps between the bursts of one tenant.
const BURST_EVERY: f64 = 120.0;

/// Arrival rates, in requests per second, of one tenant for so many steps of `seconds` each.
pub fn generate(mean_rate: f64, steps: usize, seconds: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
    let phase = rng.random::<f64>();
    let swing = 0.25 + 0.35 * rng.random::<f64>();
    let mut burst = Burst::default();
    let mut wander = 0.0;
    (0..steps)
        .map(|step| {
            let day = TAU * (step as f64 / DAY_STEPS as f64 + phase);
            let curve = 1.0 + swing * (day.sin() + 0.3 * (2.0 * day).sin());
            wander = 0.9 * wander + 0.04 * normal(rng);
            let rate = mean_rate * curve * f64::exp(wander) * burst.next(rng);
            // The number of independent arrivals in a step has variance equal to its mean.
            let expected = rate.max(0.0) * seconds;
            (expected + expected.sqrt() * normal(rng)).max(0.0) / seconds
        })
        .collect()
}

/// A burst multiplies the rate: it rises over a few steps, holds, and fades.
#[derive(Default)]
struct Burst {
    extra: f64,
    target: f64,
    rise: f64,
    hold: u32,
}

impl Burst {
    fn next(&mut self, rng: &mut ChaCha8Rng) -> f64 {
        let starts = rng.random::<f64>() < 1.0 / BURST_EVERY;
        if starts && self.target == 0.0 {
            self.target = 0.4 + 1.1 * rng.random::<f64>();
            self.rise = self.target / f64::from(rng.random_range(1..=4_u32));
            self.hold = rng.random_range(4..=24);
        }
        if self.target > 0.0 {
            if self.extra < self.target {
                self.extra = (self.extra + self.rise).min(self.target);
            } else if self.hold > 0 {
                self.hold -= 1;
            } else {
                self.target = 0.0;
            }
        } else {
            self.extra *= 0.7;
        }
        1.0 + self.extra
    }
}

/// A standard normal number (Box and Muller).
pub(crate) fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (TAU * rng.random::<f64>()).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn the_mean_is_near_what_was_asked_for_and_bursts_stand_out() {
        let mut means = 0.0;
        let mut highest = 0.0_f64;
        for seed in 0..40 {
            let rates = generate(20.0, 4 * DAY_STEPS, 15.0, &mut ChaCha8Rng::seed_from_u64(seed));
            means += rates.iter().sum::<f64>() / rates.len() as f64 / 40.0;
            highest = highest.max(rates.iter().copied().fold(0.0, f64::max));
            assert!(rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0));
        }
        // Bursts add to the base rate; their share is small.
        assert!((20.0..26.0).contains(&means), "{means}");
        assert!((50.0..120.0).contains(&highest), "{highest}");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let rates = |seed| generate(5.0, 200, 15.0, &mut ChaCha8Rng::seed_from_u64(seed));
        assert_eq!(rates(3), rates(3));
        assert_ne!(rates(3), rates(4));
    }

    #[test]
    fn extremes_stay_finite() {
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        for mean in [0.0, 1e-9, 1e12] {
            assert!(generate(mean, 100, 15.0, &mut rng).iter().all(|rate| rate.is_finite() && *rate >= 0.0));
        }
    }
}
