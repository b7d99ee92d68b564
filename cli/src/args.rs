//! Every command and every setting. The long name of a flag is its key in the configuration file too.

use std::{net::SocketAddr, num::NonZero, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::BoolishValueParser};
use clap_complete::Shell;
use meanfield_common::identity::{AgentName, PoolName};

use crate::trace::args::TraceArgs;

/// What Kubernetes aims at when nothing else is said.
const HPA_TARGET: f64 = 0.8;

/// An autoscaler for shared clusters: agents that learn how many replicas, how much CPU and how much memory each
/// workload needs while all of them share the same nodes.
#[derive(Debug, Parser)]
#[command(name = "meanfield", version, propagate_version = true, subcommand_required = true)]
pub struct Cli {
    /// Configuration file (TOML): one section a command, keys named like its flags.
    #[arg(long, global = true, env = "MEANFIELD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Train agents on a simulated cluster, run them live against a coordinator, compare them with HPA+VPA.
    Demo(DemoArgs),
    /// Run the coordinator daemon.
    Coordinator(CoordinatorArgs),
    /// Run one agent in real time, on a simulated workload of its own.
    Agent(AgentArgs),
    /// Run an experiment whose tables stand in the docs.
    Eval(EvalArgs),
    /// Measure speed and size, beside a peer in the same run where there is one.
    Bench(BenchArgs),
    /// Describe, import, make and draw arrival traces.
    Trace(TraceArgs),
    /// Print a completion script for a shell.
    Completions(CompletionsArgs),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Preset {
    /// What learns best: one shared network, a reward that counts violations and cost.
    Default,
    /// The published values: a network per agent, the published reward.
    Paper,
}

#[derive(Debug, Args)]
pub struct DemoArgs {
    /// Seed of everything random; the same seed gives the same figures.
    #[arg(long, env = "MEANFIELD_SEED", default_value_t = 1)]
    pub seed: u64,
    /// Agents, one a tenant; nodes grow with them.
    #[arg(long, env = "MEANFIELD_AGENTS", default_value_t = 12, value_parser = clap::value_parser!(u64).range(2..=1000))]
    pub agents: u64,
    /// Training episodes of 50 steps, each on several clusters at once [default: 400, or 150 with --quick].
    #[arg(long, env = "MEANFIELD_EPISODES", value_parser = clap::value_parser!(u64).range(1..=100_000))]
    pub episodes: Option<u64>,
    /// Learner settings.
    #[arg(long, env = "MEANFIELD_PRESET", value_enum, default_value_t = Preset::Default)]
    pub preset: Preset,
    /// HPA's target in the comparison: CPU use over CPU request, from 0.01 to 10 [default: the best for each function].
    #[arg(long, env = "MEANFIELD_HPA_TARGET", value_name = "SHARE")]
    pub hpa_target: Option<f64>,
    /// Where the report goes.
    #[arg(long, env = "MEANFIELD_REPORT", default_value = "report", value_name = "DIR")]
    pub report: PathBuf,
    /// Train shortly and evaluate on one day instead of four; not always enough to get ahead of HPA+VPA.
    #[arg(long, env = "MEANFIELD_QUICK", value_parser = BoolishValueParser::new())]
    pub quick: bool,
}

#[derive(Debug, Args)]
pub struct CoordinatorArgs {
    /// Address to listen on; port 0 takes a free one and prints it.
    #[arg(long, env = "MEANFIELD_LISTEN", default_value = "127.0.0.1:7600", value_name = "ADDRESS")]
    pub listen: SocketAddr,
    /// Where membership, pauses and the token are kept.
    #[arg(long, env = "MEANFIELD_DATA_DIR", default_value = "data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Pools that agents may join.
    #[arg(long, env = "MEANFIELD_POOLS", default_value = "default", value_delimiter = ',', value_name = "NAME,...")]
    pub pools: Vec<PoolName>,
    /// An agent without a heartbeat for so long is suspect; it still counts.
    #[arg(long, env = "MEANFIELD_SUSPECT_AFTER", default_value = "45s", value_parser = duration, value_name = "TIME")]
    pub suspect_after: Duration,
    /// An agent without a heartbeat for so long is gone.
    #[arg(long, env = "MEANFIELD_GONE_AFTER", default_value = "2m", value_parser = duration, value_name = "TIME")]
    pub gone_after: Duration,
    /// Bearer token of the API; without one, the token in the data directory, made at the first start. Prefer the
    /// environment: flags show in process lists.
    #[arg(long, env = "MEANFIELD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// Largest request body in bytes.
    #[arg(long, env = "MEANFIELD_MAX_BODY", default_value_t = 16 * 1024, value_name = "BYTES")]
    pub max_body: usize,
    /// How long requests may take to finish after a signal to stop.
    #[arg(long, env = "MEANFIELD_GRACE", default_value = "10s", value_parser = duration, value_name = "TIME")]
    pub grace: Duration,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// The reactive queue model: no training, sizes for the recent peak.
    Reactive,
    /// HPA on CPU for replicas, VPA for memory.
    HpaVpa,
    /// HPA on requests in flight for replicas, VPA for memory.
    HpaConcurrency,
    /// VPA for CPU and memory.
    Vpa,
    /// Knative's autoscaler for replicas, VPA for memory.
    Kpa,
    /// Additive increase, multiplicative decrease of every lever.
    Aimd,
    /// ENSURE's square-root rule for replicas, VPA for memory.
    Ensure,
    /// A trained network (needs --model).
    Ppo,
}

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// URL of the coordinator.
    #[arg(long, env = "MEANFIELD_COORDINATOR", default_value = "http://127.0.0.1:7600", value_name = "URL")]
    pub coordinator: String,
    /// Bearer token of the coordinator. Prefer the environment: flags show in process lists.
    #[arg(long, env = "MEANFIELD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<String>,
    /// The coordinator's data directory, to find the token in when none is given.
    #[arg(long, env = "MEANFIELD_DATA_DIR", default_value = "data", value_name = "DIR")]
    pub data_dir: PathBuf,
    /// Name of the agent, unique in its pool [default: the function's name].
    #[arg(long, env = "MEANFIELD_NAME", value_name = "NAME")]
    pub name: Option<AgentName>,
    /// Pool to join.
    #[arg(long, env = "MEANFIELD_POOL", default_value = "default", value_name = "NAME")]
    pub pool: PoolName,
    /// The simulated function to scale: base64, primes, markdown2html, sentiment-analysis, image-resize, html-gen,
    /// uploader, compression, image-inference, page-rank, graph-bft or graph-mst.
    #[arg(long, env = "MEANFIELD_FUNCTION", default_value = "base64", value_name = "FUNCTION")]
    pub function: String,
    /// Who decides.
    #[arg(long, env = "MEANFIELD_POLICY", value_enum, default_value_t = PolicyName::Reactive)]
    pub policy: PolicyName,
    /// Checkpoint of the network (safetensors), as written by the demo.
    #[arg(long, env = "MEANFIELD_MODEL", value_name = "FILE", required_if_eq("policy", "ppo"))]
    pub model: Option<PathBuf>,
    /// Go on learning while serving (ppo only), and write the checkpoint back at the end.
    #[arg(long, env = "MEANFIELD_LEARN", requires = "model", value_parser = BoolishValueParser::new())]
    pub learn: bool,
    /// HPA's target: CPU use over CPU request.
    #[arg(long, env = "MEANFIELD_HPA_TARGET", default_value_t = HPA_TARGET, value_name = "SHARE")]
    pub hpa_target: f64,
    /// Requests in flight per replica that hpa-concurrency aims at, and that kpa thinks a replica can take.
    #[arg(long, env = "MEANFIELD_CONCURRENCY", default_value_t = 4.0, value_name = "REQUESTS")]
    pub concurrency: f64,
    /// Real time of one step; each stands for 15 simulated seconds.
    #[arg(long, env = "MEANFIELD_INTERVAL", default_value = "15s", value_parser = duration, value_name = "TIME")]
    pub interval: Duration,
    /// Stop after so many steps [default: on a signal].
    #[arg(long, env = "MEANFIELD_STEPS", value_name = "COUNT")]
    pub steps: Option<u64>,
    /// Seed of arrivals and exploration.
    #[arg(long, env = "MEANFIELD_SEED", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

#[derive(Debug, Args)]
pub struct LogArgs {
    /// What to log, for example `info` or `meanfield_agent=debug`.
    #[arg(long, env = "MEANFIELD_LOG", default_value = "info", value_name = "FILTER")]
    pub log: String,
    /// How to log.
    #[arg(long, env = "MEANFIELD_LOG_FORMAT", value_enum, default_value_t = LogFormat::Text)]
    pub log_format: LogFormat,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// Every rule-based autoscaler, in default and tuned form, beside the reactive queue model and the yardsticks.
    Baselines,
    /// The simulator's fluid model against its event model.
    Fluid,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ModelName {
    /// In closed form: fast.
    Fluid,
    /// Every request.
    Events,
}

#[derive(Debug, Args)]
pub struct EvalArgs {
    /// Which one.
    #[arg(value_enum)]
    pub experiment: Experiment,
    /// Fewer seeds, traces and cases.
    #[arg(long, env = "MEANFIELD_QUICK", value_parser = BoolishValueParser::new())]
    pub quick: bool,
    /// Seeds of each trace (baselines only) [default: 5, or 2 with --quick].
    #[arg(long, env = "MEANFIELD_SEEDS", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// Shapes of the load (baselines only): azure-functions, worldcup, llm, steady, diurnal or bursty [default: all but
    /// llm; diurnal and azure-functions with --quick].
    #[arg(long, env = "MEANFIELD_TRACES", value_delimiter = ',', value_name = "NAME,...")]
    pub traces: Vec<meanfield_traces::synth::Preset>,
    /// How the days that count are simulated (baselines only).
    #[arg(long, env = "MEANFIELD_EVAL_MODEL", value_enum, default_value_t = ModelName::Events)]
    pub model: ModelName,
    /// Threads [default: as many as the machine has].
    #[arg(long, env = "MEANFIELD_THREADS", value_name = "COUNT")]
    pub threads: Option<NonZero<usize>>,
    /// Where the report goes; results that are there already are not computed again.
    #[arg(long, env = "MEANFIELD_EVAL_REPORT", default_value = "report/eval", value_name = "DIR")]
    pub report: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Area {
    /// One PPO update and one decision at the published sizes.
    Learner,
    /// Heartbeats per second beside a bare HTTP handler.
    Heartbeat,
    /// Simulated steps and requests per second on one core.
    Simulator,
    /// The binary, and the coordinator's memory with 10,000 agents.
    Size,
    /// The whole demo, from start to table.
    Demo,
    /// All of them.
    All,
}

#[derive(Debug, Args)]
pub struct BenchArgs {
    /// What to measure.
    #[arg(value_enum)]
    pub area: Area,
    /// Write the rows as JSON too.
    #[arg(long, env = "MEANFIELD_BENCH_JSON", value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// The Python that has the peers written in it; without them there are no figures of peers.
    #[arg(long, env = "MEANFIELD_BENCH_PYTHON", default_value = "python3", value_name = "FILE")]
    pub python: PathBuf,
    /// The learner's example `torch_peer`, which has LibTorch's figures; none without it.
    #[arg(long, env = "MEANFIELD_BENCH_TCH", value_name = "FILE")]
    pub tch: Option<PathBuf>,
}

#[derive(Debug, Args)]
pub struct CompletionsArgs {
    /// Which shell.
    #[arg(value_enum)]
    pub shell: Shell,
}

pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| format!("{error}, such as 500ms, 45s or 2m"))?;
    if duration.is_zero() { Err("it must be more than nothing".to_owned()) } else { Ok(duration) }
}
