//! How g becomes network input.

use serde::{Deserialize, Serialize};

use super::{Aspects, AuxiliaryState, FEATURES, FIELDS, Moments, PERCENTILES};

/// How a virtual agent is expressed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Form {
    /// As published: limits and actions as sums, which grow with the number of agents.
    Sums,
    /// Everything as means, which do not.
    Means,
    /// The mean of the others' local states instead of chosen statistics: the publication's ablation.
    States,
}

/// Which numbers of g a network sees.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Layout {
    /// How a virtual agent is expressed.
    pub form: Form,
    /// One virtual agent a category instead of one for all, each with its share of the agents.
    pub categories: bool,
    /// Percentiles of each field over all others, behind the rest.
    pub percentiles: bool,
}

impl Layout {
    /// One virtual agent, without percentiles.
    #[must_use]
    pub fn of(form: Form) -> Self {
        Self { form, categories: false, percentiles: false }
    }

    /// How many numbers that makes.
    #[must_use]
    pub fn width(&self) -> usize {
        let agents = match (self.form, self.categories) {
            (Form::States, _) => 7,
            (_, true) => 3 * (1 + FEATURES),
            (_, false) => FEATURES,
        };
        agents + if self.percentiles { PERCENTILES.len() * FIELDS } else { 0 }
    }

    /// Which parts of [`AuxiliaryState::detail`] must be asked for.
    #[must_use]
    pub fn aspects(&self) -> Aspects {
        let states = self.form == Form::States;
        let parts = [
            (states, Aspects::STATES),
            (self.categories && !states, Aspects::CATEGORIES),
            (self.percentiles, Aspects::PERCENTILES),
        ];
        parts.iter().filter(|(wanted, _)| *wanted).fold(Aspects::NONE, |all, (_, part)| all | *part)
    }
}

impl AuxiliaryState {
    /// The numbers in the order in which a network sees them; zeros for a detail that nobody told.
    #[must_use]
    pub fn inputs(&self, layout: &Layout) -> Vec<f32> {
        let detail = self.detail.as_deref().copied().unwrap_or_default();
        let mut inputs = Vec::with_capacity(layout.width());
        if layout.form == Form::States {
            inputs.extend(detail.states.unwrap_or_default().map(|mean| mean as f32));
        } else if layout.categories {
            for kind in &detail.categories.unwrap_or_default() {
                inputs.push(kind.others as f32 / self.others.max(1) as f32);
                inputs.extend(virtual_agent(&kind.fields, layout.form));
            }
        } else {
            let fields = [
                self.cpu_limit,
                self.memory_limit,
                self.vertical,
                self.horizontal,
                self.slo_preservation,
                self.utilisation,
            ];
            inputs.extend(virtual_agent(&fields, layout.form));
        }
        if layout.percentiles {
            inputs.extend(detail.percentiles.unwrap_or_default().iter().flatten().map(|value| *value as f32));
        }
        inputs
    }
}

/// Six values, then six standard deviations. Limits and actions may be sums; SP and utilisation never are.
fn virtual_agent(fields: &[Moments; FIELDS], form: Form) -> [f32; FEATURES] {
    let mut numbers = [0.0; FEATURES];
    for (field, moments) in fields.iter().enumerate() {
        let summed = form == Form::Sums && field < 4;
        numbers[field] = if summed { moments.sum } else { moments.mean } as f32;
        numbers[FIELDS + field] = moments.std as f32;
    }
    numbers
}
