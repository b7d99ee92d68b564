//! The store in a directory: a sled database, with enough beside it to notice damage.
//!
//! | record | holds |
//! |---|---|
//! | `format` | the version of this layout |
//! | `summary` | commit number, number of agents, digest of all other records; part of every commit |
//! | `paused` | whether everybody is paused |
//! | `agent/<id>` | a [`Record`] |
//!
//! `store/` is the database and `commits` the [`Witness`] next to it.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use meanfield_common::identity::AgentId;
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use super::{
    Contents, Error, Record, Store, Write,
    witness::{Witness, hash},
};

const FORMAT: &[u8] = b"format";
const SUMMARY: &[u8] = b"summary";
const PAUSED: &[u8] = b"paused";
const AGENT: &str = "agent/";
const VERSION: u32 = 1;

/// A store in a directory, for one process at a time.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    database: sled::Db,
    witness: Witness,
    summary: Summary,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Summary {
    commit: u64,
    agents: u64,
    /// The sum of the hashes of all other records: it can be updated without reading them.
    digest: u64,
}

impl Disk {
    /// Opens the store in a directory, or makes one if there is none.
    ///
    /// # Errors
    /// If the directory cannot be used, another process uses it, or what is in it is damaged.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let of_file = |path: &Path| {
            let path = path.to_owned();
            move |source| Error::Io { path, source }
        };
        fs::create_dir_all(directory).map_err(of_file(directory))?;
        let (path, witness_path) = (directory.join("store"), directory.join("commits"));
        let database = open_database(&path)?;
        let failed = |error| database_error(&path, error);
        let fresh = database.is_empty() && !witness_path.exists();
        if fresh {
            let mut batch = sled::Batch::default();
            batch.insert(FORMAT, encode(&path, "format", &VERSION)?);
            batch.insert(SUMMARY, encode(&path, "summary", &Summary::default())?);
            database.apply_batch(batch).map_err(failed)?;
            database.flush().map_err(failed)?;
        }
        check_format(&path, &database)?;
        let summary: Summary = required(&path, &database, SUMMARY)?;
        // The witness is made last, so a start that failed half-way leaves a database without one, and without commits.
        let witness = if !witness_path.exists() && summary.commit == 0 {
            Witness::create(&witness_path)
        } else {
            Witness::open(&witness_path)
        }
        .map_err(of_file(&witness_path))?;
        let last = witness.last().map_err(of_file(&witness_path))?;
        if last.is_none_or(|last| last > summary.commit) {
            let known = last.map_or("an unreadable number of".to_owned(), |last| last.to_string());
            let reason = format!("has {} commits but {known} were acknowledged", summary.commit);
            return Err(corrupt(&path, SUMMARY, reason));
        }
        Ok(Self { path, database, witness, summary })
    }

    fn agent(&self, key: &[u8], value: &[u8]) -> Result<(AgentId, Record), Error> {
        let id = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(AGENT)).and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| corrupt(&self.path, key, "is not a record of this version"))?;
        Ok((id, decode(&self.path, key, value)?))
    }

    fn put(&self, batch: &mut sled::Batch, summary: &mut Summary, key: &[u8], value: Vec<u8>) -> Result<bool, Error> {
        let old = self.database.get(key).map_err(|error| database_error(&self.path, error))?;
        if let Some(old) = &old {
            summary.digest = summary.digest.wrapping_sub(hash(&[key, old]));
        }
        summary.digest = summary.digest.wrapping_add(hash(&[key, &value]));
        batch.insert(key, value);
        Ok(old.is_none())
    }
}

