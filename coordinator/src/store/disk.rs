//! The store in a directory: a sled database, with enough beside it to notice damage.
//!
//! | record | holds |
//! |---|---|
//! | `format` | the version of this layout, 5; up to 4 there were no pools and no details of agents, up to 3 agents were written in JSON, and a start rewrites them |
//! | `summary` | commit number, number of agents, digest of all other records; part of every commit |
//! | `paused` | whether everybody is paused |
//! | `agent/<id>` | a [`Record`], see [`record`] |
//! | `capacity/<pool>` | the capacity that an operator ordered |
//! | `forecast/<pool>` | the bytes of the pool's forecast network |
//! | `token/<id>` | a [`TokenRecord`]: the digest of its secret, and what it stands for |
//! | `model/<name>` | a [`Document`]: which files are the versions of a base model, and what is served |
//! | `pool/<pool>` | a [`PoolRecord`](crate::settings::PoolRecord) |
//! | `fallback` | whether everybody decides by the fallback |
//! | `order-pool/<pool>`, `order-agent/<id>` | a [`PoolOrder`], an [`AgentOrder`] |
//! | `audit/<number>` | an [`Entry`](crate::audit::Entry) of the audit log, its number with twenty digits |
//! | `audit-anchor` | the [`Anchor`](crate::audit::Anchor) of the audit log, once entries were let go |
//!
//! Where nothing is ordered there is no record; a capacity of null, an empty network and an order of nothing are read as that.
//!
//! `store/` is the database, `commits` the [`Witness`] next to it, and `lock` keeps other processes away from both. A
//! start is tried on a copy first, see [`rehearsal`].

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};

use meanfield_common::identity::{AgentId, ModelName, PoolName};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::{
    access::{TokenId, TokenRecord},
    audit,
    models::Document,
    orders::{AgentOrder, PoolOrder},
};

use super::{
    Contents, Error, Record, Store, Write, record, rehearsal,
    witness::{Witness, hash},
};

const FORMAT: &[u8] = b"format";
const SUMMARY: &[u8] = b"summary";
const PAUSED: &[u8] = b"paused";
const CAPACITY: &str = "capacity/";
const FORECAST: &str = "forecast/";
const TOKEN: &str = "token/";
const MODEL: &str = "model/";
const FALLBACK: &[u8] = b"fallback";
const POOL: &str = "pool/";
const POOL_ORDER: &str = "order-pool/";
const AGENT_ORDER: &str = "order-agent/";
const AUDIT: &str = "audit/";
const AUDIT_ANCHOR: &[u8] = b"audit-anchor";
/// The oldest layout that is read, and the one that is written.
const OLDEST: u32 = 1;
const CURRENT: u32 = 5;
/// Before this one, agents were written in JSON.
const COMPACT: u32 = 4;

/// How many bytes of records the database may keep in memory: the ledger has them all, so they are hardly ever read.
const CACHE: u64 = 1 << 20;

const DATABASE: &str = "store";
const COMMITS: &str = "commits";
const LOCK: &str = "lock";

/// A store in a directory, for one process at a time.
#[derive(Debug)]
pub struct Disk {
    path: PathBuf,
    database: sled::Db,
    witness: Witness,
    summary: Summary,
    /// The version of the layout.
    format: u32,
    /// What the rehearsal read, until somebody asks for it: nobody reads a million records twice.
    rehearsed: Option<Contents>,
    /// Dropped last, when the database is closed. A rehearsal has none of its own.
    _lock: Option<File>,
}

/// A store that can be opened: nobody else uses it, and nothing in it is damaged.
#[derive(Debug)]
pub struct Rehearsed {
    directory: PathBuf,
    lock: File,
    /// None before the first start.
    contents: Option<Contents>,
}

impl Rehearsed {
    /// The base models that it knows.
    pub(crate) fn models(&self) -> &[(ModelName, Document)] {
        self.contents.as_ref().map_or(&[], |contents| &contents.models)
    }

    /// Opens the store, or makes one if there is none.
    ///
    /// # Errors
    /// If the directory cannot be used.
    pub fn open(self) -> Result<Disk, Error> {
        let mut disk = Disk { _lock: Some(self.lock), ..Disk::start(&self.directory, &self.directory)? };
        if let Some(contents) = &self.contents
            && disk.format < CURRENT
        {
            disk.rewrite(contents)?;
        }
        disk.rehearsed = self.contents;
        Ok(disk)
    }
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
    /// Tries the start on a copy, and changes nothing but the lock.
    ///
    /// # Errors
    /// If the directory cannot be used, another process uses it, or what is in it is damaged.
    pub fn rehearse(directory: &Path) -> Result<Rehearsed, Error> {
        fs::create_dir_all(directory).map_err(Error::io(directory))?;
        let lock = lock(directory)?;
        let copy = |from: &Path, to: &Path| fs::copy(from, to).map(drop);
        let contents =
            rehearsal::run(directory, &[DATABASE, COMMITS], copy, |copy| Self::start(copy, directory)?.load())?;
        Ok(Rehearsed { directory: directory.to_owned(), lock, contents })
    }

