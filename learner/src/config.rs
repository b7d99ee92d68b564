//! Every setting of the learner in one place, so that an experiment is described by one document.
//!
//! [`crate::presets`] has named ones: every published variant, with the published settings and with ours.

use meanfield_common::mean_field::Layout;
pub use meanfield_common::{mean_field::Form as AuxiliaryForm, reward::Shape as Reward};
use serde::{Deserialize, Deserializer, Serialize};

use crate::error::Error;

/// Most heads a policy may have; bounds the inline array in [`crate::Choice`].
pub const MAX_HEADS: usize = 8;
/// Most actions of one head; an action fits a byte.
pub const MAX_ACTIONS: usize = 255;
/// Widest layer or input. A damaged checkpoint header must not be able to ask for terabytes.
pub const MAX_WIDTH: usize = 4096;
/// Longest episode.
pub const MAX_STEPS: usize = 100_000;
/// Most parallel environments.
pub const MAX_ENVIRONMENTS: usize = 1000;
/// Most hidden layers.
pub const MAX_LAYERS: usize = 8;

/// Non-linearity between hidden layers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Activation {
    /// Hyperbolic tangent; bounded, the usual choice for small control networks.
    Tanh,
    /// max(0, x).
    Relu,
}

/// Who trains and uses which network.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Sharing {
    /// Each agent its own, from scratch.
    None,
    /// Each agent its own, as published: it starts from its category's base model, which slowly follows the agents.
    Base,
    /// One for all agents of a category.
    Category,
    /// One for all agents.
    Pool,
}

/// Who may act in a round.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Turns {
    /// Everybody.
    All,
    /// One agent, the others hold: whoever keeps its SLO worst among those that have not had their turn yet.
    One,
}

/// Short episodes at first: while a policy cannot keep its SLO, it learns nothing from staying in trouble.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Curriculum {
    /// Steps of the first episodes.
    pub first: usize,
    /// Until episodes are of full length, so many rounds in a row in which at least half of the agents miss their SLO end
    /// one.
    pub patience: usize,
    /// The episode from which they grow, linearly.
    pub from: u64,
    /// The episode from which they have their full length.
    pub to: u64,
}

/// All settings of networks, PPO and the way experience is gathered.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Config {
    /// Inputs of the actor: the agent's own state, including the place for an embedding.
    pub observation: usize,
    /// Further inputs of the critic: the aggregate of the other agents. 0 trains without it.
    pub auxiliary: usize,
    /// Sizes of the softmax heads; each picks one action per step. `[7]` is one choice among seven, `[3, 3, 3]` three among three.
    pub heads: Vec<usize>,
    /// Widths of the hidden layers, the same in actor and critic. Multiples of 32 run fastest.
    pub hidden: Vec<usize>,
    /// Non-linearity between the layers.
    pub activation: Activation,
    /// Discount per step, in `[0, 1]`.
    pub gamma: f32,
    /// Mixing of one-step and whole-return advantage estimates, in `[0, 1]`.
    pub lambda: f32,
    /// Adam's step size at progress 0.
    pub learning_rate: f32,
    /// Adam's step size at progress 1; linear in between.
    pub learning_rate_final: f32,
    /// How far the probability ratio may move from 1 before its gradient is cut, in `(0, 1)`.
    pub clip: f32,
    /// Weight of the entropy bonus.
    pub entropy: f32,
    /// Weight of the value loss.
    pub value_weight: f32,
    /// Passes over the batch per update.
    pub epochs: usize,
    /// Steps per gradient step.
    pub minibatch: usize,
    /// Bound on the norm of the whole gradient, actor and critic together; none leaves it as it is.
    pub max_gradient_norm: Option<f32>,
    /// Whether advantages are shifted and scaled to mean 0 and deviation 1 over the batch.
    pub normalise_advantages: bool,
    /// Whether illegal actions are masked. If not, masks are ignored and the environment penalises the choice.
    pub mask_actions: bool,
    /// How much of the training reward is the team's mean instead of the agent's own, in `[0, 1]`.
    pub team_share: f32,
    /// Whether the team's mean counts each agent by its priority. Whoever sees all agents must say it: a training does.
    pub team_weighted: bool,
    /// How the aggregate of the others is expressed.
    pub auxiliary_form: AuxiliaryForm,
    /// One virtual agent a category instead of one for all.
    pub auxiliary_categories: bool,
    /// Percentiles in the aggregate too.
    pub auxiliary_percentiles: bool,
    /// Whether the actor sees the aggregate as well; it is then part of `observation`, and `auxiliary` is 0.
    pub auxiliary_in_actor: bool,
    /// Who trains and uses which network.
    #[serde(alias = "shared_network", deserialize_with = "sharing")]
    pub sharing: Sharing,
    /// How much of the way to its agents a base model goes in an episode, in `[0, 1]`.
    pub base_rate: f32,
    /// Who may act in a round.
    pub turns: Turns,
    /// Shorter episodes at first; none for full ones from the start.
    pub curriculum: Option<Curriculum>,
    /// Which reward is computed.
    pub reward: Reward,
    /// Steps per episode.
    pub horizon: usize,
    /// Environments stepped side by side when training in simulation.
    pub environments: usize,
    /// How many of the `observation` inputs are reserved for a workload embedding.
    pub embedding: usize,
}

