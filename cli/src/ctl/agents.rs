//! `meanfield ctl agents`.

use meanfield_common::{
    identity::AgentId,
    invalid::Invalid,
    scarcity::{Amount, Cores, Entitlement, Gibibytes, Weight},
};
use serde::Deserialize;
use serde_json::{Value, json, to_value};

use super::{
    args::{AgentEntitlement, AgentsCommand, ListAgents, Terms},
    client::{Body, Client},
    output::{self, Column},
    route::Route,
};

const COLUMNS: [Column; 10] = [
    ("POOL", "/pool"),
    ("NAME", "/name"),
    ("CATEGORY", "/category"),
    ("STATE", "/state"),
    ("PAUSED", "/paused"),
    ("FALLBACK", "/fallback"),
    ("REWARD", "/reward"),
    ("CORES WANTED", "/claim/wanted/cores"),
    ("SILENT MS", "/silent_ms"),
    ("ID", "/id"),
];

/// The most that the API gives at once.
const PAGE: usize = 1000;

pub async fn run(command: &AgentsCommand) -> anyhow::Result<()> {
    match command {
        AgentsCommand::List(args) => list(args).await,
        AgentsCommand::Show(args) => {
            let client = Client::new(&args.access)?;
            let id = find(&client, &args.agent).await?;
            let mut agent = client.get(Route::ShowAgent, &id, &[]).await?;
            // The tags of what is ordered about it, for `--if-match`.
            for (name, route) in [
                ("pause", Route::ShowAgentPause),
                ("fallback", Route::ShowAgentFallback),
                ("lifecycle", Route::ShowLifecycle),
                ("entitlement", Route::ShowEntitlement),
            ] {
                let standing = client.get(route, &id, &[]).await?;
                agent["etags"][name] = standing["etag"].clone();
            }
            output::detail(client.format, &agent);
            Ok(())
        }
        AgentsCommand::Remove(args) => change(Route::RemoveAgent, &args.agent, Body::None, &args.terms).await,
        AgentsCommand::Pause(args) => change(Route::PauseAgent, &args.agent, Body::None, &args.terms).await,
        AgentsCommand::Resume(args) => change(Route::ResumeAgent, &args.agent, Body::None, &args.terms).await,
        AgentsCommand::Fallback(args) => {
            let route = if args.lift { Route::LiftFallbackAgent } else { Route::FallbackAgent };
            change(route, &args.agent, Body::None, &args.terms).await
        }
        AgentsCommand::Lifecycle(args) => match args.state {
            Some(state) => {
                let body = Body::Json(json!({ "state": state }));
                change(Route::SetLifecycle, &args.agent, body, &args.terms).await
            }
            None if args.clear => change(Route::ClearLifecycle, &args.agent, Body::None, &args.terms).await,
            None => show(Route::ShowLifecycle, &args.agent, &args.terms).await,
        },
        AgentsCommand::Entitlement(args) if args.clear => {
            change(Route::ClearEntitlement, &args.agent, Body::None, &args.terms).await
        }
        AgentsCommand::Entitlement(AgentEntitlement {
            agent,
            weight: None,
            min_cores: None,
            min_memory: None,
            terms,
            ..
        }) => show(Route::ShowEntitlement, agent, terms).await,
        AgentsCommand::Entitlement(args) => {
            let client = Client::new(&args.terms.access)?;
            let id = find(&client, &args.agent).await?;
            let routes = (Route::ShowEntitlement, Route::SetEntitlement);
            client.amend(routes, &id, &args.terms, |standing| entitlement(args, &standing["state"])).await
        }
    }
}

async fn show(route: Route, agent: &str, terms: &Terms) -> anyhow::Result<()> {
    let client = Client::new(&terms.access)?;
    let id = find(&client, agent).await?;
    output::detail(client.format, &client.get(route, &id, &[]).await?);
    Ok(())
}

async fn change(route: Route, agent: &str, body: Body, terms: &Terms) -> anyhow::Result<()> {
    let client = Client::new(&terms.access)?;
    let id = find(&client, agent).await?;
    client.change(route, &id, body, terms).await
}

