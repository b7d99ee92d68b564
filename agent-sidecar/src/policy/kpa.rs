//! Knative's autoscaler for the agent: seconds of a step's mean concurrency, and a decision every two of them.
//!
//! The real one sees each second by itself; here all seconds of a step look alike, so it panics a step later at most. It
//! sets replicas; memory goes to VPA, as a Knative service would leave its limits alone and be killed.

use std::time::Duration;

use meanfield_autoscalers::kpa::{self, TICK, activation};
use meanfield_common::{
    invalid::{Invalid, within},
    observation::Observation,
    resources::{Bytes, Scale},
};

use super::{
    Decision, Policy, View,
    vpa::{Controls, Vertical},
};

/// The policy.
#[derive(Debug, Clone)]
pub struct Kpa {
    /// Requests in flight that a replica can take.
    concurrency: f64,
    /// Made with the first step, when the bounds are known.
    kpa: Option<kpa::Kpa>,
    vertical: Vertical,
    now: Duration,
}

impl Kpa {
    /// For replicas that take so many requests at once; it aims at 70 % of that.
    pub fn new(concurrency: f64) -> Result<Self, Invalid> {
        let concurrency = within("kpa.concurrency", concurrency, 0.01, 1e6)?;
        Ok(Self { concurrency, kpa: None, vertical: Vertical::new(Controls::Memory)?, now: Duration::ZERO })
    }

    /// The same, with a floor for VPA's memory.
    #[must_use]
    pub fn with_memory_floor(self, floor: Bytes) -> Self {
        Self { vertical: self.vertical.with_floor(floor), ..self }
    }

    fn replicas(&mut self, view: &View<'_>) -> Result<u32, Invalid> {
        let Observation { seconds, concurrency, ready, scale, .. } = *view.seen;
        if self.kpa.is_none() {
            let range = view.target.bounds.replicas();
            // The bounds of a workload never reach zero, so the last replica stays.
            let activation = activation::Options {
                scale_to_zero: false,
                min_scale: *range.start(),
                max_scale: *range.end(),
                initial_scale: scale.replicas,
                ..activation::Options::default()
            };
            let options = kpa::Options { total_value: self.concurrency, activation, ..kpa::Options::default() };
            self.kpa = Some(kpa::Kpa::resume(options, self.now, ready)?);
        }
        let Some(kpa) = &mut self.kpa else { return Ok(scale.replicas) };
        let mut wanted = scale.replicas;
        for second in 0..seconds.clamp(1.0, 3600.0) as u64 {
            self.now += Duration::from_secs(1);
            kpa.record(self.now, concurrency);
            if second % TICK.as_secs() == 0 {
                wanted = kpa.decide(self.now, ready).replicas;
            }
        }
        Ok(wanted)
    }
}

impl Policy for Kpa {
    fn name(&self) -> &'static str {
        "kpa"
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let bounds = &view.target.bounds;
        let mut limit = view.seen.scale.limit;
        limit.memory = self.vertical.limit(view.seen, bounds).memory;
        Ok(Decision::wish(bounds.clamp(&Scale { replicas: self.replicas(view)?, limit })))
    }

    fn reset(&mut self) {
        (self.kpa, self.now) = (None, Duration::ZERO);
        self.vertical.reset();
    }
}