impl Default for Config {
    fn default() -> Self {
        Self::preset_default()
    }
}

impl Config {
    /// Actor outputs: the sizes of all heads together.
    #[must_use]
    pub fn logits(&self) -> usize {
        self.heads.iter().sum()
    }

    /// Which numbers the aggregate of the others is made of.
    #[must_use]
    pub fn auxiliary_layout(&self) -> Layout {
        let (form, categories) = (self.auxiliary_form, self.auxiliary_categories);
        Layout { form, categories, percentiles: self.auxiliary_percentiles }
    }

    /// Whether any network sees the aggregate of the others.
    #[must_use]
    pub fn sees_others(&self) -> bool {
        self.auxiliary > 0 || self.auxiliary_in_actor
    }

    /// Steps of an episode, counted from 0; shorter than `horizon` early in a curriculum.
    #[must_use]
    pub fn horizon_at(&self, episode: u64) -> usize {
        let Some(Curriculum { first, from, to, .. }) = self.curriculum else { return self.horizon };
        if episode >= to {
            return self.horizon;
        }
        let done = episode.saturating_sub(from) as f64 / to.saturating_sub(from).max(1) as f64;
        let first = first.min(self.horizon);
        first + ((self.horizon - first) as f64 * done).round() as usize
    }

    /// After how many rounds of trouble in a row an episode ends; none once episodes are whole.
    #[must_use]
    pub fn patience_at(&self, episode: u64) -> Option<usize> {
        self.curriculum.filter(|curriculum| episode < curriculum.to).map(|curriculum| curriculum.patience)
    }

    /// Adam's step size at `progress`, which is clamped to `[0, 1]`.
    #[must_use]
    pub fn learning_rate_at(&self, progress: f32) -> f32 {
        self.learning_rate + (self.learning_rate_final - self.learning_rate) * progress.clamp(0.0, 1.0)
    }

