//! The store in a directory: a sled database, with enough beside it to notice damage.
//!
//! | record | holds |
//! |---|---|
//! | `format` | the version of this layout: 1, or 2 once a capacity was ordered, or 3 once a forecast network was given, or 4 once anything else was ordered or audited, which older programs must not miss |
//! | `summary` | commit number, number of agents, digest of all other records; part of every commit |
//! | `paused` | whether everybody is paused |
//! | `agent/<id>` | a [`Record`] |
//! | `capacity/<pool>` | the capacity that an operator ordered, or null |
//! | `forecast/<pool>` | the bytes of the pool's forecast network, or none |
//! | `fallback` | whether everybody decides by the fallback |
//! | `order-pool/<pool>`, `order-agent/<id>` | a [`PoolOrder`](crate::orders::PoolOrder), an [`AgentOrder`](crate::orders::AgentOrder) |
//! | `audit/<number>` | an [`Entry`](crate::audit::Entry) of the audit log, its number with twenty digits |
//! | `audit-anchor` | the [`Anchor`](crate::audit::Anchor) of the audit log, once entries were let go |
//!
//! `store/` is the database, `commits` the [`Witness`] next to it, and `lock` keeps other processes away from both. A
//! start is tried on a copy first, see [`rehearsal`].

use std::{
    fs::{self, File, OpenOptions, TryLockError},
    path::{Path, PathBuf},
};

use meanfield_common::identity::{AgentId, PoolName};
use serde::{Deserialize, Serialize, de::DeserializeOwned};

use crate::audit;

use super::{
    Contents, Error, Record, Store, Write, rehearsal,
    witness::{Witness, hash},
};

const FORMAT: &[u8] = b"format";
const SUMMARY: &[u8] = b"summary";
const PAUSED: &[u8] = b"paused";
const AGENT: &str = "agent/";
const CAPACITY: &str = "capacity/";
const FORECAST: &str = "forecast/";
const FALLBACK: &[u8] = b"fallback";
const POOL_ORDER: &str = "order-pool/";
const AGENT_ORDER: &str = "order-agent/";
const AUDIT: &str = "audit/";
const AUDIT_ANCHOR: &[u8] = b"audit-anchor";
/// Without capacities, with them, with forecast networks, and with other orders and the audit log.
const PLAIN: u32 = 1;
const WITH_CAPACITIES: u32 = 2;
const WITH_FORECASTS: u32 = 3;
const WITH_AUDIT: u32 = 4;

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
    /// The version of the layout; it only grows.
    format: u32,
    /// Dropped last, when the database is closed. A rehearsal has none of its own.
    _lock: Option<File>,
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
    /// If the directory cannot be used, another process uses it, or what is in it is damaged. Damage is left as it is.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        fs::create_dir_all(directory).map_err(Error::io(directory))?;
        let lock = lock(directory)?;
        rehearsal::run(directory, &[DATABASE, COMMITS], |copy| Self::start(copy, directory)?.load())?;
        Ok(Self { _lock: Some(lock), ..Self::start(directory, directory)? })
    }

    /// Opens the store in one directory and names another in errors, which is the one that it is a copy of.
    fn start(directory: &Path, named: &Path) -> Result<Self, Error> {
        let (path, commits) = (named.join(DATABASE), named.join(COMMITS));
        let failed = |error| database_error(&path, error);
        // Every commit flushes for itself, so the periodic flush would only get in its way.
        let database =
            sled::Config::new().path(directory.join(DATABASE)).flush_every_ms(None).open().map_err(failed)?;
        let witness_path = directory.join(COMMITS);
        let fresh = database.is_empty() && !witness_path.exists();
        if fresh {
            let mut batch = sled::Batch::default();
            batch.insert(FORMAT, encode(&path, "format", &PLAIN)?);
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
                return Ok(Self { path, database, witness, summary, format, _lock: None });
            }
            Some(last) => format!("{last} were acknowledged"),
            None => format!("{commits:?} does not say how many were acknowledged"),
        };
        Err(corrupt(&path, SUMMARY, format!("has {} commits but {known}", summary.commit)))
    }

    fn agent<T: DeserializeOwned>(&self, prefix: &str, key: &[u8], value: &[u8]) -> Result<(AgentId, T), Error> {
        let id = std::str::from_utf8(key).ok().and_then(|key| key.strip_prefix(prefix)).and_then(|id| id.parse().ok());
        let id = id.ok_or_else(|| corrupt(&self.path, key, "is not a record of this version"))?;
        Ok((id, decode(&self.path, key, value)?))
    }

    fn pool(&self, prefix: &str, key: &[u8]) -> Result<PoolName, Error> {
        let pool = std::str::from_utf8(&key[prefix.len()..]).ok().and_then(|pool| pool.parse().ok());
        pool.ok_or_else(|| corrupt(&self.path, key, "is not a pool's name"))
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

    /// What came with the fourth version of the layout.
    fn put_newer(&self, batch: &mut sled::Batch, summary: &mut Summary, write: &Write) -> Result<(), Error> {
        let (key, value) = match write {
            Write::Fallback(on) => ("fallback".to_owned(), encode(&self.path, "fallback", on)?),
            Write::PoolOrder(pool, order) => {
                let key = format!("{POOL_ORDER}{pool}");
                let value = encode(&self.path, &key, order)?;
                (key, value)
            }
            Write::AgentOrder(id, order) => {
                let key = format!("{AGENT_ORDER}{id}");
                let value = encode(&self.path, &key, order)?;
                (key, value)
            }
            Write::Audit(entry) => {
                let key = audit_key(entry.sequence);
                let value = encode(&self.path, &key, entry)?;
                (key, value)
            }
            Write::AuditDropped(range, anchor) => {
                for sequence in range.clone() {
                    self.take(batch, summary, audit_key(sequence).as_bytes())?;
                }
                ("audit-anchor".to_owned(), encode(&self.path, "audit-anchor", anchor)?)
            }
            Write::Agent(..) | Write::Capacity(..) | Write::Forecast(..) | Write::Paused(_) => return Ok(()),
        };
        self.put(batch, summary, key.as_bytes(), value).map(drop)
    }

    /// Takes a record away.
    fn take(&self, batch: &mut sled::Batch, summary: &mut Summary, key: &[u8]) -> Result<(), Error> {
        let old = self.database.get(key).map_err(|error| database_error(&self.path, error))?;
        if let Some(old) = &old {
            summary.digest = summary.digest.wrapping_sub(hash(&[key, old]));
            batch.remove(key);
        }
        Ok(())
    }
}

