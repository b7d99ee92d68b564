//! `meanfield ctl audit`: lists the log, and verifies it from the coordinator or from a file.

use std::{
    fs,
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use anyhow::Context;
use meanfield_common::invalid::Invalid;
use meanfield_coordinator::{
    audit::{Anchor, Entry, Page, verify},
    trajectories::import::LATEST,
};
use serde_json::{Value, json};

use super::{
    agents::all,
    args::{AuditCommand, Format, ListAudit, VerifyAudit},
    client::Client,
    output::{self, Column},
    route::Route,
};

const COLUMNS: [Column; 7] = [
    ("NUMBER", "/sequence"),
    ("WHEN", "/at"),
    ("WHO", "/actor"),
    ("ACTION", "/action"),
    ("TARGET", "/target"),
    ("BEFORE", "/before"),
    ("AFTER", "/after"),
];

/// The log is not whole.
#[derive(Debug, thiserror::Error)]
#[error("the audit log is damaged: {0}")]
pub struct Damaged(String);

pub async fn run(command: &AuditCommand) -> anyhow::Result<()> {
    match command {
        AuditCommand::List(args) => list(args).await,
        AuditCommand::Verify(args) => check(args).await,
    }
}

async fn list(args: &ListAudit) -> anyhow::Result<()> {
    let client = Client::new(&args.access)?;
    let since = args.since.map(|since| {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        now.saturating_sub(since).as_millis().to_string()
    });
    let mut query = Vec::new();
    for (name, value) in [("since", &since), ("actor", &args.actor), ("action", &args.action), ("target", &args.target)]
    {
        query.extend(value.clone().map(|value| (name, value)));
    }
    let mut page = all(&client, Route::ListAudit, "", "entries", &query, args.limit).await?;
    if client.format == Format::Table {
        for entry in page["entries"].as_array_mut().into_iter().flatten() {
            entry["at"] = time(entry["at_ms"].as_u64().unwrap_or_default()).into();
        }
    }
    output::list(client.format, &page, "/entries", &COLUMNS);
    Ok(())
}

/// A time for people.
pub(super) fn time(at_ms: u64) -> String {
    // What is written by hand, or by another program, may be no time that can be written.
    let at = UNIX_EPOCH.checked_add(Duration::from_millis(at_ms)).filter(|_| at_ms < LATEST);
    at.map_or_else(|| format!("{at_ms} ms"), |at| humantime::format_rfc3339_millis(at).to_string())
}

async fn check(args: &VerifyAudit) -> anyhow::Result<()> {
    let known = args.head.as_deref().map(parse_head).transpose()?;
    let page = match &args.file {
        Some(path) => {
            let text = fs::read_to_string(path).with_context(|| path.display().to_string())?;
            serde_json::from_str::<Page>(&text)
                .with_context(|| format!("{}: not what `audit list -o json` writes", path.display()))?
        }
        None => {
            let client = Client::new(&args.access)?;
            let mut page: Page =
                serde_json::from_value(all(&client, Route::ListAudit, "", "entries", &[], None).await?)?;
            // The oldest may have been let go between two pages: what is before the last anchor is no part of it.
            page.entries.retain(|entry| entry.sequence > page.anchor.sequence);
            page
        }
    };
    let mut damages: Vec<_> = verify(page.anchor, &page.entries, page.head).iter().map(ToString::to_string).collect();
    if let Some(known) = known
        && !holds(&page, known)
    {
        damages.push(format!("there is no entry {} with the hash that was written down", known.sequence));
    }
    report(args.access.output, &page, &damages);
    if damages.is_empty() { Ok(()) } else { Err(Damaged(damages.join("; ")).into()) }
}

fn holds(page: &Page, known: Anchor) -> bool {
    page.anchor == known || page.entries.iter().any(|entry: &Entry| Anchor::from(entry) == known)
}

fn parse_head(text: &str) -> Result<Anchor, Invalid> {
    let parts = text
        .split_once(':')
        .and_then(|(number, hash)| Some(Anchor { sequence: number.parse().ok()?, hash: hash.parse().ok()? }));
    parts.ok_or_else(|| Invalid::new("head", text, "a number and a hash, as NUMBER:HASH"))
}

fn report(format: Format, page: &Page, damages: &[String]) {
    let head = format!("{}:{}", page.head.sequence, page.head.hash);
    match format {
        Format::Table if damages.is_empty() => {
            say!("{} entries after number {} are whole; the head is {head}", page.entries.len(), page.anchor.sequence);
        }
        Format::Table => damages.iter().for_each(|damage| say!("{damage}")),
        format => {
            let whole: Value =
                json!({"whole": damages.is_empty(), "entries": page.entries.len(), "head": head, "damages": damages});
            output::whole(format, &whole);
        }
    }
}
