//! What a request needs: of the twelve functions, of the sixteen segments, and of what a user brings in a file.
//!
//! Functions and segments are TOML files under `data/`, part of the program. Names are those of the SIMPPO and AWARE
//! evaluations; demands are ours, chosen to differ by the orders of magnitude that such programs do. No measurement of
//! the original programs is claimed.

mod file;

use std::sync::{Arc, LazyLock};

use meanfield_common::{
    identity::Category,
    invalid::{Invalid, within},
    queue::Station,
    resources::Bytes,
    slo::{Percentile, Slo},
};
use serde::Deserialize;

pub use crate::input::Input;
use crate::{origin::label, placement::Node};

/// How the CPU time of requests varies around its mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Distribution {
    /// Not at all.
    Fixed,
    /// Exponentially.
    Exponential,
    /// Lognormally, with a standard deviation of so many means.
    Lognormal {
        /// Standard deviation over mean.
        variation: f64,
    },
}

impl Distribution {
    /// Standard deviation over mean.
    #[must_use]
    pub fn variation(&self) -> f64 {
        match self {
            Self::Fixed => 0.0,
            Self::Exponential => 1.0,
            Self::Lognormal { variation } => *variation,
        }
    }
}

/// A function's demand per request and behaviour per pod.
#[derive(Debug, Clone, PartialEq)]
pub struct Workload {
    /// The function's name.
    pub name: String,
    /// What it needs most.
    pub category: Category,
    /// What its requests bring along, when the size of that decides what they need.
    pub input: Option<Input>,
    /// CPU milliseconds of a request.
    pub cpu_ms: f64,
    /// How they vary.
    pub distribution: Distribution,
    /// Megabytes read or written on disk by a request.
    pub io_mb: f64,
    /// Megabytes sent or received by a request.
    pub network_mb: f64,
    /// Megabytes that a request moves over the memory bus.
    pub traffic_mb: f64,
    /// Memory of an idle pod.
    pub memory_idle: Bytes,
    /// Memory of a request while it is in flight.
    pub memory_request: Bytes,
    /// Requests that a pod works on at once; others wait.
    pub slots: u32,
    /// Seconds from start to ready.
    pub startup: f64,
    /// Seconds after that during which a pod is slower.
    pub warmup: f64,
    /// How many times slower it is at first; falls to 1 in a straight line.
    pub cold: f64,
    /// Seconds after which a request is given up on.
    pub timeout: f64,
    /// How often a request that failed is sent again.
    pub retries: u32,
    /// Mean demand in cores, from which the mean arrival rate follows.
    pub demand: f64,
    /// From which its objective follows.
    pub objective: Objective,
}

/// The rule from which a workload's objective is computed: its latency in isolation, and how much more is allowed.
#[derive(Debug, Clone, Copy, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Objective {
    /// Which percentile of latency.
    pub percentile: Percentile,
    /// Cores of the one pod that is alone on its node.
    pub cores: f64,
    /// How loaded it is, within [0, 1).
    pub load: f64,
    /// How far above that latency it may go: 0.15 is 15 %.
    pub margin: f64,
}

impl Default for Objective {
    /// The 99th percentile of one core, half loaded, plus 15 %.
    fn default() -> Self {
        Self { percentile: Percentile::P99, cores: 1.0, load: 0.5, margin: 0.15 }
    }
}

/// Parses files that are part of this program, in the order given.
macro_rules! library {
    ($folder:literal: $($name:literal),+ $(,)?) => {
        [$((concat!($folder, "/", $name, ".toml"), include_str!(concat!("../data/", $folder, "/", $name, ".toml")))),+]
            .map(|(origin, text)| embedded(origin, text))
    };
}

#[expect(clippy::panic, reason = "the files are part of the program, and a test reads every one of them")]
fn embedded(origin: &str, text: &str) -> Arc<Workload> {
    Workload::parse(text, origin).map_or_else(|error| panic!("{error}"), Arc::new)
}

/// The twelve functions of the SIMPPO evaluation.
#[must_use]
pub fn functions() -> &'static [Arc<Workload>] {
    static FUNCTIONS: LazyLock<[Arc<Workload>; 12]> = LazyLock::new(|| {
        library!("functions":
            "base64", "primes", "markdown2html", "sentiment-analysis", "image-resize", "html-gen", "uploader",
            "compression", "image-inference", "page-rank", "graph-bft", "graph-mst",
        )
    });
    &*FUNCTIONS
}

/// The sixteen production segments of the AWARE evaluation, of which [`crate::application`] puts programs together.
#[must_use]
pub fn segments() -> &'static [Arc<Workload>] {
    static SEGMENTS: LazyLock<[Arc<Workload>; 16]> = LazyLock::new(|| {
        library!("segments":
            "floating-point", "model-serving", "image-scaling", "image-rotation", "image-encoding", "text-processing",
            "data-compression", "data-decompression", "web-serving", "table-scan", "table-write", "object-read",
            "object-write", "object-stream", "file-read", "file-write",
        )
    });
    &*SEGMENTS
}

/// The function or segment of that name.
pub fn named(name: &str) -> Result<Arc<Workload>, Invalid> {
    let mut known = functions().iter().chain(segments());
    known.find(|workload| workload.name == name).cloned().ok_or_else(|| {
        let known: Vec<_> = functions().iter().chain(segments()).map(|workload| workload.name.as_str()).collect();
        Invalid::new("function", format!("{name:?}"), format!("one of {}", known.join(", ")))
    })
}

