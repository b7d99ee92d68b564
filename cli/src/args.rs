//! Every command and every setting. The long name of a flag is its key in the configuration file too.

pub mod security;

use std::{net::SocketAddr, num::NonZero, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum, builder::BoolishValueParser};
use clap_complete::Shell;
use meanfield_common::{
    identity::{self, AgentName, PoolName},
    resources::{Bytes, MilliCores},
    scarcity::{Capacity, Weight},
    secret::Secret,
};

use crate::{ctl::args::CtlArgs, loadgen::args::LoadgenArgs, trace::args::TraceArgs};
use security::{ServingArgs, TrustArgs};

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
    /// Run agents live on a simulated cluster against a coordinator, and compare them with HPA+VPA and others.
    Demo(DemoArgs),
    /// Run the coordinator daemon.
    Coordinator(CoordinatorArgs),
    /// Run one agent in real time, on a simulated workload of its own.
    Agent(AgentArgs),
    /// Look at a coordinator and give it orders: agents, pools, kill switch, budgets, audit log, events.
    Ctl(CtlArgs),
    /// Train agents on simulated clusters, with checkpoints to go on from.
    Train(TrainArgs),
    /// Run an experiment whose tables stand in the docs.
    Eval(EvalArgs),
    /// Measure speed and size, beside a peer in the same run where there is one.
    Bench(BenchArgs),
    /// Load a coordinator with simulated agents.
    Loadgen(LoadgenArgs),
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
    /// Pools that are there from the start. More can be made by the API.
    #[arg(long, env = "MEANFIELD_POOLS", default_value = "default", value_delimiter = ',', value_name = "NAME,...")]
    pub pools: Vec<PoolName>,
    /// How many pools there may be, those of the API included.
    #[arg(long, env = "MEANFIELD_MAX_POOLS", default_value_t = 1000, value_name = "COUNT")]
    pub max_pools: usize,
    /// How many agents may ever register, each name counted once: none is forgotten, since epochs must keep growing.
    #[arg(long, env = "MEANFIELD_MAX_AGENTS", default_value_t = 2_000_000, value_name = "COUNT")]
    pub max_agents: usize,
    /// What the members of a pool may reserve together, such as `default=40,160Gi`: when not everybody's need fits, the
    /// least valuable ones yield. Pools without one are never scarce. An order by the API counts more.
    #[arg(long, env = "MEANFIELD_CAPACITY", value_delimiter = ';', value_parser = capacity, value_name = "POOL=CORES,MEMORY;...")]
    pub capacity: Vec<(PoolName, Capacity)>,
    /// An agent without a heartbeat for so long is suspect; it still counts.
    #[arg(long, env = "MEANFIELD_SUSPECT_AFTER", default_value = "45s", value_parser = duration, value_name = "TIME")]
    pub suspect_after: Duration,
    /// An agent without a heartbeat for so long is gone.
    #[arg(long, env = "MEANFIELD_GONE_AFTER", default_value = "2m", value_parser = duration, value_name = "TIME")]
    pub gone_after: Duration,
    /// The coordinator's own token, which may do everything; without one, the token in the data directory, made at the
    /// first start. Prefer the environment: flags show in process lists.
    #[arg(long, env = "MEANFIELD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<Secret>,
    #[command(flatten)]
    pub serving: ServingArgs,
    /// How many bytes of recorded steps are kept; the oldest go first.
    #[arg(long, env = "MEANFIELD_TRAJECTORY_BYTES", default_value = "4Gi", value_name = "BYTES")]
    pub trajectory_bytes: Bytes,
    /// For how long recorded steps are kept.
    #[arg(long, env = "MEANFIELD_TRAJECTORY_AGE", default_value = "30days", value_parser = duration, value_name = "TIME")]
    pub trajectory_age: Duration,
    /// How long requests may take to finish after a signal to stop.
    #[arg(long, env = "MEANFIELD_GRACE", default_value = "10s", value_parser = duration, value_name = "TIME")]
    pub grace: Duration,
    /// How often base models are moved towards what their agents have learnt.
    #[arg(long, env = "MEANFIELD_AVERAGE_EVERY", default_value = "10m", value_parser = duration, value_name = "TIME")]
    pub average_every: Duration,
    /// How much of the way to its agents a base model goes each time.
    #[arg(long, env = "MEANFIELD_AVERAGE_RATE", default_value_t = 0.1, value_name = "SHARE")]
    pub average_rate: f64,
    /// Share of the agents that is left out at each end, number by number, when their networks are averaged.
    #[arg(long, env = "MEANFIELD_AVERAGE_TRIM", default_value_t = 0.2, value_name = "SHARE")]
    pub average_trim: f64,
    /// Agents that must have handed in a network before it is averaged.
    #[arg(long, env = "MEANFIELD_AVERAGE_LEAST", default_value_t = 3, value_name = "COUNT")]
    pub average_least: usize,
    /// Versions of a base model that are kept, beside those in use.
    #[arg(long, env = "MEANFIELD_KEPT_VERSIONS", default_value_t = 16, value_name = "COUNT")]
    pub kept_versions: usize,
    /// How many entries of the audit log to keep.
    #[arg(long, env = "MEANFIELD_AUDIT_KEEP", default_value_t = 100_000, value_name = "COUNT")]
    pub audit_keep: usize,
    #[command(flatten)]
    pub log: LogArgs,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum PolicyName {
    /// The default: the queue model with the forecast network; buys cores while they cost less than misses.
    Forecast,
    /// The queue model alone, which takes the recent peak for what comes.
    Plan,
    /// The older reactive model: replicas for the recent peak.
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
    /// A trained network: --model, or the coordinator's base model.
    Ppo,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum FallbackName {
    /// The reactive queue model: replicas for the recent peak.
    Reactive,
    /// HPA on CPU for replicas, VPA for memory.
    HpaVpa,
    /// Leave the workload as it is.
    Hold,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum CategoryName {
    /// CPU-intensive.
    Cpu,
    /// Memory-intensive.
    Memory,
    /// I/O-intensive.
    Io,
    /// Whichever it is seen to be.
    Auto,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Yes.
    On,
    /// No.
    Off,
}

#[derive(Debug, Args)]
pub struct AgentArgs {
    /// URL of the coordinator.
    #[arg(long, env = "MEANFIELD_COORDINATOR", default_value = "http://127.0.0.1:7600", value_name = "URL")]
    pub coordinator: String,
    /// Bearer token of the coordinator. Prefer the environment: flags show in process lists.
    #[arg(long, env = "MEANFIELD_TOKEN", hide_env_values = true, value_name = "TOKEN")]
    pub token: Option<Secret>,
    /// The coordinator's data directory, to find the token in when none is given.
    #[arg(long, env = "MEANFIELD_DATA_DIR", default_value = "data", value_name = "DIR")]
    pub data_dir: PathBuf,
    #[command(flatten)]
    pub trust: TrustArgs,
    /// Name of the agent, unique in its pool [default: the function's name].
    #[arg(long, env = "MEANFIELD_NAME", value_name = "NAME")]
    pub name: Option<AgentName>,
    /// Pool to join.
    #[arg(long, env = "MEANFIELD_POOL", default_value = "default", value_name = "NAME")]
    pub pool: PoolName,
    /// What the objective is worth beside those of others when there is not enough for all, from 0.001 to 1000.
    #[arg(long, env = "MEANFIELD_WEIGHT", default_value = "1", value_parser = weight, value_name = "NUMBER")]
    pub weight: Weight,
    /// The simulated function to scale: base64, primes, markdown2html, sentiment-analysis, image-resize, html-gen,
    /// uploader, compression, image-inference, page-rank, graph-bft or graph-mst.
    #[arg(long, env = "MEANFIELD_FUNCTION", default_value = "base64", value_name = "FUNCTION")]
    pub function: String,
    /// Who decides.
    #[arg(long, env = "MEANFIELD_POLICY", value_enum, default_value_t = PolicyName::Forecast)]
    pub policy: PolicyName,
    /// Who decides while an operator's kill switch is on.
    #[arg(long, env = "MEANFIELD_FALLBACK", value_enum, default_value_t = FallbackName::Reactive)]
    pub fallback: FallbackName,
    /// Checkpoint of the network (safetensors), as written by the demo. Without it, or with --learn while it is not there
    /// yet, ppo starts from the coordinator's base model.
    #[arg(long, env = "MEANFIELD_MODEL", value_name = "FILE")]
    pub model: Option<PathBuf>,
    /// The base model to start from and to follow, and to hand in to what is learnt [default: the one of --class or of the
    /// category].
    #[arg(long, env = "MEANFIELD_BASE_MODEL", conflicts_with = "class", value_name = "NAME")]
    pub base_model: Option<identity::ModelName>,
    /// Stay with this version of the base model, whatever is served.
    #[arg(long, env = "MEANFIELD_BASE_VERSION", value_name = "NUMBER")]
    pub base_version: Option<u64>,
    /// A finer class than the category: its base model is taken where the coordinator has one, else the category's.
    #[arg(long, env = "MEANFIELD_CLASS", value_name = "NAME")]
    pub class: Option<identity::ModelName>,
    /// What the workload needs most; auto infers it from what it is seen to use, and goes by cpu until then [default: what
    /// the function declares].
    #[arg(long, env = "MEANFIELD_CATEGORY", value_enum, value_name = "CATEGORY")]
    pub category: Option<CategoryName>,
    /// Hand in what each step was and came to, for the coordinator's database of trajectories.
    #[arg(long, env = "MEANFIELD_TRAJECTORIES", value_enum, default_value_t = Switch::On)]
    pub trajectories: Switch,
    /// Go on learning while serving (ppo only), and write the checkpoint back now and then and at the end.
    #[arg(long, env = "MEANFIELD_LEARN", requires = "model", value_parser = BoolishValueParser::new())]
    pub learn: bool,
    /// What a window that misses its objective is worth, in cores reserved for that window (forecast and plan).
    #[arg(long, env = "MEANFIELD_PRICE", default_value_t = meanfield_agent::policy::plan::PRICE, value_name = "CORES")]
    pub price: f64,
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
    /// Serve metrics and a probe at this address (`/metrics`, `/livez`) [default: not].
    #[arg(long, env = "MEANFIELD_METRICS_LISTEN", value_name = "ADDRESS")]
    pub metrics_listen: Option<SocketAddr>,
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
    /// Export traces of steps and requests to the collector at this URL, by OTLP over HTTP, such as
    /// http://127.0.0.1:4318 [default: no traces].
    #[arg(long, env = "MEANFIELD_OTLP_ENDPOINT", value_name = "URL")]
    pub otlp_endpoint: Option<String>,
}

#[derive(Debug, Args)]
pub struct TrainArgs {
    /// What to train (TOML): preset, seed, episodes, overrides of the learner, scenario, when to stop [default: the
    /// shipped settings].
    #[arg(value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// Where checkpoints, networks and the learning curve go.
    #[arg(long, env = "MEANFIELD_OUT", default_value = "training", value_name = "DIR")]
    pub out: PathBuf,
    /// Train the forecast network instead, by the recipe of the shipped one.
    #[arg(long, env = "MEANFIELD_FORECAST", conflicts_with_all = ["file", "resume"], value_parser = BoolishValueParser::new())]
    pub forecast: bool,
    /// Go on from the last checkpoint there.
    #[arg(long, env = "MEANFIELD_RESUME", value_parser = BoolishValueParser::new())]
    pub resume: bool,
    /// Threads; the result does not depend on them [default: as many as the machine has].
    #[arg(long, env = "MEANFIELD_THREADS", value_name = "COUNT")]
    pub threads: Option<NonZero<usize>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Experiment {
    /// Every rule-based autoscaler, in default and tuned form, beside the reactive queue model and the yardsticks.
    Baselines,
    /// The simulator's fluid model against its event model.
    Fluid,
    /// What each layer of the decision adds, at no more cores than tuned HPA reserves.
    Layers,
    /// Misses against cores at every price of a miss: plans are told it, rules are tuned for it.
    Frontier,
    /// A forecast network that never saw Azure, served on Azure.
    Shift,
    /// The forecast network beside simple forecasts: losses and calibration.
    Forecast,
    /// From plenty to overload: what coordination by price and by grants is worth.
    Regimes,
    /// Each function alone: a learning agent beside ENSURE.
    SimppoIsolated,
    /// Twelve agents at once: every published variant, with the published settings and with ours.
    SimppoJoint,
    /// Agents join and leave a group that has converged.
    SimppoChurn,
    /// Many agents against few, agent by agent.
    SimppoScale,
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
    /// Seeds of each trace, regime or training (not fluid) [default: 5, forecast 24; with --quick 1 to 4].
    #[arg(long, env = "MEANFIELD_SEEDS", value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1..=1000))]
    pub seeds: Option<u64>,
    /// Shapes of the load (not fluid, regimes and simppo-*): azure-functions, worldcup, llm, steady, diurnal or bursty
    /// [default: what the docs show; fewer with --quick].
    #[arg(long, env = "MEANFIELD_TRACES", value_delimiter = ',', value_name = "NAME,...")]
    pub traces: Vec<meanfield_traces::synth::Preset>,
    /// Recorded loads (baselines, layers, frontier and shift): files as `meanfield trace` reads them, cut into days; every
    /// other day is for tuning.
    #[arg(long, env = "MEANFIELD_RECORDED", value_delimiter = ',', value_name = "FILE,...")]
    pub recorded: Vec<PathBuf>,
    /// CPU limits over CPU requests, for everybody (baselines, layers, frontier and shift).
    #[arg(long, env = "MEANFIELD_LIMITS", default_value_t = meanfield_simulator::scenario::OVERCOMMIT, value_name = "TIMES")]
    pub limits: f64,
    /// How the days that count are simulated (baselines, layers, frontier, shift and regimes).
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
    /// The coordinator beside a bare HTTP handler: heartbeats, latency, batches, memory and start with many agents.
    Coordinator,
    /// Simulated steps and requests per second on one core.
    Simulator,
    /// Recorded steps made durable per second, beside the stores themselves with the same bytes, and a start with 2 GB of them
    /// and many agents.
    Store,
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
    /// Agents of the large runs (coordinator, and the start of the store).
    #[arg(long, env = "MEANFIELD_BENCH_AGENTS", default_value_t = 1_000_000, value_name = "COUNT", value_parser = clap::value_parser!(u64).range(1000..=10_000_000))]
    pub agents: u64,
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

/// How many: at least one.
pub fn count(text: &str) -> Result<usize, String> {
    let count = text.parse().ok().filter(|count| *count > 0);
    count.ok_or_else(|| "it must be a whole number from 1 on".to_owned())
}

pub fn duration(text: &str) -> Result<Duration, String> {
    let duration = humantime::parse_duration(text).map_err(|error| format!("{error}, such as 500ms, 45s or 2m"))?;
    if duration.is_zero() { Err("it must be more than nothing".to_owned()) } else { Ok(duration) }
}

fn capacity(text: &str) -> Result<(PoolName, Capacity), String> {
    let parts = text.split_once('=').and_then(|(pool, amounts)| Some((pool, amounts.split_once(',')?)));
    let (pool, (cores, memory)) = parts.ok_or("it must be POOL=CORES,MEMORY, such as default=40,160Gi")?;
    let cores: MilliCores = cores.parse().map_err(shown)?;
    let memory: Bytes = memory.parse().map_err(shown)?;
    let capacity = Capacity::new(cores.cores(), memory.as_mebi() / 1024.0).map_err(shown)?;
    Ok((pool.parse().map_err(shown)?, capacity))
}

fn weight(text: &str) -> Result<Weight, String> {
    let number: f64 = text.parse().map_err(|_| format!("weight: {text:?} is not a number"))?;
    Weight::try_from(number).map_err(shown)
}

#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
fn shown(invalid: meanfield_common::invalid::Invalid) -> String {
    invalid.to_string()
}
