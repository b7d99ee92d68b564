//! A policy that follows a plan: one scale a step, made in advance.

use meanfield_common::resources::Scale;

use super::{Decision, Policy, View};

/// The policy. After its last step the plan begins anew, as arrivals do.
#[derive(Debug, Clone)]
pub struct Planned {
    name: &'static str,
    plan: Vec<Scale>,
    next: usize,
}

impl Planned {
    /// Follows `plan`, whose first entry is for the step after the first decision; an empty plan holds.
    #[must_use]
    pub fn new(name: &'static str, plan: Vec<Scale>) -> Self {
        Self { name, plan, next: 0 }
    }
}

impl Policy for Planned {
    fn name(&self) -> &'static str {
        self.name
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let wish = self.plan.get(self.next).copied().unwrap_or(view.seen.scale);
        self.next = if self.plan.is_empty() { 0 } else { (self.next + 1) % self.plan.len() };
        Ok(Decision::wish(view.target.bounds.clamp(&wish)))
    }

    fn reset(&mut self) {
        self.next = 0;
    }
}
