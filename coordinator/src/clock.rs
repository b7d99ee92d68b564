//! Injected time: the system's monotonic clock, or one that tests and simulations move by hand.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// Monotonic milliseconds since some moment. Clones tell the same time.
#[derive(Debug, Clone)]
pub struct Clock(Source);

#[derive(Debug, Clone)]
enum Source {
    System(Instant),
    Manual(Arc<AtomicU64>),
}

impl Clock {
    /// The system's monotonic clock, starting at 0 now.
    #[must_use]
    pub fn system() -> Self {
        Self(Source::System(Instant::now()))
    }

    /// A clock that stands at 0 until [`Self::advance`] moves it.
    #[must_use]
    pub fn manual() -> Self {
        Self(Source::Manual(Arc::default()))
    }

    /// Moves a manual clock, and all its clones, forward. The system's clock moves by itself and ignores this.
    pub fn advance(&self, by: Duration) {
        if let Source::Manual(now) = &self.0 {
            now.fetch_add(milliseconds(by), Ordering::Relaxed);
        }
    }

    /// The time in milliseconds.
    #[must_use]
    pub fn now(&self) -> u64 {
        match &self.0 {
            Source::System(start) => milliseconds(start.elapsed()),
            Source::Manual(now) => now.load(Ordering::Relaxed),
        }
    }

    /// Milliseconds since 1970, for what outlasts the process and for people who read logs; a manual clock began then. It
    /// may be set back: nothing is paced by it.
    #[must_use]
    pub fn wall(&self) -> u64 {
        match &self.0 {
            Source::System(_) => SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, milliseconds),
            Source::Manual(_) => self.now(),
        }
    }
}

/// A duration in whole milliseconds; half a billion years are as good as for ever.
pub(crate) fn milliseconds(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manual_clock_stands_still_until_moved() {
        let clock = Clock::manual();
        let twin = clock.clone();
        assert_eq!(clock.now(), 0);
        twin.advance(Duration::from_secs(2));
        assert_eq!((clock.now(), clock.wall()), (2000, 2000));
    }

    #[test]
    fn the_system_clock_cannot_be_moved() {
        let clock = Clock::system();
        clock.advance(Duration::from_secs(1 << 40));
        assert!(clock.now() < 1 << 40);
    }
}
