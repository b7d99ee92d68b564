//! What repeats: autocorrelation, the dominant period, and how much of a trace the time of day explains.

use std::f64::consts::TAU;

use super::{DAY, moments};

/// Longer traces are summed into so many bins at most, which bounds the work of looking for a period.
const MOST_BINS: usize = 3000;

/// A peak of the autocorrelation below this is chance.
const LEAST_STRENGTH: f64 = 0.1;

/// Autocorrelation at a lag, over all of the series (so that it falls towards long lags).
pub fn autocorrelation(x: &[f64], mean: f64, variance: f64, lag: usize) -> f64 {
    let products = x.iter().zip(x.get(lag..).unwrap_or_default()).map(|(a, b)| (a - mean) * (b - mean));
    products.sum::<f64>() / (variance * x.len() as f64)
}

/// The period in seconds at the highest peak of the autocorrelation beyond its first descent, and its height.
///
/// Lags reach half of the trace: a period must have been seen twice.
pub fn dominant(x: &[f64], interval: f64) -> Option<(f64, f64)> {
    let width = x.len().div_ceil(MOST_BINS).max(1);
    let bins: Vec<f64> = x.chunks_exact(width).map(|chunk| chunk.iter().sum()).collect();
    let (mean, variance) = moments(&bins);
    if bins.len() < 8 || variance <= 0.0 {
        return None;
    }
    let at: Vec<_> = (0..=bins.len() / 2).map(|lag| autocorrelation(&bins, mean, variance, lag)).collect();
    // Whatever is smooth resembles itself a moment later; that is no period.
    let descent = at.iter().position(|value| *value <= LEAST_STRENGTH)?;
    let peaks = (descent.max(1)..at.len() - 1).filter(|lag| at[*lag] >= at[lag - 1] && at[*lag] >= at[lag + 1]);
    let best = peaks.max_by(|a, b| at[*a].total_cmp(&at[*b]))?;
    (at[best] > LEAST_STRENGTH).then(|| (best as f64 * width as f64 * interval, at[best]))
}

/// The share of the variance that three harmonics of a day explain, after the mean.
///
/// Over whole days the harmonics are orthogonal, so each is projected on its own; the rest of a day is left out.
pub fn daily(x: &[f64], interval: f64) -> Option<f64> {
    let per_day = DAY / interval;
    let days = (x.len() as f64 / per_day + 1e-9).floor();
    if days < 1.0 || per_day < 8.0 {
        return None;
    }
    let x = &x[..((days * per_day) as usize).min(x.len())];
    let (mean, variance) = moments(x);
    if variance <= 0.0 {
        return None;
    }
    let n = x.len() as f64;
    let explained = (1..=3).map(|harmonic| {
        let angle = TAU * f64::from(harmonic) / per_day;
        let (sin, cos) = x.iter().enumerate().fold((0.0, 0.0), |(sin, cos), (index, x)| {
            let (s, c) = (angle * index as f64).sin_cos();
            (sin + s * (x - mean), cos + c * (x - mean))
        });
        2.0 * (sin * sin + cos * cos) / (n * n)
    });
    Some((explained.sum::<f64>() / variance).min(1.0))
}
