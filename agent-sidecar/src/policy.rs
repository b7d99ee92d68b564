//! Who decides. Policies are interchangeable everywhere: acting, as a fallback, as a baseline.

use meanfield_common::{
    action::Action,
    mean_field::{Aspects, AuxiliaryState},
    observation::Observation,
    resources::{MilliCores, Scale},
    scarcity::Scarcity,
    state::LocalState,
};

use crate::environment::Target;

pub mod aimd;
pub mod ensure;
pub mod features;
pub mod forecast;
pub mod hpa;
pub mod kpa;
pub mod learning;
pub mod outlook;
pub mod plan;
pub mod planned;
pub mod ppo;
pub mod reactive;
mod recent;
pub mod residual;
pub mod rules;
pub mod vpa;

/// All that a policy may look at.
#[derive(Debug, Clone, Copy)]
pub struct View<'a> {
    /// The workload's objective and bounds.
    pub target: &'a Target,
    /// What was measured.
    pub seen: &'a Observation,
    /// The local state l.
    pub state: &'a LocalState,
    /// The auxiliary state g, as last heard.
    pub auxiliary: &'a AuxiliaryState,
    /// How scarce the pool's capacity is, as last heard; none where nobody knows it.
    pub scarcity: Option<Scarcity>,
    /// What it would have if no grant had cut it: what is there, unless one has. Whoever moves in steps moves from here,
    /// and so has all of it back as soon as the cap is lifted.
    pub uncut: Scale,
    /// What was done in the step before.
    pub previous: Action,
    /// Whether the decision will only be looked at, not carried out: nothing may be learnt from it.
    pub paused: bool,
}

/// What a policy wants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// The scale that it wishes for.
    pub scale: Scale,
    /// The CPU request of each replica, apart from its limit; none lets it follow from the limit.
    pub request: Option<MilliCores>,
    /// Whether it picked an action that the bounds forbid, which is then not carried out.
    pub illegal: bool,
}

impl Decision {
    /// A wish for a scale.
    #[must_use]
    pub fn wish(scale: Scale) -> Self {
        Self { scale, request: None, illegal: false }
    }
}

/// What came of the decision before.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Feedback {
    /// The agent's own reward for its last decision.
    pub own: f64,
    /// The pool's mean reward, if the coordinator answered.
    pub team: Option<f64>,
    /// How many decisions before the last one the team's reward belongs to: 0 in real time, 1 in lock-step.
    pub team_lag: usize,
}

/// A way to decide.
pub trait Policy: Send {
    /// Its name in tables and metrics.
    fn name(&self) -> &'static str;

    /// Picks a scale.
    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error>;

    /// Hears what came of its last decision. Rule-based policies need not listen.
    fn feedback(&mut self, _: Feedback) -> Result<(), crate::Error> {
        Ok(())
    }

    /// What it looks at of the others beyond g's sums: see [`AuxiliaryState::detail`].
    fn wants(&self) -> Aspects {
        Aspects::NONE
    }

    /// Forgets the workload's past: a new episode begins.
    fn reset(&mut self);
}

impl<P: Policy + ?Sized> Policy for Box<P> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        (**self).decide(view)
    }
    fn feedback(&mut self, feedback: Feedback) -> Result<(), crate::Error> {
        (**self).feedback(feedback)
    }
    fn wants(&self) -> Aspects {
        (**self).wants()
    }
    fn reset(&mut self) {
        (**self).reset();
    }
}
