//! Settings of `meanfield ctl pools`, `capacity`, `budget` and `forecast`.

use std::path::PathBuf;

use clap::{ArgGroup, Args, Subcommand};
use meanfield_common::{
    identity::{AgentName, PoolName},
    resources::{Bytes, MilliCores},
    scarcity::{Mode, Source},
};
use meanfield_coordinator::settings;

use crate::{
    args::count,
    ctl::args::{Access, Terms},
};

#[derive(Debug, Subcommand)]
pub enum PoolsCommand {
    /// List pools, in order of their names.
    List(ListPools),
    /// Show a pool.
    Show(OfPool),
    /// Make a pool; refused if there is one of this name.
    Create(SetPool),
    /// Change settings of a pool; those that are not named stay as they are.
    Set(SetPool),
    /// Remove a pool that has no members, with all that was ordered about it.
    Remove(RemovePool),
    /// How a pool goes about scarcity.
    #[command(subcommand)]
    Scarcity(ScarcityCommand),
    /// List who was cut, for whom, how much and why, the oldest first.
    Cuts(ListCuts),
}

#[derive(Debug, Subcommand)]
pub enum ScarcityCommand {
    /// Show what was ordered, and what counts.
    Show(OfPool),
    /// Change some of it; what is not named stays as it is.
    Set(SetScarcity),
    /// Go back to the defaults.
    Clear(ChangePool),
}

#[derive(Debug, Args)]
#[command(group(ArgGroup::new("named").required(true).multiple(true)))]
pub struct SetScarcity {
    /// The pool's name.
    #[arg(value_name = "POOL")]
    pub pool: PoolName,
    /// What is made of too little: off, advise or enforce.
    #[arg(long, value_name = "MODE", group = "named")]
    pub mode: Option<Mode>,
    /// By how much of its weight one who yields is worth more with each minute, from 0 to 100.
    #[arg(long, value_name = "PER MINUTE", group = "named", allow_negative_numbers = true)]
    pub ageing: Option<f64>,
    /// Where the capacity comes from: declared, or reported by agents.
    #[arg(long, value_name = "SOURCE", group = "named")]
    pub capacity: Option<Source>,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Args)]
pub struct ListCuts {
    /// The pool's name.
    #[arg(value_name = "POOL", default_value = "default")]
    pub pool: PoolName,
    /// Only of the agent of this name.
    #[arg(long, value_name = "NAME")]
    pub agent: Option<AgentName>,
    /// Only cuts in this state: open or ended.
    #[arg(long, value_name = "STATE")]
    pub state: Option<String>,
    /// How many at most [default: all].
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct ListPools {
    /// Only pools whose names begin so.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// How many at most [default: all].
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct SetPool {
    /// Its name.
    #[arg(value_name = "POOL")]
    pub pool: PoolName,
    /// What its members share: cluster, node-pool or tenant [default of a new one: cluster].
    #[arg(long, value_name = "KIND")]
    pub kind: Option<settings::Kind>,
    /// What it is for, in at most 500 characters.
    #[arg(long, value_name = "TEXT")]
    pub description: Option<String>,
    /// How the team reward is made of the members' rewards: mean, or weighted by the weights of their claims [default of
    /// a new one: mean].
    #[arg(long, value_name = "HOW")]
    pub team_reward: Option<settings::TeamReward>,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Args)]
pub struct RemovePool {
    /// Its name.
    #[arg(value_name = "POOL")]
    pub pool: PoolName,
    #[command(flatten)]
    pub terms: Terms,
}

/// A pool.
#[derive(Debug, Args)]
pub struct OfPool {
    /// Its name.
    #[arg(value_name = "POOL", default_value = "default")]
    pub pool: PoolName,
    #[command(flatten)]
    pub access: Access,
}

/// A change of a pool.
#[derive(Debug, Args)]
pub struct ChangePool {
    /// Its name.
    #[arg(value_name = "POOL", default_value = "default")]
    pub pool: PoolName,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Subcommand)]
pub enum CapacityCommand {
    /// Show what was ordered, what is configured, and which counts.
    Show(OfPool),
    /// Order a capacity; it counts more than the configuration.
    Set(SetCapacity),
    /// Go back to the configured one.
    Clear(ChangePool),
}

#[derive(Debug, Args)]
pub struct SetCapacity {
    /// The pool's name.
    #[arg(value_name = "POOL")]
    pub pool: PoolName,
    /// CPU, such as 40 or 500m.
    #[arg(value_name = "CORES", allow_negative_numbers = true)]
    pub cores: MilliCores,
    /// Memory, such as 160Gi.
    #[arg(value_name = "MEMORY", allow_negative_numbers = true)]
    pub memory: Bytes,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Subcommand)]
pub enum BudgetCommand {
    /// Show the budget, what it makes in amounts, and how much is left.
    Show(OfPool),
    /// Limit what is moved within any minute.
    Set(SetBudget),
    /// Lift the limit.
    Clear(ChangePool),
}

#[derive(Debug, Args)]
pub struct SetBudget {
    /// The pool's name.
    #[arg(value_name = "POOL")]
    pub pool: PoolName,
    /// Percent of the capacity, from 0.01 to 100.
    #[arg(value_name = "PERCENT", allow_negative_numbers = true)]
    pub percent: f64,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Subcommand)]
pub enum ForecastCommand {
    /// Download the network.
    Download(DownloadForecast),
    /// Share a network that `meanfield train --forecast` wrote.
    Share(ShareForecast),
    /// Take it back: agents use the one they ship with.
    Withdraw(ChangePool),
}

#[derive(Debug, Args)]
pub struct DownloadForecast {
    /// The pool's name.
    #[arg(value_name = "POOL")]
    pub pool: PoolName,
    /// Where it goes.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct ShareForecast {
    /// The pool's name.
    #[arg(value_name = "POOL")]
    pub pool: PoolName,
    /// The network (safetensors).
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    #[command(flatten)]
    pub terms: Terms,
}
