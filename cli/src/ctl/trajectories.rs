//! `meanfield ctl trajectories`: recorded steps, by episode, by reward, drawn for training, and as files.

pub mod args;

use std::{
    path::Path,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use meanfield_common::invalid::Invalid;
use meanfield_coordinator::trajectories::export;

use super::{
    agents::{all, find},
    args::Format,
    audit::time,
    client::Client,
    output::{self, Column},
    route::Route,
};
use args::{FileFormat, Filter, Order, TrajectoriesCommand};

const EPISODES: [Column; 8] = [
    ("AGENT", "/agent"),
    ("EPOCH", "/epoch"),
    ("EPISODE", "/episode"),
    ("POOL", "/pool"),
    ("CATEGORY", "/category"),
    ("STEPS", "/steps"),
    ("REWARD", "/reward"),
    ("SINCE", "/since"),
];

const REWARDS: [Column; 4] = [("EPOCH", "/epoch"), ("EPISODE", "/episode"), ("STEP", "/step"), ("REWARD", "/reward")];

const SAMPLES: [Column; 8] = [
    ("AGENT", "/agent"),
    ("EPOCH", "/epoch"),
    ("EPISODE", "/step/episode"),
    ("STEP", "/step/step"),
    ("CPU", "/step/action/cpu"),
    ("MEMORY", "/step/action/memory"),
    ("REPLICAS", "/step/action/replicas"),
    ("REWARD", "/step/reward"),
];

/// A parameter of a question.
type Parameter = (&'static str, String);

pub async fn run(command: &TrajectoriesCommand) -> anyhow::Result<()> {
    match command {
        TrajectoriesCommand::List(args) => {
            let client = Client::new(&args.access)?;
            let mut query = filter(&client, &args.filter).await?;
            let order = match args.order {
                Order::Time => "time",
                Order::Best => "best",
                Order::Worst => "worst",
            };
            query.push(("order", order.to_owned()));
            let mut answer = all(&client, Route::ListTrajectories, "", "episodes", &query, args.limit).await?;
            if client.format == Format::Table {
                for episode in answer["episodes"].as_array_mut().into_iter().flatten() {
                    episode["since"] = time(episode["since_ms"].as_u64().unwrap_or_default()).into();
                }
            }
            output::list(client.format, &answer, "/episodes", &EPISODES);
            Ok(())
        }
        TrajectoriesCommand::Rewards(args) => {
            let client = Client::new(&args.access)?;
            let agent = find(&client, &args.agent).await?;
            let answer = client.get(Route::LatestRewards, &agent, &[("limit", args.limit.to_string())]).await?;
            output::list(client.format, &answer, "/rewards", &REWARDS);
            Ok(())
        }
        TrajectoriesCommand::Samples(args) => {
            let client = Client::new(&args.access)?;
            let mut query = filter(&client, &args.filter).await?;
            query.extend([("limit", args.limit.to_string()), ("seed", args.seed.to_string())]);
            let answer = client.get(Route::SampleSteps, "", &query).await?;
            output::list(client.format, &answer, "/samples", &SAMPLES);
            Ok(())
        }
        TrajectoriesCommand::Export(args) => {
            let format = file_format(args.format, &args.file)?;
            let client = Client::new(&args.access)?;
            let mut query = filter(&client, &args.filter).await?;
            query.push(("format", format.name().to_owned()));
            client.download_to(Route::ExportSteps, "", &query, &args.file).await
        }
        TrajectoriesCommand::Import(args) => {
            let media_type = export::Format::from(file_format(args.format, &args.file)?).media_type();
            let client = Client::new(&args.access)?;
            let answer = client.upload_from(Route::ImportSteps, &args.file, media_type, args.dry_run).await?;
            match client.format {
                Format::Table if args.dry_run => {
                    say!("would store {} steps; {} are there already", answer["stored"], answer["known"]);
                }
                format => output::detail(format, &answer),
            }
            Ok(())
        }
    }
}

/// The format that was named, or else the one that the file's name ends with.
fn file_format(named: Option<FileFormat>, file: &Path) -> Result<FileFormat, Invalid> {
    let ending = file.extension().and_then(|ending| ending.to_str()).unwrap_or_default();
    let known = [FileFormat::Csv, FileFormat::Parquet].into_iter().find(|format| format.name() == ending);
    let bound = "a name that ends with .csv or .parquet; --format says otherwise";
    named.or(known).ok_or_else(|| Invalid::new("file", file.display(), bound))
}

async fn filter(client: &Client, filter: &Filter) -> anyhow::Result<Vec<Parameter>> {
    let mut query = Vec::new();
    if let Some(agent) = &filter.agent {
        query.push(("agent", find(client, agent).await?));
    }
    query.extend(filter.pool.as_ref().map(|pool| ("pool", pool.to_string())));
    query.extend(filter.category.map(|category| ("category", category.name().to_owned())));
    query.extend(filter.since.map(|ago| ("since", before(ago))));
    query.extend(filter.until.map(|ago| ("until", before(ago))));
    Ok(query)
}

/// So long ago, in milliseconds since 1970.
fn before(ago: Duration) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    now.saturating_sub(ago).as_millis().to_string()
}
