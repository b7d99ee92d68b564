//! Files that are there whole or not at all.

use std::{
    fs::{self, File},
    io::Write,
    path::{Path, PathBuf},
};

use anyhow::Context;

/// Written aside and moved into place, so that a crash leaves the old file or the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut file = Aside::create(path)?;
    file.write(bytes)?;
    file.keep()
}

/// A file that is written part by part, and takes its place when it is whole.
pub struct Aside<'a> {
    file: File,
    aside: PathBuf,
    path: &'a Path,
    kept: bool,
}

impl<'a> Aside<'a> {
    pub fn create(path: &'a Path) -> anyhow::Result<Self> {
        let mut aside = path.as_os_str().to_owned();
        aside.push(".new");
        let aside = PathBuf::from(aside);
        let file = File::create(&aside).with_context(|| aside.display().to_string())?;
        Ok(Self { file, aside, path, kept: false })
    }

    pub fn write(&mut self, part: &[u8]) -> anyhow::Result<()> {
        self.file.write_all(part).with_context(|| self.aside.display().to_string())
    }

    pub fn keep(mut self) -> anyhow::Result<()> {
        self.file.sync_all().with_context(|| self.aside.display().to_string())?;
        rename(&self.aside, self.path)?;
        self.kept = true;
        Ok(())
    }
}

/// A part of a file is nobody's.
impl Drop for Aside<'_> {
    fn drop(&mut self) {
        if !self.kept {
            let _ = fs::remove_file(&self.aside);
        }
    }
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
