//! The command line from outside: help, layers of configuration, and refusals in one line.

use std::{
    collections::BTreeMap,
    fs,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
};

use tempfile::{TempDir, tempdir};

use crate::support::{Coordinator, Process, TOKEN, address, eventually};

const USAGE: i32 = 64;

/// What a command prints that must succeed without a word on standard error.
pub(crate) fn printed(arguments: &[&str]) -> String {
    let mut process = Process::start(arguments);
    assert_eq!((process.wait().code(), process.log().as_str()), (Some(0), ""), "{arguments:?}");
    process.output()
}

/// The names of all commands that do something, from the help texts: `demo`, and `trace plot` of the group `trace`.
pub(crate) fn commands() -> Vec<String> {
    fn below(outer: &[String]) -> Vec<String> {
        let words: Vec<_> = outer.iter().map(String::as_str).chain(["--help"]).collect();
        let names = listed(&printed(&words));
        if names.is_empty() {
            return vec![outer.join(" ")];
        }
        names.into_iter().flat_map(|name| below(&[outer, &[name]].concat())).collect()
    }
    below(&[])
}

/// The commands that a help text lists.
fn listed(help: &str) -> Vec<String> {
    let list = help.split_once("Commands:\n").map_or("", |(_, list)| list);
    let names = list.lines().take_while(|line| !line.is_empty()).filter_map(|line| line.strip_prefix("  "));
    let names = names.filter(|line| !line.starts_with(' ')).filter_map(|line| line.split_whitespace().next());
    names.filter(|&name| name != "help").map(str::to_owned).collect()
}

/// The exit code and the one line of a command that must fail before it has done anything.
#[track_caller]
fn refusal(arguments: &[&str], environment: &[(&str, &str)]) -> (Option<i32>, String) {
    let mut process = Process::start_with(arguments, environment);
    let (code, log) = (process.wait().code(), process.log());
    assert_eq!(process.output(), "", "{arguments:?}");
    assert_eq!(log.lines().count(), 1, "{arguments:?}: {log}");
    let line = log.trim_end().strip_prefix("meanfield: ").unwrap_or_else(|| panic!("{log}"));
    (code, line.to_owned())
}

#[track_caller]
fn assert_usage(arguments: &[&str], environment: &[(&str, &str)], culprits: &[&str]) {
    let (code, line) = refusal(arguments, environment);
    assert_eq!(code, Some(USAGE), "{arguments:?}: {line}");
    for culprit in culprits {
        assert!(line.contains(culprit), "{arguments:?}: {line}");
    }
}

/// A configuration file in a directory that lives as long as the file is needed.
fn config(text: &str) -> (TempDir, String) {
    let directory = tempdir().unwrap();
    let path = directory.path().join("meanfield.toml");
    fs::write(&path, text).unwrap();
    (directory, path.to_str().unwrap().to_owned())
}

#[test]
fn the_version_is_the_package_s() {
    let version = concat!("meanfield ", env!("CARGO_PKG_VERSION"), "\n");
    assert_eq!(printed(&["--version"]), version);
}

#[test]
fn help_lists_every_key_of_the_configuration_file() {
    for command in commands() {
        let words: Vec<_> = command.split(' ').collect();
        let section = words.join(".");
        let help = printed(&[words.as_slice(), &["--help"]].concat());
        let (_directory, path) = config(&format!("[{section}]\nnonsense = 1"));
        let (code, line) = refusal(&[words.as_slice(), &["--config", &path]].concat(), &[]);
        assert_eq!(code, Some(USAGE), "{line}");
        let (_, keys) = line.split_once(&format!("keys of [{section}] are")).unwrap_or_else(|| panic!("{line}"));
        for key in keys.split(',').map(str::trim).filter(|key| !key.is_empty()) {
            assert!(help.contains(&format!("--{key}")), "--{key} is not in the help of {command}");
        }
    }
}

#[test]
fn completions_know_every_command() {
    for shell in ["bash", "zsh", "fish"] {
        let script = printed(&["completions", shell]);
        for command in commands() {
            for word in command.split(' ') {
                assert!(script.contains(word), "{command} in {shell}");
            }
        }
    }
}

#[test]
fn bad_flags_and_values_are_named() {
    assert_usage(&["coordinator", "--lisen", "x"], &[], &["--lisen"]);
    assert_usage(&["cordinator"], &[], &["cordinator"]);
    assert_usage(&["coordinator", "--listen", "nowhere"], &[], &["--listen", "nowhere"]);
    assert_usage(&["coordinator", "--pools", "a,a"], &[], &["pools"]);
    assert_usage(
        &["coordinator", "--suspect-after", "2s", "--gone-after", "1s"],
        &[],
        &["gone_after", "suspect_after"],
    );
    assert_usage(&["coordinator", "--token", "short"], &[], &["token", "16"]);
    assert_usage(&["coordinator"], &[("MEANFIELD_GRACE", "soon")], &["grace", "soon"]);
    assert_usage(&["agent", "--function", "juggling"], &[], &["function", "juggling", "base64"]);
    assert_usage(&["agent", "--policy", "ppo", "--learn", "--token", TOKEN], &[], &["--model"]);
    assert_usage(&["agent", "--base-model", "Mine", "--token", TOKEN], &[], &["--base-model", "Mine"]);
    assert_usage(&["coordinator", "--average-trim", "0.5"], &[], &["average_trim", "0.5"]);
    assert_usage(&["demo", "--agents", "1"], &[], &["--agents", "1"]);
    assert_usage(&["trace", "synth", "--preset", "stormy"], &[], &["--preset", "stormy"]);
    assert_usage(&["trace", "synth", "--mean=-1"], &[], &["mean", "-1"]);
    assert_usage(&["trace", "describe"], &[], &["FILE"]);
}