    /// Brings the agents of an older layout to this one, all at once: a crash leaves the old one or the new one.
    fn rewrite(&mut self, contents: &Contents) -> Result<(), Error> {
        let failed = |error| database_error(&self.path, error);
        let mut summary = Summary { commit: self.summary.commit + 1, ..self.summary };
        let mut batch = sled::Batch::default();
        let older = if self.format < COMPACT { contents.agents.as_slice() } else { &[] };
        for (id, agent) in older {
            let old = old_key(*id);
            let value = self.database.get(&old).map_err(failed)?;
            let value = value.ok_or_else(|| corrupt(&self.path, old.as_bytes(), "is missing"))?;
            summary.digest = summary.digest.wrapping_sub(hash(&[old.as_bytes(), &value]));
            batch.remove(old.as_bytes());
            let (key, value) = (record::key(*id), record::encode(agent));
            summary.digest = summary.digest.wrapping_add(hash(&[&key, &value]));
            batch.insert(key, value);
        }
        batch.insert(FORMAT, encode(&self.path, "format", &CURRENT)?);
        tracing::info!(agents = older.len(), from = self.format, to = CURRENT, "rewrote the store");
        self.finish(batch, summary)?;
        self.format = CURRENT;
        Ok(())
    }

    /// Makes a batch durable, and the summary with it.
    fn finish(&mut self, mut batch: sled::Batch, summary: Summary) -> Result<(), Error> {
        let failed = |error| database_error(&self.path, error);
        batch.insert(SUMMARY, encode(&self.path, "summary", &summary)?);
        self.database.apply_batch(batch).map_err(failed)?;
        self.database.flush().map_err(failed)?;
        self.witness.record(summary.commit).map_err(Error::io(&self.path.with_file_name(COMMITS)))?;
        self.summary = summary;
        Ok(())
    }

    /// Opens the store in one directory and names another in errors, which is the one that it is a copy of.
    fn start(directory: &Path, named: &Path) -> Result<Self, Error> {
        let (path, commits) = (named.join(DATABASE), named.join(COMMITS));
        let failed = |error| database_error(&path, error);
        // Every commit flushes for itself, so the periodic flush would only get in its way.
        let database =
            sled::Config::new().path(directory.join(DATABASE)).flush_every_ms(None).cache_capacity(CACHE).open();
        let database = database.map_err(failed)?;
        let witness_path = directory.join(COMMITS);
        let fresh = database.is_empty() && !witness_path.exists();
        if fresh {
            let mut batch = sled::Batch::default();
            batch.insert(FORMAT, encode(&path, "format", &CURRENT)?);
            batch.insert(SUMMARY, encode(&path, "summary", &Summary::default())?);
            database.apply_batch(batch).map_err(failed)?;
            database.flush().map_err(failed)?;
        }
        let format = check_format(&path, &database)?;
        let summary: Summary = required(&path, &database, SUMMARY)?;
        // The witness is made last, so a start that failed half-way leaves a database without one, and without commits.
        let witness = if !witness_path.exists() && summary.commit == 0 {
            Witness::create(&witness_path)
        } else {
            Witness::open(&witness_path)
        }
        .map_err(Error::io(&commits))?;
        let known = match witness.last().map_err(Error::io(&commits))? {
            Some(last) if last <= summary.commit => {
                return Ok(Self { path, database, witness, summary, format, rehearsed: None, _lock: None });
            }
            Some(last) => format!("{last} were acknowledged"),
            None => format!("{commits:?} does not say how many were acknowledged"),
        };
        Err(corrupt(&path, SUMMARY, format!("has {} commits but {known}", summary.commit)))
    }

    fn agent(&self, key: &[u8], value: &[u8], pools: &mut Vec<PoolName>) -> Result<(AgentId, Record), Error> {
        if self.format < COMPACT {
            return Ok((self.id("agent/", key)?, decode(&self.path, key, value)?));
        }
        let id = record::id(key).ok_or_else(|| corrupt(&self.path, key, "is not a record of this version"))?;
        let record =
            record::decode(value, pools).ok_or_else(|| corrupt(&self.path, key, "is not an agent's record"))?;
        Ok((id, record))
    }

