//! How many replicas one metric wants.
//!
//! Integers divide as in the real controller, fractions cut off before the ratio is taken: half a percent decides whether
//! a ratio is within tolerance. Where its 64-bit sums would wrap around, these stay right.

use super::{
    Millis,
    seen::{PerPod, Phase, Pod, Reading, Sample, Seen, Status},
    spec::{Flags, Metric, Resource, Target},
};

/// What a metric wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Proposal {
    /// So many replicas, not yet held against any bound; below zero when the metric is.
    pub replicas: i32,
    /// How it came to them.
    pub basis: Basis,
}

/// How a proposal came about.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Basis {
    /// Near enough to the target: the replicas stay.
    WithinTolerance,
    /// The ratio to the target, times the ready pods.
    Ratio,
    /// The ratio after pods without a usable sample were counted in on the cautious side, times all that counted.
    Filled,
    /// Counting them in brought the ratio near enough to the target: the replicas stay.
    FilledWithinTolerance,
    /// Counting them in turned the direction: the replicas stay.
    Flipped,
    /// The pods that counted are so many or few that the result contradicts the direction: the replicas stay.
    Contradicted,
    /// The total, divided by the target for each replica.
    Share,
    /// The ratio alone, as there are no replicas.
    FromZero,
}

/// Why a metric has no proposal.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum Failure {
    /// The metric could not be had.
    #[error("the metric is unavailable")]
    Unavailable,
    /// There are no pods.
    #[error("no pods match the selector")]
    NoPods,
    /// No pod that counts has a sample.
    #[error("no samples of pods that are ready")]
    NoSamples,
    /// A pod, whatever its state, requests nothing of the resource.
    #[error("pod number {0} has no request")]
    NoRequest(usize),
    /// The pods with samples request nothing in total.
    #[error("the requests of the pods with samples are zero")]
    ZeroRequests,
}

/// How far below and above 1 a ratio may be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Tolerances {
    pub down: f64,
    pub up: f64,
}

impl Tolerances {
    fn cover(self, ratio: f64) -> bool {
        (1.0 - self.down) <= ratio && ratio <= (1.0 + self.up)
    }
}

/// One metric's view of a round.
pub(super) struct Calculation<'a> {
    pub now: Millis,
    pub seen: &'a Seen,
    pub current: i32,
    pub flags: &'a Flags,
    pub tolerances: Tolerances,
}

