//! Scenarios for the Horizontal Pod Autoscaler, as they are written to the oracle and as our code sees them.

#[path = "hpa_random.rs"]
mod random;

use meanfield_autoscalers::hpa::{
    Behavior, Change, Flags, Metric, Millis, PerPod, Phase, Pod, Policy, Reading, Ready, Resource, Rules, Sample, Seen,
    Select, Spec, Status, Target,
};
use serde::Serialize;

pub use self::random::scenario;

/// Rounds of one autoscaler.
#[derive(Serialize)]
pub struct Scenario {
    pub flags: FlagsJson,
    pub steps: Vec<Step>,
}

/// The tolerance in thousandths, times in milliseconds.
#[derive(Serialize)]
pub struct FlagsJson {
    scale_to_zero: bool,
    tolerance: u32,
    downscale: Millis,
    cpu: Millis,
    delay: Millis,
}

/// What one round sees. Times are ages in milliseconds.
#[derive(Serialize)]
pub struct Step {
    pub wait: Millis,
    /// `None`: as before.
    pub spec: Option<SpecJson>,
    /// `None`: what the last round left.
    pub replicas: Option<u32>,
    /// `None`: as many as asked for.
    pub observed: Option<u32>,
    pub refuse: bool,
    pub pods: Vec<PodJson>,
    pub readings: Vec<Option<ReadingJson>>,
}

#[derive(Serialize, Clone)]
pub struct SpecJson {
    min: u32,
    max: u32,
    pub metrics: Vec<MetricJson>,
    behavior: Option<BehaviorJson>,
}

#[derive(Serialize, Clone)]
pub struct MetricJson {
    pub kind: &'static str,
    resource: &'static str,
    pub container: &'static str,
    average: bool,
    target: i64,
}

#[derive(Serialize, Clone)]
struct BehaviorJson {
    up: Option<RulesJson>,
    down: Option<RulesJson>,
}

#[derive(Serialize, Clone)]
struct RulesJson {
    window: Option<u32>,
    select: Option<&'static str>,
    policies: Option<Vec<PolicyJson>>,
    tolerance: Option<u32>,
}

#[derive(Serialize, Clone)]
struct PolicyJson {
    r#type: &'static str,
    value: u32,
    period: u32,
}

#[derive(Serialize)]
pub struct PodJson {
    phase: &'static str,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    deleted: bool,
    ready: Option<ReadyJson>,
    started: Option<Millis>,
    /// CPU and memory of one container after the other.
    requests: [[Option<i64>; 2]; 2],
    /// Around what age a sample of this pod should be, so that it falls to either side of the rules.
    #[serde(skip)]
    sampled: Millis,
}

#[derive(Serialize)]
struct ReadyJson {
    status: &'static str,
    since: Millis,
}

#[derive(Serialize, Default)]
pub struct ReadingJson {
    /// Value, age and window of each.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    samples: Vec<Option<(i64, Millis, Millis)>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    strays: Vec<i64>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    values: Vec<i64>,
}

impl FlagsJson {
    pub fn ours(&self) -> Flags {
        Flags {
            tolerance: f64::from(self.tolerance) / 1000.0,
            downscale_stabilisation: self.downscale,
            cpu_initialisation: self.cpu,
            initial_readiness_delay: self.delay,
            scale_to_zero: self.scale_to_zero,
        }
    }
}

impl SpecJson {
    pub fn ours(&self) -> Spec {
        let rules = |json: &Option<RulesJson>, default: Rules| match json {
            None => default,
            Some(json) => Rules {
                window: json.window.or(default.window),
                select: match json.select {
                    Some("Min") => Select::Min,
                    Some("Disabled") => Select::Disabled,
                    _ => Select::Max,
                },
                policies: json
                    .policies
                    .as_ref()
                    .map_or(default.policies, |policies| policies.iter().map(PolicyJson::ours).collect()),
                tolerance: json.tolerance.map(|milli| f64::from(milli) * 0.001),
            },
        };
        let behavior = self.behavior.as_ref();
        let behavior =
            behavior.map(|json| Behavior { up: rules(&json.up, Rules::up()), down: rules(&json.down, Rules::down()) });
        Spec { min: self.min, max: self.max, metrics: self.metrics.iter().map(MetricJson::ours).collect(), behavior }
    }
}

impl PolicyJson {
    fn ours(&self) -> Policy {
        let change = if self.r#type == "Pods" { Change::Pods(self.value) } else { Change::Percent(self.value) };
        Policy { change, period: self.period }
    }
}

impl MetricJson {
    fn ours(&self) -> Metric {
        let resource = if self.resource == "cpu" { Resource::Cpu } else { Resource::Other };
        let target = if self.average { Target::AverageValue(self.target) } else { Target::Value(self.target) };
        match self.kind {
            "utilisation" => Metric::Utilisation { resource, percent: self.target.try_into().unwrap() },
            "use" => Metric::Use { resource, average: self.target },
            "pods" => Metric::Pods { average: self.target },
            "object" => Metric::Object(target),
            _ => Metric::External(target),
        }
    }
}

impl PodJson {
    fn ours(&self, now: Millis) -> Pod {
        let status = |status| match status {
            "True" => Status::True,
            "False" => Status::False,
            _ => Status::Unknown,
        };
        Pod {
            phase: match self.phase {
                "Pending" => Phase::Pending,
                "Running" => Phase::Running,
                "Succeeded" => Phase::Succeeded,
                "Failed" => Phase::Failed,
                _ => Phase::Unknown,
            },
            deleted: self.deleted,
            ready: self.ready.as_ref().map(|ready| Ready { status: status(ready.status), since: now - ready.since }),
            started: self.started.map(|age| now - age),
        }
    }

    /// The request that a metric is about: of a container, or of all of them.
    fn request(&self, metric: &MetricJson) -> Option<i64> {
        let of = |container: &[Option<i64>; 2]| container[usize::from(metric.resource == "memory")];
        match metric.container {
            "" => self.requests.iter().map(of).sum(),
            "app" => of(&self.requests[0]),
            _ => None,
        }
    }
}

impl Step {
    /// What our code sees of this step.
    pub fn seen(&self, now: Millis, spec: &SpecJson, left: u32) -> Seen {
        let replicas = self.replicas.unwrap_or(left);
        let reading = |(metric, json): (&MetricJson, &Option<ReadingJson>)| match (metric.kind, json) {
            (_, None) => Reading::Unavailable,
            ("object", Some(json)) => Reading::Object(json.values[0]),
            ("external", Some(json)) => Reading::External(json.values.clone()),
            (_, Some(json)) => {
                let sample = |&(value, age, window): &(i64, Millis, Millis)| Sample { value, at: now - age, window };
                Reading::Pods(PerPod {
                    samples: json.samples.iter().map(|json| json.as_ref().map(sample)).collect(),
                    requests: self.pods.iter().map(|pod| pod.request(metric)).collect(),
                    strays: json.strays.clone(),
                })
            }
        };
        Seen {
            replicas,
            observed: self.observed.unwrap_or(replicas),
            pods: self.pods.iter().map(|pod| pod.ours(now)).collect(),
            readings: spec.metrics.iter().zip(&self.readings).map(reading).collect(),
        }
    }
}
