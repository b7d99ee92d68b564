//! What the documents say about files, metrics and flags is true, and complete.

use std::{collections::BTreeSet, fs, path::PathBuf};

use meanfield_learner::{ActorCritic, Config};
use reqwest::Method;
use tempfile::tempdir;

use crate::{
    command_line::{commands, printed},
    support::{Coordinator, root},
};

const METRICS: &str = "meanfield_coordinator_";

fn read(document: &str) -> String {
    fs::read_to_string(root().join(document)).unwrap_or_else(|error| panic!("{document}: {error}"))
}

fn documents() -> Vec<PathBuf> {
    let docs = fs::read_dir(root().join("docs")).unwrap().map(|entry| entry.unwrap().path());
    let docs = docs.filter(|path| path.extension().is_some_and(|extension| extension == "md"));
    ["README.md", "CONTRIBUTING.md", "CHANGELOG.md"].iter().map(|name| root().join(name)).chain(docs).collect()
}

/// The targets of `[text](target)`, code blocks left out.
fn links(text: &str) -> Vec<&str> {
    let prose = text.split("```").step_by(2);
    prose.flat_map(|prose| prose.split("](").skip(1)).filter_map(|rest| Some(rest.split_once(')')?.0)).collect()
}

#[test]
fn links_lead_somewhere() {
    for document in documents() {
        let text = fs::read_to_string(&document).unwrap_or_else(|error| panic!("{}: {error}", document.display()));
        for link in links(&text) {
            let path = link.split('#').next().unwrap_or_default();
            let elsewhere = link.contains("://") || link.starts_with("mailto:") || path.is_empty();
            let found = elsewhere || document.parent().unwrap().join(path).exists();
            assert!(found, "{}: {link} leads nowhere", document.display());
        }
    }
}

/// Every metric in the text between backticks, without labels.
fn documented_metrics(text: &str) -> BTreeSet<String> {
    let code = text.split('`').filter(|code| code.starts_with(METRICS));
    code.map(|code| code.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()).collect()
}

#[test]
fn every_metric_is_documented_and_every_documented_metric_exists() {
    let data = tempdir().unwrap();
    // Means of a pool exist once somebody has reported, scarcity where there is a capacity, versions where there are models.
    let coordinator = Coordinator::start(data.path(), &["--capacity", "default=4,16Gi"]);
    let _agent = coordinator.agent(&["--function", "base64"]);
    coordinator.await_members(&["base64"], 1);
    let network = ActorCritic::new(Config::preset_default(), 1).unwrap();
    coordinator.upload(Method::POST, "/v1/models/cpu", network.save().unwrap());
    let metrics = coordinator.metrics();

    let families = metrics.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' '));
    let exist: BTreeSet<_> = families
        .map(|(name, kind)| match kind {
            "counter" => format!("{name}_total"),
            "info" => format!("{name}_info"),
            _ => name.to_owned(),
        })
        .collect();
    assert!(exist.iter().all(|name| name.starts_with(METRICS)), "{exist:?}");
    assert_eq!(documented_metrics(&read("docs/metrics.md")), exist);

    // Alerts on a metric that nobody serves would never fire.
    let alerts = read("manifests/prometheus/alerts.yml");
    let alerted = alerts
        .match_indices(METRICS)
        .map(|(at, _)| alerts[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect::<String>());
    let alerted: BTreeSet<_> = alerted.collect();
    assert!(alerted.len() >= 3 && alerted.is_subset(&exist), "{alerted:?}");
}

/// The section of a command in docs/configuration.md: its help, without blanks at the ends of lines.
fn section(command: &str) -> String {
    let words: Vec<_> = command.split(' ').collect();
    let help = printed(&[words.as_slice(), &["--help"]].concat());
    let lines: Vec<_> = help.trim_end().lines().map(str::trim_end).collect();
    format!("## meanfield {command}\n\n```text\n{}\n```\n", lines.join("\n"))
}

#[test]
fn settings_are_documented_as_the_help_says() {
    let text = read("docs/configuration.md");
    let (_, documented) = text.split_once("\n## meanfield ").unwrap();
    let documented = format!("## meanfield {documented}");
    let sections: Vec<_> = commands().iter().map(|command| section(command)).collect();
    for (documented, wanted) in documented.lines().zip(sections.join("\n").lines()) {
        assert_eq!(documented, wanted, "docs/configuration.md must repeat the help of every command");
    }
    assert!(documented == sections.join("\n"), "docs/configuration.md has more or fewer lines than the help");
}