#[test]
fn bad_configuration_files_are_named() {
    for (text, culprits) in [
        ("[coordinator]\nlisten = 7600", &["coordinator.listen", "7600"][..]),
        ("[coordinator]\nlisen = 'x'", &["coordinator.lisen"]),
        ("[cordinator]\nlisten = 'x'", &["[cordinator]"]),
        ("[coordinator]\n\nlisten = ", &[":3: "]),
        ("[trace.synth]\npreset = 'stormy'", &["trace.synth.preset", "stormy"]),
        ("[trace.sing]\npreset = 'llm'", &["[trace.sing]", "synth"]),
        ("[trace]\npreset = 'llm'", &["trace.preset", "outside of a section"]),
    ] {
        let (_directory, path) = config(text);
        let culprits = [&[path.as_str()], culprits].concat();
        assert_usage(&["coordinator", "--config", &path], &[], &culprits);
        assert_usage(&["coordinator"], &[("MEANFIELD_CONFIG", &path)], &culprits);
    }
    assert_usage(&["coordinator", "--config", "/nowhere/meanfield.toml"], &[], &["/nowhere/meanfield.toml"]);
}

#[test]
fn files_give_way_to_the_environment_and_that_to_flags() {
    let (_directory, file) = config("[coordinator]\nlisten = '127.0.0.2:0'");
    let host = |flags: &[&str], environment: &[(&str, &str)]| {
        let process = Process::start_with(&[&["coordinator", "--config", &file], flags].concat(), environment);
        address(&process).split_once(':').unwrap().0.to_owned()
    };
    let environment = [("MEANFIELD_LISTEN", "127.0.0.3:0")];
    assert_eq!(host(&[], &[]), "127.0.0.2");
    assert_eq!(host(&[], &environment), "127.0.0.3");
    assert_eq!(host(&["--listen", "127.0.0.4:0"], &environment), "127.0.0.4");
}

#[test]
fn models_that_cannot_be_read_are_named() {
    let directory = tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).to_str().unwrap().to_owned();
    // The header promises 64 bytes that are not there.
    fs::write(path("cut"), [&64_u64.to_le_bytes()[..], b"{\"a\""].concat()).unwrap();
    fs::write(path("empty"), "").unwrap();
    fs::write(path("text"), "this is not a checkpoint at all, but a line of text").unwrap();
    for model in ["cut", "empty", "text", "missing"].map(path) {
        let (code, line) = refusal(&["agent", "--token", TOKEN, "--policy", "ppo", "--model", &model], &[]);
        assert!(code != Some(0) && line.contains(&model), "{code:?}: {line}");
    }
}

/// Every file below a directory, with its content.
fn contents(directory: &Path) -> BTreeMap<PathBuf, Vec<u8>> {
    let mut files = BTreeMap::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            files.extend(contents(&path));
        } else {
            let bytes = fs::read(&path).unwrap();
            files.insert(path, bytes);
        }
    }
    files
}

/// A data directory in which a member has been.
fn history() -> TempDir {
    let data = tempdir().unwrap();
    let mut coordinator = Coordinator::start(data.path(), &[]);
    assert!(coordinator.agent(&["--steps", "1"]).wait().success());
    assert!(coordinator.process.terminate().success());
    data
}

/// Starts a coordinator that must not start, and gives the last line of its log.
fn failure(data: &Path) -> String {
    let arguments = ["coordinator", "--listen", "127.0.0.1:0", "--data-dir", data.to_str().unwrap()];
    let mut process = Process::start(&arguments);
    assert_eq!(process.wait().code(), Some(1), "{}", process.output());
    assert_eq!(process.output(), "");
    let log = process.log();
    assert_eq!(log.lines().filter(|line| line.starts_with("meanfield: ")).count(), 1, "{log}");
    log.lines().last().unwrap().to_owned()
}

#[test]
fn a_damaged_data_directory_is_refused() {
    for victim in ["store/conf", "store/db", "commits"] {
        let data = history();
        fs::write(data.path().join(victim), [0xA5; 3000]).unwrap();
        let before = contents(data.path());
        let line = failure(data.path());
        assert!(line.contains(data.path().to_str().unwrap()), "{victim}: {line}");
        assert!(contents(data.path()) == before, "{victim}: the files were changed");
    }
}

#[test]
fn a_data_directory_in_use_is_refused() {
    let data = tempdir().unwrap();
    let mut first = Coordinator::start(data.path(), &[]);
    let line = failure(data.path());
    assert!(line.contains("in use") && line.contains(data.path().to_str().unwrap()), "{line}");
    assert!(first.process.is_running());
}

#[test]
fn the_token_file_is_for_its_owner_only_and_lets_agents_in() {
    let data = tempdir().unwrap();
    let path = data.path().to_str().unwrap();
    let coordinator = Process::start(&["coordinator", "--listen", "127.0.0.1:0", "--data-dir", path]);
    let url = format!("http://{}", address(&coordinator));
    let mode = fs::metadata(data.path().join("token")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let agent = ["agent", "--coordinator", &url, "--interval", "10ms", "--steps", "2", "--data-dir", path];
    let mut agent = Process::start(&agent);
    assert!(agent.wait().success());
    assert!(!agent.log().contains("going on alone"), "{}", agent.log());

    let stranger = ["agent", "--coordinator", &url, "--token", TOKEN];
    let mut stranger = Process::start(&stranger);
    assert_eq!(stranger.wait().code(), Some(1));
    eventually("it says why", || stranger.log().contains("token").then_some(()));
}
