//! Files that are there whole or not at all.

use std::{
    fs::{self, File},
    io::Write,
    path::Path,
};

use anyhow::Context;

/// Written aside and moved into place, so that a crash leaves the old file or the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = Path::new(&aside);
    write(aside, bytes)?;
    rename(aside, path)
}

/// A file whose content is on disk, and not only on its way there.
pub fn write(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let written = File::create(path).and_then(|mut file| file.write_all(bytes).and_then(|()| file.sync_all()));
    written.with_context(|| path.display().to_string())
}

/// Moves a file or a folder to where it stays, also when the machine stops right after.
pub fn rename(from: &Path, to: &Path) -> anyhow::Result<()> {
    fs::rename(from, to).with_context(|| to.display().to_string())?;
    let folder = to.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    sync(folder)
}

/// Brings the names within a folder to the disk.
pub fn sync(folder: &Path) -> anyhow::Result<()> {
    File::open(folder).and_then(|folder| folder.sync_all()).with_context(|| folder.display().to_string())
}
