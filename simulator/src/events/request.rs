//! One request, and requests in order of when something happens to them.

use std::{cmp::Ordering, collections::BinaryHeap};

use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution as _, Exp1, StandardNormal};

use crate::workload::{Distribution, Workload};

/// A request in the system.
#[derive(Debug, Clone, Copy)]
pub(super) struct Request {
    /// When it arrived; latency counts from here.
    pub(super) arrived: f64,
    /// When it was last sent; its time-out counts from here. Pods take requests in this order.
    pub(super) sent: f64,
    /// How often it was sent again.
    pub(super) attempt: u32,
}

/// A request that is due at a moment, of real or of a pod's virtual time.
#[derive(Debug, Clone, Copy)]
pub(super) struct Timed {
    pub(super) due: f64,
    pub(super) request: Request,
}

/// Requests, the one that is due first on top.
pub(super) type Agenda = BinaryHeap<Timed>;

impl Ord for Timed {
    // The standard heap has its greatest element on top, so the order is turned around.
    fn cmp(&self, other: &Self) -> Ordering {
        other.due.total_cmp(&self.due)
    }
}

impl PartialOrd for Timed {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Timed {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Timed {}

/// CPU seconds of requests, drawn one by one.
#[derive(Debug, Clone, Copy)]
pub(super) enum Demand {
    Fixed(f64),
    Exponential(f64),
    /// Mean and standard deviation of the logarithm.
    Lognormal(f64, f64),
}

impl Demand {
    pub(super) fn new(workload: &Workload) -> Self {
        let mean = workload.cpu_seconds();
        match workload.distribution {
            Distribution::Fixed => Self::Fixed(mean),
            Distribution::Exponential => Self::Exponential(mean),
            Distribution::Lognormal { variation } => {
                let spread = (variation * variation).ln_1p();
                Self::Lognormal(mean.ln() - spread / 2.0, spread.sqrt())
            }
        }
    }

    pub(super) fn draw(self, rng: &mut ChaCha8Rng) -> f64 {
        match self {
            Self::Fixed(mean) => mean,
            Self::Exponential(mean) => mean * exponential(rng),
            Self::Lognormal(mean, deviation) => {
                let normal: f64 = StandardNormal.sample(rng);
                (mean + deviation * normal).exp()
            }
        }
    }
}

/// An exponential variable of mean 1. The ziggurat needs no logarithm, which would cost more than the rest of an arrival.
pub(super) fn exponential(rng: &mut ChaCha8Rng) -> f64 {
    Exp1.sample(rng)
}
