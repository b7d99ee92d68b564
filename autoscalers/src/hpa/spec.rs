//! What an operator asks of the autoscaler, checked as the API server checks it.

use std::fmt::Display;

use meanfield_common::invalid::{Invalid, within};

use super::Millis;

/// Bounds, metrics and manners: the `spec` of a `HorizontalPodAutoscaler`.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Fewest replicas. Zero needs [`Flags::scale_to_zero`] and an object or external metric.
    pub min: u32,
    /// Most replicas.
    pub max: u32,
    /// What to follow; the metric that wants most replicas wins.
    pub metrics: Vec<Metric>,
    /// How fast to scale. `None` is not the same as the default behaviour: the real controller then keeps older rules.
    pub behavior: Option<Behavior>,
}

/// A metric and its target. Quantities are in thousandths, as the real controller counts them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Metric {
    /// Use of a resource as a percentage of its request, over all pods. Of a single container, when that is what the
    /// reading's samples and requests are about.
    Utilisation {
        /// Which resource.
        resource: Resource,
        /// The percentage to keep.
        percent: u32,
    },
    /// Average use of a resource by a pod, or by a container of it.
    Use {
        /// Which resource.
        resource: Resource,
        /// The use to keep.
        average: i64,
    },
    /// Average of a metric that each pod reports.
    Pods {
        /// The average to keep.
        average: i64,
    },
    /// A metric of one other object.
    Object(Target),
    /// A metric from outside the cluster: the sum of its series.
    External(Target),
}

/// A resource of a pod. Start-up distorts CPU only, so only for CPU are pods left out until they have settled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Resource {
    /// CPU.
    Cpu,
    /// Any other, such as memory.
    Other,
}

/// The target of a metric that is not reported by pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    /// For the metric as it is.
    Value(i64),
    /// For the metric divided by the replicas.
    AverageValue(i64),
}

/// How fast to scale in each direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Behavior {
    /// Towards more replicas.
    pub up: Rules,
    /// Towards fewer.
    pub down: Rules,
}

impl Default for Behavior {
    fn default() -> Self {
        Self { up: Rules::up(), down: Rules::down() }
    }
}

/// The manners of one direction.
#[derive(Debug, Clone, PartialEq)]
pub struct Rules {
    /// Seconds over which the most cautious recommendation counts. `None`: 0 upwards, the controller's flag downwards.
    pub window: Option<u32>,
    /// Which of the policies counts.
    pub select: Select,
    /// How much may change in how long.
    pub policies: Vec<Policy>,
    /// How far the metric may be off before anything happens, as a share of its target. `None`: the controller's flag.
    /// The real controller computes a tolerance of n thousandths as `n * 0.001`.
    pub tolerance: Option<f64>,
}

impl Rules {
    /// What the API server fills in upwards: 4 pods or 100 % in 15 s, whichever is more.
    #[must_use]
    pub fn up() -> Self {
        let policies = [Change::Pods(4), Change::Percent(100)].map(|change| Policy { change, period: 15 });
        Self { window: None, select: Select::Max, policies: policies.into(), tolerance: None }
    }

    /// What the API server fills in downwards: everything in 15 s.
    #[must_use]
    pub fn down() -> Self {
        let policies = vec![Policy { change: Change::Percent(100), period: 15 }];
        Self { window: None, select: Select::Max, policies, tolerance: None }
    }
}

/// Which of several policies counts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Select {
    /// The one that allows the largest change.
    Max,
    /// The one that allows the smallest change.
    Min,
    /// None: no scaling in this direction.
    Disabled,
}

/// A change that is allowed within a period.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Policy {
    /// How much.
    pub change: Change,
    /// In how many seconds.
    pub period: u32,
}

/// An amount of change.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// So many pods.
    Pods(u32),
    /// A percentage of the replicas at the start of the period.
    Percent(u32),
}

/// Settings of the whole controller: the flags and the feature gate of `kube-controller-manager`, with its defaults.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Flags {
    /// How far a metric may be off before anything happens, as a share of its target.
    pub tolerance: f64,
    /// For how long a higher recommendation forbids scaling down, where the behaviour does not say.
    pub downscale_stabilisation: Millis,
    /// How long after its start a pod's CPU use may be that of starting up.
    pub cpu_initialisation: Millis,
    /// How long after its start a pod that turned unready is taken as never having been ready.
    pub initial_readiness_delay: Millis,
    /// Whether zero replicas are allowed: the gate `HPAScaleToZero`, which is off unless set.
    pub scale_to_zero: bool,
}

