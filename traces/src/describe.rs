//! A trace in figures: how much, how unsteady, how regular, how bursty.
//!
//! The generators are calibrated on these figures, so each is defined here once and is the same for real and made
//! traces. With counts x[1..n] of intervals of T seconds and their mean m:
//!
//! | figure | what it is |
//! |---|---|
//! | peak/mean | max x / m |
//! | cv | standard deviation / m |
//! | dispersion | variance / m: 1 for independent requests at a steady rate |
//! | lag-1 | autocorrelation of neighbours |
//! | slow share | share of the variance left after means over half an hour: what wanders, not jumps |
//! | period, strength | lag of the highest later peak of the autocorrelation, and its height |
//! | daily | share of the variance explained by three harmonics of a day (traces of a day at least) |
//! | trend | slope of the straight line through whole days, in means a day (traces of two days at least) |
//! | bursts | share of intervals above twice the median of the hour around them (that median at least 1) |
//! | burst size | peak of each run of such intervals over that median: quantiles 0.5, 0.9, 0.99 |
//! | idle | share of intervals without a request |
//! | tail | Hill's exponent of the largest 5 % of \|x\[i+1\] - x\[i\]\|: below 2, the variance is that of few jumps |

mod burst;
mod cycle;
mod tail;

use serde::Serialize;

use crate::Trace;

/// Seconds of a day.
pub const DAY: f64 = 86_400.0;

/// The figures of one trace. A figure that the trace is too short or too empty for is absent.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Description {
    /// Name of the series.
    pub name: String,
    /// Number of intervals.
    pub intervals: usize,
    /// Seconds of an interval.
    pub interval: f64,
    /// All requests.
    pub total: f64,
    /// Mean requests of an interval.
    pub mean: f64,
    /// Most requests of an interval.
    pub peak: f64,
    /// Peak over mean.
    pub peak_to_mean: Option<f64>,
    /// Coefficient of variation.
    pub cv: Option<f64>,
    /// Index of dispersion.
    pub dispersion: Option<f64>,
    /// Autocorrelation of neighbours.
    pub lag1: Option<f64>,
    /// Share of the variance in half-hour means.
    pub slow_share: Option<f64>,
    /// Dominant period in seconds.
    pub period: Option<f64>,
    /// Autocorrelation at the dominant period.
    pub period_strength: Option<f64>,
    /// Share of the variance explained by a day's harmonics.
    pub daily: Option<f64>,
    /// Slope in means a day.
    pub trend: Option<f64>,
    /// Share of intervals in a burst.
    pub burst_share: f64,
    /// Size of bursts over the median around them: quantiles 0.5, 0.9 and 0.99.
    pub burst_sizes: Option<[f64; 3]>,
    /// Share of intervals without requests.
    pub idle: f64,
    /// Hill's exponent of the increments.
    pub tail: Option<f64>,
}

/// Measures one trace.
pub fn describe(trace: &Trace) -> Description {
    let x = &trace.counts;
    let n = x.len() as f64;
    let (mean, variance) = moments(x);
    let peak = x.iter().copied().fold(0.0, f64::max);
    let varied = variance > 0.0 && mean > 0.0;
    let bursts = burst::measure(x, trace.interval);
    let cycle = cycle::dominant(x, trace.interval);
    let half_hour = ((1800.0 / trace.interval).round() as usize).max(1);
    Description {
        name: trace.name.clone(),
        intervals: x.len(),
        interval: trace.interval,
        total: trace.total(),
        mean,
        peak,
        peak_to_mean: (mean > 0.0).then(|| peak / mean),
        cv: (mean > 0.0).then(|| variance.sqrt() / mean),
        dispersion: (mean > 0.0).then(|| variance / mean),
        lag1: varied.then(|| cycle::autocorrelation(x, mean, variance, 1)).filter(|_| x.len() > 2),
        slow_share: (varied && x.len() >= 4 * half_hour && half_hour > 1).then(|| {
            let means: Vec<_> =
                x.chunks_exact(half_hour).map(|chunk| chunk.iter().sum::<f64>() / half_hour as f64).collect();
            (moments(&means).1 / variance).min(1.0)
        }),
        period: cycle.map(|(period, _)| period),
        period_strength: cycle.map(|(_, strength)| strength),
        daily: cycle::daily(x, trace.interval),
        trend: trend(trace),
        burst_share: bursts.share,
        burst_sizes: bursts.sizes,
        idle: if x.is_empty() { 0.0 } else { x.iter().filter(|count| **count == 0.0).count() as f64 / n },
        tail: tail::hill(x),
    }
}

