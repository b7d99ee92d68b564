//! Files that are there whole or not at all.

use std::{fs, path::Path};

use anyhow::Context;

/// Written aside and moved into place, so that a crash leaves the old file or the new one.
pub fn replace(path: &Path, bytes: &[u8]) -> anyhow::Result<()> {
    let mut aside = path.as_os_str().to_owned();
    aside.push(".new");
    let aside = Path::new(&aside);
    fs::write(aside, bytes).with_context(|| aside.display().to_string())?;
    fs::rename(aside, path).with_context(|| path.display().to_string())
}
