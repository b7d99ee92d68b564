//! AIMD for the agent.

use meanfield_autoscalers::aimd;
use meanfield_common::{invalid::Invalid, slo::Slo};

use super::{Decision, Policy, View};

/// The policy: every lever up a little while the objective is missed, down by a share while there is slack.
#[derive(Debug, Clone, Default)]
pub struct Aimd {
    /// Made with the first step, when objective and bounds are known.
    aimd: Option<aimd::Aimd>,
}

impl Aimd {
    fn controller(&mut self, view: &View<'_>) -> Result<&aimd::Aimd, Invalid> {
        if self.aimd.is_none() {
            let slo = latency(&view.target.slo)?;
            self.aimd = Some(aimd::Aimd::new(aimd::Options::new(slo, view.target.bounds.clone()))?);
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
