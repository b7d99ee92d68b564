//! ENSURE for the agent: replicas by the square-root rule, memory by VPA.

use meanfield_autoscalers::ensure;
use meanfield_common::{
    invalid::Invalid,
    resources::{Bytes, Scale},
};

use super::{
    Decision, Policy, View,
    aimd::latency,
    vpa::{Controls, Vertical},
};

/// The margin of an objective over the latency without contention.
const MARGIN: f64 = 1.15;

/// The policy.
#[derive(Debug, Clone)]
pub struct Ensure {
    name: &'static str,
    threshold: f64,
    /// Made once it is known what a request costs.
    ensure: Option<ensure::Ensure>,
    vertical: Vertical,
}

impl Ensure {
    /// Tolerates a latency that is worse by 15 %.
    pub fn new() -> Result<Self, Invalid> {
        Self::tolerating("ensure", ensure::ENSURE)
    }

    /// Tolerates 25 % for the sake of utilisation.
    pub fn frugal() -> Result<Self, Invalid> {
        Self::tolerating("ensure-util", ensure::ENSURE_UTIL)
    }

    /// The same, with a floor for VPA's memory.
    #[must_use]
    pub fn with_memory_floor(self, floor: Bytes) -> Self {
        Self { vertical: self.vertical.with_floor(floor), ..self }
    }

    fn tolerating(name: &'static str, threshold: f64) -> Result<Self, Invalid> {
        Ok(Self { name, threshold, ensure: None, vertical: Vertical::new(Controls::Memory)? })
    }

    fn replicas(&mut self, view: &View<'_>) -> Result<u32, Invalid> {
        let (seen, bounds) = (view.seen, &view.target.bounds);
        if self.ensure.is_none() {
            let Some(cpu) = seen.cpu_seconds_per_request().filter(|cpu| *cpu > 0.0) else {
                return Ok(seen.scale.replicas);
            };
            let baseline = latency(&view.target.slo)? / MARGIN;
            // A container is occupied by as many requests as keep its cores busy, each for its time on a core.
            let concurrency = (baseline / 1000.0 / cpu * seen.scale.limit.cpu.cores()).clamp(1.0, 1e6);
            let options = ensure::Options::new(baseline, bounds.replicas().clone());
            let options = ensure::Options { threshold: self.threshold, concurrency, ..options };
            self.ensure = Some(ensure::Ensure::new(options)?);
        }
        Ok(self.ensure.as_mut().map_or(seen.scale.replicas, |ensure| ensure.decide(seen)))
    }
}

impl Policy for Ensure {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let bounds = &view.target.bounds;
        let mut limit = view.seen.scale.limit;
        limit.memory = self.vertical.limit(view.seen, bounds).memory;
        Ok(Decision::wish(bounds.clamp(&Scale { replicas: self.replicas(view)?, limit })))
    }

    fn reset(&mut self) {
        self.ensure = None;
        self.vertical.reset();
    }
}