impl Workload {
    /// CPU seconds of a request.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu_ms / 1000.0
    }

    /// The mean arrival rate at the mean demand.
    #[must_use]
    pub fn mean_rate(&self) -> f64 {
        self.demand / self.cpu_seconds()
    }

    /// Seconds outside the CPU: on an idle disk and an idle network.
    #[must_use]
    pub fn elsewhere_seconds(&self) -> f64 {
        self.io_mb / Node::DISK_MB + self.network_mb / Node::NETWORK_MB
    }

    /// Memory with which all slots may be taken: nobody is killed, and whoever needs the disk keeps its page cache.
    #[must_use]
    pub fn full_memory(&self) -> Bytes {
        let all = self.memory_idle.0.saturating_add(u64::from(self.slots).saturating_mul(self.memory_request.0));
        // Pods differ in their appetite by a twentieth; the cache is squeezed from four fifths of the limit on.
        Bytes(all.saturating_add(if self.io_mb >= 0.5 { all / 3 } else { all / 16 }))
    }

    /// The objective: latency alone on a node as [`Objective`] says, plus its margin.
    pub fn slo(&self) -> Result<Slo, Invalid> {
        let Objective { percentile, cores, load, margin } = self.objective;
        // Alone on its node, only its own requests keep the disk and the network busy.
        let rate = load * cores / self.cpu_seconds();
        let busy = |mb: f64, per_second: f64| {
            let seconds = mb / per_second;
            seconds / (1.0 - (rate * seconds).min(0.95))
        };
        let alone = Station {
            cores,
            slots: f64::from(self.slots),
            seconds: self.cpu_seconds() / cores.min(1.0),
            variation: self.distribution.variation(),
            elsewhere: busy(self.io_mb, Node::DISK_MB) + busy(self.network_mb, Node::NETWORK_MB),
        };
        let which = match percentile {
            Percentile::P50 => 0,
            Percentile::P99 => 1,
        };
        Slo::latency(percentile, alone.latency(rate / alone.capacity()).percentiles()[which] * (1.0 + margin) * 1000.0)
    }

    /// Whether it can run: every number within its bound. Fields are called as in a file.
    pub fn check(&self) -> Result<(), Invalid> {
        label("name", &self.name)?;
        for (field, value, low, high) in [
            ("request.cpu_ms", self.cpu_ms, 1e-3, 1e6),
            ("request.variation", self.distribution.variation(), 0.0, 10.0),
            ("request.io_mb", self.io_mb, 0.0, 1e5),
            ("request.network_mb", self.network_mb, 0.0, 1e5),
            ("request.memory_traffic_mb", self.traffic_mb, 0.0, 1e6),
            ("pod.startup_seconds", self.startup, 0.0, 3600.0),
            ("pod.warmup_seconds", self.warmup, 0.0, 3600.0),
            ("pod.cold", self.cold, 1.0, 100.0),
            ("client.timeout_seconds", self.timeout, 1e-3, 86_400.0),
            ("load.cores", self.demand, 1e-6, 1e4),
            ("slo.cores", self.objective.cores, 1e-3, 1024.0),
            ("slo.load", self.objective.load, 0.0, 0.95),
            ("slo.margin", self.objective.margin, 0.0, 10.0),
        ] {
            within(field, value, low, high)?;
        }
        for (field, value, low, high) in [
            ("request.memory", self.memory_request.0, 1, 1 << 40),
            ("pod.memory", self.memory_idle.0, 1, 1 << 40),
            ("pod.slots", self.slots.into(), 1, 10_000),
            ("client.retries", self.retries.into(), 0, 10),
        ] {
            if !(low..=high).contains(&value) {
                return Err(Invalid::new(field, value, format!("within [{low}, {high}]")));
            }
        }
        self.slo().map(|_| ()).map_err(|error| Invalid { field: "slo".to_owned(), ..error })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn names_differ_and_categories_are_covered() {
        let all: BTreeSet<_> = functions().iter().chain(segments()).map(|workload| &workload.name).collect();
        assert_eq!(all.len(), 28);
        for (set, name) in [(functions(), "functions"), (segments(), "segments")] {
            for category in Category::ALL {
                let count = set.iter().filter(|workload| workload.category == category).count();
                assert!(count >= 2, "{name}: {category:?}");
            }
        }
        assert!(named("base64").is_ok() && named("file-read").is_ok());
        let refused = named("nothing").unwrap_err();
        assert!(refused.bound.contains("base64, primes") && refused.bound.contains("file-write"), "{refused}");
    }

    #[test]
    fn the_objective_is_the_rule_and_not_a_number() {
        let workload = functions()[0].as_ref().clone();
        let milliseconds = |objective| match (Workload { objective, ..workload.clone() }).slo().unwrap() {
            Slo::Latency { milliseconds, .. } => milliseconds,
            Slo::Throughput { .. } => unreachable!(),
        };
        let usual = milliseconds(Objective::default());
        assert!((milliseconds(Objective { margin: 0.0, ..Objective::default() }) * 1.15 / usual - 1.0).abs() < 1e-12);
        assert!(milliseconds(Objective { load: 0.8, ..Objective::default() }) > usual);
        assert!(milliseconds(Objective { cores: 0.5, ..Objective::default() }) > 1.9 * usual);
        assert!(milliseconds(Objective { percentile: Percentile::P50, ..Objective::default() }) < usual);
    }
}
