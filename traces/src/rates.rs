//! Counts per minute as rates over shorter steps.
//!
//! A count says how many requests came within its interval, not when. Holding its mean for the whole interval would
//! show whoever looks at the steps where each interval begins, and would take out the noise of single requests. So the
//! requests are scattered at random over their own interval, more of them towards the busier neighbour:
//!
//! ```text
//! density of interval i at u in [0, 1]:   f(u) = 1 + s (u - 1/2),   s = d / n[i],   |s| <= 2
//! d = 0                                                 where n[i] is a local extreme, otherwise
//! d = sign * min(|n[i+1] - n[i-1]| / 2, 2 |n[i] - n[i-1]|, 2 |n[i+1] - n[i]|, 2 n[i])
//! share of the interval before u:         F(u) = u + s (u² - u) / 2,   F(0) = 0, F(1) = 1
//! requests of the piece [a, b]:           multinomial(n[i]; F(b) - F(a), ...)
//! ```
//!
//! The slope is van Leer's limited central difference, so that a line never leaves the range of its neighbours and
//! never goes below zero. F(1) = 1, so an interval keeps all its requests: a whole count exactly, and the broken part
//! of a count as one request more with that probability, that is, exactly in expectation.
//!
//! Steps do not begin where intervals begin: the series is turned by a random part of an interval (what falls off the
//! front is put at the end), so that the places of the edges tell nothing about the phase.

use meanfield_common::invalid::{Invalid, within};
use rand::{RngExt, SeedableRng, distr::Distribution};
use rand_chacha::ChaCha8Rng;
use rand_distr::Binomial;

use crate::trace::{LONGEST, Trace};

impl Trace {
    /// Arrival rates in requests a second, for steps of `step_seconds` over the length of the trace.
    ///
    /// The method is the one of [this module](crate::rates); it also works for steps longer than an interval. A last
    /// step that reaches beyond the end is left out, with the requests in it.
    pub fn rates(&self, step_seconds: f64, seed: u64) -> Result<Vec<f64>, Invalid> {
        within("step_seconds", step_seconds, 1e-3, 1e9)?;
        let length = self.seconds();
        let steps = (length / step_seconds + 1e-9).floor();
        within("steps", steps, 0.0, LONGEST as f64)?;
        let mut requests = vec![0.0; steps as usize];
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let phase = rng.random::<f64>() * self.interval;
        for (index, count) in self.counts.iter().enumerate() {
            let whole = count.floor() + f64::from(u8::from(rng.random::<f64>() < count.fract()));
            let slope = slope(&self.counts, index);
            let begin = index as f64 * self.interval - phase;
            scatter(whole as u64, begin, self.interval, step_seconds, slope, &mut rng, |time, part| {
                let time = if time < 0.0 { time + length } else { time };
                if let Some(step) = requests.get_mut((time / step_seconds) as usize) {
                    *step += part as f64;
                }
            });
        }
        for step in &mut requests {
            *step /= step_seconds;
        }
        Ok(requests)
    }
}

/// How steeply the density of an interval rises, relative to its count.
fn slope(counts: &[f64], index: usize) -> f64 {
    let here = counts[index];
    let before = if index == 0 { here } else { counts[index - 1] };
    let after = counts.get(index + 1).copied().unwrap_or(here);
    let (rise, next) = (here - before, after - here);
    // At both ends of a trace one neighbour is missing, and the line stays level.
    if here <= 0.0 || rise * next <= 0.0 {
        return 0.0;
    }
    let steepest = (0.5 * (after - before).abs()).min(2.0 * rise.abs()).min(2.0 * next.abs()).min(2.0 * here);
    steepest.copysign(rise) / here
}

