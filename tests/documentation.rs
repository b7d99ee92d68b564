//! What the documents say about files and metrics is true, and complete; so are the alerts and the dashboard.

use std::{collections::BTreeSet, fs, path::PathBuf};

use meanfield_learner::{ActorCritic, Config};
use reqwest::Method;
use serde_json::Value;
use tempfile::tempdir;

use crate::support::{Coordinator, Http, eventually, root};

/// What the names of all metrics begin with.
const METRICS: [&str; 2] = ["meanfield_coordinator_", "meanfield_agent_"];

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

/// Every name of a metric in a text.
fn metrics_in(text: &str) -> BTreeSet<String> {
    let starts = METRICS.iter().flat_map(|prefix| text.match_indices(prefix));
    starts.map(|(at, _)| text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()).collect()
}

/// The names of the families that a process serves, and of the series that its histograms have.
fn served(text: &str) -> (BTreeSet<String>, BTreeSet<String>) {
    let (mut families, mut series) = (BTreeSet::new(), BTreeSet::new());
    for (name, kind) in text.lines().filter_map(|line| line.strip_prefix("# TYPE ")?.split_once(' ')) {
        match kind {
            "counter" => drop(families.insert(format!("{name}_total"))),
            "info" => drop(families.insert(format!("{name}_info"))),
            "histogram" => {
                series.extend(["bucket", "sum", "count"].map(|part| format!("{name}_{part}")));
                families.insert(name.to_owned());
            }
            _ => drop(families.insert(name.to_owned())),
        }
    }
    (families, series)
}

/// Every family of the coordinator and of an agent, and what may be asked for in queries.
fn metrics() -> (BTreeSet<String>, BTreeSet<String>) {
    let data = tempdir().unwrap();
    // Means of a pool exist once somebody has reported, scarcity where there is a capacity, versions where there are models.
    let coordinator = Coordinator::start(data.path(), &["--capacity", "default=4,16Gi"]);
    let agent = coordinator.agent(&["--function", "base64", "--metrics-listen", "127.0.0.1:0"]);
    coordinator.await_members(&["base64"], 1);
    let network = ActorCritic::new(Config::preset_default(), 1).unwrap();
    coordinator.upload(Method::POST, "/v1/models/cpu", network.save().unwrap());
    let address = eventually("it says where its metrics are", || {
        let log = agent.log();
        Some(log.split_once("serving metrics address=")?.1.lines().next()?.to_owned())
    });
    let own = Http::new().request(Method::GET, &format!("http://{address}/metrics"));
    let (mut families, mut series) = served(&coordinator.metrics());
    let (of_agent, of_its_histograms) = served(&own);
    assert!(families.len() > 30 && of_agent.len() > 10);
    families.extend(of_agent);
    series.extend(of_its_histograms);
    // A histogram itself is no series.
    let alone = families.iter().filter(|name| !series.contains(&format!("{name}_bucket")));
    let may_be_asked = alone.chain(&series).cloned().collect();
    (families, may_be_asked)
}

#[test]
fn every_metric_is_documented_and_every_one_that_is_asked_for_exists() {
    let (exist, may_be_asked) = metrics();
    assert!(exist.iter().all(|name| METRICS.iter().any(|prefix| name.starts_with(prefix))), "{exist:?}");
    assert_eq!(metrics_in(&read("docs/metrics.md")), exist);
    // Alerts on a metric that nobody serves would never fire, and panels would stay empty.
    for (file, least) in [("manifests/prometheus/alerts.yml", 3), ("manifests/grafana/meanfield.json", 30)] {
        let asked = metrics_in(&read(file));
        let missing: Vec<_> = asked.difference(&may_be_asked).collect();
        assert!(asked.len() >= least && missing.is_empty(), "{file}: {missing:?}");
    }
    // The dashboard has all of the coordinator, and whatever agents lose.
    let dashboard = read("manifests/grafana/meanfield.json");
    let needed = exist.iter().filter(|name| name.starts_with(METRICS[0]) || name.contains("_dropped_"));
    let unseen: Vec<_> = needed.filter(|name| !dashboard.contains(name.as_str())).collect();
    assert!(unseen.is_empty(), "no panel shows {unseen:?}");
}

#[test]
fn the_dashboard_is_one_that_can_be_imported() {
    let dashboard: Value = serde_json::from_str(&read("manifests/grafana/meanfield.json")).unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    assert!(variables.iter().any(|one| one["name"] == "datasource" && one["type"] == "datasource"));
    let panels = dashboard["panels"].as_array().unwrap();
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64().unwrap()).collect();
    assert_eq!(ids.len(), panels.len(), "an id twice");
    let mut taken = BTreeSet::new();
    for panel in panels {
        let title = panel["title"].as_str().unwrap();
        let [x, y, w, h] = ["x", "y", "w", "h"].map(|side| panel["gridPos"][side].as_u64().unwrap());
        for place in (x..x + w).flat_map(|x| (y..y + h).map(move |y| (x, y))) {
            assert!(place.0 < 24 && taken.insert(place), "{title} lies on another panel");
        }
        if panel["type"] == "row" {
            continue;
        }
        assert_eq!(panel["datasource"]["uid"], "${datasource}", "{title}");
        for target in panel["targets"].as_array().unwrap() {
            let expr = target["expr"].as_str().unwrap();
            assert!(!metrics_in(expr).is_empty(), "{title}: {expr}");
            for pair in [['(', ')'], ['{', '}'], ['[', ']']] {
                let [open, close] = pair.map(|bracket| expr.matches(bracket).count());
                assert_eq!(open, close, "{title}: {expr}");
            }
        }
    }
}