impl Calculation<'_> {
    pub fn propose(&self, metric: Metric, reading: &Reading) -> Result<Proposal, Failure> {
        match (metric, reading) {
            (Metric::Utilisation { resource, percent }, Reading::Pods(reading)) => {
                self.per_pod(resource, Aim::Utilisation(percent.into()), reading)
            }
            (Metric::Use { resource, average }, Reading::Pods(reading)) => {
                self.per_pod(resource, Aim::Average(average), reading)
            }
            (Metric::Pods { average }, Reading::Pods(reading)) => {
                self.per_pod(Resource::Other, Aim::Average(average), reading)
            }
            (Metric::Object(Target::Value(target)), &Reading::Object(value)) => self.whole(value, target),
            (Metric::Object(Target::AverageValue(target)), &Reading::Object(value)) => Ok(self.shared(value, target)),
            (Metric::External(Target::Value(target)), Reading::External(series)) if !series.is_empty() => {
                self.whole(sum(series), target)
            }
            (Metric::External(Target::AverageValue(target)), Reading::External(series)) if !series.is_empty() => {
                // The real controller takes any sum below zero for an overflow, even when a series is honestly negative.
                let sum = |sum: i64, value| sum.checked_add(value).filter(|&sum| sum >= 0);
                Ok(self.shared(series.iter().copied().try_fold(0, sum).unwrap_or(i64::MAX), target))
            }
            _ => Err(Failure::Unavailable),
        }
    }

    fn hold(&self, basis: Basis) -> Proposal {
        Proposal { replicas: self.current, basis }
    }

    fn per_pod(&self, resource: Resource, aim: Aim, reading: &PerPod) -> Result<Proposal, Failure> {
        let pods = &self.seen.pods;
        if pods.is_empty() {
            return Err(Failure::NoPods);
        }
        let sample = |index: usize| reading.samples.get(index).copied().flatten();
        let groups = || pods.iter().enumerate().map(|(index, pod)| (index, self.group(pod, sample(index), resource)));

        let mut sums = Sums { used: 0, requested: 0, samples: reading.strays.len() };
        if let Aim::Average(_) = aim {
            sums.used = reading.strays.iter().copied().map(i128::from).sum();
        }
        let (mut ready, mut unready, mut missing) = (0_usize, 0_usize, 0_usize);
        for (index, group) in groups() {
            match group {
                Group::Ignored => {}
                Group::Unready => unready += 1,
                Group::Missing => missing += 1,
                Group::Ready(sample) => {
                    ready += 1;
                    sums.add(sample.value.into(), aim.request(reading, index).unwrap_or(0));
                }
            }
        }
        if sums.samples == 0 {
            return Err(Failure::NoSamples);
        }
        if let Some(index) = (0..pods.len()).find(|&index| aim.request(reading, index).is_none()) {
            return Err(Failure::NoRequest(index));
        }

        let ratio = aim.ratio(&sums)?;
        let grows_with_unready = unready > 0 && ratio > 1.0;
        if !grows_with_unready && missing == 0 {
            return Ok(if self.tolerances.cover(ratio) {
                self.hold(Basis::WithinTolerance)
            } else {
                Proposal { replicas: ceil(ratio * ready as f64), basis: Basis::Ratio }
            });
        }

        // What is not known is taken to be whatever speaks against the change.
        for (index, group) in groups() {
            let request = aim.request(reading, index).unwrap_or(0);
            match group {
                Group::Missing if ratio < 1.0 => sums.add(aim.full(request), request),
                Group::Missing if ratio > 1.0 => sums.add(0, request),
                Group::Unready if grows_with_unready => sums.add(0, request),
                _ => {}
            }
        }
        let filled = aim.ratio(&sums)?;
        if self.tolerances.cover(filled) {
            return Ok(self.hold(Basis::FilledWithinTolerance));
        }
        if (ratio < 1.0 && filled > 1.0) || (ratio > 1.0 && filled < 1.0) {
            return Ok(self.hold(Basis::Flipped));
        }
        let replicas = ceil(filled * sums.samples as f64);
        if (filled < 1.0 && replicas > self.current) || (filled > 1.0 && replicas < self.current) {
            return Ok(self.hold(Basis::Contradicted));
        }
        Ok(Proposal { replicas, basis: Basis::Filled })
    }

    /// Which group a pod belongs to for a metric.
    fn group(&self, pod: &Pod, sample: Option<Sample>, resource: Resource) -> Group {
        if pod.deleted || pod.phase == Phase::Failed {
            return Group::Ignored;
        }
        if pod.phase == Phase::Pending {
            return Group::Unready;
        }
        match sample {
            None => Group::Missing,
            Some(sample) if resource == Resource::Cpu && !self.settled(pod, sample) => Group::Unready,
            Some(sample) => Group::Ready(sample),
        }
    }

    /// Whether a pod's CPU sample says something about its work, not about its start.
    fn settled(&self, pod: &Pod, sample: Sample) -> bool {
        let (Some(ready), Some(started)) = (pod.ready, pod.started) else { return false };
        let unready = if started.saturating_add(self.flags.cpu_initialisation) > self.now {
            // The sample's whole window must lie after the pod became ready.
            ready.status == Status::False || sample.at < ready.since.saturating_add(sample.window)
        } else {
            // Past that, only a pod that has never been ready is left out.
            ready.status == Status::False && started.saturating_add(self.flags.initial_readiness_delay) > ready.since
        };
        !unready
    }

    /// A target for the value as it is.
    fn whole(&self, value: i64, target: i64) -> Result<Proposal, Failure> {
        let ratio = value as f64 / target as f64;
        if self.current == 0 {
            return Ok(Proposal { replicas: ceil(ratio), basis: Basis::FromZero });
        }
        if self.tolerances.cover(ratio) {
            return Ok(self.hold(Basis::WithinTolerance));
        }
        if self.seen.pods.is_empty() {
            return Err(Failure::NoPods);
        }
        let is_ready =
            |pod: &&Pod| pod.phase == Phase::Running && pod.ready.is_some_and(|ready| ready.status == Status::True);
        let ready = self.seen.pods.iter().filter(is_ready).count();
        Ok(Proposal { replicas: ceil(ratio * ready as f64), basis: Basis::Ratio })
    }

    /// A target for the value divided by the replicas that there are.
    fn shared(&self, value: i64, target: i64) -> Proposal {
        let observed = super::replicas(self.seen.observed);
        // Without replicas this is infinite or no number; neither is within tolerance.
        let ratio = value as f64 / (target as f64 * f64::from(observed));
        if self.tolerances.cover(ratio) {
            return Proposal { replicas: observed, basis: Basis::WithinTolerance };
        }
        Proposal { replicas: ceil(value as f64 / target as f64), basis: Basis::Share }
    }
}

enum Group {
    /// Deleted or failed: as if it were not there.
    Ignored,
    /// Starting: its sample, if any, does not count.
    Unready,
    /// Without a sample.
    Missing,
    /// With a sample that counts.
    Ready(Sample),
}

#[derive(Clone, Copy)]
enum Aim {
    Utilisation(i64),
    Average(i64),
}

struct Sums {
    used: i128,
    requested: i128,
    samples: usize,
}

impl Sums {
    fn add(&mut self, used: i128, request: i64) {
        self.used += used;
        self.requested += i128::from(request);
        self.samples += 1;
    }
}

impl Aim {
    /// What a pod requests; nothing, where that does not matter.
    fn request(self, reading: &PerPod, index: usize) -> Option<i64> {
        match self {
            Self::Utilisation(_) => reading.requests.get(index).copied().flatten(),
            Self::Average(_) => Some(0),
        }
    }

    /// What a pod uses that is fully used: its request, or the target if that is more.
    fn full(self, request: i64) -> i128 {
        match self {
            Self::Utilisation(percent) => i128::from(request) * i128::from(percent.max(100)) / 100,
            Self::Average(target) => target.into(),
        }
    }

    fn ratio(self, sums: &Sums) -> Result<f64, Failure> {
        match self {
            Self::Utilisation(_) if sums.requested == 0 => Err(Failure::ZeroRequests),
            Self::Utilisation(percent) => {
                let utilisation = sums.used * 100 / sums.requested;
                let utilisation = utilisation.clamp(i32::MIN.into(), i32::MAX.into());
                Ok(utilisation as f64 / percent as f64)
            }
            // There is a sample at least, or the caller would have stopped.
            Self::Average(target) => Ok((sums.used / sums.samples.max(1) as i128) as f64 / target as f64),
        }
    }
}

/// The sum of a metric's series, which stops at the first overflow.
fn sum(series: &[i64]) -> i64 {
    let mut sum = 0_i64;
    for &value in series {
        match sum.checked_add(value) {
            Some(more) => sum = more,
            None => return if value > 0 { i64::MAX } else { i64::MIN },
        }
    }
    sum
}

/// Rounds up to a count of replicas, which saturates.
fn ceil(replicas: f64) -> i32 {
    replicas.ceil() as i32
}