/// Distributes `requests` of an interval over the pieces that the edges of steps cut it into.
fn scatter(
    mut requests: u64,
    begin: f64,
    interval: f64,
    step: f64,
    slope: f64,
    rng: &mut ChaCha8Rng,
    mut put: impl FnMut(f64, u64),
) {
    let share_before = |u: f64| u + 0.5 * slope * (u * u - u);
    // Time zero is an edge too: what lies before it is put at the end.
    let mut edge = (begin / step).floor();
    let (mut u, mut done) = (0.0, 0.0);
    while requests > 0 {
        edge += 1.0;
        let end = ((edge * step - begin) / interval).min(1.0);
        if end <= u {
            continue;
        }
        let share = if end < 1.0 { share_before(end) - done } else { 1.0 - done };
        // What is left goes on conditionally: a chain of binomials is a multinomial.
        let chance = if end < 1.0 { (share / (1.0 - done)).clamp(0.0, 1.0) } else { 1.0 };
        let part = Binomial::new(requests, chance).map_or(requests, |binomial| binomial.sample(rng)).min(requests);
        if part > 0 {
            put(begin + 0.5 * (u + end) * interval, part);
        }
        requests -= part;
        (u, done) = (end, done + share);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn trace(counts: Vec<f64>) -> Trace {
        Trace::new("a", None, 60.0, counts).unwrap()
    }

    proptest! {
        #[test]
        fn no_request_is_lost_or_made(
            counts in prop::collection::vec(0_u32..5000, 1..40),
            step in prop::sample::select(vec![1.0, 7.5, 15.0, 20.0, 60.0]),
            seed in any::<u64>(),
        ) {
            let trace = trace(counts.into_iter().map(f64::from).collect());
            let rates = trace.rates(step, seed).unwrap();
            prop_assert_eq!(rates.len(), (trace.seconds() / step) as usize);
            let total: f64 = rates.iter().map(|rate| rate * step).sum();
            prop_assert!((total - trace.total()).abs() < 1e-6 * trace.total().max(1.0), "{total} {}", trace.total());
            prop_assert!(rates.iter().all(|rate| *rate >= 0.0));
        }

        #[test]
        fn slopes_stay_between_the_neighbours(before in 0.0..100.0, here in 0.0..100.0, after in 0.0..100.0) {
            let counts = [before, here, after];
            let slope = slope(&counts, 1);
            prop_assert!(slope.abs() <= 2.0);
            let (low, high) = (here * (1.0 - slope / 2.0), here * (1.0 + slope / 2.0));
            let (least, most) = (counts.iter().copied().fold(f64::MAX, f64::min), counts.iter().copied().fold(0.0, f64::max));
            prop_assert!(low.min(high) >= least - 1e-9 && low.max(high) <= most + 1e-9, "{low} {high} {counts:?}");
        }
    }

    /// With long steps no scattering can hide where each minute's requests went.
    #[test]
    fn every_minute_keeps_its_requests() {
        let counts = vec![100.0, 3.0, 0.0, 70.0];
        let trace = trace(counts.clone());
        for seed in 0..20 {
            let rates = trace.rates(0.01, seed).unwrap();
            let phase = ChaCha8Rng::seed_from_u64(seed).random::<f64>() * 60.0;
            let mut seen = vec![0.0; 4];
            for (step, rate) in rates.iter().enumerate() {
                let time = (step as f64 * 0.01 + 0.005 + phase).rem_euclid(240.0);
                // Steps that straddle a minute's edge belong to both.
                if (time % 60.0 - 30.0).abs() < 29.99 {
                    seen[(time / 60.0) as usize] += rate * 0.01;
                }
            }
            let lost: f64 = counts.iter().zip(&seen).map(|(count, seen)| (count - seen).abs()).sum();
            assert!(lost <= 3.0, "{seen:?}");
        }
    }

    #[test]
    fn broken_counts_are_right_in_the_mean() {
        let trace = trace(vec![2.25; 10]);
        let mean =
            (0..4000).map(|seed| trace.rates(15.0, seed).unwrap().iter().sum::<f64>() * 15.0).sum::<f64>() / 4000.0;
        // Ten counts with a variance of 3/16 each: the standard error is 0.022.
        assert!((mean - 22.5).abs() < 0.09, "{mean}");
    }

    #[test]
    fn more_requests_come_near_the_busier_neighbour_and_edges_tell_nothing() {
        let rising = trace((0..100).map(|minute| 100.0 * f64::from(minute)).collect());
        let mut quarters = [0.0; 4];
        let flat = trace(vec![1000.0; 400]);
        for seed in 0..50 {
            for (step, rate) in flat.rates(15.0, seed).unwrap().into_iter().enumerate() {
                quarters[step % 4] += rate / 50.0;
            }
        }
        let mean = quarters.iter().sum::<f64>() / 4.0;
        assert!(quarters.iter().all(|quarter| (quarter / mean - 1.0).abs() < 0.005), "{quarters:?}");
        let rates = rising.rates(15.0, 1).unwrap();
        let steps_up = rates.windows(2).skip(200).take(150).filter(|pair| pair[1] > pair[0]).count();
        // Held rates would rise at one edge of four; a slope rises, but for noise, at most of them.
        assert!(steps_up > 80, "{steps_up}");
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes() {
        let trace = trace((0..50).map(f64::from).collect());
        assert_eq!(trace.rates(15.0, 3).unwrap(), trace.rates(15.0, 3).unwrap());
        assert_ne!(trace.rates(15.0, 3).unwrap(), trace.rates(15.0, 4).unwrap());
        assert!(trace.rates(0.0, 1).is_err() && trace.rates(f64::NAN, 1).is_err());
    }
}
