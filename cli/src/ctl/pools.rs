//! `meanfield ctl pools`, `capacity`, `budget` and `forecast`.

pub mod args;

use std::fs;

use anyhow::Context;
use meanfield_common::{
    budget::Budget,
    invalid::Invalid,
    resources::Bytes,
    scarcity::{self, Ageing, Capacity},
};
use meanfield_coordinator::settings::{Description, Settings};
use serde::Deserialize;
use serde_json::{Value, to_value};

use super::{
    agents::all,
    args::Format,
    audit::time,
    change,
    client::{Body, Client},
    output::{self, Column},
    route::Route,
};
use crate::file;
use args::{BudgetCommand, CapacityCommand, ForecastCommand, ListCuts, OfPool, PoolsCommand, ScarcityCommand, SetPool};

const COLUMNS: [Column; 11] = [
    ("NAME", "/name"),
    ("KIND", "/settings/kind"),
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
            let pools = all(&client, Route::ListPools, "", "pools", &query, args.limit).await?;
            output::list(client.format, &pools, "/pools", &COLUMNS);
            Ok(())
        }
        PoolsCommand::Show(args) => show(Route::ShowPool, args).await,
        PoolsCommand::Create(args) => {
            let settings = named(args, Settings::default())?;
            let client = Client::new(&args.terms.access)?;
            client.create(Route::SetPool, args.pool.as_str(), Body::Json(to_value(settings)?), &args.terms).await
        }
        PoolsCommand::Set(args) => {
            let client = Client::new(&args.terms.access)?;
            let routes = (Route::ShowPool, Route::SetPool);
            client
                .amend(routes, args.pool.as_str(), &args.terms, |pool| {
                    Ok(to_value(named(args, Settings::deserialize(&pool["settings"])?)?)?)
                })
                .await
        }
        PoolsCommand::Remove(args) => change(Route::RemovePool, args.pool.as_str(), Body::None, &args.terms).await,
        PoolsCommand::Scarcity(command) => scarcity(command).await,
        PoolsCommand::Cuts(args) => cuts(args).await,
    }
}

/// Settings with those in place that the command line names.
fn named(args: &SetPool, before: Settings) -> Result<Settings, Invalid> {
    let description = args.description.clone().map(Description::try_from).transpose()?;
    Ok(Settings {
        kind: args.kind.unwrap_or(before.kind),
        description: description.unwrap_or(before.description),
        team_reward: args.team_reward.unwrap_or(before.team_reward),
    })
}

async fn scarcity(command: &ScarcityCommand) -> anyhow::Result<()> {
    match command {
        ScarcityCommand::Show(args) => show(Route::ShowScarcity, args).await,
        ScarcityCommand::Set(args) => {
            let client = Client::new(&args.terms.access)?;
            let routes = (Route::ShowScarcity, Route::SetScarcity);
            client
                .amend(routes, args.pool.as_str(), &args.terms, |view| {
                    let before = scarcity::Settings::deserialize(&view["effective"])?;
                    let ageing = args.ageing.map(Ageing::try_from).transpose()?.unwrap_or(before.ageing);
                    let (mode, capacity) = (args.mode.unwrap_or(before.mode), args.capacity.unwrap_or(before.capacity));
                    Ok(to_value(scarcity::Settings { mode, ageing, capacity })?)
                })
                .await
        }
        ScarcityCommand::Clear(args) => change(Route::ClearScarcity, args.pool.as_str(), Body::None, &args.terms).await,
    }
}

const CUTS: [Column; 13] = [
    ("NO", "/number"),
    ("SINCE", "/since"),
    ("AGENT", "/agent"),
    ("WHY", "/reason"),
    ("ENFORCED", "/enforced"),
    ("CORES WANTED", "/wanted/cores"),
    ("CORES GRANTED", "/granted/cores"),
    ("GIB WANTED", "/wanted/memory_gib"),
    ("GIB GRANTED", "/granted/memory_gib"),
    ("WORTH", "/worth"),
    ("SERVED", "/served_worth"),
    ("FOR", "/for"),
    ("LASTED", "/lasted"),
];

async fn cuts(args: &ListCuts) -> anyhow::Result<()> {
    let client = Client::new(&args.access)?;
    let mut query: Vec<_> = args.agent.iter().map(|agent| ("agent", agent.to_string())).collect();
    query.extend(args.state.clone().map(|state| ("state", state)));
    let mut page = all(&client, Route::ListCuts, args.pool.as_str(), "cuts", &query, args.limit).await?;
    if client.format == Format::Table {
        // For people: names in one cell, and a time that needs no arithmetic.
        for cut in page["cuts"].as_array_mut().into_iter().flatten() {
            let names: Vec<_> = cut["instead"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
            let names = if names.is_empty() { "-".to_owned() } else { names.join(", ") };
            let ended = cut["until_ms"].as_u64().zip(cut["since_ms"].as_u64());
            let lasted = ended.map(|(until, since)| format!("{} s", until.saturating_sub(since) / 1000));
            cut["for"] = names.into();
            cut["since"] = time(cut["since_ms"].as_u64().unwrap_or_default()).into();
            cut["lasted"] = lasted.unwrap_or_else(|| "open".to_owned()).into();
        }
    }
    output::list(client.format, &page, "/cuts", &CUTS);
    Ok(())
}

pub async fn capacity(command: &CapacityCommand) -> anyhow::Result<()> {
    match command {
        CapacityCommand::Show(args) => show(Route::ShowCapacity, args).await,
        CapacityCommand::Set(args) => {
            if args.memory < Bytes::mebi(1) {
                let bound = "at least 1Mi; a number without a unit is in bytes: 160Gi is meant by most";
                return Err(Invalid::new("memory", format!("{} bytes", args.memory.0), bound).into());
            }
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
