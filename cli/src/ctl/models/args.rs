//! Settings of `meanfield ctl models`.

use std::path::PathBuf;

use clap::{Args, Subcommand, builder::BoolishValueParser};
use meanfield_common::identity::ModelName;

use crate::{
    args::count,
    ctl::args::{Access, Terms},
};

#[derive(Debug, Subcommand)]
pub enum ModelsCommand {
    /// List base models, and what agents get of each.
    List(ListModels),
    /// Show a base model with its versions.
    Show(OfModel),
    /// Take in a version that `meanfield train` wrote; the first of a model is served at once.
    Add(Add),
    /// Download the version that is served, or any other.
    Download(Download),
    /// Say which version agents get: promote, pin, or try one out on some.
    Serve(Serve),
    /// Go back to what agents got before the last change, and pin it.
    Rollback(ChangeModel),
    /// Forget a base model with all of its versions.
    Remove(ChangeModel),
}

#[derive(Debug, Args)]
pub struct ListModels {
    /// Only models whose names begin so.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// How many at most [default: all].
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub access: Access,
}

/// A base model.
#[derive(Debug, Args)]
pub struct OfModel {
    /// Its name.
    #[arg(value_name = "MODEL")]
    pub model: ModelName,
    #[command(flatten)]
    pub access: Access,
}

/// A change of a base model.
#[derive(Debug, Args)]
pub struct ChangeModel {
    /// Its name.
    #[arg(value_name = "MODEL")]
    pub model: ModelName,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Args)]
pub struct Add {
    #[command(flatten)]
    pub of: ChangeModel,
    /// The network (safetensors).
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
}

#[derive(Debug, Args)]
pub struct Download {
    #[command(flatten)]
    pub of: OfModel,
    /// Where it goes.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// This version instead of the one that is served.
    #[arg(long, value_name = "VERSION")]
    pub number: Option<u64>,
    /// The version that this agent gets, as POOL/NAME.
    #[arg(long, value_name = "AGENT", conflicts_with = "number")]
    pub agent: Option<String>,
}

#[derive(Debug, Args)]
pub struct Serve {
    #[command(flatten)]
    pub of: ChangeModel,
    /// What everybody gets who asks.
    #[arg(value_name = "VERSION")]
    pub number: u64,
    /// Keep it when a new average is made.
    #[arg(long, value_parser = BoolishValueParser::new())]
    pub pin: bool,
    /// Another version for a share of the agents.
    #[arg(long, value_name = "VERSION", requires = "share")]
    pub canary: Option<u64>,
    /// That share, above 0 and at most 1.
    #[arg(long, value_name = "SHARE", requires = "canary")]
    pub share: Option<f64>,
}
