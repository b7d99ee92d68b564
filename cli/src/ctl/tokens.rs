//! `meanfield ctl tokens`: makes, lists, shows and revokes tokens.

pub mod args;

use std::{
    fs::{self, File, OpenOptions},
    io::Write,
    os::unix::fs::OpenOptionsExt,
    path::Path,
};

use anyhow::Context;
use meanfield_coordinator::access::{NewToken, Role};
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
use args::{Create, TokensCommand};

const COLUMNS: [Column; 9] = [
    ("ID", "/id"),
    ("NAME", "/name"),
    ("ROLE", "/role"),
    ("POOL", "/pool"),
    ("AGENTS", "/agents"),
    ("RATE", "/rate"),
    ("MADE BY", "/created_by"),
    ("EXPIRES", "/expires"),
    ("EXPIRED", "/expired"),
];

pub async fn run(command: &TokensCommand) -> anyhow::Result<()> {
    match command {
        TokensCommand::Create(args) => create(args).await,
        TokensCommand::List(args) => {
            let client = Client::new(&args.access)?;
            let mut query = Vec::new();
            query.extend(args.role.map(|role| ("role", Role::from(role).name().to_owned())));
            query.extend(args.pool.as_ref().map(|pool| ("pool", pool.to_string())));
            query.extend(args.prefix.clone().map(|prefix| ("prefix", prefix)));
            let mut tokens = all(&client, Route::ListTokens, "", "tokens", &query, args.limit).await?;
            if client.format == Format::Table {
                tokens["tokens"].as_array_mut().into_iter().flatten().for_each(dates);
            }
            output::list(client.format, &tokens, "/tokens", &COLUMNS);
            Ok(())
        }
        TokensCommand::Show(args) => {
            let client = Client::new(&args.access)?;
            let mut token = client.get(Route::ShowToken, &args.id.to_string(), &[]).await?;
            if client.format == Format::Table {
                dates(&mut token);
            }
            output::detail(client.format, &token);
            Ok(())
        }
        TokensCommand::Revoke(args) => change(Route::RevokeToken, &args.id.to_string(), Body::None, &args.terms).await,
    }
}

/// Seconds since 1970 as people read them.
fn dates(token: &mut Value) {
    for field in ["created", "expires"] {
        if let Some(seconds) = token[field].as_u64() {
            token[field] = time(seconds.saturating_mul(1000)).into();
        }
    }
}

async fn create(args: &Create) -> anyhow::Result<()> {
    let new = NewToken {
        name: args.name.clone(),
        role: args.role.into(),
        pool: args.pool.clone(),
        agents: args.agents.clone(),
        expires_in_s: args.expires_in.map(|life| life.as_secs()),
        rate: args.rate,
    };
    let client = Client::new(&args.terms.access)?;
    // Before there is a token: one that is shown once must not be lost to a file that cannot be written.
    let path = args.file.as_deref().filter(|_| !args.terms.dry_run);
    let file = path.map(NewFile::create).transpose()?;
    let (mut issued, tag) =
        client.order(Route::CreateToken, "", Body::Json(to_value(new)?), &args.terms, false).await?;
    if let Some(file) = file {
        let token = issued["token"].take();
        let id = issued["id"].as_str().unwrap_or_default();
        let lost = || format!("the token {id} was made, but is lost: `meanfield ctl tokens revoke {id}`");
        file.keep(&format!("{}\n", token.as_str().unwrap_or_default())).with_context(lost)?;
        if let Some(fields) = issued.as_object_mut() {
            fields.remove("token");
        }
    }
    if client.format == Format::Table {
        dates(&mut issued);
    }
    output::changed(client.format, (issued, tag));
    Ok(())
}

/// A new file that nobody else may read, and that is removed again unless it was written: else it would be in the way of the
/// next attempt.
struct NewFile<'a> {
    path: &'a Path,
    file: File,
    written: bool,
}

impl<'a> NewFile<'a> {
    fn create(path: &'a Path) -> anyhow::Result<Self> {
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path);
        Ok(Self { path, file: file.with_context(|| path.display().to_string())?, written: false })
    }

    fn keep(mut self, text: &str) -> anyhow::Result<()> {
        let written = self.file.write_all(text.as_bytes()).and_then(|()| self.file.sync_all());
        written.with_context(|| self.path.display().to_string())?;
        self.written = true;
        Ok(())
    }
}

impl Drop for NewFile<'_> {
    fn drop(&mut self) {
        if !self.written {
            // There is an error already, which says more.
            let _ = fs::remove_file(self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_there_once_it_is_written_and_not_before() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("token");
        drop(NewFile::create(&path).unwrap());
        assert!(!path.exists(), "a refused request leaves nothing");
        NewFile::create(&path).unwrap().keep("mf_1\n").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "mf_1\n");
        assert!(NewFile::create(&path).is_err(), "nobody's file is written over");
        assert!(path.exists(), "nor removed");
    }
}
