//! Open-loop load: when each request is due, and how late its answer was.
//!
//! The times are planned before anything is sent, and a latency counts from the planned time. A server that stalls is
//! then charged for every request that should have been sent meanwhile, and not only for the one that it was busy with
//! (coordinated omission).

use std::{
    io,
    time::{Duration, Instant},
};

use hdrhistogram::Histogram;
use serde::Serialize;
use tokio::{task::yield_now, time};

/// Requests at even distances.
#[derive(Debug, Clone, Copy)]
pub struct Pace {
    /// Seconds from one request to the next; as a float, so that a million of them are not off by a rounding.
    interval: f64,
}

impl Pace {
    /// So many requests a second.
    #[must_use]
    pub fn per_second(rate: f64) -> Self {
        Self { interval: 1.0 / rate.max(1e-9) }
    }

    /// When the `number`-th request is due, from the start.
    #[must_use]
    pub fn due(&self, number: u64) -> Duration {
        Duration::from_secs_f64(self.interval * number as f64)
    }
}

/// Waits for a moment to the microsecond: timers are good to a millisecond only, so the rest is waited for actively.
pub async fn until(moment: Instant) {
    const COARSE: Duration = Duration::from_millis(2);
    if let Some(early) = moment.checked_sub(COARSE)
        && Instant::now() < early
    {
        time::sleep_until(early.into()).await;
    }
    while Instant::now() < moment {
        yield_now().await;
    }
}

/// Latencies in microseconds.
#[derive(Debug, Clone)]
pub struct Latencies(Histogram<u64>);

/// Percentiles of latencies, in milliseconds.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Percentiles {
    /// How many there were.
    pub count: u64,
    /// Half were faster.
    pub p50: f64,
    /// Nine in ten.
    pub p90: f64,
    /// 99 in 100.
    pub p99: f64,
    /// 999 in 1000.
    pub p999: f64,
    /// The slowest.
    pub max: f64,
}

impl Latencies {
    /// None yet; up to an hour is told apart to three digits.
    pub fn new() -> io::Result<Self> {
        Histogram::new_with_bounds(1, 3_600_000_000, 3).map(Self).map_err(io::Error::other)
    }

    /// One that took so long since it was due.
    pub fn record(&mut self, latency: Duration) {
        self.0.saturating_record(u64::try_from(latency.as_micros()).unwrap_or(u64::MAX).max(1));
    }

    /// Takes others in.
    pub fn add(&mut self, others: &Self) -> io::Result<()> {
        self.0.add(&others.0).map_err(io::Error::other)
    }

    /// The percentiles; all 0 of none.
    #[must_use]
    pub fn percentiles(&self) -> Percentiles {
        let at = |quantile: f64| if self.0.is_empty() { 0.0 } else { self.0.value_at_quantile(quantile) as f64 / 1e3 };
        let max = if self.0.is_empty() { 0.0 } else { self.0.max() as f64 / 1e3 };
        Percentiles { count: self.0.len(), p50: at(0.5), p90: at(0.9), p99: at(0.99), p999: at(0.999), max }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// One connection to a server that takes half a millisecond, and stalls for a second in the middle: what a client
    /// measures that counts from the planned times, and one that counts from when it got to send.
    fn simulate() -> (Percentiles, Percentiles) {
        let (pace, service) = (Pace::per_second(1000.0), Duration::from_micros(500));
        let (stall_from, stall_until) = (Duration::from_secs(5), Duration::from_secs(6));
        let (mut corrected, mut naive) = (Latencies::new().unwrap(), Latencies::new().unwrap());
        let mut free = Duration::ZERO;
        for number in 0..10_000 {
            let due = pace.due(number);
            let sent = due.max(free);
            let begun = if (stall_from..stall_until).contains(&sent) { stall_until } else { sent };
            free = begun + service;
            corrected.record(free - due);
            naive.record(free - sent);
        }
        (corrected.percentiles(), naive.percentiles())
    }

    #[test]
    fn a_stall_counts_for_everything_that_was_due_meanwhile() {
        let (corrected, naive) = simulate();
        // Due n ms into the stall, answered after 1000 + n / 2: a tenth of all waited for more than half a second.
        assert!((corrected.p90 - 500.0).abs() < 5.0, "{corrected:?}");
        assert!((corrected.p99 - 950.0).abs() < 5.0 && (corrected.max - 1000.5).abs() < 5.0, "{corrected:?}");
        assert_eq!(corrected.p50, 0.5);
        // Without the correction the stall is one slow request in ten thousand.
        assert!(naive.p999 < 1.0 && naive.max > 1000.0, "{naive:?}");
    }

    #[test]
    fn planned_times_do_not_drift() {
        let pace = Pace::per_second(3.0);
        assert_eq!(pace.due(0), Duration::ZERO);
        let late = pace.due(3_000_000).as_secs_f64() - 1e6;
        assert!(late.abs() < 1e-6, "{late}");
    }
}
