//! Settings of `meanfield ctl`.

use std::{path::PathBuf, time::Duration};

use clap::{Args, Subcommand, ValueEnum, builder::BoolishValueParser};
use meanfield_common::{
    identity::{Category, PoolName},
    resources::{Bytes, MilliCores},
    wire::Lifecycle,
};
use meanfield_coordinator::{events::Kind, view::State};

use super::{
    models::args::ModelsCommand,
    pools::args::{BudgetCommand, CapacityCommand, ForecastCommand, PoolsCommand},
    tokens::args::TokensCommand,
    trajectories::args::TrajectoriesCommand,
};
use crate::args::{count, duration, security::TrustArgs};

#[derive(Debug, Args)]
pub struct CtlArgs {
    #[command(subcommand)]
    pub command: CtlCommand,
}

#[derive(Debug, Subcommand)]
pub enum CtlCommand {
    /// Agents: list, show, remove, pause, resume, let the fallback decide.
    #[command(subcommand)]
    Agents(AgentsCommand),
    /// Pools: list, show, create, change, remove; how they go about scarcity, who was cut.
    #[command(subcommand)]
    Pools(PoolsCommand),
    /// What the members of a pool may reserve together.
    #[command(subcommand)]
    Capacity(CapacityCommand),
    /// How much of a pool's capacity may be moved within a minute.
    #[command(subcommand)]
    Budget(BudgetCommand),
    /// The forecast network that the agents of a pool share.
    #[command(subcommand)]
    Forecast(ForecastCommand),
    /// Base models: list, show, add, download, serve, roll back, remove.
    #[command(subcommand)]
    Models(ModelsCommand),
    /// Recorded steps: list, rewards, samples, export, import.
    #[command(subcommand)]
    Trajectories(TrajectoriesCommand),
    /// The pause for all.
    #[command(subcommand)]
    Pause(PauseCommand),
    /// The kill switch: for all, a pool or an agent.
    #[command(subcommand)]
    Fallback(FallbackCommand),
    /// Tokens: create, list, show, revoke.
    #[command(subcommand)]
    Tokens(TokensCommand),
    /// Who ordered what, and whether the log is whole.
    #[command(subcommand)]
    Audit(AuditCommand),
    /// Everything that happens.
    #[command(subcommand)]
    Events(EventsCommand),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum Format {
    /// For people.
    Table,
    /// As the API says it.
    Json,
    /// The same as YAML.
    Yaml,
}

/// Where the coordinator is, and how to show its answer.
#[derive(Debug, Clone, Args)]
pub struct Access {
    /// URL of the coordinator.
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
    /// How to show the answer.
    #[arg(long, short, env = "MEANFIELD_OUTPUT", value_enum, default_value_t = Format::Table)]
    pub output: Format,
}

/// The terms of a change.
#[derive(Debug, Clone, Args)]
pub struct Terms {
    /// Check the change and say what would happen, without doing it.
    #[arg(long, value_parser = BoolishValueParser::new())]
    pub dry_run: bool,
    /// Make the change only if the state has this entity tag, as `show` has it.
    #[arg(long, value_name = "TAG")]
    pub if_match: Option<String>,
    #[command(flatten)]
    pub access: Access,
}

/// An agent.
#[derive(Debug, Args)]
pub struct Named {
    /// Its id, its name, or POOL:NAME where several pools have one of this name.
    #[arg(value_name = "AGENT")]
    pub agent: String,
    #[command(flatten)]
    pub access: Access,
}

/// A change of an agent.
#[derive(Debug, Args)]
pub struct Changed {
    /// Its id, its name, or POOL:NAME where several pools have one of this name.
    #[arg(value_name = "AGENT")]
    pub agent: String,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Subcommand)]
pub enum AgentsCommand {
    /// List agents, in order of pool and name.
    List(ListAgents),
    /// Show an agent with all that is ordered about it.
    Show(Named),
    /// Remove an agent, and take back what was ordered about it; it may register again.
    Remove(Changed),
    /// Tell an agent to change nothing.
    Pause(Changed),
    /// Lift an agent's own pause.
    Resume(Changed),
    /// Have an agent decide by its fallback.
    Fallback(AgentFallback),
    /// Name the state of an agent's lifecycle that is wanted, or show it. Agents of this version only hear of it.
    Lifecycle(AgentLifecycle),
    /// Give an agent a weight and a minimum of a scarce capacity, or show them; what is not named stays as it is.
    Entitlement(AgentEntitlement),
}

#[derive(Debug, Args)]
pub struct ListAgents {
    /// Only agents of this pool.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<PoolName>,
    /// Only agents of this category: cpu, memory or io.
    #[arg(long, value_name = "CATEGORY")]
    pub category: Option<Category>,
    /// Only agents in this state: active or suspect.
    #[arg(long, value_name = "STATE")]
    pub state: Option<State>,
    /// Only agents whose names begin so.
    #[arg(long, value_name = "TEXT")]
    pub prefix: Option<String>,
    /// How many at most [default: all].
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct AgentFallback {
    /// Its id, its name, or POOL:NAME where several pools have one of this name.
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// Lift it.
    #[arg(long, value_parser = BoolishValueParser::new())]
    pub lift: bool,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Args)]