impl Default for Flags {
    fn default() -> Self {
        Self {
            tolerance: 0.1,
            downscale_stabilisation: 300_000,
            cpu_initialisation: 300_000,
            initial_readiness_delay: 30_000,
            scale_to_zero: false,
        }
    }
}

impl Flags {
    pub(super) fn check(&self) -> Result<(), Invalid> {
        within("tolerance", self.tolerance, 0.0, f64::MAX)?;
        for (field, value) in [
            ("downscale_stabilisation", self.downscale_stabilisation),
            ("cpu_initialisation", self.cpu_initialisation),
            ("initial_readiness_delay", self.initial_readiness_delay),
        ] {
            at_least(field, value, 0)?;
        }
        Ok(())
    }
}

impl Spec {
    /// The autoscaler that most people have: CPU at a percentage of its request, no behaviour.
    #[must_use]
    pub fn cpu(min: u32, max: u32, percent: u32) -> Self {
        Self { min, max, metrics: vec![Metric::Utilisation { resource: Resource::Cpu, percent }], behavior: None }
    }

    /// Whether a metric does not depend on pods, so that zero replicas can be left again.
    pub(super) fn watches_outside(&self) -> bool {
        self.metrics.iter().any(|metric| matches!(metric, Metric::Object(_) | Metric::External(_)))
    }

    pub(super) fn check(&self, flags: &Flags) -> Result<(), Invalid> {
        if self.min == 0 && !flags.scale_to_zero {
            return Err(Invalid::new("min", 0, "at least 1, since scaling to zero is off"));
        }
        if self.min == 0 && !self.watches_outside() {
            return Err(Invalid::new("min", 0, "at least 1 without an object or external metric"));
        }
        at_least("max", self.max, self.min.max(1))?;
        at_most("max", self.max, i32::MAX as u32)?;
        if self.metrics.is_empty() {
            return Err(Invalid::new("metrics", "an empty list", "at least one metric"));
        }
        for (index, metric) in self.metrics.iter().enumerate() {
            metric.check(&format!("metrics[{index}]"))?;
        }
        if let Some(behavior) = &self.behavior {
            behavior.up.check("behavior.up")?;
            behavior.down.check("behavior.down")?;
        }
        Ok(())
    }
}

impl Metric {
    fn check(&self, field: &str) -> Result<(), Invalid> {
        match *self {
            Self::Utilisation { percent, .. } => {
                at_least(&format!("{field}.percent"), percent, 1)?;
                at_most(&format!("{field}.percent"), percent, i32::MAX as u32)
            }
            Self::Use { average, .. } | Self::Pods { average } => at_least(&format!("{field}.average"), average, 1),
            Self::Object(Target::Value(value)) | Self::External(Target::Value(value)) => {
                at_least(&format!("{field}.value"), value, 1)
            }
            Self::Object(Target::AverageValue(average)) | Self::External(Target::AverageValue(average)) => {
                at_least(&format!("{field}.average"), average, 1)
            }
        }
    }
}

impl Rules {
    fn check(&self, field: &str) -> Result<(), Invalid> {
        at_most(&format!("{field}.window"), self.window.unwrap_or(0), 3600)?;
        if self.policies.is_empty() {
            return Err(Invalid::new(format!("{field}.policies"), "an empty list", "at least one policy"));
        }
        for (index, policy) in self.policies.iter().enumerate() {
            let field = format!("{field}.policies[{index}]");
            let (Change::Pods(value) | Change::Percent(value)) = policy.change;
            at_least(&format!("{field}.value"), value, 1)?;
            at_most(&format!("{field}.value"), value, i32::MAX as u32)?;
            at_least(&format!("{field}.period"), policy.period, 1)?;
            at_most(&format!("{field}.period"), policy.period, 1800)?;
        }
        if let Some(tolerance) = self.tolerance {
            within(&format!("{field}.tolerance"), tolerance, 0.0, f64::MAX)?;
        }
        Ok(())
    }
}

fn at_least<T: PartialOrd + Display + Copy>(field: &str, value: T, least: T) -> Result<(), Invalid> {
    if value >= least { Ok(()) } else { Err(Invalid::new(field, value, format!("at least {least}"))) }
}

fn at_most<T: PartialOrd + Display + Copy>(field: &str, value: T, most: T) -> Result<(), Invalid> {
    if value <= most { Ok(()) } else { Err(Invalid::new(field, value, format!("at most {most}"))) }
}