/// With all digits, so that records are in the order of their numbers.
fn audit_key(sequence: u64) -> String {
    format!("{AUDIT}{sequence:020}")
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
                key_of_pool if key_of_pool.starts_with(CAPACITY.as_bytes()) => {
                    contents.capacities.push((self.pool(CAPACITY, &key)?, decode(&self.path, &key, &value)?));
                }
                key_of_pool if key_of_pool.starts_with(FORECAST.as_bytes()) => {
                    let bytes = (!value.is_empty()).then(|| value.to_vec());
                    contents.forecasts.push((self.pool(FORECAST, &key)?, bytes));
                }
                FALLBACK => contents.fallback = decode(&self.path, &key, &value)?,
                AUDIT_ANCHOR => contents.trail.anchor = decode(&self.path, &key, &value)?,
                entry if entry.starts_with(AUDIT.as_bytes()) => {
                    contents.trail.entries.push_back(decode(&self.path, &key, &value)?);
                }
                order if order.starts_with(POOL_ORDER.as_bytes()) => {
                    contents.pool_orders.push((self.pool(POOL_ORDER, &key)?, decode(&self.path, &key, &value)?));
                }
                order if order.starts_with(AGENT_ORDER.as_bytes()) => {
                    contents.agent_orders.push(self.agent(AGENT_ORDER, &key, &value)?);
                }
                _ => {
                    contents.agents.push(self.agent::<Record>(AGENT, &key, &value)?);
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
        let failed = |error| database_error(&self.path, error);
        let mut summary = Summary { commit: self.summary.commit + 1, ..self.summary };
        let mut batch = sled::Batch::default();
        let mut format = self.format;
        for write in writes {
            match write {
                Write::Agent(id, record) => {
                    let key = format!("{AGENT}{id}");
                    let value = encode(&self.path, &key, record)?;
                    summary.agents += u64::from(self.put(&mut batch, &mut summary, key.as_bytes(), value)?);
                }
                Write::Capacity(pool, capacity) => {
                    let key = format!("{CAPACITY}{pool}");
                    let value = encode(&self.path, &key, capacity)?;
                    self.put(&mut batch, &mut summary, key.as_bytes(), value)?;
                    format = format.max(WITH_CAPACITIES);
                }
                Write::Forecast(pool, forecast) => {
                    // No network is a record too: taking one away would need its own bookkeeping.
                    let value = forecast.as_ref().map_or_else(Vec::new, |forecast| forecast.bytes().to_vec());
                    self.put(&mut batch, &mut summary, format!("{FORECAST}{pool}").as_bytes(), value)?;
                    format = format.max(WITH_FORECASTS);
                }
                Write::Paused(paused) => {
                    let value = encode(&self.path, "paused", paused)?;
                    self.put(&mut batch, &mut summary, PAUSED, value)?;
                }
                newer => {
                    self.put_newer(&mut batch, &mut summary, newer)?;
                    format = format.max(WITH_AUDIT);
                }
            }
        }
        if format != self.format {
            batch.insert(FORMAT, encode(&self.path, "format", &format)?);
        }
        batch.insert(SUMMARY, encode(&self.path, "summary", &summary)?);
        self.database.apply_batch(batch).map_err(failed)?;
        self.database.flush().map_err(failed)?;
        self.witness.record(summary.commit).map_err(Error::io(&self.path.with_file_name(COMMITS)))?;
        (self.summary, self.format) = (summary, format);
        Ok(())
    }
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
    if (PLAIN..=WITH_AUDIT).contains(&version) {
        Ok(version)
    } else {
        let known = format!("{PLAIN} to {WITH_AUDIT}, which this program knows");
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

fn corrupt(path: &Path, key: &[u8], reason: impl Into<String>) -> Error {
    Error::Corrupt { path: path.to_owned(), key: String::from_utf8_lossy(key).into_owned(), reason: reason.into() }
}
