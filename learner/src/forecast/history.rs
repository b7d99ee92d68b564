//! What the network sees of a load's past: logarithms relative to the load's own level, and what was a period ago.

use std::collections::VecDeque;

/// Numbers that describe a history.
pub const FEATURES: usize = 28;

/// Steps that are remembered: twelve hours of 15 s.
pub const REMEMBERED: usize = 2880;

/// The newest steps, one feature each.
const NEWEST: usize = 12;
/// Windows over which mean and maximum are shown.
const WINDOWS: [usize; 3] = [20, 60, 240];
/// How fast the level follows: half of a change in about ten steps.
const FOLLOW: f64 = 0.07;
/// A period is looked for in means of so many steps, every so many steps, and not below so many means.
const GRAIN: usize = 8;
const SEARCH_EVERY: usize = 120;
const LEAST_PERIOD: usize = 15;
/// The autocorrelation from which a period counts.
const PERIODIC: f64 = 0.3;
/// The part of the highest autocorrelation that counts as nearly as high.
const NEARLY: f64 = 0.9;
/// Features stay within this: a load from nothing is no reason for infinite numbers.
const FARTHEST: f64 = 6.0;

/// A load's past.
#[derive(Debug, Clone, Default)]
pub struct History {
    rates: VecDeque<f64>,
    level: Option<f64>,
    /// Length of a step in seconds.
    seconds: f64,
    /// The period in steps and its autocorrelation, when there is one.
    period: Option<(usize, f64)>,
    seen: usize,
}

impl History {
    /// Takes in the rate of a step; what is not a rate counts as none.
    pub fn push(&mut self, rate: f64, seconds: f64) {
        let rate = if rate.is_finite() { rate.max(0.0) } else { 0.0 };
        self.seconds = if seconds.is_finite() && seconds > 0.0 { seconds } else { 15.0 };
        if self.rates.len() >= REMEMBERED {
            self.rates.pop_front();
        }
        self.rates.push_back(rate);
        let level = self.level.get_or_insert(rate);
        *level += FOLLOW * (rate - *level);
        self.seen += 1;
        if self.seen.is_multiple_of(SEARCH_EVERY) {
            self.period = self.find_period();
        }
    }

    /// Steps that are remembered now.
    #[must_use]
    pub fn len(&self) -> usize {
        self.rates.len()
    }

