//! What a request of each function needs.
//!
//! The twelve serverless functions of the SIMPPO evaluation in its three categories. Their demands are ours, chosen to
//! differ by the orders of magnitude that such functions do; no measurement of the original programs is claimed.

use meanfield_common::{
    identity::Category,
    invalid::Invalid,
    resources::Bytes,
    slo::{Percentile, Slo},
};

use crate::queue::{Queue, Service};

/// A function's demand per request and behaviour per pod.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Workload {
    /// The function's name.
    pub name: &'static str,
    /// What it needs most.
    pub category: Category,
    /// CPU milliseconds of a request.
    pub cpu_ms: f64,
    /// Standard deviation of that over its mean.
    pub variation: f64,
    /// Megabytes read or written by a request.
    pub io_mb: f64,
    /// Memory of an idle pod.
    pub memory_idle: Bytes,
    /// Memory of a request while it is in flight.
    pub memory_request: Bytes,
    /// Requests that a pod takes in at once.
    pub slots: u32,
    /// Seconds from start to ready.
    pub startup: f64,
    /// Mean demand in cores, from which the mean arrival rate follows.
    pub demand: f64,
}

/// Megabytes per second that one node reads or writes.
pub const DISK_MB_PER_SECOND: f64 = 400.0;

/// Requests that wait longer than this are given up on.
pub const TIMEOUT_SECONDS: f64 = 30.0;

/// How far above its isolated 99th percentile a function may go.
const SLO_MARGIN: f64 = 1.15;

const fn function(
    name: &'static str,
    category: Category,
    (cpu_ms, variation, io_mb): (f64, f64, f64),
    (idle, request): (u64, u64),
    startup: f64,
    demand: f64,
) -> Workload {
    let (memory_idle, memory_request) = (Bytes::mebi(idle), Bytes::mebi(request));
    Workload { name, category, cpu_ms, variation, io_mb, memory_idle, memory_request, slots: 32, startup, demand }
}

/// The twelve functions.
pub const FUNCTIONS: [Workload; 12] = [
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
];

impl Workload {
    /// CPU seconds of a request.
    #[must_use]
    pub fn cpu_seconds(&self) -> f64 {
        self.cpu_ms / 1000.0
    }

    /// Seconds of I/O of a request on an idle disk.
    #[must_use]
    pub fn io_seconds(&self) -> f64 {
        self.io_mb / DISK_MB_PER_SECOND
    }

    /// The mean arrival rate at the mean demand.
    #[must_use]
    pub fn mean_rate(&self) -> f64 {
        self.demand / self.cpu_seconds()
    }

    /// The objective: the 99th percentile of a pod of one core, alone on its node and half loaded, plus 15 %.
    pub fn slo(&self) -> Result<Slo, Invalid> {
        let service = Service::new(self.variation);
        let alone = Queue::stationary(&service, self.cpu_seconds(), 1.0, self.io_seconds(), 0.5);
        Slo::latency(Percentile::P99, alone.percentiles[1] * SLO_MARGIN * 1000.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_twelve_functions_differ_and_cover_the_categories() {
        for category in Category::ALL {
            assert!(FUNCTIONS.iter().filter(|workload| workload.category == category).count() >= 2, "{category:?}");
        }
        for (index, one) in FUNCTIONS.iter().enumerate() {
            assert!(FUNCTIONS[index + 1..].iter().all(|other| other.name != one.name));
            assert!(one.slo().is_ok(), "{}", one.name);
        }
    }
}
