//! Trainings from outside: progress, checkpoints, a kill in the middle, and files that are refused.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use tempfile::tempdir;

use crate::support::{Process, eventually};

const USAGE: i32 = 64;
const EPISODES: u64 = 60;

/// A file that trains something small.
fn file(folder: &Path) -> PathBuf {
    let path = folder.join("training.toml");
    let text = format!(
        "episodes = {EPISODES}\ncheckpoint_every = 2\n[learner]\nhorizon = 12\nenvironments = 2\n\
         [scenario]\nagents = 4\nloads = [\"diurnal\", \"bursty\"]\n"
    );
    fs::write(&path, text).unwrap();
    path
}

fn start(file: &Path, out: &Path, more: &[&str]) -> Process {
    let [file, out] = [file, out].map(|path| path.to_str().unwrap());
    Process::start(&[&["train", file, "--out", out], more].concat())
}

/// Trains to the end and gives what was printed.
fn finish(file: &Path, out: &Path, more: &[&str]) -> String {
    let mut process = start(file, out, more);
    assert_eq!(process.wait().code(), Some(0), "{}", process.log());
    process.output()
}

/// Whole checkpoints by name.
fn checkpoints(out: &Path) -> Vec<String> {
    let Ok(entries) = fs::read_dir(out) else { return Vec::new() };
    let names = entries.filter_map(|entry| entry.ok()?.file_name().into_string().ok());
    names.filter(|name| name.starts_with("checkpoint-") && !name.contains('.')).collect()
}

/// Every file below a folder, by its name there, with its content.
fn files(folder: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut found = BTreeMap::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = PathBuf::from(path.file_name().unwrap());
        if path.is_dir() {
            found.extend(files(&path).into_iter().map(|(inner, bytes)| (name.join(inner), bytes)));
        } else {
            found.insert(name, fs::read(&path).unwrap());
        }
    }
    found
}

#[test]
fn a_training_that_is_killed_and_resumed_ends_in_the_same_bytes() {
    let folder = tempdir().unwrap();
    let (file, through, killed) = (file(folder.path()), folder.path().join("through"), folder.path().join("killed"));
    let printed = finish(&file, &through, &["--threads", "2"]);
    for part in ["training", "reward", "All 60 episodes are done."] {
        assert!(printed.contains(part), "{part} is missing:\n{printed}");
    }
    let expected = files(&through);
    let names: Vec<_> = expected.keys().map(|path| path.display().to_string()).collect();
    for name in ["curve.csv", "curve.svg", "model-shared.safetensors", "checkpoint-000060/state.json"] {
        assert!(names.iter().any(|found| found == name), "{name}: {names:?}");
    }
    let curve = fs::read_to_string(through.join("curve.csv")).unwrap();
    assert_eq!(curve.lines().count() as u64, 1 + EPISODES);

    let mut process = start(&file, &killed, &["--threads", "1"]);
    eventually("a checkpoint is there", || (!checkpoints(&killed).is_empty()).then_some(()));
    process.kill();
    assert!(!killed.join("model-shared.safetensors").exists(), "it was killed before its end");
    finish(&file, &killed, &["--threads", "1", "--resume"]);
    let resumed = files(&killed);
    let differing: Vec<_> = expected.keys().filter(|name| resumed.get(*name) != expected.get(*name)).collect();
    assert!(differing.is_empty() && resumed.len() == expected.len(), "{differing:?} differ");
}

#[test]
fn what_cannot_be_trained_is_refused_in_one_line_with_field_value_and_bound() {
    let folder = tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        fs::write(&path, text).unwrap();
        path.display().to_string()
    };
    let good = include_str!("../simulator/data/functions/base64.toml");
    let (before, _) = good.split_once("margin = ").unwrap();
    // An objective of nothing at all: the margin is what comes on top of the time that a request takes.
    let workload = write("workload.toml", &format!("{before}margin = -1.0\n"));
    let objective = format!("[scenario]\nworkloads = [{workload:?}]");
    for (text, parts) in [
        ("[learner]\ngamma = 1.5", &["learner.gamma", "1.5", "[0, 1]"][..]),
        ("[learner]\ngamma = nan", &["learner.gamma", "NaN", "finite"]),
        ("[learner]\nheads = []", &["learner.heads", "0", "1 to 8"]),
        ("[learner]\ngama = 0.5", &["learner", "gama", "gamma"]),
        ("preset = \"simpo\"", &["preset", "simpo", "simppo-all"]),
        ("[scenario]\nloads = []", &["scenario.loads", "empty", "at least one"]),
        ("[scenario]\nagents = 0", &["agents", "0"]),
        (objective.as_str(), &["slo.margin", "-1", "[0, 10]"]),
    ] {
        let (file, out) = (write("training.toml", text), folder.path().join("out"));
        let mut process = start(Path::new(&file), &out, &[]);
        let (code, log) = (process.wait().code(), process.log());
        assert_eq!((code, log.lines().count()), (Some(USAGE), 1), "{text}: {log}");
        assert!(parts.iter().all(|part| log.contains(part)), "{text}: {log}");
        assert!(!out.exists(), "{text}: something was written");
    }
}

#[test]
fn resuming_without_a_checkpoint_or_with_other_settings_is_refused() {
    let folder = tempdir().unwrap();
    let (file, out) = (file(folder.path()), folder.path().join("out"));
    let refusal = || {
        let mut process = start(&file, &out, &["--resume"]);
        assert_eq!(process.wait().code(), Some(USAGE), "{}", process.log());
        process.log()
    };
    let log = refusal();
    assert!(log.contains(out.join("checkpoint-*").to_str().unwrap()), "{log}");
    finish(&file, &out, &[]);
    let text = fs::read_to_string(&file).unwrap().replace("agents = 4", "agents = 3");
    fs::write(&file, text).unwrap();
    let log = refusal();
    assert!(log.contains("scenario.agents is 3 here and 4 there"), "{log}");
}
