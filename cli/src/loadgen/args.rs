//! Settings of `meanfield loadgen`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, builder::BoolishValueParser};
use meanfield_common::identity::PoolName;
use meanfield_loadgen::mischief::Mischief;

use crate::args::{duration, security::TrustArgs};

#[derive(Debug, Args)]
pub struct LoadgenArgs {
    #[command(subcommand)]
    pub command: LoadgenCommand,
}

#[derive(Debug, Subcommand)]
pub enum LoadgenCommand {
    /// Many agents on few connections, which report at a rate, come and go, and misbehave if told to. Fails if a good
    /// request is refused or a bad one taken.
    Swarm(SwarmArgs),
}

#[derive(Debug, Args)]
pub struct SwarmArgs {
    /// URL of the coordinator; https needs --ca-file.
    #[arg(long, env = "MEANFIELD_COORDINATOR", default_value = "http://127.0.0.1:7600", value_name = "URL")]
    pub coordinator: String,
    /// Bearer token of the coordinator. Prefer the environment: flags show in process lists.
    #[arg(long, env = "MEANFIELD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// The coordinator's data directory, to find the token in when none is given.
    #[arg(long, env = "MEANFIELD_DATA_DIR", default_value = "data", value_name = "DIR")]
    pub data_dir: PathBuf,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// Load a coordinator on another machine, which is not asked whether it wants that.
    #[arg(long, env = "MEANFIELD_BEYOND_LOOPBACK", value_parser = BoolishValueParser::new())]
    pub beyond_loopback: bool,
    /// Pool to join.
    #[arg(long, env = "MEANFIELD_POOL", default_value = "default", value_name = "NAME")]
    pub pool: PoolName,
    /// How many agents.
    #[arg(long, env = "MEANFIELD_AGENTS", default_value_t = 1000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    pub agents: u64,
    /// Over how many connections, each with one request at a time.
    #[arg(long, env = "MEANFIELD_CONNECTIONS", default_value_t = 16, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=512))]
    pub connections: u64,
    /// Heartbeats a second of all together. They are sent when they are due, whether or not earlier ones are answered.
    #[arg(long, env = "MEANFIELD_RATE", default_value_t = 1000.0, value_name = "NUMBER")]
    pub rate: f64,
    /// Heartbeats in a request: one goes as JSON, more go in the compact form.
    #[arg(long, env = "MEANFIELD_BATCH", default_value_t = 1, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=8192))]
    pub batch: u64,
    /// For how long.
    #[arg(long, env = "MEANFIELD_DURATION", default_value = "10s", value_parser = duration, value_name = "TIME")]
    pub duration: Duration,
    /// Joins and leaves a second, of agents beyond these.
    #[arg(long, env = "MEANFIELD_CHURN", default_value_t = 0.0, value_name = "NUMBER")]
    pub churn: f64,
    /// How some misbehave: nan (a reward that is no number), epoch (of another registration), replay (a sequence number
    /// long passed), flood (the same request sixteen times more).
    #[arg(long, env = "MEANFIELD_MISBEHAVE", value_delimiter = ',', value_name = "NAME,...")]
    pub misbehave: Vec<Mischief>,
    /// Which share of the heartbeats misbehaves, from 0 to 1.
    #[arg(long, env = "MEANFIELD_MISBEHAVE_SHARE", default_value_t = 0.05, value_name = "SHARE")]
    pub misbehave_share: f64,
    /// Seed of who misbehaves when.
    #[arg(long, env = "MEANFIELD_SEED", default_value_t = 1)]
    pub seed: u64,
    /// Write the result as JSON too.
    #[arg(long, env = "MEANFIELD_LOADGEN_JSON", value_name = "FILE")]
    pub json: Option<PathBuf>,
}