impl Store for Disk {
    fn load(&mut self) -> Result<Contents, Error> {
        let mut contents = Contents::default();
        let mut found = Summary { commit: self.summary.commit, ..Summary::default() };
        for entry in self.database.iter() {
            let (key, value) = entry.map_err(|error| database_error(&self.path, error))?;
            match key.as_ref() {
                FORMAT | SUMMARY => continue,
                PAUSED => contents.paused = decode(&self.path, &key, &value)?,
                _ => {
                    contents.agents.push(self.agent(&key, &value)?);
                    found.agents += 1;
                }
            }
            found.digest = found.digest.wrapping_add(hash(&[&key, &value]));
        }
        if found != self.summary {
            let reason = format!("promises {:?} but the records are {found:?}", self.summary);
            return Err(corrupt(&self.path, SUMMARY, reason));
        }
        Ok(contents)
    }

    fn commit(&mut self, writes: &[Write]) -> Result<(), Error> {
        let failed = |error| database_error(&self.path, error);
        let mut summary = Summary { commit: self.summary.commit + 1, ..self.summary };
        let mut batch = sled::Batch::default();
        for write in writes {
            match write {
                Write::Agent(id, record) => {
                    let key = format!("{AGENT}{id}");
                    let value = encode(&self.path, &key, record)?;
                    summary.agents += u64::from(self.put(&mut batch, &mut summary, key.as_bytes(), value)?);
                }
                Write::Paused(paused) => {
                    let value = encode(&self.path, "paused", paused)?;
                    self.put(&mut batch, &mut summary, PAUSED, value)?;
                }
            }
        }
        batch.insert(SUMMARY, encode(&self.path, "summary", &summary)?);
        self.database.apply_batch(batch).map_err(failed)?;
        self.database.flush().map_err(failed)?;
        self.witness
            .record(summary.commit)
            .map_err(|source| Error::Io { path: self.path.with_file_name("commits"), source })?;
        self.summary = summary;
        Ok(())
    }
}

fn open_database(path: &Path) -> Result<sled::Db, Error> {
    // sled gives up on some damage by panicking; for us that is one more way of saying that it cannot be opened.
    // Every commit flushes for itself, so the periodic flush would only get in its way.
    let opened = std::panic::catch_unwind(|| sled::Config::new().path(path).flush_every_ms(None).open());
    let panicked = || Error::Database { path: path.to_owned(), reason: "is damaged: opening it panicked".to_owned() };
    opened.map_err(|_| panicked())?.map_err(|error| database_error(path, error))
}

fn database_error(path: &Path, error: sled::Error) -> Error {
    let path = path.to_owned();
    match error {
        // sled wraps the refusal of its file lock into an error of kind Other.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => Error::Locked { path },
        sled::Error::Io(source) => Error::Io { path, source: io::Error::new(source.kind(), source.to_string()) },
        other => Error::Database { path, reason: other.to_string() },
    }
}

fn check_format(path: &Path, database: &sled::Db) -> Result<(), Error> {
    let version: u32 = required(path, database, FORMAT)?;
    if version == VERSION {
        Ok(())
    } else {
        Err(corrupt(path, FORMAT, format!("version {version} is not {VERSION}, the one that this program knows")))
    }
}

fn required<T: DeserializeOwned>(path: &Path, database: &sled::Db, key: &[u8]) -> Result<T, Error> {
    let value = database.get(key).map_err(|error| database_error(path, error))?;
    decode(path, key, &value.ok_or_else(|| corrupt(path, key, "is missing"))?)
}

fn decode<T: DeserializeOwned>(path: &Path, key: &[u8], value: &[u8]) -> Result<T, Error> {
    serde_json::from_slice(value).map_err(|error| corrupt(path, key, error.to_string()))
}

fn encode(path: &Path, key: &str, value: &impl Serialize) -> Result<Vec<u8>, Error> {
    serde_json::to_vec(value).map_err(|error| corrupt(path, key.as_bytes(), error.to_string()))
}

fn corrupt(path: &Path, key: &[u8], reason: impl Into<String>) -> Error {
    Error::Corrupt { path: path.to_owned(), key: String::from_utf8_lossy(key).into_owned(), reason: reason.into() }
}
