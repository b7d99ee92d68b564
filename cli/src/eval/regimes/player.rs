//! Who plays: a policy and its way to coordinate.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::link::Coordination;
use crate::{
    args::EvalArgs,
    eval::{
        cell::Setting,
        contestant::{Contestant, Kind},
        tuning,
        workers::Store,
    },
};

/// A player.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Player {
    /// A policy that is not trained.
    Rule { contestant: Contestant, coordination: Coordination },
    /// One shared network, trained in the regime.
    Learner { coordination: Coordination },
    /// Knows every rate and plans for all at once.
    Central,
}

impl Player {
    pub fn rule(contestant: Contestant, coordination: Coordination) -> Self {
        Self::Rule { contestant, coordination }
    }

    pub fn label(&self) -> String {
        let (name, coordination) = match self {
            Self::Rule { contestant, coordination } => (contestant.label(), *coordination),
            Self::Learner { coordination } => ("learner".to_owned(), *coordination),
            Self::Central => return "central clairvoyant (knows the load)".to_owned(),
        };
        match coordination {
            Coordination::None => name,
            Coordination::Headroom => format!("{name} + headroom in g"),
            Coordination::Price => format!("{name} + price"),
            Coordination::Grants => format!("{name} + grants"),
        }
    }
}

/// HPA on CPU with VPA, tuned for each function on days of the usual load.
pub fn tuned_hpa(args: &EvalArgs, store: &Store) -> anyhow::Result<Contestant> {
    if args.quick {
        return Ok(Contestant::default_of(Kind::HpaCpu));
    }
    let setting = Setting::usual(12);
    let tuned = tuning::tuned(&[Kind::HpaCpu], &setting, 1, args.threads, store)?;
    tuned.into_iter().next().context("HPA has something to tune")
}