    /// Whether nothing was seen yet.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.rates.is_empty()
    }

    /// The period in steps, when there is one.
    #[must_use]
    pub fn period(&self) -> Option<usize> {
        self.period.map(|(period, _)| period)
    }

    /// A rate as the network sees it: ln of it over the level, with one request a step as the least of both.
    #[must_use]
    pub fn relative(&self, rate: f64) -> f32 {
        let least = self.least();
        (((rate + least) / (self.level.unwrap_or(0.0) + least)).ln()).clamp(-FARTHEST, FARTHEST) as f32
    }

    /// The rate behind what the network says.
    #[must_use]
    pub fn rate(&self, relative: f32) -> f64 {
        let least = self.least();
        ((self.level.unwrap_or(0.0) + least) * f64::from(relative).clamp(-2.0 * FARTHEST, 2.0 * FARTHEST).exp() - least)
            .max(0.0)
    }

    fn least(&self) -> f64 {
        1.0 / self.seconds.max(1e-9)
    }

    /// The rate so many steps ago; the oldest where that is not known.
    fn ago(&self, steps: usize) -> f64 {
        let last = self.rates.len().saturating_sub(1);
        self.rates.get(last.saturating_sub(steps)).copied().unwrap_or(0.0)
    }

    /// What the network sees.
    #[must_use]
    pub fn features(&self) -> [f32; FEATURES] {
        let mut features = [0.0; FEATURES];
        let (newest, rest) = features.split_at_mut(NEWEST);
        for (steps, feature) in newest.iter_mut().enumerate() {
            *feature = self.relative(self.ago(steps));
        }
        let (windows, rest) = rest.split_at_mut(2 * WINDOWS.len());
        for (pair, window) in windows.chunks_exact_mut(2).zip(WINDOWS) {
            let recent = || self.rates.iter().rev().take(window);
            let mean = recent().sum::<f64>() / recent().count().max(1) as f64;
            pair[0] = self.relative(mean);
            pair[1] = self.relative(recent().copied().fold(0.0, f64::max));
        }
        let noise = 1.0 / (1.0 + self.level.unwrap_or(0.0) * self.seconds).sqrt();
        let (restless, rest) = rest.split_at_mut(4);
        restless.copy_from_slice(&[
            self.restlessness(20),
            self.restlessness(120),
            noise as f32,
            (self.rates.len() as f32 / REMEMBERED as f32).min(1.0),
        ]);
        if let Some((period, strength)) = self.period {
            // One period ago the next step was `period - 1` steps ago.
            let then = |from: usize, to: usize| {
                (from..=to).map(|ahead| self.ago(period.saturating_sub(ahead))).fold(0.0, f64::max)
            };
            let level = (0..20).map(|steps| self.ago(period + steps)).sum::<f64>() / 20.0;
            rest.copy_from_slice(&[
                self.relative(then(1, 1)),
                self.relative(then(1, 2)),
                self.relative(then(1, 5)),
                self.relative(then(1, 20)),
                self.relative(level),
                strength as f32,
            ]);
        }
        features
    }

    /// Root mean square of the steps of the logarithm, over the newest steps.
    fn restlessness(&self, window: usize) -> f32 {
        let least = self.least();
        let count = window.min(self.rates.len().saturating_sub(1));
        let square: f64 =
            (0..count).map(|steps| ((self.ago(steps) + least) / (self.ago(steps + 1) + least)).ln().powi(2)).sum();
        (square / count.max(1) as f64).sqrt().min(FARTHEST) as f32
    }

    /// The first lag with about the highest autocorrelation, of those that are higher than their neighbours.
    fn find_period(&self) -> Option<(usize, f64)> {
        let means: Vec<f64> = self
            .rates
            .iter()
            .copied()
            .collect::<Vec<_>>()
            .chunks_exact(GRAIN)
            .map(|chunk| (chunk.iter().sum::<f64>() / GRAIN as f64).ln_1p())
            .collect();
        let count = means.len();
        let mean = means.iter().sum::<f64>() / count.max(1) as f64;
        let off: Vec<f64> = means.iter().map(|value| value - mean).collect();
        let variance: f64 = off.iter().map(|value| value * value).sum();
        if variance <= 0.0 || count < 4 * LEAST_PERIOD {
            return None;
        }
        let correlation = |lag: usize| {
            let shared: f64 = off[lag..].iter().zip(&off).map(|(a, b)| a * b).sum();
            // As many terms as the variance has, or long lags would look weak.
            shared / variance * count as f64 / (count - lag) as f64
        };
        let lags: Vec<f64> = (LEAST_PERIOD - 1..=count / 2 + 1).map(correlation).collect();
        let peaks = lags.windows(3).enumerate().filter(|(_, three)| three[1] >= three[0] && three[1] >= three[2]);
        let peaks: Vec<(usize, f64)> = peaks.map(|(at, three)| (at, three[1])).collect();
        let highest = peaks.iter().map(|(_, strength)| *strength).reduce(f64::max)?;
        // What repeats after one period repeats after two: the first that is nearly as high is the period.
        let (at, strength) = peaks.into_iter().find(|(_, strength)| *strength >= NEARLY * highest)?;
        (strength >= PERIODIC).then_some(((at + LEAST_PERIOD) * GRAIN, strength.min(1.0)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{RngExt, SeedableRng};
    use rand_chacha::ChaCha8Rng;

    fn after(steps: usize, rate: impl Fn(usize) -> f64) -> History {
        let mut history = History::default();
        (0..steps).for_each(|step| history.push(rate(step), 15.0));
        history
    }

    #[test]
    fn nothing_that_the_network_sees_has_a_scale() {
        let wave = |step: usize| 100.0 + 60.0 * (step as f64 / 40.0).sin();
        let small = after(600, |step| 1000.0 * wave(step)).features();
        let large = after(600, |step| 4000.0 * wave(step)).features();
        for (a, b) in small.iter().zip(large) {
            assert!((a - b).abs() < 0.01, "{small:?} {large:?}");
        }
    }

    #[test]
    fn a_period_is_found_to_the_grain_and_none_in_noise() {
        let history = after(2880, |step| 50.0 + 30.0 * (std::f64::consts::TAU * step as f64 / 480.0).sin());
        assert!(history.period().is_some_and(|period| period.abs_diff(480) <= GRAIN), "{:?}", history.period());
        let mut rng = ChaCha8Rng::seed_from_u64(1);
        let rates: Vec<f64> = (0..2880).map(|_| 50.0 + 20.0 * rng.random::<f64>()).collect();
        let noise = after(2880, |step| rates[step]);
        assert_eq!(noise.period(), None);
    }

    #[test]
    fn a_rate_survives_the_way_there_and_back() {
        let history = after(100, |_| 20.0);
        for rate in [0.0, 1.0, 20.0, 300.0] {
            assert!((history.rate(history.relative(rate)) - rate).abs() < 1e-3 * (1.0 + rate));
        }
    }

    #[test]
    fn no_input_gives_a_number_that_is_none() {
        let mut history = History::default();
        assert!(history.features().iter().all(|feature| feature.is_finite()));
        for rate in [f64::NAN, f64::INFINITY, -1.0, 1e300, 0.0] {
            history.push(rate, rate);
            assert!(history.features().iter().all(|feature| feature.is_finite()), "{rate}");
        }
    }
}
