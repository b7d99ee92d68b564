//! From a history to amounts: a percentile, a safety margin, and bounds that widen while little is known.

use std::time::Duration;

use super::{History, Options, Recommendation, nanos};
use meanfield_common::resources::{Bytes, MilliCores, Resources};

/// The most of any resource, in millicores or bytes.
const MOST: i64 = 100_000_000_000_000;

/// Which share of the samples the lower bound, the target and the upper bound cover.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Percentiles {
    /// Below this an update is due.
    pub lower: f64,
    /// What is recommended.
    pub target: f64,
    /// Above this an update is due.
    pub upper: f64,
}

/// A whole amount of a resource, rounded down.
pub(super) fn amount(of: f64) -> i64 {
    // The bound is a whole number that a float holds, and NaN becomes 0.
    of.clamp(0.0, MOST as f64) as i64
}

/// What the history recommends, before the policy's bounds.
pub(super) fn estimate(options: &Options, history: &History) -> Recommendation {
    let share = 1.0 / f64::from(options.containers);
    let least_cpu = amount(amount(options.pod_min.cpu.0 as f64 * 0.001 * 1000.0) as f64 * share);
    let least_memory = amount(amount(options.pod_min.memory.0 as f64) as f64 * share);

    let cpu_confidence = confidence(history, options.cpu_confidence_interval);
    let memory_confidence = confidence(history, options.memory_confidence_interval);
    let at = |cpu: f64, memory: f64, widen: &dyn Fn(i64, f64) -> i64| {
        let cpu = margin(amount(history.cpu_use.percentile(cpu) * 1000.0), options.margin);
        let memory = margin(amount(history.memory_peaks.percentile(memory)), options.margin);
        Resources {
            cpu: MilliCores(round_up(widen(cpu, cpu_confidence).max(least_cpu), options.round_cpu.0)),
            memory: Bytes(round_up(widen(memory, memory_confidence).max(least_memory), options.round_memory.0)),
        }
    };
    let (cpu, memory) = (options.cpu_percentiles, options.memory_percentiles);
    Recommendation {
        lower: at(cpu.lower, memory.lower, &|base, confidence| {
            amount(base as f64 * crate::elementary::pow(1.0 + 0.001 / confidence, -2))
        }),
        target: at(cpu.target, memory.target, &|base, _| base),
        upper: at(cpu.upper, memory.upper, &|base, confidence| amount(base as f64 * (1.0 + 1.0 / confidence))),
    }
}

fn margin(base: i64, fraction: f64) -> i64 {
    base.saturating_add(amount(base as f64 * fraction))
}

/// How much is known, in intervals: the lesser of how long CPU was sampled and of how often, at one sample a minute.
fn confidence(history: &History, interval: Duration) -> f64 {
    const MINUTE: i64 = 60_000_000_000;
    let interval = nanos(interval);
    let span = history.samples.map_or(0, |(first, last)| last.saturating_sub(first));
    let minutes = (interval / MINUTE) as f64 + (interval % MINUTE) as f64 / MINUTE as f64;
    (span as f64 / interval as f64).min(history.count as f64 / minutes)
}

fn round_up(value: i64, multiple: u64) -> u64 {
    let value = value.max(0) as u64;
    if multiple <= 1 { value } else { ((value as f64 / multiple as f64).ceil() as u64).saturating_mul(multiple) }
}
