//! VPA for the agent: what steps measured, turned into samples; its recommendation, turned into limits.
//!
//! A minute of simulated or real time is one sample of every replica, as in the real one. The updater's rules decide when
//! a recommendation is carried out, in place.

use std::time::Duration;

use meanfield_autoscalers::vpa::{
    Container, Options, Recommendation, Recommender, limit,
    updater::{self, Oom, Updater},
};
use meanfield_common::{
    invalid::Invalid,
    observation::Observation,
    resources::{Bounds, Bytes, MilliCores, Resources},
};

/// Time between two samples, and between two recommendations.
const EVERY: Duration = Duration::from_mins(1);
/// Replicas beyond this are not sampled one by one.
const MOST_SAMPLED: usize = 256;

/// Which resources are its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Controls {
    /// Memory only: what goes well with an HPA on CPU.
    Memory,
    /// CPU and memory.
    Both,
}

/// The autoscaler of one workload.
#[derive(Debug, Clone)]
pub struct Vertical {
    controls: Controls,
    /// The least memory that it may set.
    floor: Bytes,
    /// As it began, and as it is.
    fresh: Recommender,
    recommender: Recommender,
    updater: Updater,
    containers: Vec<Container>,
    last_oom: Option<Oom>,
    now: Duration,
    sampled: Duration,
}

impl Vertical {
    /// A recommender and an updater with the real ones' defaults.
    pub fn new(controls: Controls) -> Result<Self, Invalid> {
        let fresh = Recommender::new(Options::default())?;
        Ok(Self {
            controls,
            floor: Bytes(0),
            recommender: fresh.clone(),
            fresh,
            // A resize in place disturbs nobody, so it may come for a single replica too.
            updater: Updater::new(updater::Options { min_replicas: 1, ..updater::Options::default() })?,
            containers: Vec::new(),
            last_oom: None,
            now: Duration::ZERO,
            sampled: Duration::ZERO,
        })
    }

    /// The same, never with less memory than this: `minAllowed` in a VPA object.
    #[must_use]
    pub fn with_floor(self, floor: Bytes) -> Self {
        Self { floor, ..self }
    }

    /// What each replica's limit should be.
    pub fn limit(&mut self, seen: &Observation, bounds: &Bounds) -> Resources {
        self.now += Duration::from_secs_f64(seen.seconds.max(0.0));
        if seen.oom_kills > 0 {
            self.killed(seen);
        }
        if self.now < self.sampled + EVERY {
            return seen.scale.limit;
        }
        self.sampled = self.now;
        self.sample(seen);
        let Some(recommendation) = self.recommender.recommend(self.now) else { return seen.scale.limit };
        let recommendation = self.own(recommendation, seen.request, bounds);
        let container = updater::Container {
            cpu: Some(seen.request.cpu),
            memory: Some(seen.request.memory),
            recommendation: Some(recommendation),
            last_oom: self.last_oom,
        };
        if self.updater.wants(self.now, Some(Duration::ZERO), &[container]).is_none() {
            return seen.scale.limit;
        }
        let (limits, request, target) = (seen.scale.limit, seen.request, recommendation.target);
        Resources {
            cpu: limit(limits.cpu.0, request.cpu.0, target.cpu.0).map_or(limits.cpu, MilliCores),
            memory: limit(limits.memory.0, request.memory.0, target.memory.0).map_or(limits.memory, Bytes),
        }
    }

    /// The recommendation within the operator's bounds; what is not its own stays as it is requested.
    fn own(&self, of: Recommendation, request: Resources, bounds: &Bounds) -> Recommendation {
        let memory = |bytes: Bytes| bytes.max(self.floor).clamp(*bounds.memory().start(), *bounds.memory().end());
        let cpu = |cores: MilliCores| if self.controls == Controls::Both { cores } else { request.cpu };
        let each = |of: Resources| Resources { cpu: cpu(of.cpu), memory: memory(of.memory) };
        Recommendation { lower: each(of.lower), target: each(of.target), upper: each(of.upper) }
    }

    fn killed(&mut self, seen: &Observation) {
        if self.containers.is_empty() {
            self.containers.push(self.recommender.container(self.now));
        }
        for container in self.containers.iter_mut().take(seen.oom_kills as usize) {
            self.recommender.oom(container, self.now, seen.request.memory);
        }
        // How long it had run is not known; that a pod which runs for long is killed is the rarer case.
        self.last_oom = Some(Oom { started: self.now.saturating_sub(EVERY), finished: self.now });
    }

    /// One sample of every replica: CPU on average, and memory as the fullest, since processes seldom give memory back.
    fn sample(&mut self, seen: &Observation) {
        let [ready, replicas] = [seen.ready, seen.scale.replicas].map(|count| (count as usize).min(MOST_SAMPLED));
        while self.containers.len() < replicas {
            self.containers.push(self.recommender.container(self.now));
        }
        // A replica that was killed is still the same; one that was stopped is not.
        self.containers.truncate(replicas.max(1));
        let count = u64::from(seen.ready.max(1));
        for container in self.containers.iter_mut().take(ready) {
            self.recommender.cpu_sample(container, self.now, MilliCores(seen.cpu_used.0 / count));
            self.recommender.memory_sample(container, self.now, seen.memory_peak);
        }
    }

    /// Forgets everything.
    pub fn reset(&mut self) {
        self.recommender = self.fresh.clone();
        self.containers.clear();
        (self.last_oom, self.now, self.sampled) = (None, Duration::ZERO, Duration::ZERO);
    }
}
