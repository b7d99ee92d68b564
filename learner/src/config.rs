//! Every setting of the learner in one place, so that an experiment is described by one document.
//!
//! Two presets exist. [`Config::paper`] holds the values of SIMPPO's publication, for reproducing it.
//! [`Config::preset_default`] holds what measured better: a shorter discount horizon, one network fed by all agents,
//! masks instead of penalties, and larger minibatches from several environments.

pub use meanfield_common::{mean_field::Form as AuxiliaryForm, reward::Shape as Reward};
use serde::{Deserialize, Serialize};

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
    /// How the aggregate of the others is expressed.
    pub auxiliary_form: AuxiliaryForm,
    /// Whether all agents train and use one network, or each its own.
    pub shared_network: bool,
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
    /// The values of the publication.
    #[must_use]
    pub fn paper() -> Self {
        Self {
            observation: 7,
            auxiliary: 12,
            heads: vec![7],
            hidden: vec![64, 64],
            activation: Activation::Tanh,
            gamma: 0.99,
            lambda: 0.95,
            learning_rate: 3e-4,
            learning_rate_final: 3e-4,
            clip: 0.2,
            entropy: 0.01,
            value_weight: 0.05,
            epochs: 5,
            minibatch: 5,
            max_gradient_norm: None,
            normalise_advantages: false,
            mask_actions: false,
            team_share: 1.0,
            auxiliary_form: AuxiliaryForm::Sums,
            shared_network: false,
            reward: Reward::PAPER,
            horizon: 50,
            environments: 1,
            embedding: 0,
        }
    }

    /// What we ship: the settings that measured best.
    #[must_use]
    pub fn preset_default() -> Self {
        Self {
            observation: 21 + 8,
            auxiliary: 12,
            heads: vec![3, 3, 3],
            hidden: vec![64, 64],
            activation: Activation::Tanh,
            gamma: 0.9,
            lambda: 0.95,
            learning_rate: 2e-3,
            learning_rate_final: 1e-4,
            clip: 0.2,
            entropy: 0.01,
            value_weight: 0.5,
            epochs: 5,
            minibatch: 200,
            max_gradient_norm: Some(0.5),
            normalise_advantages: true,
            mask_actions: true,
            team_share: 0.0,
            auxiliary_form: AuxiliaryForm::Means,
            shared_network: true,
            reward: Reward::BALANCED,
            horizon: 50,
            environments: 4,
            embedding: 8,
        }
    }

    /// Actor outputs: the sizes of all heads together.
    #[must_use]
    pub fn logits(&self) -> usize {
        self.heads.iter().sum()
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
        match self.reward {
            Reward::Paper { alpha } => real("reward.alpha", alpha as f32, |v| (0.0..=1.0).contains(&v), "in [0, 1]")?,
            Reward::Balanced { violation, cpu, memory } => {
                real("reward.violation", violation as f32, |v| v >= 0.0, "at least 0")?;
                real("reward.cpu", cpu as f32, |v| v >= 0.0, "at least 0")?;
                real("reward.memory", memory as f32, |v| v >= 0.0, "at least 0")?;
            }
        }
        count("horizon", self.horizon, 1, MAX_STEPS, "from 1 to 100000")?;
        count("environments", self.environments, 1, MAX_ENVIRONMENTS, "from 1 to 1000")?;
        count("embedding", self.embedding, 0, self.observation, "at most `observation`")
    }
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
