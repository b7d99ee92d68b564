//! The rules of the workspace: which crate may know which, and what every source file looks like.

use std::{
    collections::{BTreeMap, BTreeSet},
    env, fs,
    path::{Path, PathBuf},
    process::Command,
};

use serde_json::Value;

use crate::support::root;

/// Which crates of the workspace a crate may depend on.
const ARROWS: [(&str, &[&str]); 9] = [
    ("meanfield-common", &[]),
    ("meanfield-learner", &["meanfield-common"]),
    ("meanfield-traces", &["meanfield-common"]),
    ("meanfield-simulator", &["meanfield-common", "meanfield-traces"]),
    ("meanfield-autoscalers", &["meanfield-common"]),
    ("meanfield-coordinator", &["meanfield-common", "meanfield-learner"]),
    (
        "meanfield-agent",
        &["meanfield-autoscalers", "meanfield-common", "meanfield-learner", "meanfield-simulator", "meanfield-traces"],
    ),
    ("meanfield-loadgen", &["meanfield-common"]),
    (
        "meanfield-cli",
        &[
            "meanfield-agent",
            "meanfield-autoscalers",
            "meanfield-common",
            "meanfield-coordinator",
            "meanfield-learner",
            "meanfield-loadgen",
            "meanfield-simulator",
            "meanfield-traces",
        ],
    ),
];

struct Dependency {
    name: String,
    dev: bool,
}

struct Package {
    name: String,
    directory: PathBuf,
    dependencies: Vec<Dependency>,
}

fn packages() -> Vec<Package> {
    let mut cargo = Command::new(env::var_os("CARGO").unwrap_or("cargo".into()));
    let output = cargo.args(["metadata", "--no-deps", "--format-version=1"]).current_dir(root()).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let metadata: Value = serde_json::from_slice(&output.stdout).unwrap();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let dependency = |one: &Value| Dependency { name: text(&one["name"]), dev: one["kind"] == "dev" };
    let package = |one: &Value| Package {
        name: text(&one["name"]),
        directory: Path::new(&text(&one["manifest_path"])).parent().unwrap().to_owned(),
        dependencies: one["dependencies"].as_array().unwrap().iter().map(dependency).collect(),
    };
    metadata["packages"].as_array().unwrap().iter().map(package).collect()
}

fn sources(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(directory).into_iter().flatten() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(sources(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

#[test]
fn arrows_between_crates_point_one_way() {
    let (allowed, packages) = (BTreeMap::from(ARROWS), packages());
    let names: BTreeSet<_> = packages.iter().map(|package| package.name.as_str()).collect();
    assert_eq!(names, allowed.keys().copied().collect(), "a new crate needs a line in ARROWS");
    for Package { name, dependencies, .. } in &packages {
        for dependency in dependencies.iter().filter(|one| names.contains(one.name.as_str())) {
            let to = dependency.name.as_str();
            // Tests may look around, but the two sides of the wire must not know each other even there.
            let sides = ["meanfield-agent", "meanfield-coordinator"];
            let sides = sides.contains(&name.as_str()) && sides.contains(&to);
            assert!(allowed[name.as_str()].contains(&to) || (dependency.dev && !sides), "{name} -> {to}");
        }
    }
}

#[test]
fn the_learner_neither_serves_nor_waits() {
    let packages = packages();
    let learner = packages.iter().find(|package| package.name == "meanfield-learner").unwrap();
    for Dependency { name, dev } in &learner.dependencies {
        let io = ["tokio", "reqwest", "axum", "kube", "hyper"].contains(&name.as_str());
        assert!(*dev || !io, "{name}");
    }
}

#[test]
fn common_does_no_io() {
    let common = sources(&root().join("common/src"));
    assert!(!common.is_empty());
    for path in common {
        let text = fs::read_to_string(&path).unwrap();
        for io in ["std::fs", "std::net", "std::io", "std::process", "tokio", "Instant", "SystemTime"] {
            assert!(!text.contains(io), "{}: {io}", path.display());
        }
    }
}

#[test]
fn every_crate_inherits_the_lints() {
    for Package { name, directory, .. } in packages() {
        let manifest: toml::Table = fs::read_to_string(directory.join("Cargo.toml")).unwrap().parse().unwrap();
        let inherited = manifest.get("lints").and_then(|lints| lints.get("workspace"));
        assert_eq!(inherited, Some(&toml::Value::Boolean(true)), "{name}");
    }
}

#[test]
fn every_source_file_says_what_it_is_for() {
    for package in packages() {
        let (source, tests) = (package.directory.join("src"), package.directory.join("tests"));
        for path in sources(&source).into_iter().chain(sources(&tests)) {
            let name = path.file_name().unwrap().to_str().unwrap();
            assert!(!["mod.rs", "misc.rs", "types.rs", "util.rs", "utils.rs"].contains(&name), "{}", path.display());
            assert!(fs::read_to_string(&path).unwrap().starts_with("//! "), "{} has no head", path.display());
        }
    }
}
