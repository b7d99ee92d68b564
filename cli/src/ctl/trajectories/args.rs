//! Settings of `meanfield ctl trajectories`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum, builder::BoolishValueParser};
use meanfield_common::identity::{Category, PoolName};
use meanfield_coordinator::trajectories::export::Format;

use crate::{
    args::{count, duration},
    ctl::args::Access,
};

#[derive(Debug, Subcommand)]
pub enum TrajectoriesCommand {
    /// List episodes by time, or those with the best or the worst sums of rewards.
    List(List),
    /// Show the latest rewards of an agent, the last one first.
    Rewards(Rewards),
    /// Draw steps for training, the same for the same seed.
    Samples(Samples),
    /// Write all steps to a file, as CSV or Parquet.
    Export(Export),
    /// Take in steps that were exported; what is there already changes nothing.
    Import(Import),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Order {
    /// By when their first step arrived.
    Time,
    /// The highest sums of rewards first, a thousand at most.
    Best,
    /// The lowest ones first, a thousand at most.
    Worst,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FileFormat {
    /// Text, a line a step.
    Csv,
    /// Columns in binary.
    Parquet,
}

impl FileFormat {
    pub fn name(self) -> &'static str {
        match self {
            Self::Csv => "csv",
            Self::Parquet => "parquet",
        }
    }
}

impl From<FileFormat> for Format {
    fn from(format: FileFormat) -> Self {
        match format {
            FileFormat::Csv => Self::Csv,
            FileFormat::Parquet => Self::Parquet,
        }
    }
}

/// Which episodes count.
#[derive(Debug, Args)]
pub struct Filter {
    /// Only of this agent: its id, its name, or POOL:NAME. One that is gone has its id alone.
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
    /// Only of this pool.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<PoolName>,
    /// Only of this category: cpu, memory or io.
    #[arg(long, value_name = "CATEGORY")]
    pub category: Option<Category>,
    /// Only those that began within the last so long.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub since: Option<Duration>,
    /// Only those that began longer ago than this.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub until: Option<Duration>,
}

#[derive(Debug, Args)]
pub struct List {
    /// In which order.
    #[arg(long, value_enum, default_value_t = Order::Time)]
    pub order: Order,
    /// How many at most [default: all].
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct Rewards {
    /// Its id, its name, or POOL:NAME where several pools have one of this name.
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// How many at most, from 1 to 1000.
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    pub limit: usize,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct Samples {
    /// How many, from 1 to 1000.
    #[arg(long, default_value_t = 20, value_name = "COUNT")]
    pub limit: usize,
    /// The seed.
    #[arg(long, default_value_t = 0)]
    pub seed: u64,
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct Export {
    /// Where they go.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// In which format [default: by the end of the file's name].
    #[arg(long, value_enum)]
    pub format: Option<FileFormat>,
    #[command(flatten)]
    pub filter: Filter,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct Import {
    /// What an export wrote.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// In which format [default: by the end of the file's name].
    #[arg(long, value_enum)]
    pub format: Option<FileFormat>,
    /// Check every row and say what would happen, without taking any.
    #[arg(long, value_parser = BoolishValueParser::new())]
    pub dry_run: bool,
    #[command(flatten)]
    pub access: Access,
}
