//! Base models in a directory: `models/<name>/<version>.safetensors`. Which of them belong to the model, what they are
//! known by and where they are from, and what agents get, is a [`Document`] in the store, so that a change and its entry
//! in the audit log are one commit.
//!
//! Files are written aside, flushed and renamed into place before the commit that names them, and removed after the one
//! that does not any more; so a crash leaves the model as it was before or as it is after. A `/` in a name is written `%2F`.
//!
//! What no document names is out of the way after a start, so that no later version is confused with it. Mostly it was never
//! acknowledged, or was dropped; but a store that was restored from an older backup does not know it either, and then it
//! may be all that there is of a model. So only drafts are deleted, and whole files are moved to `models.unknown/<name>.<number>/`.
//!
//! Earlier versions kept the document beside the files, as `model.json`; a start takes it over into the store.

use std::{
    collections::BTreeMap,
    fs::{self, File},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::Arc,
};

use meanfield_common::{digest::Digest, identity::ModelName, invalid::Invalid};
use serde::{Deserialize, Serialize};

use super::{Error, Model, Provenance, Serving, Version};

const DIRECTORY: &str = "models";
const UNKNOWN: &str = "models.unknown";
const DRAFT: &str = "new";
const OLD_DOCUMENT: &str = "model.json";
const FORMAT: u32 = 1;
/// On every file system that is in use, with room for the number in `models.unknown`.
const LONGEST_FILE_NAME: usize = 235;

/// What the store holds of a base model: all but the networks.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Document {
    format: u32,
    serving: Serving,
    previous: Option<Serving>,
    versions: BTreeMap<u64, Entry>,
}

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
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

    /// Reads everything that a start reads, and changes nothing.
    pub(super) fn rehearse(data_dir: &Path, known: &[(ModelName, Document)]) -> Result<(), Error> {
        let files = Self(data_dir.join(DIRECTORY));
        if !files.0.try_exists().map_err(failed(&files.0))? {
            return Ok(());
        }
        let (old, missing) = (files.old(known)?, files.missing(known)?);
        let present = known.iter().filter(|(name, _)| !missing.contains(name));
        present.chain(&old).try_for_each(|(name, document)| read(&files.directory(name), document.clone()).map(drop))
    }

    /// The models whose directories somebody moved away. No crash does that: a directory is there before the commit that
    /// names its model, and until after the one that forgets it.
    pub(super) fn missing(&self, known: &[(ModelName, Document)]) -> Result<Vec<ModelName>, Error> {
        let mut missing = Vec::new();
        for (name, _) in known {
            let directory = self.directory(name);
            // A directory that cannot be looked at is not missing.
            if !directory.try_exists().map_err(failed(&directory))? {
                missing.push(name.clone());
            }
        }
        Ok(missing)
    }

    fn directory(&self, name: &ModelName) -> PathBuf {
        self.0.join(file_safe(name))
    }

    /// The documents that an earlier version kept beside the files, of models that the store does not know.
    pub(super) fn old(&self, known: &[(ModelName, Document)]) -> Result<Vec<(ModelName, Document)>, Error> {
        let mut found = Vec::new();
        for (name, directory) in self.directories()? {
            let path = directory.join(OLD_DOCUMENT);
            if path.exists() && known.iter().all(|(known, _)| *known != name) {
                let text = fs::read(&path).map_err(failed(&path))?;
                let document = serde_json::from_slice(&text).map_err(|error| damaged(&path, error.to_string()))?;
                found.push((name, document));
            }
        }
        Ok(found)
    }

    /// The models that the store knows, with their networks. Moves other files out of the way, once all of these were read.
    pub(super) fn load(&self, documents: Vec<(ModelName, Document)>) -> Result<BTreeMap<ModelName, Model>, Error> {
        let directories = self.directories()?;
        let mut models = BTreeMap::new();
        for (name, document) in documents {
            let model = read(&self.directory(&name), document)?;
            models.insert(name, model);
        }
        for (name, directory) in directories {
            self.set_aside(&name, &directory, models.get(&name))?;
        }
        Ok(models)
    }

    /// Moves the files of a directory that belong to no version of its model to where nothing is looked for, and deletes drafts.
    fn set_aside(&self, name: &ModelName, directory: &Path, model: Option<&Model>) -> Result<(), Error> {
        let mut aside = None;
        for path in strangers(directory, model)? {
            // The document of the layout before is in the store by now.
            let taken_over = model.is_some() && path.ends_with(OLD_DOCUMENT);
            if taken_over || path.extension().is_some_and(|extension| extension == DRAFT) {
                fs::remove_file(&path).map_err(failed(&path))?;
                continue;
            }
            let aside = match &mut aside {
                Some(aside) => aside,
                none => none.insert(self.unknown(name)?),
            };
            let target = aside.join(path.file_name().unwrap_or_default());
            tracing::warn!(model = %name, ?target, "moving away a file of a base model that the store does not know");
            fs::rename(&path, &target).map_err(failed(&path))?;
        }
        if model.is_none() {
            fs::remove_dir(directory).map_err(failed(directory))?;
        }
        Ok(())
    }

    /// A new directory for files of a model that the store does not know: what was moved away before stays as it is.
    fn unknown(&self, name: &ModelName) -> Result<PathBuf, Error> {
        let parent = self.0.with_file_name(UNKNOWN);
        fs::create_dir_all(&parent).map_err(failed(&parent))?;
        let mut number = 1;
        loop {
            let path = parent.join(format!("{}.{number}", file_safe(name)));
            match fs::create_dir(&path) {
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => number += 1,
                made => return made.map(|()| path.clone()).map_err(failed(&path)),
            }
        }
    }

    fn directories(&self) -> Result<Vec<(ModelName, PathBuf)>, Error> {
        let entries = fs::read_dir(&self.0).map_err(failed(&self.0))?;
        let named = entries.map(|entry| {
            let path = entry.map_err(failed(&self.0))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).map(|name| name.replace("%2F", "/"));
            let name = name.and_then(|name| name.parse().ok());
            name.map(|name| (name, path.clone())).ok_or_else(|| damaged(&path, "is no model's directory"))
        });
        named.collect()
    }

    /// Writes the versions of a model that it did not have before.
    pub(super) fn write(&self, name: &ModelName, before: Option<&Model>, model: &Model) -> Result<(), Error> {
        let directory = self.directory(name);
        if file_safe(name).len() > LONGEST_FILE_NAME {
            let bound = format!("at most {LONGEST_FILE_NAME} bytes, each / counted three times");
            return Err(Invalid::new("model", name, bound).into());
        }
        fs::create_dir_all(&directory).map_err(failed(&directory))?;
        for (number, version) in &model.versions {
            if before.is_none_or(|before| !before.versions.contains_key(number)) {
                // Also over a file that is there: it is from an attempt that failed.
                replace(&directory.join(file_name(*number)), version.bytes())?;
            }
        }
        flush_directory(&self.0)
    }

    /// Removes the files of versions that a model has no longer.
    pub(super) fn sweep(&self, name: &ModelName, model: &Model) -> Result<(), Error> {
        let strangers = strangers(&self.directory(name), Some(model))?;
        strangers.into_iter().try_for_each(|path| fs::remove_file(&path).map_err(failed(&path)))
    }

    /// Removes all files of a model.
    pub(super) fn remove(&self, name: &ModelName) -> Result<(), Error> {
        let directory = self.directory(name);
        fs::remove_dir_all(&directory).map_err(failed(&directory))
    }
}

