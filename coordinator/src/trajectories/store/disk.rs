//! The tables in a directory: a fjall database, with enough beside it to notice damage.
//!
//! `trajectories/` is the database: a keyspace `index` and one `segment-N` for each segment, so that dropping a segment
//! deletes its files. `trajectories.commits` is the [`Witness`] next to it. After a crash the database drops what it cannot
//! read at the end of its journal, which is right for a torn write and wrong for a damaged file; the witness tells them
//! apart. A start is tried on a copy first, see [`rehearsal`]: what can still be rescued is then not lost by having looked.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Read, Seek},
    ops::ControlFlow,
    panic::UnwindSafe,
    path::{Path, PathBuf},
};

use fjall::{Database, Keyspace, KeyspaceCreateOptions, PersistMode, config::CompressionPolicy};
use parking_lot::RwLock;
use rustix::{
    fs::{SeekFrom, seek},
    io::Errno,
};

use super::{Direction, Error, Store, Table, Visit, Writes};
use crate::{
    store::{Witness, corrupt, rehearsal},
    trajectories::keys,
};

const DATABASE: &str = "trajectories";
const COMMITS: &str = "trajectories.commits";
/// Where the database keeps files that it writes once.
const TABLES: &str = "tables";
/// Where it keeps its trees, and the file in each that says which version of it counts.
const KEYSPACES: &str = "keyspaces";
const CURRENT: &str = "current";
const INDEX: &str = "index";
const SEGMENT: &str = "segment-";

/// What a start reads again at most, and what is not in tables yet: as much as the database keeps by itself, since smaller
/// tables are written more often, beside the flushes that agents wait for.
const JOURNALS: u64 = 256 << 20;
const MEMTABLE: u64 = 64 << 20;
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
    /// Tries the start on a copy, hands that to `read`, and changes nothing.
    ///
    /// # Errors
    /// If the directory cannot be used or what is in it is damaged.
    pub(crate) fn rehearse(
        directory: &Path,
        read: impl FnOnce(Self) -> Result<(), Error> + UnwindSafe,
    ) -> Result<(), Error> {
        let parts = &[DATABASE, COMMITS];
        let start = |copy: &Path| {
            look_at_trees(&copy.join(DATABASE), &directory.join(DATABASE))?;
            read(Self::start(copy, directory)?)
        };
        rehearsal::run(directory, parts, copy, start).map(drop)
    }

    /// Opens the tables in a directory, or makes them if there are none. What is there was rehearsed.
    ///
    /// # Errors
    /// If the directory cannot be used or what is in it is damaged.
    pub fn open(directory: &Path) -> Result<Self, Error> {
        Self::start(directory, directory)
    }

    /// Opens the tables in one directory and names another in errors, which is the one that it is a copy of.
    fn start(directory: &Path, named: &Path) -> Result<Self, Error> {
        let (database, witness_path) = (directory.join(DATABASE), directory.join(COMMITS));
        let (path, commits) = (&named.join(DATABASE), named.join(COMMITS));
        let failed = |error| failed(path, &error);
        if !database.exists() && witness_path.exists() {
            return Err(corrupt(path, keys::COMMIT, "is missing with everything else"));
        }
        let builder = Database::builder(&database).max_journaling_size(JOURNALS).cache_size(CACHE).worker_threads(1);
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
        let witness = witness.map_err(Error::io(&commits))?;
        let known = match witness.last().map_err(Error::io(&commits))? {
            Some(last) if last <= commit => {
                let path = path.to_owned();
                return Ok(Self { path, database, index, segments: RwLock::new(segments), witness });
            }
            Some(last) => format!("{last} were acknowledged"),
            None => format!("{commits:?} does not say how many were acknowledged"),
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

/// Opens every tree for itself. Some damage makes a tree panic, and where the database opens it, that happens under a lock
/// which its destructor then finds poisoned: the process would abort instead of saying what is wrong.
fn look_at_trees(database: &Path, named: &Path) -> Result<(), Error> {
    let keyspaces = match fs::read_dir(database.join(KEYSPACES)) {
        Err(error) if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::NotADirectory) => return Ok(()),
        keyspaces => keyspaces.map_err(Error::io(named))?,
    };
    for keyspace in keyspaces {
        let path = keyspace.map_err(Error::io(named))?.path();
        // Without it the tree is one that a crash has left half-made, which the database removes.
        if path.join(CURRENT).exists() {
            let opened = lsm_tree::Config::new(&path, Default::default(), Default::default()).open();
            opened.map_err(|error| failed(named, &error.into()))?;
        }
    }
    Ok(())
}

/// Copies a file: tables by a second name, since they are never written again and may be large, and others but for their
/// holes, since most of a journal is room for what is to come.
fn copy(from: &Path, to: &Path) -> io::Result<()> {
    let table = from.parent().and_then(Path::file_name).is_some_and(|directory| directory == TABLES);
    if table && fs::hard_link(from, to).is_ok() {
        return Ok(());
    }
    let (source, target) = (File::open(from)?, File::create(to)?);
    let length = source.metadata()?.len();
    let mut at = 0;
    loop {
        let data = match seek(&source, SeekFrom::Data(at)) {
            Err(Errno::NXIO) => return target.set_len(length),
            data => data?,
        };
        at = seek(&source, SeekFrom::Hole(data))?;
        let mut source = &source;
        source.seek(io::SeekFrom::Start(data))?;
        let mut target = &target;
        target.seek(io::SeekFrom::Start(data))?;
        io::copy(&mut source.take(at - data), &mut target)?;
    }
}
