//! HPA for the agent: what a step measured, turned into what the autoscaler sees.

use meanfield_autoscalers::hpa::{Behavior, Counts, Hpa, Metric, Millis, Resource, Seen, Spec};
use meanfield_common::{
    invalid::{Invalid, within},
    observation::Observation,
    resources::Bounds,
};

/// What the replicas follow.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Follow {
    /// CPU use over CPU request, as a share.
    Cpu(f64),
    /// Requests in flight per replica: for workloads whose slots fill before their CPU does.
    Concurrency(f64),
    /// Requests per second per replica.
    Rate(f64),
}

impl Follow {
    /// Refuses targets that make no sense.
    pub fn validated(self) -> Result<Self, Invalid> {
        match self {
            Self::Cpu(target) => within("hpa.target", target, 0.01, 10.0),
            Self::Concurrency(target) => within("hpa.concurrency", target, 0.01, 1e6),
            Self::Rate(target) => within("hpa.rate", target, 0.01, 1e6),
        }?;
        Ok(self)
    }

    fn metric(self) -> Metric {
        let thousandths = |target: f64| (1000.0 * target).round() as i64;
        match self {
            Self::Cpu(target) => {
                Metric::Utilisation { resource: Resource::Cpu, percent: (100.0 * target).round() as u32 }
            }
            Self::Concurrency(target) | Self::Rate(target) => Metric::Pods { average: thousandths(target) },
        }
    }
}

/// The autoscaler of one workload.
#[derive(Debug, Clone)]
pub struct Horizontal {
    follow: Follow,
    /// Made with the first step, when the bounds are known.
    hpa: Option<Hpa>,
    now: Millis,
}

impl Horizontal {
    /// Follows a target.
    pub fn new(follow: Follow) -> Result<Self, Invalid> {
        Ok(Self { follow: follow.validated()?, hpa: None, now: 0 })
    }

    /// How many replicas it wants.
    pub fn replicas(&mut self, seen: &Observation, bounds: &Bounds) -> Result<u32, Invalid> {
        self.now += (1000.0 * seen.seconds) as Millis;
        if self.hpa.is_none() {
            let (min, max) = (*bounds.replicas().start(), *bounds.replicas().end());
            let behavior = Some(Behavior::default());
            self.hpa = Some(Hpa::new(Spec { min, max, metrics: vec![self.follow.metric()], behavior })?);
        }
        let used = match self.follow {
            Follow::Cpu(_) => seen.cpu_used.0 as f64,
            Follow::Concurrency(_) => 1000.0 * seen.concurrency,
            Follow::Rate(_) => 1000.0 * seen.arrival_rate,
        };
        let counts = Counts {
            ready: seen.ready,
            used: used.round() as i64,
            request: i64::try_from(seen.request.cpu.0).unwrap_or(i64::MAX),
            unready: seen.scale.replicas.saturating_sub(seen.ready),
            missing: 0,
        };
        let Some(hpa) = &mut self.hpa else { return Ok(seen.scale.replicas) };
        Ok(hpa.decide(self.now, &Seen::counted(seen.scale.replicas, counts)).replicas)
    }

    /// Forgets everything but its target.
    pub fn reset(&mut self) {
        (self.hpa, self.now) = (None, 0);
    }
}