impl Document {
    /// What agents get.
    #[must_use]
    pub fn serving(&self) -> Serving {
        self.serving
    }
}

impl From<&Model> for Document {
    fn from(model: &Model) -> Self {
        let entry = |version: &Version| Entry { digest: version.digest(), provenance: version.provenance().clone() };
        let versions = model.versions.iter().map(|(number, version)| (*number, entry(version))).collect();
        Self { format: FORMAT, serving: model.serving, previous: model.previous, versions }
    }
}

fn file_safe(name: &ModelName) -> String {
    name.as_str().replace('/', "%2F")
}

fn file_name(version: u64) -> String {
    format!("{version}.safetensors")
}

fn read(directory: &Path, document: Document) -> Result<Model, Error> {
    if document.format != FORMAT {
        let reason = format!("its record is of format {}, not {FORMAT}, which this program knows", document.format);
        return Err(damaged(directory, reason));
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
        serving.check(&versions).map_err(|error| damaged(directory, error.to_string()))?;
    }
    Ok(Model { versions, serving: document.serving, previous: document.previous })
}

/// What is in a directory and belongs to no version of its model.
fn strangers(directory: &Path, model: Option<&Model>) -> Result<Vec<PathBuf>, Error> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed(directory))? {
        let path = entry.map_err(failed(directory))?.path();
        let is = |version: &u64| path.file_name().is_some_and(|name| *name == *file_name(*version));
        if !model.is_some_and(|model| model.versions.keys().any(is)) {
            found.push(path);
        }
    }
    Ok(found)
}

/// Puts a whole file in place, so that it is there after a power failure.
fn replace(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let draft = path.with_extension(DRAFT);
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
