//! The tables in a directory: a fjall database, with enough beside it to notice damage.
//!
//! `trajectories/` is the database: a keyspace `index` and one `segment-N` for each segment, so that dropping a segment
//! deletes its files. `trajectories.commits` is the [`Witness`] next to it. After a crash the database drops what it cannot
//! read at the end of its journal, which is right for a torn write and wrong for a damaged file; the witness tells them
//! apart. The journals are copied before the database opens them and put back when the start is refused: what can still
//! be rescued is then not lost by having looked.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read},
    ops::ControlFlow,
    os::unix::fs::FileExt,
    panic::catch_unwind,
    path::{Path, PathBuf},
};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, config::CompressionPolicy};
use parking_lot::RwLock;

use super::{Direction, Error, Store, Table, Visit, Writes};
use crate::{
    store::{Witness, corrupt},
    trajectories::keys,
};

const DATABASE: &str = "trajectories";
const COMMITS: &str = "trajectories.commits";
const COPIES: &str = "trajectories.journals";
const JOURNAL: &str = "jnl";
const INDEX: &str = "index";
const SEGMENT: &str = "segment-";

/// What a start reads again at most, and what is not in tables yet.
const JOURNALS: u64 = 128 << 20;
const MEMTABLE: u64 = 16 << 20;
const CACHE: u64 = 32 << 20;

/// Tables in a directory. The caller holds the directory's lock.
pub struct Disk {
    path: PathBuf,
    database: Database,
    index: Keyspace,
    segments: RwLock<BTreeMap<u64, Keyspace>>,
    witness: Witness,
}

impl Disk {
    /// Opens the tables in a directory, or makes them if there are none.
    ///
    /// # Errors
    /// If the directory cannot be used or what is in it is damaged. Damage is left as it is.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        let (path, copies) = (directory.join(DATABASE), directory.join(COPIES));
        put_back(&copies, &path)?;
        copy_journals(&path, &copies)?;
        // Some damage makes the database panic; for us that is one more way of saying that it cannot be read.
        let reason = "is damaged: reading it panicked; nothing was changed, restore it from a backup";
        let panicked = |_| Err(Error::Database { path: path.clone(), reason: reason.to_owned() });
        let opened = catch_unwind(|| Self::start(directory, &path)).unwrap_or_else(panicked);
        match &opened {
            Ok(_) => remove(&copies)?,
            Err(_) => put_back(&copies, &path)?,
        }
        opened
    }

    fn start(directory: &Path, path: &Path) -> Result<Self, Error> {
        let failed = |error| failed(path, &error);
        let (witness_path, lost) = (directory.join(COMMITS), !path.exists());
        if lost && witness_path.exists() {
            return Err(corrupt(path, keys::COMMIT, "is missing with everything else"));
        }
        let builder = Database::builder(path).max_journaling_size(JOURNALS).cache_size(CACHE).worker_threads(1);
        let database = builder.open().map_err(failed)?;
        let index = database.keyspace(INDEX, options).map_err(failed)?;
        let mut segments = BTreeMap::new();
        for name in database.list_keyspace_names() {
            let number = name.strip_prefix(SEGMENT).and_then(|number| number.parse().ok());
            if let Some(number) = number {
                segments.insert(number, database.keyspace(&name, options).map_err(failed)?);
            }
        }
        let commit = index.get(keys::COMMIT).map_err(failed)?;
        let commit = match commit.as_deref() {
            None => 0,
            Some(bytes) => {
                let bytes = bytes.try_into().map_err(|_| corrupt(path, keys::COMMIT, "is not a number"))?;
                u64::from_le_bytes(bytes)
            }
        };
        // The witness is made before the first commit, so a start that failed before leaves a database without both.
        let witness = if commit == 0 && !witness_path.exists() {
            Witness::create(&witness_path)
        } else {
            Witness::open(&witness_path)
        };
        let witness = witness.map_err(Error::io(&witness_path))?;
        let known = match witness.last().map_err(Error::io(&witness_path))? {
            Some(last) if last <= commit => {
                let path = path.to_owned();
                return Ok(Self { path, database, index, segments: RwLock::new(segments), witness });
            }
            Some(last) => format!("{last} were acknowledged"),
            None => format!("{witness_path:?} does not say how many were acknowledged"),
        };
        Err(corrupt(path, keys::COMMIT, format!("has {commit} commits but {known}")))
    }

    fn table(&self, table: Table) -> Option<Keyspace> {
        match table {
            Table::Index => Some(self.index.clone()),
            Table::Segment(number) => self.segments.read().get(&number).cloned(),
        }
    }
}

fn options() -> KeyspaceCreateOptions {
    // Floats of measurements hardly shrink, and the writer's thread has better things to do.
    KeyspaceCreateOptions::default()
        .max_memtable_size(MEMTABLE)
        .data_block_compression_policy(CompressionPolicy::disabled())
}

