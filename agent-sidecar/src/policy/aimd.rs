//! AIMD for the agent.

use meanfield_autoscalers::aimd;
use meanfield_common::{
    invalid::{Invalid, within},
    slo::Slo,
};

use super::{Decision, Policy, View};

/// The policy: every lever up a little while the objective is missed, down by a share while there is slack.
#[derive(Debug, Clone)]
pub struct Aimd {
    /// Below this share of the objective there is slack.
    slack: f64,
    /// Made with the first step, when objective and bounds are known.
    aimd: Option<aimd::Aimd>,
}

impl Default for Aimd {
    fn default() -> Self {
        Self { slack: 0.7, aimd: None }
    }
}

impl Aimd {
    /// Shrinks below this share of the objective.
    pub fn new(slack: f64) -> Result<Self, Invalid> {
        Ok(Self { slack: within("aimd.slack", slack, 0.0, 1.0)?, aimd: None })
    }

    fn controller(&mut self, view: &View<'_>) -> Result<&aimd::Aimd, Invalid> {
        if self.aimd.is_none() {
            let slo = latency(&view.target.slo)?;
            let options = aimd::Options::new(slo, view.target.bounds.clone());
            self.aimd = Some(aimd::Aimd::new(aimd::Options { slack: self.slack, ..options })?);
        }
        self.aimd.as_ref().ok_or_else(|| Invalid::new("aimd", "none", "made"))
    }
}

/// The objective in milliseconds; policies that go by latency have nothing to go by otherwise.
pub(super) fn latency(slo: &Slo) -> Result<f64, Invalid> {
    match *slo {
        Slo::Latency { milliseconds, .. } => Ok(milliseconds),
        Slo::Throughput { .. } => Err(Invalid::new("slo", "a throughput", "a latency for this policy")),
    }
}

impl Policy for Aimd {
    fn name(&self) -> &'static str {
        "aimd"
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let wish = self.controller(view)?.decide(view.seen);
        Ok(Decision::wish(view.target.bounds.clamp(&wish)))
    }

    fn reset(&mut self) {
        self.aimd = None;
    }
}
