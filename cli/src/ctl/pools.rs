//! `meanfield ctl pools`, `capacity`, `budget` and `forecast`.

use std::fs;

use anyhow::Context;
use meanfield_common::{budget::Budget, scarcity::Capacity};
use serde_json::to_value;

use super::{
    agents::all,
    args::{BudgetCommand, CapacityCommand, ForecastCommand, OfPool, PoolsCommand},
    change,
    client::{Body, Client},
    output::{self, Column},
    route::Route,
};
use crate::file;

const COLUMNS: [Column; 10] = [
    ("NAME", "/name"),
    ("ACTIVE", "/agents/active"),
    ("SUSPECT", "/agents/suspect"),
    ("REWARD", "/mean_reward"),
    ("CORES", "/scarcity/capacity/cores"),
    ("MEMORY GIB", "/scarcity/capacity/memory_gib"),
    ("CAPPED", "/scarcity/grants"),
    ("BUDGET %", "/budget/percent"),
    ("FALLBACK", "/fallback"),
    ("FORECAST", "/forecast/provenance"),
];

async fn show(route: Route, args: &OfPool) -> anyhow::Result<()> {
    let client = Client::new(&args.access)?;
    output::detail(client.format, &client.get(route, args.pool.as_str(), &[]).await?);
    Ok(())
}

pub async fn run(command: &PoolsCommand) -> anyhow::Result<()> {
    match command {
        PoolsCommand::List(args) => {
            let client = Client::new(&args.access)?;
            let query: Vec<_> = args.prefix.clone().map(|prefix| ("prefix", prefix)).into_iter().collect();
            let pools = all(&client, Route::ListPools, "pools", &query, args.limit).await?;
            output::list(client.format, &pools, "/pools", &COLUMNS);
            Ok(())
        }
        PoolsCommand::Show(args) => show(Route::ShowPool, args).await,
    }
}

pub async fn capacity(command: &CapacityCommand) -> anyhow::Result<()> {
    match command {
        CapacityCommand::Show(args) => show(Route::ShowCapacity, args).await,
        CapacityCommand::Set(args) => {
            let capacity = Capacity::new(args.cores.cores(), args.memory.as_mebi() / 1024.0)?;
            change(Route::SetCapacity, args.pool.as_str(), Body::Json(to_value(capacity)?), &args.terms).await
        }
        CapacityCommand::Clear(args) => change(Route::ClearCapacity, args.pool.as_str(), Body::None, &args.terms).await,
    }
}

pub async fn budget(command: &BudgetCommand) -> anyhow::Result<()> {
    match command {
        BudgetCommand::Show(args) => show(Route::ShowBudget, args).await,
        BudgetCommand::Set(args) => {
            let body = Body::Json(to_value(Budget::new(args.percent)?)?);
            change(Route::SetBudget, args.pool.as_str(), body, &args.terms).await
        }
        BudgetCommand::Clear(args) => change(Route::ClearBudget, args.pool.as_str(), Body::None, &args.terms).await,
    }
}

pub async fn forecast(command: &ForecastCommand) -> anyhow::Result<()> {
    match command {
        ForecastCommand::Download(args) => {
            let bytes = Client::new(&args.access)?.download(Route::DownloadForecast, args.pool.as_str()).await?;
            file::replace(&args.file, &bytes)?;
            say!("{} bytes to {}", bytes.len(), args.file.display());
            Ok(())
        }
        ForecastCommand::Share(args) => {
            let bytes = fs::read(&args.file).with_context(|| args.file.display().to_string())?;
            change(Route::ShareForecast, args.pool.as_str(), Body::File(bytes), &args.terms).await
        }
        ForecastCommand::Withdraw(args) => {
            change(Route::WithdrawForecast, args.pool.as_str(), Body::None, &args.terms).await
        }
    }
}