impl Store for Disk {
    fn get(&self, table: Table, key: &[u8]) -> Result<Option<Vec<u8>>, Error> {
        let Some(keyspace) = self.table(table) else { return Ok(None) };
        let value = keyspace.get(key).map_err(|error| failed(&self.path, &error))?;
        Ok(value.map(|value| value.to_vec()))
    }

    fn scan(&self, table: Table, from: &[u8], to: &[u8], direction: Direction, visit: Visit<'_>) -> Result<(), Error> {
        let Some(keyspace) = self.table(table).filter(|_| from < to) else { return Ok(()) };
        let mut range = keyspace.range(from..to);
        loop {
            let entry = match direction {
                Direction::Up => range.next(),
                Direction::Down => range.next_back(),
            };
            let Some(entry) = entry else { return Ok(()) };
            let (key, value) = entry.into_inner().map_err(|error| failed(&self.path, &error))?;
            if visit(&key, &value)? == ControlFlow::Break(()) {
                return Ok(());
            }
        }
    }

    fn commit(&self, number: u64, writes: Writes) -> Result<(), Error> {
        let failed = |error| failed(&self.path, &error);
        let mut batch = self.database.batch().durability(Some(PersistMode::SyncData));
        for ((table, key), value) in writes {
            // A segment that is not there is one that retention dropped, and what it held with it.
            let Some(keyspace) = self.table(table) else { continue };
            match value {
                Some(value) => batch.insert(&keyspace, key, value),
                None => batch.remove(&keyspace, key),
            }
        }
        batch.insert(&self.index, keys::COMMIT, number.to_le_bytes());
        batch.commit().map_err(failed)?;
        // Not flushed: a witness that a power failure leaves behind accuses nobody, and damage has no such excuse.
        self.witness.note(number).map_err(Error::io(&self.path.with_file_name(COMMITS)))
    }

    fn segments(&self) -> Vec<u64> {
        self.segments.read().keys().copied().collect()
    }

    fn open_segment(&self, number: u64) -> Result<(), Error> {
        let name = format!("{SEGMENT}{number}");
        let keyspace = self.database.keyspace(&name, options).map_err(|error| failed(&self.path, &error))?;
        self.segments.write().insert(number, keyspace);
        Ok(())
    }

    fn drop_segment(&self, number: u64) -> Result<(), Error> {
        let Some(keyspace) = self.segments.write().remove(&number) else { return Ok(()) };
        // Its files go with the last handle: at once, or when an export that reads it is done.
        self.database.delete_keyspace(keyspace).map_err(|error| failed(&self.path, &error))
    }

    fn space(&self) -> u64 {
        self.database.disk_space().unwrap_or_default()
    }

    fn corrupt(&self, key: &[u8], reason: &str) -> Error {
        corrupt(&self.path, key, reason)
    }
}

fn failed(path: &Path, error: &fjall::Error) -> Error {
    match error {
        fjall::Error::Locked => Error::Locked { path: path.to_owned() },
        other => Error::Database { path: path.to_owned(), reason: other.to_string() },
    }
}

fn journals(directory: &Path) -> Result<Vec<PathBuf>, Error> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(Error::io(directory))?,
    };
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let paths: Result<Vec<_>, _> = paths.collect();
    let journal = |path: &PathBuf| path.extension().is_some_and(|extension| extension == JOURNAL);
    Ok(paths.map_err(Error::io(directory))?.into_iter().filter(journal).collect())
}

/// Copies every journal. The copies appear under their name only when all are there.
fn copy_journals(database: &Path, copies: &Path) -> Result<(), Error> {
    let half = copies.with_extension("half");
    remove(&half)?;
    fs::create_dir(&half).map_err(Error::io(&half))?;
    for journal in journals(database)? {
        let name = journal.file_name().unwrap_or_default();
        copy(&journal, &half.join(name)).map_err(Error::io(&journal))?;
    }
    fs::rename(&half, copies).map_err(Error::io(copies))
}

/// Copies a file but for its holes: most of a journal is room for what is to come.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    const PIECE: usize = 64 << 10;
    let (mut source, target) = (File::open(from)?, File::create(to)?);
    let (mut piece, empty, mut at) = (vec![0; PIECE], vec![0; PIECE], 0);
    loop {
        let read = source.read(&mut piece)?;
        if read == 0 {
            return target.set_len(at);
        }
        if piece[..read] != empty[..read] {
            target.write_all_at(&piece[..read], at)?;
        }
        at += read as u64;
    }
}

/// Puts copies back that a refused start, or one that was cut off, has left.
fn put_back(copies: &Path, database: &Path) -> Result<(), Error> {
    for copy in journals(copies)? {
        let target = database.join(copy.file_name().unwrap_or_default());
        // Where the start got far enough to be done with a journal, it is in tables.
        if target.exists() {
            self::copy(&copy, &target).map_err(Error::io(&copy))?;
        }
    }
    remove(copies)
}

fn remove(directory: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(directory) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(directory)(error)),
        _ => Ok(()),
    }
}
