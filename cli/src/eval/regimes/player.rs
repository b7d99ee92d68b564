//! Who plays: a policy and its way to coordinate.

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::link::Coordination;
use crate::{
    args::EvalArgs,
    eval::{
        cell::Setting,
        contestant::{Contestant, Kind},
        tuning::{self, Aim},
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
        let name = match self {
            Self::Rule { contestant, .. } if contestant.tuned => contestant.label(),
            Self::Rule { contestant, .. } => contestant.kind.label().to_owned(),
            Self::Learner { .. } => "learner".to_owned(),
            Self::Central => "central clairvoyant (knows the load)".to_owned(),
        };
        self.addition().map_or(name.clone(), |addition| format!("{name} {addition}"))
    }

    /// Its heading in a table in which it stands behind the same without coordination.
    pub fn heading(&self) -> String {
        self.addition().map_or_else(|| self.label(), str::to_owned)
    }

    fn addition(&self) -> Option<&'static str> {
        let (Self::Rule { coordination, .. } | Self::Learner { coordination }) = self else { return None };
        match coordination {
            Coordination::None => None,
            Coordination::Headroom => Some("+ headroom in g"),
            Coordination::Price => Some("+ price"),
            Coordination::Grants => Some("+ grants"),
        }
    }
}

/// HPA on CPU with VPA, tuned for each function on days of the usual load.
pub fn tuned_hpa(args: &EvalArgs, store: &Store) -> anyhow::Result<Contestant> {
    if args.quick {
        return Ok(Contestant::default_of(Kind::HpaCpu));
    }
    let setting = Setting::usual(12);
    let tuned = tuning::tuned(&[Kind::HpaCpu], &setting, Aim::Reward, 1, args.threads, store)?;
    tuned.into_iter().next().context("HPA has something to tune")
}
