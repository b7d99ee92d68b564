//! What a request of each function needs.
//!
//! The twelve serverless functions of the SIMPPO evaluation in its three categories. Their demands are ours, chosen to
//! differ by the orders of magnitude that such functions do; no measurement of the original programs is claimed.

use std::sync::{Arc, LazyLock};

use meanfield_common::{
    identity::Category,
    invalid::Invalid,
    queue::Station,
    resources::Bytes,
    slo::{Percentile, Slo},
};

use crate::placement::Node;

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
}

/// How far above its isolated 99th percentile a function may go.
const SLO_MARGIN: f64 = 1.15;

fn function(
    name: &str,
    category: Category,
    (cpu_ms, variation, io_mb): (f64, f64, f64),
    (idle, request): (u64, u64),
    startup: f64,
    demand: f64,
) -> Arc<Workload> {
    let (memory_idle, memory_request) = (Bytes::mebi(idle), Bytes::mebi(request));
    Arc::new(Workload {
        name: name.to_owned(),
        category,
        cpu_ms,
        distribution: Distribution::Lognormal { variation },
        io_mb,
        network_mb: 0.0,
        traffic_mb: 0.0,
        memory_idle,
        memory_request,
        slots: 32,
        startup,
        warmup: 0.0,
        cold: 1.0,
        timeout: 30.0,
        retries: 0,
        demand,
    })
}

/// The twelve functions.
#[must_use]
pub fn functions() -> &'static [Arc<Workload>] {
    static FUNCTIONS: LazyLock<Vec<Arc<Workload>>> = LazyLock::new(|| {
        vec![
            function("base64", Category::Cpu, (40.0, 0.4, 0.1), (64, 4), 3.0, 1.4),
            function("primes", Category::Cpu, (90.0, 0.3, 0.0), (48, 2), 3.0, 1.9),
            function("markdown2html", Category::Cpu, (25.0, 0.5, 0.05), (80, 6), 4.0, 1.0),
            function("sentiment-analysis", Category::Memory, (60.0, 0.5, 0.2), (400, 20), 12.0, 1.2),
            function("image-resize", Category::Cpu, (120.0, 0.6, 1.0), (120, 40), 5.0, 1.8),
            function("html-gen", Category::Cpu, (15.0, 0.4, 0.02), (96, 4), 4.0, 0.9),
            function("uploader", Category::Io, (20.0, 0.6, 4.0), (64, 12), 4.0, 0.7),
            function("compression", Category::Io, (70.0, 0.7, 6.0), (96, 24), 5.0, 1.0),
            function("image-inference", Category::Memory, (180.0, 0.3, 0.5), (700, 48), 20.0, 2.1),
            function("page-rank", Category::Memory, (140.0, 0.6, 0.1), (300, 64), 8.0, 1.3),
            function("graph-bft", Category::Memory, (80.0, 0.5, 0.1), (250, 40), 8.0, 1.1),
            function("graph-mst", Category::Memory, (100.0, 0.5, 0.1), (250, 48), 8.0, 1.1),
        ]
    });
    &FUNCTIONS
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

    /// The objective: the 99th percentile of a pod of one core, alone on its node and half loaded, plus 15 %.
    pub fn slo(&self) -> Result<Slo, Invalid> {
        let alone = Station {
            cores: 1.0,
            slots: f64::from(self.slots),
            seconds: self.cpu_seconds(),
            variation: self.distribution.variation(),
            elsewhere: self.io_mb / Node::DISK_MB + self.network_mb / Node::NETWORK_MB,
        };
        let [_, high] = alone.latency(0.5).percentiles();
        Slo::latency(Percentile::P99, high * SLO_MARGIN * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twelve_functions_differ_and_cover_the_categories() {
        for category in Category::ALL {
            assert!(functions().iter().filter(|workload| workload.category == category).count() >= 2, "{category:?}");
        }
        for (index, one) in functions().iter().enumerate() {
            assert!(functions()[index + 1..].iter().all(|other| other.name != one.name));
            assert!(one.slo().is_ok(), "{}", one.name);
        }
    }
}
