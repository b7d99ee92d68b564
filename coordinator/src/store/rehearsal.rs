//! The start on a copy that goes before the real one.
//!
//! While it opens a database, sled drops what it cannot read of its log without a word, and cuts and rewrites files; fjall
//! does so with its journals. A refusal after that would come too late: what could still be rescued from the damaged files
//! would be gone. So a copy is opened and read first, and the data directory itself only when that went well for all that
//! is in it.

use std::{
    fs::{self, DirBuilder},
    io,
    os::unix::fs::DirBuilderExt,
    panic::{UnwindSafe, catch_unwind},
    path::Path,
};

use super::Error;

/// The copy's name in the data directory, so that it is on the same disk, and found again after a crash.
const COPY: &str = "rehearsal";

/// Tries `start` on a copy of the named files and directories, as far as they exist, removes the copy again, and gives
/// what was read from it. With none of them, this is a first start, and there is nothing to try. Each file is copied by
/// `copy_file`. The caller holds the directory's lock.
pub(crate) fn run<T>(
    directory: &Path,
    parts: &[&str],
    copy_file: fn(&Path, &Path) -> io::Result<()>,
    start: impl FnOnce(&Path) -> Result<T, Error> + UnwindSafe,
) -> Result<Option<T>, Error> {
    let aside = directory.join(COPY);
    // A crash in the middle of an earlier rehearsal has left its copy.
    remove(&aside)?;
    let parts: Vec<_> = parts.iter().filter(|part| directory.join(part).exists()).collect();
    if parts.is_empty() {
        return Ok(None);
    }
    // For the owner only: the original may be, too.
    DirBuilder::new().mode(0o700).create(&aside).map_err(Error::io(&aside))?;
    let copied = parts.iter().try_for_each(|part| copy(&directory.join(part), &aside.join(part), copy_file));
    let outcome = copied.and_then(|()| {
        // Both databases give up on some damage by panicking; for us that is one more way of saying that it cannot be read.
        let reason = "is damaged: reading it panicked; nothing was changed, restore it from a backup";
        let panicked = || Error::Database { path: directory.to_owned(), reason: reason.to_owned() };
        catch_unwind(|| start(&aside)).unwrap_or_else(|_| Err(panicked()))
    });
    let removed = remove(&aside);
    let read = outcome?;
    removed.map(|()| Some(read))
}

fn copy(from: &Path, to: &Path, copy_file: fn(&Path, &Path) -> io::Result<()>) -> Result<(), Error> {
    let failed = || Error::io(from);
    if !from.is_dir() {
        return copy_file(from, to).map_err(failed());
    }
    fs::create_dir(to).map_err(Error::io(to))?;
    for entry in fs::read_dir(from).map_err(failed())? {
        let entry = entry.map_err(failed())?;
        copy(&entry.path(), &to.join(entry.file_name()), copy_file)?;
    }
    Ok(())
}

fn remove(copy: &Path) -> Result<(), Error> {
    match fs::remove_dir_all(copy) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(Error::io(copy)(error)),
        _ => Ok(()),
    }
}
