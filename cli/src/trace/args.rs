//! Settings of `meanfield trace`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum, builder::BoolishValueParser};
use meanfield_traces::{
    import::{self, Options},
    synth,
};

use crate::args::duration;

#[derive(Debug, Args)]
pub struct TraceArgs {
    #[command(subcommand)]
    pub command: TraceCommand,
}

#[derive(Debug, Subcommand)]
pub enum TraceCommand {
    /// Print a trace's figures: variation, correlation, periods, bursts, idleness.
    Describe(DescribeArgs),
    /// Turn a published trace into the project's own CSV: series,time,requests.
    Import(ImportArgs),
    /// Make a trace with a generator.
    Synth(SynthArgs),
    /// Draw a trace.
    Plot(PlotArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// A row a function, a column a minute: Azure Functions 2019.
    AzureMinutes,
    /// A row an invocation: Azure Functions 2021.
    AzureInvocations,
    /// A row a request: Azure LLM inference 2023.
    AzureLlm,
    /// Requests a minute: World Cup 1998.
    Worldcup,
    /// A column of times and a column a series, or series,time,requests.
    Csv,
    /// Prometheus' answer to a range query.
    Prometheus,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Values {
    /// Requests within each interval.
    Counts,
    /// Requests a second.
    Rates,
}

#[derive(Debug, Args)]
pub struct ReadArgs {
    /// The file to read, plain or packed by gzip or xz.
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// Its format [default: told from its first line].
    #[arg(long, env = "MEANFIELD_TRACE_FORMAT", value_enum)]
    pub format: Option<Format>,
    /// Time between the rows of a series [default: the most frequent], or to count invocations in [default: 1m].
    #[arg(long, env = "MEANFIELD_TRACE_INTERVAL", value_parser = duration, value_name = "TIME")]
    pub interval: Option<Duration>,
    /// What its numbers say [default: rates in Prometheus' answers, counts elsewhere].
    #[arg(long, env = "MEANFIELD_TRACE_VALUES", value_enum)]
    pub values: Option<Values>,
    /// Only busy series, of at least 1440 requests and 10 different counts: those that generators are calibrated on.
    #[arg(long, env = "MEANFIELD_TRACE_BUSY", value_parser = BoolishValueParser::new())]
    pub busy: bool,
}

impl ReadArgs {
    pub fn options(&self) -> Options {
        let format = self.format.map(|format| match format {
            Format::AzureMinutes => import::Format::AzureMinutes,
            Format::AzureInvocations => import::Format::AzureInvocations,
            Format::AzureLlm => import::Format::AzureLlm,
            Format::Worldcup => import::Format::Worldcup,
            Format::Csv => import::Format::Csv,
            Format::Prometheus => import::Format::Prometheus,
        });
        let values = self.values.map(|values| match values {
            Values::Counts => import::Values::Counts,
            Values::Rates => import::Values::Rates,
        });
        let interval = self.interval.map(|interval| interval.as_secs_f64());
        Options { format, interval, values, ..Options::default() }
    }
}

#[derive(Debug, Args)]
pub struct DescribeArgs {
    #[command(flatten)]
    pub read: ReadArgs,
    /// Show so many series, those with the most requests; quartiles are over all.
    #[arg(long, env = "MEANFIELD_TRACE_SERIES", default_value_t = 10, value_name = "COUNT")]
    pub series: usize,
    /// Print JSON: all series with all figures.
    #[arg(long, env = "MEANFIELD_TRACE_JSON", value_parser = BoolishValueParser::new())]
    pub json: bool,
}

#[derive(Debug, Args)]
pub struct ImportArgs {
    #[command(flatten)]
    pub read: ReadArgs,
    /// Where the CSV goes [default: standard output].
    #[arg(long, env = "MEANFIELD_TRACE_OUTPUT", value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// A function as the busy ones of Azure Functions 2019.
    AzureFunctions,
    /// A site in the news: a day's curve, and crowds at the times of matches.
    Worldcup,
    /// A language model: a chat, or a coding assistant.
    Llm,
    /// A steady rate.
    Steady,
    /// A day of two hours with moderate bursts.
    Diurnal,
    /// Bursts of heavy-tailed size on a steady rate.
    Bursty,
}

impl From<Preset> for synth::Preset {
    fn from(preset: Preset) -> Self {
        match preset {
            Preset::AzureFunctions => Self::AzureFunctions,
            Preset::Worldcup => Self::Worldcup,
            Preset::Llm => Self::Llm,
            Preset::Steady => Self::Steady,
            Preset::Diurnal => Self::Diurnal,
            Preset::Bursty => Self::Bursty,
        }
    }
}

#[derive(Debug, Args)]
pub struct SynthArgs {
    /// Kind of load.
    #[arg(long, env = "MEANFIELD_TRACE_PRESET", value_enum, default_value_t = Preset::AzureFunctions)]
    pub preset: Preset,
    /// Mean requests a second of each series.
    #[arg(long, env = "MEANFIELD_TRACE_MEAN", default_value_t = 10.0, value_name = "RATE")]
    pub mean: f64,
    /// Length in days.
    #[arg(long, env = "MEANFIELD_TRACE_DAYS", default_value_t = 1.0, value_name = "DAYS")]
    pub days: f64,
    /// Length of an interval.
    #[arg(long, env = "MEANFIELD_TRACE_STEP", default_value = "15s", value_parser = duration, value_name = "TIME")]
    pub step: Duration,
    /// Length of a day [default: 24h, but 2h in the preset diurnal].
    #[arg(long, env = "MEANFIELD_TRACE_DAY", value_parser = duration, value_name = "TIME")]
    pub day: Option<Duration>,
    /// Number of series, each drawn anew.
    #[arg(long, env = "MEANFIELD_TRACE_SERIES", default_value_t = 1, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..=10_000))]
    pub series: u64,
    /// Seed; the same seed gives the same file.
    #[arg(long, env = "MEANFIELD_SEED", default_value_t = 1)]
    pub seed: u64,
    /// Where the CSV goes [default: standard output].
    #[arg(long, env = "MEANFIELD_TRACE_OUTPUT", value_name = "FILE")]
    pub output: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct PlotArgs {
    #[command(flatten)]
    pub read: ReadArgs,
    /// Draw so many series, those with the most requests.
    #[arg(long, env = "MEANFIELD_TRACE_PLOT_SERIES", default_value_t = 1, value_name = "COUNT",
          value_parser = clap::value_parser!(u64).range(1..=3))]
    pub series: u64,
    /// Where the drawing goes (SVG).
    #[arg(long, env = "MEANFIELD_TRACE_OUTPUT", value_name = "FILE", default_value = "trace.svg")]
    pub output: PathBuf,
}
