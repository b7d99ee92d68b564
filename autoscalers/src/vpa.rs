//! The Vertical Pod Autoscaler of Kubernetes: how much CPU and memory a container should request.
//!
//! Version 1.8.1 of `k8s.io/autoscaler/vertical-pod-autoscaler`. Usage goes into two decaying histograms that all
//! replicas share; the recommendation is a percentile of each plus a margin, and two bounds around it between which a
//! running pod is left alone. The [`updater`] says when a pod should get its recommendation, [`limit()`] what becomes
//! of its limits.
//!
//! A CPU sample weighs the same whatever the container requests: weighting by the request has gone from the real one.
//! Not modelled: checkpoints, namespaces' limit ranges, rounding CPU to whole cores, the CPU boost at start-up.

use std::time::Duration;

use meanfield_common::{
    invalid::{Invalid, within},
    resources::{Bytes, MilliCores, Resources},
};

mod container;
mod estimator;
mod histogram;
mod limit;
pub mod updater;

pub use container::Container;
pub use estimator::Percentiles;
pub use limit::limit;

use histogram::Histogram;

/// Weight of a CPU sample.
const CPU_WEIGHT: f64 = 0.1;

/// How the recommender is set. The default is that of the real one's flags.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Time in which a CPU sample loses half its weight.
    pub cpu_half_life: Duration,
    /// Time in which a memory peak loses half its weight.
    pub memory_half_life: Duration,
    /// Each replica contributes one memory peak per interval.
    pub memory_interval: Duration,
    /// A history without CPU samples for so many intervals is forgotten.
    pub memory_intervals: u32,
    /// By which factor memory grows after an out-of-memory kill.
    pub oom_bump_ratio: f64,
    /// By how much memory grows at least after an out-of-memory kill.
    pub oom_min_bump: Bytes,
    /// Share of the usage that is added for safety.
    pub margin: f64,
    /// The least recommendation for a pod, divided among its containers.
    pub pod_min: Resources,
    /// How many containers a pod has, as far as the recommender knows of them.
    pub containers: u32,
    /// Percentiles of CPU use.
    pub cpu_percentiles: Percentiles,
    /// Percentiles of memory peaks.
    pub memory_percentiles: Percentiles,
    /// The bounds for CPU narrow over this time.
    pub cpu_confidence_interval: Duration,
    /// The bounds for memory narrow over this time.
    pub memory_confidence_interval: Duration,
    /// CPU is rounded up to a multiple of this.
    pub round_cpu: MilliCores,
    /// Memory is rounded up to a multiple of this.
    pub round_memory: Bytes,
    /// The least that the policy allows; 0 is no bound.
    pub min_allowed: Resources,
    /// The most that the policy allows; 0 is no bound.
    pub max_allowed: Resources,
}

impl Default for Options {
    fn default() -> Self {
        let day = Duration::from_secs(24 * 3600);
        let percentiles = Percentiles { lower: 0.5, target: 0.9, upper: 0.95 };
        Self {
            cpu_half_life: day,
            memory_half_life: day,
            memory_interval: day,
            memory_intervals: 8,
            oom_bump_ratio: 1.2,
            oom_min_bump: Bytes::mebi(100),
            margin: 0.15,
            pod_min: Resources { cpu: MilliCores(25), memory: Bytes::mebi(250) },
            containers: 1,
            cpu_percentiles: percentiles,
            memory_percentiles: percentiles,
            cpu_confidence_interval: day,
            memory_confidence_interval: day,
            round_cpu: MilliCores(1),
            round_memory: Bytes(1),
            min_allowed: Resources::default(),
            max_allowed: Resources::default(),
        }
    }
}