pub struct AgentLifecycle {
    /// Its id, its name, or POOL:NAME where several pools have one of this name.
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// fallback, exploring or serving; without one, it is shown.
    #[arg(value_name = "STATE")]
    pub state: Option<Lifecycle>,
    /// Leave it to the agent again.
    #[arg(long, value_parser = BoolishValueParser::new(), conflicts_with = "state")]
    pub clear: bool,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Args)]
pub struct AgentEntitlement {
    /// Its id, its name, or POOL:NAME where several pools have one of this name.
    #[arg(value_name = "AGENT")]
    pub agent: String,
    /// What its objective is worth, whatever it claims itself.
    #[arg(long, value_name = "WEIGHT", allow_negative_numbers = true)]
    pub weight: Option<f64>,
    /// CPU that it is never cut below, such as 2 or 500m.
    #[arg(long, value_name = "CORES")]
    pub min_cores: Option<MilliCores>,
    /// Memory that it is never cut below, such as 4Gi.
    #[arg(long, value_name = "MEMORY")]
    pub min_memory: Option<Bytes>,
    /// Take both back.
    #[arg(long, value_parser = BoolishValueParser::new(), conflicts_with_all = ["weight", "min_cores", "min_memory"])]
    pub clear: bool,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Subcommand)]
pub enum PauseCommand {
    /// Show whether it is on.
    Show(OfAll),
    /// Tell all agents, also those that join later, to change nothing.
    On(ChangeAll),
    /// Lift it; agents with a pause of their own stay paused.
    Off(ChangeAll),
}

#[derive(Debug, Args)]
pub struct OfAll {
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct ChangeAll {
    #[command(flatten)]
    pub terms: Terms,
}

/// To whom the kill switch belongs.
#[derive(Debug, Clone, Args)]
pub struct Whose {
    /// Only this pool's.
    #[arg(long, value_name = "NAME", conflicts_with = "agent")]
    pub pool: Option<PoolName>,
    /// Only this agent's: its id, its name, or POOL:NAME.
    #[arg(long, value_name = "AGENT")]
    pub agent: Option<String>,
}

#[derive(Debug, Subcommand)]
pub enum FallbackCommand {
    /// Show whether it is on.
    Show(ShowFallback),
    /// Everybody to the fallback, now.
    On(ChangeFallback),
    /// Lift it.
    Off(ChangeFallback),
}

#[derive(Debug, Args)]
pub struct ShowFallback {
    #[command(flatten)]
    pub whose: Whose,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct ChangeFallback {
    #[command(flatten)]
    pub whose: Whose,
    #[command(flatten)]
    pub terms: Terms,
}

#[derive(Debug, Subcommand)]
pub enum AuditCommand {
    /// List who ordered what, oldest first. With `-o json` and no filter, the output can be verified later.
    List(ListAudit),
    /// Recompute the chain of hashes; exits with 2 if an entry was changed, is missing or stands elsewhere.
    Verify(VerifyAudit),
}

#[derive(Debug, Args)]
pub struct ListAudit {
    /// Only the last so long.
    #[arg(long, value_parser = duration, value_name = "TIME")]
    pub since: Option<Duration>,
    /// Only of this caller.
    #[arg(long, value_name = "NAME")]
    pub actor: Option<String>,
    /// Only this action, such as `capacity.set`.
    #[arg(long, value_name = "ACTION")]
    pub action: Option<String>,
    /// Only about this, or what is below it, such as `pools/default`.
    #[arg(long, value_name = "TARGET")]
    pub target: Option<String>,
    /// How many at most [default: all].
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub limit: Option<usize>,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Args)]
pub struct VerifyAudit {
    /// Verify what `audit list -o json` wrote, instead of what the coordinator has.
    #[arg(long, value_name = "FILE")]
    pub file: Option<PathBuf>,
    /// An entry's number and hash that were written down earlier, as NUMBER:HASH: it must be in the log.
    #[arg(long, value_name = "NUMBER:HASH")]
    pub head: Option<String>,
    #[command(flatten)]
    pub access: Access,
}

#[derive(Debug, Subcommand)]
pub enum EventsCommand {
    /// Print events as they come, one a line, until the coordinator ends.
    Follow(Follow),
}

#[derive(Debug, Args)]
pub struct Follow {
    /// Only of this pool, and what is about everybody.
    #[arg(long, value_name = "NAME")]
    pub pool: Option<PoolName>,
    /// Only of these kinds, such as `joined,gone`.
    #[arg(long, value_delimiter = ',', value_name = "KIND,...")]
    pub kinds: Vec<Kind>,
    /// Go on after this id.
    #[arg(long, value_name = "ID")]
    pub after: Option<u64>,
    /// End after so many.
    #[arg(long, value_name = "COUNT", value_parser = count)]
    pub count: Option<usize>,
    #[command(flatten)]
    pub access: Access,
}
