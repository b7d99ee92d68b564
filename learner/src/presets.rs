//! Settings by name: every published variant, each in two families.
//!
//! A variant says what an agent learns from: whose reward, what it knows of the others, with whom it shares its network,
//! and whether all act at once. A family says with which reward, networks and hyperparameters: [`Family::Paper`] has the
//! published ones, [`Family::Default`] those that measured better (a shorter discount horizon, more inputs, masks instead
//! of penalties, larger minibatches from several environments). `simppo` names a variant of the default family,
//! `paper-simppo` the same of the published one; `default` and `paper` name what is shipped and what was published.
//! `residual` is for a network that corrects the wishes of a plan.

use crate::config::{Activation, AuxiliaryForm, Config, Curriculum, Reward, Sharing, Turns};
use crate::error::Error;

/// What an agent learns from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Variant {
    /// S-RL: its own reward; the others are part of the environment.
    Single,
    /// IL-RL: the team's reward, and nothing else of the others.
    Independent,
    /// CPQ-RL: a central queue lets agents act one at a time, whoever keeps its SLO worst first.
    Queue,
    /// SIMPPO: the team's reward, g in the critic, networks shared.
    Simppo,
    /// SIMPPO with the mean of all local states as g.
    SimppoAll,
    /// SIMPPO with a network for each agent, from scratch.
    SimppoUnshared,
}

impl Variant {
    /// All of them, in the order in which tables show them.
    pub const ALL: [Self; 6] =
        [Self::Single, Self::Independent, Self::Queue, Self::Simppo, Self::SimppoAll, Self::SimppoUnshared];

    /// Its name in configuration.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Single => "s-rl",
            Self::Independent => "il-rl",
            Self::Queue => "cpq-rl",
            Self::Simppo => "simppo",
            Self::SimppoAll => "simppo-all",
            Self::SimppoUnshared => "simppo-unshared",
        }
    }

    /// The variant within a family.
    #[must_use]
    pub fn of(self, family: Family) -> Config {
        let base = family.base();
        // A team's reward says little about one agent among many: ours take half of their own.
        let (team, shared, alone) = match family {
            Family::Paper => (1.0, Sharing::Base, 5),
            Family::Default => (0.5, Sharing::Pool, 50),
        };
        let without = Config { auxiliary: 0, sharing: Sharing::None, minibatch: alone, ..base.clone() };
        match self {
            Self::Single => {
                // The publication's minibatch of a single agent.
                let minibatch = if family == Family::Paper { 10 } else { alone };
                Config { team_share: 0.0, minibatch, ..without }
            }
            Self::Independent => Config { team_share: 1.0, ..without },
            // An agent has one turn in as many rounds as there are agents: longer episodes make up for some of it.
            Self::Queue => {
                Config { team_share: 0.0, turns: Turns::One, horizon: 4 * base.horizon, curriculum: None, ..without }
            }
            Self::Simppo => Config { team_share: team, sharing: shared, ..base },
            Self::SimppoAll => {
                let (auxiliary, auxiliary_form) = (7, AuxiliaryForm::States);
                Config { team_share: team, sharing: shared, auxiliary, auxiliary_form, ..base }
            }
            Self::SimppoUnshared => Config { team_share: team, sharing: Sharing::None, minibatch: alone, ..base },
        }
    }
}

/// With which reward, networks and hyperparameters.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Family {
    /// The published ones.
    Paper,
    /// Those that measured better.
    Default,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::Paper, Self::Default];

    /// Its name in tables.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Paper => "paper",
            Self::Default => "default",
        }
    }

    fn base(self) -> Config {
        match self {
            Self::Paper => Config::paper(),
            Self::Default => Config::preset_default(),
        }
    }
}

impl Config {
    /// The settings of a name.
    ///
    /// # Errors
    /// [`Error::Preset`] with all names for any other.
    pub fn preset(name: &str) -> Result<Self, Error> {
        let named = Family::ALL.into_iter().find(|family| family.name() == name);
        let variant = |name: &str| Variant::ALL.into_iter().find(|variant| variant.name() == name);
        let of_paper = name.strip_prefix("paper-").and_then(variant).map(|variant| variant.of(Family::Paper));
        let residual = (name == "residual").then(Self::residual);
        let config = named.map(Family::base).or(of_paper).or(residual);
        config.or_else(|| variant(name).map(|variant| variant.of(Family::Default))).ok_or_else(|| {
            let variants = Variant::ALL.map(Variant::name);
            let known =
                format!("default, paper, residual, {0}, or one of the latter after `paper-`", variants.join(", "));
            Error::Preset { name: name.to_owned(), known }
        })
    }

    /// SIMPPO as published.
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
            team_weighted: false,
            auxiliary_form: AuxiliaryForm::Sums,
            auxiliary_categories: false,
            auxiliary_percentiles: false,
            auxiliary_in_actor: false,
            sharing: Sharing::Base,
            base_rate: 0.02,
            turns: Turns::All,
            // Published: from about the 70th episode on they grow linearly to 50 steps. Not published: from how many,
            // until when, and what counts as not being able to keep the SLO.
            curriculum: Some(Curriculum { first: 10, patience: 5, from: 70, to: 140 }),
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
            team_weighted: false,
            auxiliary_form: AuxiliaryForm::Means,
            auxiliary_categories: false,
            auxiliary_percentiles: false,
            auxiliary_in_actor: false,
            sharing: Sharing::Pool,
            base_rate: 0.02,
            turns: Turns::All,
            curriculum: None,
            reward: Reward::BALANCED,
            horizon: 50,
            environments: 4,
            embedding: 8,
        }
    }

    /// A network that moves from a plan's wish: it sees what the plan knows, earns its own reward, and explores little,
    /// because the plan is good already. Episodes are long enough for the plan to get to know its workload.
    #[must_use]
    pub fn residual() -> Self {
        Self {
            observation: 21 + 11,
            embedding: 0,
            learning_rate: 1e-3,
            entropy: 0.003,
            horizon: 120,
            minibatch: 480,
            ..Self::preset_default()
        }
    }
}
