//! Checkpoints of a training: one folder each, moved into place when it is whole and on disk.

use std::{
    fs,
    path::{Path, PathBuf},
};

use anyhow::Context;
use meanfield_agent::training::{Progress, Saved};
use serde::{Deserialize, Serialize};

use super::settings::Settings;
use crate::file;

const PREFIX: &str = "checkpoint-";

/// What a checkpoint says besides its networks.
#[derive(Serialize, Deserialize)]
pub struct State {
    pub settings: Settings,
    pub iteration: u64,
    pub learners: usize,
    pub bases: usize,
    pub curve: Vec<[f64; 3]>,
}

/// Writes a checkpoint, and then removes those before it.
pub fn write(out: &Path, settings: &Settings, saved: &Saved, curve: &[Progress]) -> anyhow::Result<PathBuf> {
    let folder = out.join(format!("{PREFIX}{:06}", saved.iteration));
    let unfinished = folder.with_extension("unfinished");
    let _ = fs::remove_dir_all(&unfinished);
    let written = || -> anyhow::Result<()> {
        fs::create_dir_all(&unfinished)?;
        for (name, networks) in [("network", &saved.learners), ("base", &saved.bases)] {
            for (index, bytes) in networks.iter().enumerate() {
                file::write(&unfinished.join(format!("{name}-{index:04}.safetensors")), bytes)?;
            }
        }
        let state = State {
            settings: settings.clone(),
            iteration: saved.iteration,
            learners: saved.learners.len(),
            bases: saved.bases.len(),
            curve: curve.iter().map(|point| [point.reward, point.violations, point.cores]).collect(),
        };
        file::write(&unfinished.join("state.json"), &serde_json::to_vec(&state)?)?;
        file::sync(&unfinished)?;
        let _ = fs::remove_dir_all(&folder);
        file::rename(&unfinished, &folder)
    };
    written().with_context(|| format!("cannot write {}", folder.display()))?;
    for older in all(out)?.into_iter().filter(|other| *other != folder) {
        // One that cannot be removed is only in the way of disk space.
        let _ = fs::remove_dir_all(older);
    }
    Ok(folder)
}

/// Where checkpoints are looked for.
pub fn pattern(out: &Path) -> PathBuf {
    out.join(format!("{PREFIX}*"))
}

/// All whole checkpoints, the last one last.
pub fn all(out: &Path) -> anyhow::Result<Vec<PathBuf>> {
    if !out.exists() {
        return Ok(Vec::new());
    }
    let mut found = Vec::new();
    for entry in fs::read_dir(out).with_context(|| out.display().to_string())? {
        let path = entry?.path();
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if name.strip_prefix(PREFIX).is_some_and(|digits| digits.bytes().all(|byte| byte.is_ascii_digit())) {
            found.push(path);
        }
    }
    found.sort();
    Ok(found)
}

/// What a checkpoint holds.
pub fn read(folder: &Path) -> anyhow::Result<(State, Saved)> {
    let open = |name: String| {
        let path = folder.join(name);
        fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let state: State = serde_json::from_slice(&open("state.json".to_owned())?)
        .with_context(|| format!("{} is damaged", folder.join("state.json").display()))?;
    let networks = |name: &str, count: usize| {
        (0..count).map(|index| open(format!("{name}-{index:04}.safetensors"))).collect::<anyhow::Result<Vec<_>>>()
    };
    let (learners, bases) = (networks("network", state.learners)?, networks("base", state.bases)?);
    let saved = Saved { iteration: state.iteration, learners, bases };
    Ok((state, saved))
}
