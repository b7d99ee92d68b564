//! When a running pod should be given its recommendation, and whether it may be disturbed for that.

use std::time::Duration;

use meanfield_common::{
    invalid::{Invalid, within},
    resources::{Bytes, MilliCores},
};

use super::{Recommendation, nanos};

/// How eager the updater is. The default is that of the real one's flags.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Options {
    /// Least change of the requests, as a share summed over CPU and memory, for which a request within the bounds is
    /// updated.
    pub min_change: f64,
    /// Least age of a pod whose requests are within the bounds.
    pub min_age: Duration,
    /// A kill for exceeding the memory limit within this time of the start, and not longer ago than this, is quick.
    pub quick_oom: Duration,
    /// Workloads with fewer replicas than this are left alone.
    pub min_replicas: u32,
    /// Which share of the replicas may be missing because of updates.
    pub tolerance: f64,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            min_change: 0.1,
            min_age: Duration::from_secs(12 * 3600),
            quick_oom: Duration::from_secs(600),
            min_replicas: 2,
            tolerance: 0.5,
        }
    }
}

/// When a container was last killed for exceeding its memory limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Oom {
    /// When it had started.
    pub started: Duration,
    /// When it was killed.
    pub finished: Duration,
}

/// One container of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Container {
    /// Its CPU request, if it has one.
    pub cpu: Option<MilliCores>,
    /// Its memory request, if it has one.
    pub memory: Option<Bytes>,
    /// What is recommended for it; without that it counts for nothing but its kills.
    pub recommendation: Option<Recommendation>,
    /// Its last end, if that was a kill for exceeding the memory limit.
    pub last_oom: Option<Oom>,
}

/// How urgent an update is. Pods that should grow go first, then those that should change the most.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub struct Priority {
    /// Whether some request should grow.
    pub grow: bool,
    /// By which share the requests should change, summed over CPU and memory.
    pub change: f64,
}

/// Decides which pods to update.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Updater {
    options: Options,
}

impl Updater {
    /// An updater, unless the options make no sense.
    pub fn new(options: Options) -> Result<Self, Invalid> {
        within("min_change", options.min_change, 0.0, 1e6)?;
        within("tolerance", options.tolerance, 0.0, 1.0)?;
        Ok(Self { options })
    }

    /// How urgently a pod that runs since `started` should be updated; `None` when it should not.
    #[must_use]
    pub fn wants(&self, now: Duration, started: Option<Duration>, containers: &[Container]) -> Option<Priority> {
        let (outside, priority) = compare(containers);
        let quick_oom = containers.iter().filter_map(|container| container.last_oom).any(|oom| self.quick(now, oom));
        if !outside && !quick_oom {
            let old = nanos(now) >= nanos(started?).saturating_add(nanos(self.options.min_age));
            if !old || priority.change < self.options.min_change {
                return None;
            }
        }
        // Updating a pod that would come back the same helps against no kill.
        (!quick_oom || priority.change != 0.0).then_some(priority)
    }

    /// How many running pods of a workload may be evicted in one round. Pending ones may be whenever any pod may be
    /// looked at, that is when there are at least [`Options::min_replicas`].
    #[must_use]
    pub fn budget(&self, configured: u32, running: u32, pending: u32) -> u32 {
        if configured == 0 || running.saturating_add(pending) < self.options.min_replicas {
            return 0;
        }
        let tolerated = (f64::from(configured) * self.options.tolerance) as u32;
        // A tolerance that rounds to none still lets a complete workload be updated, one by one.
        if tolerated == 0 && configured == running {
            return 1;
        }
        running.saturating_add(tolerated).saturating_sub(configured).min(running)
    }

    fn quick(&self, now: Duration, oom: Oom) -> bool {
        let threshold = nanos(self.options.quick_oom);
        nanos(oom.finished) - nanos(oom.started) < threshold && nanos(now) - nanos(oom.finished) < threshold
    }
}

/// Whether some request is outside its bounds, and how much should change.
fn compare(containers: &[Container]) -> (bool, Priority) {
    let mut outside = false;
    let mut grow = false;
    // Requested and recommended in all containers, CPU and memory, in thousandths of the unit.
    let mut sums = [(0_i64, 0_i64); 2];
    let recommended = containers.iter().filter_map(|container| Some((container, container.recommendation?)));
    for (container, Recommendation { lower, target, upper }) in recommended {
        let cpu = (container.cpu.map(|cpu| cpu.0), lower.cpu.0, target.cpu.0, upper.cpu.0, 1);
        let memory = (container.memory.map(|memory| memory.0), lower.memory.0, target.memory.0, upper.memory.0, 1000);
        for ((request, lower, target, upper, thousandths), sum) in [cpu, memory].into_iter().zip(&mut sums) {
            let in_thousandths = |of: u64| i64::try_from(of).unwrap_or(i64::MAX).saturating_mul(thousandths);
            sum.1 = sum.1.saturating_add(in_thousandths(target));
            match request {
                Some(request) => {
                    sum.0 = sum.0.saturating_add(in_thousandths(request));
                    grow |= target > request;
                    outside |= request < lower || request > upper;
                }
                None => {
                    grow = true;
                    outside = true;
                }
            }
        }
    }
    if containers.iter().all(|container| container.recommendation.is_none()) {
        return (false, Priority { grow, change: 0.0 });
    }
    let [cpu, memory] = sums.map(|(requested, recommended)| {
        let requested = (requested as f64).max(1.0);
        (requested - recommended as f64).abs() / requested
    });
    (outside, Priority { grow, change: cpu + memory })
}
