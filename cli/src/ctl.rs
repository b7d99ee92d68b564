//! `meanfield ctl`: the whole admin API from a terminal.
//!
//! | module | holds |
//! |---|---|
//! | `args` | every command and setting |
//! | `route` | every route that is called |
//! | `client` | requests, refusals, entity tags |
//! | `output`, `yaml` | tables, JSON and YAML |
//! | `agents`, `pools`, `models`, `trajectories`, `tokens`, `audit`, `events` | the commands |
//!
//! It ends with 0 when all is done, 2 when the audit log is damaged, 3 when the coordinator refused, 64 when the command
//! line is wrong, and 1 when anything else is in the way.

mod agents;
pub mod args;
mod audit;
mod client;
mod events;
mod models;
mod output;
mod pools;
mod route;
mod tokens;
mod trajectories;
mod yaml;

use args::{CtlArgs, CtlCommand, FallbackCommand, PauseCommand, Terms, Whose};
use client::{Body, Client};
use route::Route;

pub use audit::Damaged;
pub use client::Refused;

/// The exit code of a damaged audit log.
const DAMAGED: u8 = 2;
/// The exit code of a refusal.
const REFUSED: u8 = 3;

/// The exit code that is special to an error of these commands.
pub fn exit_code(error: &anyhow::Error) -> Option<u8> {
    let damaged = error.is::<Damaged>().then_some(DAMAGED);
    damaged.or_else(|| error.is::<Refused>().then_some(REFUSED))
}

pub fn run(args: &CtlArgs) -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        match &args.command {
            CtlCommand::Agents(command) => agents::run(command).await,
            CtlCommand::Pools(command) => pools::run(command).await,
            CtlCommand::Capacity(command) => pools::capacity(command).await,
            CtlCommand::Budget(command) => pools::budget(command).await,
            CtlCommand::Forecast(command) => pools::forecast(command).await,
            CtlCommand::Models(command) => models::run(command).await,
            CtlCommand::Trajectories(command) => trajectories::run(command).await,
            CtlCommand::Tokens(command) => tokens::run(command).await,
            CtlCommand::Pause(command) => pause(command).await,
            CtlCommand::Fallback(command) => fallback(command).await,
            CtlCommand::Audit(command) => audit::run(command).await,
            CtlCommand::Events(command) => events::run(command).await,
        }
    })
}

async fn change(route: Route, of: &str, body: Body, terms: &Terms) -> anyhow::Result<()> {
    Client::new(&terms.access)?.change(route, of, body, terms).await
}

async fn pause(command: &PauseCommand) -> anyhow::Result<()> {
    match command {
        PauseCommand::Show(args) => {
            let client = Client::new(&args.access)?;
            output::detail(client.format, &client.get(Route::ShowPause, "", &[]).await?);
            Ok(())
        }
        PauseCommand::On(args) => change(Route::PauseAll, "", Body::None, &args.terms).await,
        PauseCommand::Off(args) => change(Route::ResumeAll, "", Body::None, &args.terms).await,
    }
}

async fn fallback(command: &FallbackCommand) -> anyhow::Result<()> {
    match command {
        FallbackCommand::Show(args) => {
            let client = Client::new(&args.access)?;
            let routes = [Route::ShowFallback, Route::ShowPoolFallback, Route::ShowAgentFallback];
            let (route, of) = choose(&client, &args.whose, routes).await?;
            output::detail(client.format, &client.get(route, &of, &[]).await?);
            Ok(())
        }
        FallbackCommand::On(args) => {
            let client = Client::new(&args.terms.access)?;
            let routes = [Route::FallbackAll, Route::FallbackPool, Route::FallbackAgent];
            let (route, of) = choose(&client, &args.whose, routes).await?;
            client.change(route, &of, Body::None, &args.terms).await
        }
        FallbackCommand::Off(args) => {
            let client = Client::new(&args.terms.access)?;
            let routes = [Route::LiftFallbackAll, Route::LiftFallbackPool, Route::LiftFallbackAgent];
            let (route, of) = choose(&client, &args.whose, routes).await?;
            client.change(route, &of, Body::None, &args.terms).await?;
            if matches!(route, Route::LiftFallbackAll) {
                let left = client.get(Route::ShowFallback, "", &[]).await?;
                let (pools, agents) = (left["pools"].as_array().map_or(0, Vec::len), &left["agents"]);
                if pools > 0 || agents.as_u64().unwrap_or_default() > 0 {
                    eprintln!("still on for {pools} pools and {agents} agents by themselves: see `fallback show`");
                }
            }
            Ok(())
        }
    }
}

/// The route for everybody, for a pool or for an agent.
async fn choose(client: &Client, whose: &Whose, [all, pool, agent]: [Route; 3]) -> anyhow::Result<(Route, String)> {
    Ok(match (&whose.pool, &whose.agent) {
        (Some(name), _) => (pool, name.to_string()),
        (None, Some(named)) => (agent, agents::find(client, named).await?),
        (None, None) => (all, String::new()),
    })
}
