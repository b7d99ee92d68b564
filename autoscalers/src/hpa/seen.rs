//! What one round of the control loop sees: the target, its pods, and a reading of each metric.

use super::Millis;

/// Everything that a decision depends on besides the autoscaler's own memory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Seen {
    /// Replicas that the target is asked to have.
    pub replicas: u32,
    /// Replicas that the target has. They differ while it scales; targets per replica are about these.
    pub observed: u32,
    /// The pods that the target's selector matches.
    pub pods: Vec<Pod>,
    /// A reading of each metric, in the order of the spec. One that is missing or of the wrong kind counts as unavailable.
    pub readings: Vec<Reading>,
}

/// A pod, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Pod {
    /// Where it is in its life.
    pub phase: Phase,
    /// Whether its deletion has begun.
    pub deleted: bool,
    /// Its condition `Ready`, if it has one.
    pub ready: Option<Ready>,
    /// When it started, if it has.
    pub started: Option<Millis>,
}

impl Pod {
    /// A pod that has long been running and ready.
    #[must_use]
    pub fn settled() -> Self {
        let ready = Ready { status: Status::True, since: Millis::MIN };
        Self { phase: Phase::Running, deleted: false, ready: Some(ready), started: Some(Millis::MIN) }
    }

    /// A pod that is not yet running.
    #[must_use]
    pub fn pending() -> Self {
        Self { phase: Phase::Pending, deleted: false, ready: None, started: None }
    }
}

/// Where a pod is in its life.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// Accepted, but not all its containers run.
    Pending,
    /// At least one container runs.
    Running,
    /// All containers ended well.
    Succeeded,
    /// All containers ended, one of them badly.
    Failed,
    /// The node does not answer.
    Unknown,
}

/// The condition `Ready` of a pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Ready {
    /// What it says.
    pub status: Status,
    /// Since when.
    pub since: Millis,
}

/// What a condition says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Status {
    /// It holds.
    True,
    /// It does not.
    False,
    /// Nobody knows.
    Unknown,
}

/// What a metric says at the moment. Quantities are in thousandths.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reading {
    /// The metric could not be had.
    Unavailable,
    /// Of a metric that pods report.
    Pods(PerPod),
    /// Of an object.
    Object(i64),
    /// Of an external metric: its series.
    External(Vec<i64>),
}

/// A reading of pods, parallel to [`Seen::pods`].
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PerPod {
    /// The last sample of each pod, if there is one.
    pub samples: Vec<Option<Sample>>,
    /// What each pod requests of the resource, if it does. Only utilisation asks for it.
    pub requests: Vec<Option<i64>>,
    /// Values of pods that are no longer listed: metrics lag behind. They count in averages, as in the real controller.
    pub strays: Vec<i64>,
}

/// A measurement of one pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sample {
    /// Its value.
    pub value: i64,
    /// When it was taken.
    pub at: Millis,
    /// Over how long before.
    pub window: Millis,
}

/// Pods of which only counts are known, as from a dashboard or a simulation.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Counts {
    /// Pods that are ready and measured.
    pub ready: u32,
    /// Their use in total, in thousandths.
    pub used: i64,
    /// Request of every pod, in thousandths.
    pub request: i64,
    /// Pods that are starting.
    pub unready: u32,
    /// Pods that run, but of which no sample is at hand.
    pub missing: u32,
}

impl Seen {
    /// What a single metric that pods report needs to see, from counts. The rules know sums only, so the split of the use
    /// among the ready pods is of no matter.
    #[must_use]
    pub fn counted(replicas: u32, counts: Counts) -> Self {
        // More pods than replicas could ever be would only cost memory.
        const MOST: u32 = 1 << 20;
        let [ready, unready, missing] = [counts.ready, counts.unready, counts.missing].map(|count| count.min(MOST));
        let groups = [(Pod::settled(), ready), (Pod::pending(), unready), (Pod::settled(), missing)];
        let pods: Vec<_> = groups.iter().flat_map(|&(pod, count)| (0..count).map(move |_| pod)).collect();
        let sample = |index| Sample { value: if index == 0 { counts.used } else { 0 }, at: 0, window: 0 };
        let samples = (0..pods.len()).map(|index| (index < ready as usize).then(|| sample(index))).collect();
        let requests = vec![Some(counts.request); pods.len()];
        let reading = Reading::Pods(PerPod { samples, requests, strays: Vec::new() });
        Self { replicas, observed: replicas, pods, readings: vec![reading] }
    }
}