    /// The id that a key has as text.
    fn id(&self, prefix: &str, key: &[u8]) -> Result<AgentId, Error> {
        let id = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(prefix)?.parse().ok());
        id.ok_or_else(|| corrupt(&self.path, key, "is not a record of this version"))
    }

    fn pool(&self, prefix: &str, key: &[u8]) -> Result<PoolName, Error> {
        let pool = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|pool| pool.parse().ok());
        pool.ok_or_else(|| corrupt(&self.path, key, "is not a pool's name"))
    }

    fn token(&self, key: &[u8], value: &[u8]) -> Result<(TokenId, TokenRecord), Error> {
        let id = std::str::from_utf8(&key[TOKEN.len()..]).ok().and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| corrupt(&self.path, key, "is not a token's id"))?;
        Ok((id, decode(&self.path, key, value)?))
    }

    fn remove(&self, batch: &mut sled::Batch, summary: &mut Summary, key: &[u8]) -> Result<(), Error> {
        if let Some(old) = self.database.get(key).map_err(|error| database_error(&self.path, error))? {
            summary.digest = summary.digest.wrapping_sub(hash(&[key, &old]));
            batch.remove(key);
        }
        Ok(())
    }

    /// Writes a record in JSON, or removes it.
    fn keep<T: Serialize>(
        &self,
        batch: &mut sled::Batch,
        summary: &mut Summary,
        key: &str,
        record: Option<&T>,
    ) -> Result<(), Error> {
        match record {
            Some(record) => {
                let value = encode(&self.path, key, record)?;
                self.put(batch, summary, key.as_bytes(), value).map(drop)
            }
            None => self.remove(batch, summary, key.as_bytes()),
        }
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

/// With all digits, so that records are in the order of their numbers.
fn audit_key(sequence: u64) -> String {
    format!("{AUDIT}{sequence:020}")
}

impl Store for Disk {
    fn load(&mut self) -> Result<Contents, Error> {
        if let Some(contents) = self.rehearsed.take() {
            return Ok(contents);
        }
        let (mut contents, mut pools) = (Contents::default(), Vec::new());
        let mut found = Summary { commit: self.summary.commit, ..Summary::default() };
        for entry in self.database.iter() {
            let (key, value) = entry.map_err(|error| database_error(&self.path, error))?;
            match key.as_ref() {
                FORMAT | SUMMARY => continue,
                PAUSED => contents.paused = decode(&self.path, &key, &value)?,
                key_of_pool if key_of_pool.starts_with(CAPACITY.as_bytes()) => {
                    contents.capacities.push((self.pool(CAPACITY, &key)?, decode(&self.path, &key, &value)?));
                }
                key_of_pool if key_of_pool.starts_with(FORECAST.as_bytes()) => {
                    let bytes = (!value.is_empty()).then(|| value.to_vec());
                    contents.forecasts.push((self.pool(FORECAST, &key)?, bytes));
                }
                key_of_token if key_of_token.starts_with(TOKEN.as_bytes()) => {
                    contents.tokens.push(self.token(&key, &value)?);
                }
                key_of_model if key_of_model.starts_with(MODEL.as_bytes()) => {
                    let name = std::str::from_utf8(&key[MODEL.len()..]).ok().and_then(|name| name.parse().ok());
                    let name = name.ok_or_else(|| corrupt(&self.path, &key, "is not a model's name"))?;
                    contents.models.push((name, decode(&self.path, &key, &value)?));
                }
                FALLBACK => contents.fallback = decode(&self.path, &key, &value)?,
                AUDIT_ANCHOR => contents.trail.anchor = decode(&self.path, &key, &value)?,
                entry if entry.starts_with(AUDIT.as_bytes()) => {
                    contents.trail.entries.push_back(decode(&self.path, &key, &value)?);
                }
                key_of_pool if key_of_pool.starts_with(POOL.as_bytes()) => {
                    contents.pools.push((self.pool(POOL, &key)?, decode(&self.path, &key, &value)?));
                }
                order if order.starts_with(POOL_ORDER.as_bytes()) => {
                    contents.pool_orders.push((self.pool(POOL_ORDER, &key)?, decode(&self.path, &key, &value)?));
                }
                order if order.starts_with(AGENT_ORDER.as_bytes()) => {
                    contents.agent_orders.push((self.id(AGENT_ORDER, &key)?, decode(&self.path, &key, &value)?));
                }
                _ => {
                    contents.agents.push(self.agent(&key, &value, &mut pools)?);
                    found.agents += 1;
                }
            }
            found.digest = found.digest.wrapping_add(hash(&[&key, &value]));
        }
        if found != self.summary {
            let reason = format!("promises {:?} but the records are {found:?}", self.summary);
            return Err(corrupt(&self.path, SUMMARY, reason));
        }
        let trail = &mut contents.trail;
        let (anchor, head) = (trail.anchor, trail.head());
        if let Some(damage) = audit::verify(anchor, trail.entries.make_contiguous(), head).first() {
            return Err(corrupt(&self.path, AUDIT.as_bytes(), damage.to_string()));
        }
        Ok(contents)
    }

    fn commit(&mut self, writes: &[Write]) -> Result<(), Error> {
        let mut summary = Summary { commit: self.summary.commit + 1, ..self.summary };
        let mut batch = sled::Batch::default();
        for write in writes {
            match write {
                Write::Agent(id, agent) => {
                    let (key, value) = (record::key(*id), record::encode(agent));
                    summary.agents += u64::from(self.put(&mut batch, &mut summary, &key, value)?);
                }
                Write::Capacity(pool, capacity) => {
                    self.keep(&mut batch, &mut summary, &format!("{CAPACITY}{pool}"), capacity.as_ref())?;
                }
                Write::Forecast(pool, forecast) => {
                    let key = format!("{FORECAST}{pool}");
                    match forecast {
                        Some(forecast) => {
                            self.put(&mut batch, &mut summary, key.as_bytes(), forecast.bytes().to_vec())?;
                        }
                        None => self.remove(&mut batch, &mut summary, key.as_bytes())?,
                    }
                }
                Write::Token(id, record) => {
                    self.keep(&mut batch, &mut summary, &format!("{TOKEN}{id}"), record.as_ref())?;
                }
                Write::Model(name, document) => {
                    self.keep(&mut batch, &mut summary, &format!("{MODEL}{name}"), document.as_ref())?;
                }
                Write::Paused(paused) => {
                    let value = encode(&self.path, "paused", paused)?;
                    self.put(&mut batch, &mut summary, PAUSED, value)?;
                }
                Write::Fallback(on) => {
                    let value = encode(&self.path, "fallback", on)?;
                    self.put(&mut batch, &mut summary, FALLBACK, value)?;
                }
                Write::Pool(pool, record) => {
                    self.keep(&mut batch, &mut summary, &format!("{POOL}{pool}"), record.as_ref())?;
                }
                Write::PoolOrder(pool, order) => {
                    let order = Some(order).filter(|order| **order != PoolOrder::default());
                    self.keep(&mut batch, &mut summary, &format!("{POOL_ORDER}{pool}"), order)?;
                }
                Write::AgentOrder(id, order) => {
                    let order = Some(order).filter(|order| **order != AgentOrder::default());
                    self.keep(&mut batch, &mut summary, &format!("{AGENT_ORDER}{id}"), order)?;
                }
                Write::Audit(entry) => {
                    let key = audit_key(entry.sequence);
                    let value = encode(&self.path, &key, entry)?;
                    self.put(&mut batch, &mut summary, key.as_bytes(), value)?;
                }
                Write::AuditDropped(range, anchor) => {
                    for sequence in range.clone() {
                        self.remove(&mut batch, &mut summary, audit_key(sequence).as_bytes())?;
                    }
                    let value = encode(&self.path, "audit-anchor", anchor)?;
                    self.put(&mut batch, &mut summary, AUDIT_ANCHOR, value)?;
                }
            }
        }
        self.finish(batch, summary)
    }
}

/// The key of an agent before format 4.
fn old_key(id: AgentId) -> String {
    format!("agent/{id}")
}

fn lock(directory: &Path) -> Result<File, Error> {
    let path = directory.join(LOCK);
    // The file stays when its lock is gone: removing it would let two processes lock two files of the same name.
    let file = OpenOptions::new().write(true).create(true).truncate(false).open(&path).map_err(Error::io(&path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(TryLockError::WouldBlock) => Err(Error::Locked { path: directory.to_owned() }),
        Err(TryLockError::Error(reason)) => Err(Error::Io { path, reason }),
    }
}

fn database_error(path: &Path, error: sled::Error) -> Error {
    let path = path.to_owned();
    match error {
        // sled has a lock of its own, and wraps its refusal into an error of kind Other.
        sled::Error::Io(error) if error.to_string().contains("could not acquire lock") => Error::Locked { path },
        sled::Error::Io(reason) => Error::Io { path, reason },
        other => Error::Database { path, reason: other.to_string() },
    }
}

fn check_format(path: &Path, database: &sled::Db) -> Result<u32, Error> {
    let version: u32 = required(path, database, FORMAT)?;
    if (OLDEST..=CURRENT).contains(&version) {
        Ok(version)
    } else {
        let known = format!("{OLDEST} to {CURRENT}, which this program knows");
        Err(corrupt(path, FORMAT, format!("version {version} is not {known}")))
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

pub(crate) fn corrupt(path: &Path, key: &[u8], reason: impl Into<String>) -> Error {
    Error::Corrupt { path: path.to_owned(), key: String::from_utf8_lossy(key).into_owned(), reason: reason.into() }
}
