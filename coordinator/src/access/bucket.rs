//! How often a token may be used: a bucket of permits that fills at a steady rate.
//!
//! Kept as one number, the moment at which the bucket will be full again (the generic cell rate algorithm), so that
//! taking a permit is one atomic update: no lock, no allocation.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

const SECOND: u64 = 1_000_000_000;

#[derive(Debug)]
pub(crate) struct Bucket {
    /// Nanoseconds that a permit takes to come back; 0 if there is no limit.
    period: u64,
    /// What a full bucket is worth: one second's permits, and one at least.
    depth: u64,
    /// When it will be full, in nanoseconds on the coordinator's clock.
    full: AtomicU64,
}

impl Bucket {
    /// So many permits a second, all of them at once if they come so; 0 is no limit.
    pub(crate) fn new(rate: u32) -> Self {
        let period = SECOND.checked_div(rate.into()).unwrap_or(0);
        Self { period, depth: period.max(SECOND), full: AtomicU64::new(0) }
    }

    /// Takes a permit, or says when there will be one. The clock is in milliseconds.
    pub(crate) fn take(&self, now: u64) -> Result<(), Duration> {
        if self.period == 0 {
            return Ok(());
        }
        let now = now.saturating_mul(1_000_000);
        let after = |full: u64| full.max(now).saturating_add(self.period);
        let taken = self.full.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |full| {
            Some(after(full)).filter(|full| full - now <= self.depth)
        });
        taken.map(drop).map_err(|full| Duration::from_nanos(after(full) - now - self.depth))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_second_of_permits_at_once_and_then_one_a_period() {
        let bucket = Bucket::new(10);
        let at = |now: u64| (0..100).take_while(|_| bucket.take(now).is_ok()).count();
        assert_eq!(at(5000), 10);
        assert_eq!(bucket.take(5000), Err(Duration::from_millis(100)));
        assert_eq!(bucket.take(5040), Err(Duration::from_millis(60)));
        assert_eq!((at(5100), at(5350), at(60_000)), (1, 2, 10));
    }

    #[test]
    fn rates_at_their_ends() {
        let slow = Bucket::new(1);
        assert_eq!((slow.take(0), slow.take(0)), (Ok(()), Err(Duration::from_secs(1))));
        let fast = Bucket::new(u32::MAX);
        assert!((0..10_000).all(|_| fast.take(0).is_ok()));
        let unlimited = Bucket::new(0);
        assert!((0..10_000).all(|_| unlimited.take(0).is_ok()));
    }

    #[test]
    fn threads_together_get_no_more_than_one() {
        let bucket = Bucket::new(1000);
        let taken: usize = std::thread::scope(|scope| {
            let worker = || (0..1000).filter(|_| bucket.take(0).is_ok()).count();
            let workers: Vec<_> = (0..4).map(|_| scope.spawn(worker)).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).sum()
        });
        assert_eq!(taken, 1000);
    }
}
