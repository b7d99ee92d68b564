//! What is remembered of one replica's container: the peak of the memory interval under way.
//!
//! All replicas feed the same histograms, but each of them contributes one memory peak per interval, so the peak that
//! a larger one replaces is the replica's own. Whoever samples a replica keeps its [`Container`] and drops it with it.

use std::time::Duration;

use meanfield_common::resources::{Bytes, MilliCores};

use super::{Recommender, estimator::amount, nanos};

/// The sampling state of one replica's container, made by [`Recommender::container`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Container {
    last_cpu: Option<i64>,
    last_memory: Option<i64>,
    /// End of the memory interval under way.
    interval_end: Option<i64>,
    /// Largest use within the interval.
    peak: i64,
    /// Largest need within the interval that was concluded from an out-of-memory kill.
    oom_peak: i64,
}

impl Recommender {
    /// Starts sampling a new replica. From here on there is a recommendation, at first the floor.
    pub fn container(&mut self, now: Duration) -> Container {
        self.exist(nanos(now));
        Container { last_cpu: None, last_memory: None, interval_end: None, peak: 0, oom_peak: 0 }
    }

    /// Counts a measurement of CPU use. Says whether it counted: one that is not newer than the last does not.
    pub fn cpu_sample(&mut self, container: &mut Container, now: Duration, used: MilliCores) -> bool {
        let at = nanos(now);
        if container.last_cpu.is_some_and(|last| at <= last) {
            return false;
        }
        container.last_cpu = Some(at);
        self.exist(at).cpu(used, at);
        true
    }

    /// Counts a measurement of memory use. Says whether it counted: one that is older than the last does not.
    pub fn memory_sample(&mut self, container: &mut Container, now: Duration, used: Bytes) -> bool {
        let at = nanos(now);
        if container.last_memory.is_some_and(|last| at < last) {
            return false;
        }
        self.memory(container, at, amount(used.0 as f64), false);
        true
    }

    /// Counts a kill for exceeding the memory limit as a use above `request` and above the interval's peak. Says
    /// whether it counted: one that is an interval older than the last memory sample does not.
    pub fn oom(&mut self, container: &mut Container, now: Duration, request: Bytes) -> bool {
        let at = nanos(now);
        let interval = nanos(self.options.memory_interval);
        self.exist(at);
        if container.last_memory.is_some_and(|last| at < last.saturating_sub(interval)) {
            return false;
        }
        // An earlier kill's conclusion is left out, or a series of kills would drive the need up without end.
        let used = amount(request.0 as f64).max(container.peak);
        let needed = used
            .saturating_add(amount(self.options.oom_min_bump.0 as f64))
            .max(amount(used as f64 * self.options.oom_bump_ratio));
        self.memory(container, at, needed, true);
        true
    }

    fn memory(&mut self, container: &mut Container, at: i64, used: i64, oom: bool) {
        let interval = nanos(self.options.memory_interval);
        let history = self.exist(at);
        container.last_memory = Some(at);
        let end = *container.interval_end.get_or_insert(at);
        if at < end {
            let before = container.peak.max(container.oom_peak);
            if before == 0 || used <= before {
                return;
            }
            history.memory_peaks.subtract(before as f64, 1.0, end);
        } else {
            let over = at - end;
            container.interval_end = Some(end.saturating_add(over - over % interval).saturating_add(interval));
            container.peak = 0;
            container.oom_peak = 0;
        }
        // A peak counts as measured at the end of its interval, so that replacing it takes back what was added.
        history.memory_peaks.add(used as f64, 1.0, container.interval_end.unwrap_or(end));
        if oom {
            container.oom_peak = used;
        } else {
            container.peak = used;
        }
    }
}