async fn list(args: &ListAgents) -> anyhow::Result<()> {
    let client = Client::new(&args.access)?;
    let mut query = Vec::new();
    query.extend(args.pool.as_ref().map(|pool| ("pool", pool.to_string())));
    query.extend(args.category.map(|category| ("category", category.name().to_owned())));
    query.extend(args.state.map(|state| ("state", format!("{state:?}").to_lowercase())));
    query.extend(args.prefix.clone().map(|prefix| ("prefix", prefix)));
    let agents = all(&client, Route::ListAgents, "", "agents", &query, args.limit).await?;
    output::list(client.format, &agents, "/agents", &COLUMNS);
    Ok(())
}

/// What is given, with what was given before where nothing is named. A minimum of one thing alone is none of the other.
fn entitlement(args: &AgentEntitlement, before: &Value) -> anyhow::Result<Value> {
    let before = Option::<Entitlement>::deserialize(before)?.unwrap_or_default();
    let weight = args.weight.map(Weight::try_from).transpose()?.or(before.weight);
    let cores = args.min_cores.map(|cores| Cores::try_from(cores.cores())).transpose()?;
    let memory_gib = args.min_memory.map(|memory| Gibibytes::try_from(memory.as_mebi() / 1024.0)).transpose()?;
    let minimum = match (cores, memory_gib) {
        (None, None) => before.minimum,
        _ => Some(Amount {
            cores: cores.or(before.minimum.map(|least| least.cores)).unwrap_or(Cores::clamped(0.0)),
            memory_gib: memory_gib.or(before.minimum.map(|least| least.memory_gib)).unwrap_or(Gibibytes::clamped(0.0)),
        }),
    };
    Ok(to_value(Entitlement { weight, minimum })?)
}

/// All pages of `of` as one, or as many items as are wanted.
pub(super) async fn all(
    client: &Client,
    route: Route,
    of: &str,
    items: &str,
    query: &[(&str, String)],
    limit: Option<usize>,
) -> anyhow::Result<Value> {
    let mut found: Vec<Value> = Vec::new();
    let mut after: Option<String> = None;
    loop {
        let left = limit.map_or(PAGE, |limit| limit.saturating_sub(found.len()).min(PAGE));
        let mut query = query.to_vec();
        query.push(("limit", left.max(1).to_string()));
        query.extend(after.take().map(|after| ("after", after)));
        let mut page = client.get(route, of, &query).await?;
        if let Some(Value::Array(part)) = page.get_mut(items).map(Value::take) {
            found.extend(part);
        }
        after = match &page["next"] {
            Value::Null => None,
            Value::String(next) => Some(next.clone()),
            other => Some(other.to_string()),
        };
        let enough = limit.is_some_and(|limit| found.len() >= limit);
        if after.is_none() || enough {
            found.truncate(limit.unwrap_or(usize::MAX));
            page[items] = Value::Array(found);
            return Ok(page);
        }
    }
}

/// An agent's id, from its id, its name, or pool and name.
pub(super) async fn find(client: &Client, agent: &str) -> anyhow::Result<String> {
    if agent.parse::<AgentId>().is_ok() {
        return Ok(agent.to_owned());
    }
    let (pool, name) = agent.split_once(':').map_or((None, agent), |(pool, name)| (Some(pool), name));
    let mut query = vec![("prefix", name.to_owned())];
    query.extend(pool.map(|pool| ("pool", pool.to_owned())));
    let agents = all(client, Route::ListAgents, "", "agents", &query, None).await?;
    let named: Vec<_> = agents["agents"].as_array().into_iter().flatten().filter(|one| one["name"] == name).collect();
    match named.as_slice() {
        [one] => Ok(one["id"].as_str().unwrap_or_default().to_owned()),
        [] => Err(Invalid::new("agent", agent, "the id or the name of a member").into()),
        _ => {
            let pools: Vec<_> = named.iter().filter_map(|one| one["pool"].as_str()).collect();
            let bound = format!("one agent alone: say which as POOL:{name}, the pools being {}", pools.join(", "));
            Err(Invalid::new("agent", agent, bound).into())
        }
    }
}