/// Measures the sum of traces of one interval, as one trace; absent where intervals differ.
pub fn describe_sum(traces: &[Trace]) -> Option<Description> {
    let first = traces.first()?;
    if traces.iter().any(|trace| trace.interval != first.interval) {
        return None;
    }
    let longest = traces.iter().map(|trace| trace.counts.len()).max()?;
    let mut counts = vec![0.0; longest];
    for trace in traces {
        for (sum, count) in counts.iter_mut().zip(&trace.counts) {
            *sum += count;
        }
    }
    Some(describe(&Trace { name: "sum".to_owned(), start: first.start, interval: first.interval, counts }))
}

/// A figure over many traces: quantiles 0.25, 0.5 and 0.75 of those that have it.
pub fn quartiles(descriptions: &[Description], figure: impl Fn(&Description) -> Option<f64>) -> Option<[f64; 3]> {
    let mut values: Vec<_> = descriptions.iter().filter_map(figure).filter(|value| value.is_finite()).collect();
    values.sort_unstable_by(f64::total_cmp);
    (!values.is_empty()).then(|| [0.25, 0.5, 0.75].map(|share| quantile(&values, share)))
}

/// A quantile of sorted values, on a line between neighbours.
pub(crate) fn quantile(sorted: &[f64], share: f64) -> f64 {
    let Some(last) = sorted.len().checked_sub(1) else { return f64::NAN };
    let place = share.clamp(0.0, 1.0) * last as f64;
    let (below, above) = (sorted[place.floor() as usize], sorted[place.ceil() as usize]);
    below + (above - below) * place.fract()
}

/// Mean and variance.
fn moments(x: &[f64]) -> (f64, f64) {
    if x.is_empty() {
        return (0.0, 0.0);
    }
    let n = x.len() as f64;
    let mean = x.iter().sum::<f64>() / n;
    (mean, x.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n)
}

/// Slope of the least-squares line through whole days, in means a day; the time of day must not pass for a trend.
fn trend(trace: &Trace) -> Option<f64> {
    let days = trace.coarser((DAY / trace.interval).round() as usize).counts;
    let (mean, _) = moments(&days);
    if days.len() < 2 || mean <= 0.0 || trace.interval > DAY {
        return None;
    }
    let middle = (days.len() as f64 - 1.0) / 2.0;
    let (up, down) = days.iter().enumerate().fold((0.0, 0.0), |(up, down), (day, requests)| {
        let from = day as f64 - middle;
        (up + from * (requests - mean), down + from * from)
    });
    Some(up / down / mean)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::f64::consts::TAU;

    fn trace(interval: f64, counts: Vec<f64>) -> Trace {
        Trace::new("a", None, interval, counts).unwrap()
    }

    #[test]
    fn figures_of_a_daily_wave_with_a_trend() {
        let wave = |step: usize| 100.0 + step as f64 / 288.0 + 50.0 * (TAU * step as f64 / 288.0).sin();
        let found = describe(&trace(300.0, (0..288 * 14).map(wave).collect()));
        assert!((found.mean - 107.0).abs() < 0.1, "{found:?}");
        // The variance of the wave is half its squared height; the trend adds 14² / 12.
        assert!((found.cv.unwrap() - (1250.0_f64 + 16.3).sqrt() / 107.0).abs() < 0.01, "{found:?}");
        assert!((found.period.unwrap() / DAY - 1.0).abs() < 0.02, "{found:?}");
        assert!(found.period_strength.unwrap() > 0.9 && found.daily.unwrap() > 0.97, "{found:?}");
        assert!((found.trend.unwrap() - 1.0 / 107.0).abs() < 0.002, "{found:?}");
        assert!(found.lag1.unwrap() > 0.99 && found.slow_share.unwrap() > 0.99, "{found:?}");
        assert_eq!((found.burst_share, found.burst_sizes, found.idle), (0.0, None, 0.0));
    }

    #[test]
    fn empty_idle_and_constant_traces_have_figures_or_none() {
        for counts in [vec![], vec![0.0; 100], vec![5.0], vec![5.0; 100]] {
            let found = describe(&trace(60.0, counts));
            assert_eq!((found.lag1, found.period, found.tail), (None, None, None));
            assert!(serde_json::to_string(&found).is_ok());
        }
    }

    #[test]
    fn the_sum_of_traces_is_described_as_one() {
        let traces = [trace(60.0, vec![1.0, 2.0, 3.0]), trace(60.0, vec![1.0])];
        let sum = describe_sum(&traces).unwrap();
        assert_eq!((sum.total, sum.peak, sum.intervals), (7.0, 3.0, 3));
        assert_eq!(describe_sum(&[trace(60.0, vec![1.0]), trace(30.0, vec![1.0])]), None);
        let all: Vec<_> = traces.iter().map(describe).collect();
        assert_eq!(quartiles(&all, |one| Some(one.mean)), Some([1.25, 1.5, 1.75]));
    }
}