    /// Whether the learner can work with these settings.
    ///
    /// # Errors
    /// [`Error::Config`] names the first field that is out of bounds.
    pub fn validate(&self) -> Result<(), Error> {
        count("observation", self.observation, 1, MAX_WIDTH, "from 1 to 4096")?;
        count("auxiliary", self.auxiliary, 0, MAX_WIDTH, "at most 4096")?;
        count("heads", self.heads.len(), 1, MAX_HEADS, "a list of 1 to 8 heads")?;
        for &head in &self.heads {
            count("heads", head, 1, MAX_ACTIONS, "a list of sizes from 1 to 255")?;
        }
        let choices = self.heads.iter().copied().max().unwrap_or(0);
        count(
            "heads",
            choices,
            2,
            MAX_ACTIONS,
            "a list with a head of at least 2 actions, or there is nothing to learn",
        )?;
        count("hidden", self.hidden.len(), 0, MAX_LAYERS, "a list of at most 8 layers")?;
        for &width in &self.hidden {
            count("hidden", width, 1, MAX_WIDTH, "a list of widths from 1 to 4096")?;
        }
        real("gamma", self.gamma, |v| (0.0..=1.0).contains(&v), "in [0, 1]")?;
        real("lambda", self.lambda, |v| (0.0..=1.0).contains(&v), "in [0, 1]")?;
        real("learning_rate", self.learning_rate, |v| v > 0.0 && v <= 1.0, "in (0, 1]")?;
        real("learning_rate_final", self.learning_rate_final, |v| (0.0..=1.0).contains(&v), "in [0, 1]")?;
        real("clip", self.clip, |v| v > 0.0 && v < 1.0, "in (0, 1)")?;
        real("entropy", self.entropy, |v| v >= 0.0, "at least 0")?;
        real("value_weight", self.value_weight, |v| v >= 0.0, "at least 0")?;
        count("epochs", self.epochs, 1, usize::MAX, "at least 1")?;
        count("minibatch", self.minibatch, 1, usize::MAX, "at least 1")?;
        if let Some(norm) = self.max_gradient_norm {
            real("max_gradient_norm", norm, |v| v > 0.0, "above 0, or absent")?;
        }
        real("team_share", self.team_share, |v| (0.0..=1.0).contains(&v), "in [0, 1]")?;
        if self.team_weighted && self.team_share == 0.0 {
            let (field, bound) = ("team_weighted", "false where `team_share` is 0");
            return Err(Error::Config { field, value: "true".to_owned(), bound });
        }
        match self.reward {
            Reward::Paper { alpha } => real("reward.alpha", alpha as f32, |v| (0.0..=1.0).contains(&v), "in [0, 1]")?,
            Reward::Balanced { violation, cpu, memory } => {
                real("reward.violation", violation as f32, |v| v >= 0.0, "at least 0")?;
                real("reward.cpu", cpu as f32, |v| v >= 0.0, "at least 0")?;
                real("reward.memory", memory as f32, |v| v >= 0.0, "at least 0")?;
            }
        }
        real("base_rate", self.base_rate, |v| (0.0..=1.0).contains(&v), "in [0, 1]")?;
        let queued = self.turns == Turns::One;
        real("team_share", self.team_share, |v| !queued || v == 0.0, "0 where agents act one at a time")?;
        let both = self.auxiliary_in_actor && self.auxiliary > 0;
        count(
            "auxiliary",
            if both { self.auxiliary } else { 0 },
            0,
            0,
            "0 where the actor sees the aggregate already",
        )?;
        if let Some(Curriculum { first, patience, from, to }) = self.curriculum {
            count("curriculum.first", first, 2, self.horizon.max(2), "from 2 to `horizon`")?;
            count("curriculum.patience", patience, 1, MAX_STEPS, "from 1 to 100000")?;
            if to < from {
                let (field, bound) = ("curriculum.to", "at least `curriculum.from`");
                return Err(Error::Config { field, value: to.to_string(), bound });
            }
        }
        count("horizon", self.horizon, 1, MAX_STEPS, "from 1 to 100000")?;
        count("environments", self.environments, 1, MAX_ENVIRONMENTS, "from 1 to 1000")?;
        count("embedding", self.embedding, 0, self.observation, "at most `observation`")
    }
}

/// Reads also what older checkpoints say: whether all agents share one network.
fn sharing<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Sharing, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "none, base, category or pool (or true or false, as older files have)")]
    enum Either {
        Shared(bool),
        Named(Sharing),
    }
    Ok(match Either::deserialize(deserializer)? {
        Either::Shared(true) => Sharing::Pool,
        Either::Shared(false) => Sharing::None,
        Either::Named(sharing) => sharing,
    })
}

fn count(field: &'static str, value: usize, low: usize, high: usize, bound: &'static str) -> Result<(), Error> {
    if (low..=high).contains(&value) { Ok(()) } else { Err(Error::Config { field, value: value.to_string(), bound }) }
}

fn real(field: &'static str, value: f32, holds: impl Fn(f32) -> bool, bound: &'static str) -> Result<(), Error> {
    if value.is_finite() && holds(value) {
        Ok(())
    } else {
        Err(Error::Config { field, value: value.to_string(), bound })
    }
}