impl Options {
    fn validated(self) -> Result<Self, Invalid> {
        for (field, value) in [
            ("cpu_half_life", self.cpu_half_life),
            ("memory_half_life", self.memory_half_life),
            ("memory_interval", self.memory_interval),
            ("cpu_confidence_interval", self.cpu_confidence_interval),
            ("memory_confidence_interval", self.memory_confidence_interval),
        ] {
            if !(Duration::from_secs(1)..=Duration::from_secs(366 * 86_400)).contains(&value) {
                return Err(Invalid::new(field, format!("{value:?}"), "within [1 s, 366 days]"));
            }
        }
        for (field, value, low, high) in [
            ("memory_intervals", f64::from(self.memory_intervals), 1.0, 1000.0),
            ("oom_bump_ratio", self.oom_bump_ratio, 1.0, 100.0),
            ("margin", self.margin, 0.0, 100.0),
            ("containers", f64::from(self.containers), 1.0, 1000.0),
            ("round_cpu", self.round_cpu.0 as f64, 1.0, 1e9),
            ("round_memory", self.round_memory.0 as f64, 1.0, 1e12),
            ("cpu_percentiles.lower", self.cpu_percentiles.lower, 0.0, 1.0),
            ("cpu_percentiles.target", self.cpu_percentiles.target, 0.0, 1.0),
            ("cpu_percentiles.upper", self.cpu_percentiles.upper, 0.0, 1.0),
            ("memory_percentiles.lower", self.memory_percentiles.lower, 0.0, 1.0),
            ("memory_percentiles.target", self.memory_percentiles.target, 0.0, 1.0),
            ("memory_percentiles.upper", self.memory_percentiles.upper, 0.0, 1.0),
        ] {
            within(field, value, low, high)?;
        }
        for (field, min, max) in [
            ("max_allowed.cpu", self.min_allowed.cpu.0, self.max_allowed.cpu.0),
            ("max_allowed.memory", self.min_allowed.memory.0, self.max_allowed.memory.0),
        ] {
            if max != 0 && max < min {
                return Err(Invalid::new(field, max, format!("0 or at least the minimum {min}")));
            }
        }
        Ok(self)
    }
}

/// What a container should request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Recommendation {
    /// A request below this is due for an update.
    pub lower: Resources,
    /// What to request.
    pub target: Resources,
    /// A request above this is due for an update.
    pub upper: Resources,
}

/// What was seen of a container in all its replicas.
#[derive(Debug, Clone, PartialEq)]
struct History {
    cpu_use: Histogram,
    memory_peaks: Histogram,
    /// Times of the first and of the last CPU sample.
    samples: Option<(i64, i64)>,
    /// Number of CPU samples.
    count: u64,
    created: i64,
}

impl History {
    fn cpu(&mut self, used: MilliCores, at: i64) {
        self.cpu_use.add(estimator::amount(used.0 as f64) as f64 / 1000.0, CPU_WEIGHT, at);
        let (first, last) = self.samples.unwrap_or((at, at));
        self.samples = Some((first.min(at), last.max(at)));
        self.count = self.count.saturating_add(1);
    }

    /// Since when it has seen no CPU; memory does not count.
    fn idle_since(&self) -> i64 {
        self.samples.map_or(self.created, |(_, last)| last)
    }
}

/// Recommends requests for one container of a workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Recommender {
    options: Options,
    history: Option<Box<History>>,
}

impl Recommender {
    /// A recommender that has seen nothing.
    pub fn new(options: Options) -> Result<Self, Invalid> {
        Ok(Self { options: options.validated()?, history: None })
    }

    /// What to request from `now` on; `None` before the first container and once the history has expired.
    ///
    /// An expired history still gives its last recommendation, and is forgotten afterwards: that is the order in which
    /// the real one works.
    pub fn recommend(&mut self, now: Duration) -> Option<Recommendation> {
        let history = self.history.as_deref()?;
        let Recommendation { lower, target, upper } = estimator::estimate(&self.options, history);
        let allowed = |of: Resources| Resources {
            cpu: MilliCores(bounded(of.cpu.0, self.options.min_allowed.cpu.0, self.options.max_allowed.cpu.0)),
            memory: Bytes(bounded(of.memory.0, self.options.min_allowed.memory.0, self.options.max_allowed.memory.0)),
        };
        let recommendation = Recommendation { lower: allowed(lower), target: allowed(target), upper: allowed(upper) };
        let kept = nanos(self.options.memory_interval).saturating_mul(self.options.memory_intervals.into());
        if nanos(now).saturating_sub(history.idle_since()) >= kept {
            self.history = None;
        }
        Some(recommendation)
    }

    /// The history, begun when there is none.
    fn exist(&mut self, at: i64) -> &mut History {
        let options = &self.options;
        self.history.get_or_insert_with(|| {
            Box::new(History {
                cpu_use: Histogram::cpu(options.cpu_half_life),
                memory_peaks: Histogram::memory(options.memory_half_life),
                samples: None,
                count: 0,
                created: at,
            })
        })
    }
}

/// A bound of 0 is none.
fn bounded(value: u64, min: u64, max: u64) -> u64 {
    let value = value.max(min);
    if max == 0 { value } else { value.min(max) }
}

/// Time in nanoseconds, which after 1970 suffices to 2262: a later time is taken for that.
fn nanos(time: Duration) -> i64 {
    i64::try_from(time.as_nanos()).unwrap_or(i64::MAX)
}
