//! Base models in a directory: `models/<name>/<version>.safetensors`, and `models/<name>/model.json` that says which
//! of them belong to the model, what they are known by and where they are from, and what agents get.
//!
//! Files are written aside, flushed and renamed into place, the versions before the document that names them; so a crash
//! leaves the model as it was before or as it is after. What the document does not name was never acknowledged, or was
//! dropped, and is removed. A `/` in a name is written `%2F`.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use meanfield_common::{digest::Digest, identity::ModelName};
use serde::{Deserialize, Serialize};

use super::{Error, Model, Provenance, Serving, Version};

const DIRECTORY: &str = "models";
const DOCUMENT: &str = "model.json";
const FORMAT: u32 = 1;

#[derive(Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Document {
    format: u32,
    serving: Serving,
    previous: Option<Serving>,
    versions: BTreeMap<u64, Entry>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Entry {
    digest: Digest,
    provenance: Provenance,
}

/// The directory of all models. Another process is kept out by the lock of the store beside it.
#[derive(Debug)]
pub(super) struct Files(PathBuf);

impl Files {
    pub(super) fn open(data_dir: &Path) -> Result<Self, Error> {
        let path = data_dir.join(DIRECTORY);
        fs::create_dir_all(&path).map_err(failed(&path))?;
        Ok(Self(path))
    }

    fn directory(&self, name: &ModelName) -> PathBuf {
        self.0.join(name.as_str().replace('/', "%2F"))
    }

    pub(super) fn load(&self) -> Result<BTreeMap<ModelName, Model>, Error> {
        let mut models = BTreeMap::new();
        for entry in fs::read_dir(&self.0).map_err(failed(&self.0))? {
            let path = entry.map_err(failed(&self.0))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).map(|name| name.replace("%2F", "/"));
            let Some(name) = name.and_then(|name| name.parse::<ModelName>().ok()) else {
                return Err(damaged(&path, "is no model's directory"));
            };
            // Without its document a directory is the rest of a model that was never acknowledged, or was removed.
            if path.join(DOCUMENT).exists() {
                models.insert(name, read(&path)?);
            } else {
                fs::remove_dir_all(&path).map_err(failed(&path))?;
            }
        }
        Ok(models)
    }

    pub(super) fn write(&self, name: &ModelName, model: &Model) -> Result<(), Error> {
        let directory = self.directory(name);
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
        for (number, version) in &model.versions {
            let path = directory.join(file_name(*number));
            if !path.exists() {
                replace(&path, version.bytes())?;
            }
        }
        let entry = |version: &Version| Entry { digest: version.digest(), provenance: version.provenance().clone() };
        let versions = model.versions.iter().map(|(number, version)| (*number, entry(version))).collect();
        let document = Document { format: FORMAT, serving: model.serving, previous: model.previous, versions };
        let path = directory.join(DOCUMENT);
        let text = serde_json::to_vec_pretty(&document).map_err(|error| damaged(&path, error.to_string()))?;
        replace(&path, &text)?;
        flush_directory(&self.0)?;
        sweep(&directory, &model.versions.keys().copied().collect::<Vec<_>>())
    }

    pub(super) fn remove(&self, name: &ModelName) -> Result<(), Error> {
        let directory = self.directory(name);
        // The document first: what is left after a crash is then no model.
        let path = directory.join(DOCUMENT);
        fs::remove_file(&path).map_err(failed(&path))?;
        flush_directory(&directory)?;
        fs::remove_dir_all(&directory).map_err(failed(&directory))
    }
}

fn file_name(version: u64) -> String {
    format!("{version}.safetensors")
}

fn read(directory: &Path) -> Result<Model, Error> {
    let path = directory.join(DOCUMENT);
    let text = fs::read(&path).map_err(failed(&path))?;
    let document: Document = serde_json::from_slice(&text).map_err(|error| damaged(&path, error.to_string()))?;
    if document.format != FORMAT {
        return Err(damaged(
            &path,
            format!("is of format {}, not {FORMAT}, which this program knows", document.format),
        ));
    }
    let mut versions = BTreeMap::new();
    for (number, entry) in document.versions {
        let path = directory.join(file_name(number));
        let bytes = fs::read(&path).map_err(failed(&path))?;
        let found = Digest::of(&bytes);
        if found != entry.digest {
            return Err(damaged(&path, format!("its SHA-256 is {found}, and {} was written", entry.digest)));
        }
        let version = Version::new(bytes, entry.provenance).map_err(|error| damaged(&path, error.to_string()))?;
        versions.insert(number, Arc::new(version));
    }
    for serving in [Some(document.serving), document.previous].into_iter().flatten() {
        serving.check(&versions).map_err(|error| damaged(&path, error.to_string()))?;
    }
    sweep(directory, &versions.keys().copied().collect::<Vec<_>>())?;
    Ok(Model { versions, serving: document.serving, previous: document.previous })
}

/// Removes files that belong to no version any more.
fn sweep(directory: &Path, versions: &[u64]) -> Result<(), Error> {
    for entry in fs::read_dir(directory).map_err(failed(directory))? {
        let path = entry.map_err(failed(directory))?.path();
        let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
        let known = name == DOCUMENT || versions.iter().any(|version| file_name(*version) == name);
        if !known {
            fs::remove_file(&path).map_err(failed(&path))?;
        }
    }
    Ok(())
}

/// Puts a whole file in place, so that it is there after a power failure.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let draft = path.with_extension("new");
    let write = || -> io::Result<()> {
        let mut file = File::create(&draft)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&draft, path)
    };
    write().map_err(failed(path))?;
    path.parent().map_or(Ok(()), flush_directory)
}

fn flush_directory(path: &Path) -> Result<(), Error> {
    File::open(path).and_then(|directory| directory.sync_all()).map_err(failed(path))
}

fn failed(path: &Path) -> impl Fn(io::Error) -> Error {
    let path = path.to_owned();
    move |reason| Error::Io { path: path.clone(), reason }
}

fn damaged(path: &Path, reason: impl Into<String>) -> Error {
    Error::Damaged { path: path.to_owned(), reason: reason.into() }
}
