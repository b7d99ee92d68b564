//! `meanfield ctl models`: base models, their versions, and which of them agents get.

pub mod args;

use std::fs;

use anyhow::Context;
use meanfield_common::invalid::Invalid;
use meanfield_coordinator::models::{Canary, Serving};
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
use args::{ModelsCommand, OfModel, Serve};

const MODELS: [Column; 7] = [
    ("NAME", "/name"),
    ("SERVED", "/serving/version"),
    ("PINNED", "/serving/pinned"),
    ("CANARY", "/serving/canary/version"),
    ("SHARE", "/serving/canary/share"),
    ("VERSIONS", "/kept"),
    ("WAITING", "/contributions"),
];

const VERSIONS: [Column; 7] = [
    ("VERSION", "/version"),
    ("SERVED", "/served"),
    ("MADE", "/made"),
    ("SOURCE", "/provenance/source"),
    ("FROM", "/provenance/parent"),
    ("BYTES", "/bytes"),
    ("SHA-256", "/digest"),
];

pub async fn run(command: &ModelsCommand) -> anyhow::Result<()> {
    match command {
        ModelsCommand::List(args) => {
            let client = Client::new(&args.access)?;
            let query: Vec<_> = args.prefix.clone().map(|prefix| ("prefix", prefix)).into_iter().collect();
            let mut answer = all(&client, Route::ListModels, "", "models", &query, args.limit).await?;
            if client.format == Format::Table {
                for model in answer["models"].as_array_mut().into_iter().flatten() {
                    model["kept"] = model["versions"].as_array().map_or(0, Vec::len).into();
                }
            }
            output::list(client.format, &answer, "/models", &MODELS);
            Ok(())
        }
        ModelsCommand::Show(args) => show(args).await,
        ModelsCommand::Add(args) => {
            let bytes = fs::read(&args.file).with_context(|| args.file.display().to_string())?;
            change(Route::AddModel, args.of.model.as_str(), Body::File(bytes), &args.of.terms).await
        }
        ModelsCommand::Download(args) => {
            let mut query = Vec::new();
            query.extend(args.number.map(|number| ("version", number.to_string())));
            query.extend(args.agent.clone().map(|agent| ("agent", agent)));
            let client = Client::new(&args.of.access)?;
            client.download_to(Route::DownloadModel, args.of.model.as_str(), &query, &args.file).await
        }
        ModelsCommand::Serve(args) => serve(args).await,
        ModelsCommand::Rollback(args) => {
            change(Route::RollBackModel, args.model.as_str(), Body::None, &args.terms).await
        }
        ModelsCommand::Remove(args) => change(Route::RemoveModel, args.model.as_str(), Body::None, &args.terms).await,
    }
}

async fn show(args: &OfModel) -> anyhow::Result<()> {
    let client = Client::new(&args.access)?;
    let mut model = client.get(Route::ShowModel, args.model.as_str(), &[]).await?;
    if client.format != Format::Table {
        output::whole(client.format, &model);
        return Ok(());
    }
    let (served, canary) = (model["serving"]["version"].clone(), model["serving"]["canary"]["version"].clone());
    let mut versions = model["versions"].take();
    for version in versions.as_array_mut().into_iter().flatten() {
        let number = &version["version"];
        let word = if *number == served { "yes" } else { "canary" };
        version["served"] = if *number == served || *number == canary { word.into() } else { Value::Null };
        version["made"] = time(version["provenance"]["made_unix_ms"].as_u64().unwrap_or_default()).into();
    }
    output::list(client.format, &versions, "", &VERSIONS);
    say!("");
    if let Some(fields) = model.as_object_mut() {
        fields.remove("versions");
    }
    output::detail(client.format, &model);
    Ok(())
}

async fn serve(args: &Serve) -> anyhow::Result<()> {
    let canary = match (args.canary, args.share) {
        (Some(version), Some(share)) => {
            if !(share > 0.0 && share <= 1.0) {
                return Err(Invalid::new("share", share, "above 0 and at most 1").into());
            }
            Some(Canary { version, share })
        }
        _ => None,
    };
    let serving = Serving { version: args.number, pinned: args.pin, canary };
    change(Route::ServeModel, args.of.model.as_str(), Body::Json(to_value(serving)?), &args.of.terms).await
}
