//! What to train, as a TOML file.

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::PathBuf,
    sync::Arc,
};

use anyhow::Context;
use meanfield_agent::policy::ppo;
use meanfield_common::{invalid::Invalid, scarcity::Weight};
use meanfield_learner::Config;
use meanfield_simulator::{
    scenario::Scenario,
    workload::{Workload, functions},
};
use meanfield_traces::synth::Preset;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What `learner.sharing` was called before.
const OLDER: &str = "shared_network";

/// The file.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// Name of the learner's settings; see docs/simppo.md.
    pub preset: String,
    pub seed: u64,
    /// Episodes at most.
    pub episodes: u64,
    /// Episodes between two checkpoints.
    pub checkpoint_every: u64,
    /// Settings of the learner that differ from the preset's.
    pub learner: toml::Table,
    pub scenario: Cluster,
    /// When to stop before the last episode.
    pub stop: Option<Stop>,
}

/// Who shares a cluster, and under which load.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Cluster {
    pub agents: usize,
    /// Shapes of the load; clusters take them in turn.
    pub loads: Vec<String>,
    /// How many times the usual demand.
    pub demand: f64,
    /// Files of workloads instead of the twelve functions.
    pub workloads: Vec<PathBuf>,
    /// Priorities, which agents take in turn; none is the same one for all.
    pub weights: Vec<f64>,
}

/// Stops when the mean reward over a window has not become better for so many episodes.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Stop {
    pub window: usize,
    pub patience: usize,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            preset: "default".to_owned(),
            seed: 1,
            episodes: 400,
            checkpoint_every: 50,
            learner: toml::Table::new(),
            scenario: Cluster::default(),
            stop: None,
        }
    }
}

impl Default for Cluster {
    fn default() -> Self {
        let loads = vec![Preset::Diurnal.name().to_owned()];
        Self { agents: 12, loads, demand: 1.0, workloads: Vec::new(), weights: Vec::new() }
    }
}

impl Settings {
    pub fn read(path: Option<&PathBuf>) -> anyhow::Result<Self> {
        let Some(path) = path else { return Ok(Self::default()) };
        let name = path.display();
        let text =
            fs::read_to_string(path).map_err(|error| Invalid::new("file", &name, format!("readable: {error}")))?;
        let settings: Self = toml::from_str(&text).map_err(|error| {
            let line = error.span().map_or(1, |span| text[..span.start.min(text.len())].matches('\n').count() + 1);
            Invalid::new("file", format!("{name}:{line}"), error.message().replace('\n', " "))
        })?;
        settings.check()?;
        Ok(settings)
    }

    fn check(&self) -> Result<(), Invalid> {
        for (field, value) in [("episodes", self.episodes), ("checkpoint_every", self.checkpoint_every)] {
            if !(1..=1_000_000).contains(&value) {
                return Err(Invalid::new(field, value, "from 1 to 1000000"));
            }
        }
        if let Some(Stop { window, patience }) = self.stop {
            for (field, value) in [("stop.window", window), ("stop.patience", patience)] {
                if value == 0 {
                    return Err(Invalid::new(field, value, "at least 1"));
                }
            }
        }
        Ok(())
    }

    /// The learner's settings: the preset with what the file changes.
    pub fn config(&self) -> anyhow::Result<Config> {
        let preset = Config::preset(&self.preset).map_err(|error| match error {
            meanfield_learner::Error::Preset { name, known } => Invalid::new("preset", format!("{name:?}"), known),
            other => Invalid::new("preset", format!("{:?}", self.preset), other.to_string()),
        })?;
        // As JSON, which can say that there is none of something: in TOML the preset's would become the default's.
        let mut settings = serde_json::to_value(&preset).context("the preset cannot be written down")?;
        // Its older name; the preset has the setting under the newer one.
        let named = |key: &str| if key == OLDER { "sharing" } else { key }.to_owned();
        if let (Some(older), Some(newer)) = (self.learner.get(OLDER), self.learner.get("sharing")) {
            let bound = format!("to be given together with its newer name, learner.sharing = {newer}");
            Err(Invalid::new(format!("learner.{OLDER}"), older, bound))?;
        }
        for (key, value) in &self.learner {
            finite(&below("learner", key), value)?;
            settings[named(key)] = serde_json::to_value(value)?;
        }
        let config: Config = serde_json::from_value(settings)
            .map_err(|error| Invalid::new("learner", format!("{:?}", self.learner), error.to_string()))?;
        config.validate().map_err(|error| match error {
            meanfield_learner::Error::Config { field, value, bound } => {
                Invalid::new(format!("learner.{field}"), value, bound)
            }
            other => Invalid::new("learner", "wrong", other.to_string()),
        })?;
        ppo::check(&config).map_err(|error| Invalid { field: format!("learner.{}", error.field), ..error })?;
        Ok(config)
    }

    /// The clusters to train on.
    pub fn clusters(&self) -> anyhow::Result<(Scenario, Vec<Preset>)> {
        let Cluster { agents, loads, demand, workloads, weights } = &self.scenario;
        if !(0.01..=100.0).contains(demand) {
            Err(Invalid::new("scenario.demand", demand, "from 0.01 to 100"))?;
        }
        if loads.is_empty() {
            Err(Invalid::new("scenario.loads", "an empty list", "at least one shape of load"))?;
        }
        let presets = loads.iter().map(|load| load.parse()).collect::<Result<Vec<Preset>, _>>()?;
        let mut running = functions().to_vec();
        if !workloads.is_empty() {
            running = workloads.iter().map(read).collect::<anyhow::Result<_>>()?;
        }
        let scaled: Vec<_> = (running.iter())
            .map(|workload| Arc::new(Workload { demand: workload.demand * demand, ..(**workload).clone() }))
            .collect();
        let mut scenario = Scenario::of(&scaled, *agents, 1)?;
        if !weights.is_empty() {
            let weights = weights.iter().map(|weight| Weight::try_from(*weight)).collect::<Result<Vec<_>, _>>();
            let weights = weights.map_err(|error| Invalid { field: "scenario.weights".to_owned(), ..error })?;
            scenario = scenario.with_weights(&weights)?;
        }
        Ok((scenario, presets))
    }

    /// Which settings differ, with both values, for an error message.
    pub fn differences(&self, other: &Self) -> anyhow::Result<Vec<String>> {
        let (ours, theirs) = (self.values()?, other.values()?);
        let names: BTreeSet<_> = ours.keys().chain(theirs.keys()).collect();
        let shown = |values: &BTreeMap<String, Value>, name: &String| {
            values.get(name).filter(|value| !value.is_null()).map_or("none".to_owned(), Value::to_string)
        };
        let pairs = names.into_iter().map(|name| (name, shown(&ours, name), shown(&theirs, name)));
        Ok(pairs
            .filter(|(_, ours, theirs)| ours != theirs)
            .map(|(name, ours, theirs)| format!("{name} is {ours} here and {theirs} there"))
            .collect())
    }

    /// Every setting under its whole name, the preset's among them.
    fn values(&self) -> anyhow::Result<BTreeMap<String, Value>> {
        let mut all = serde_json::to_value(self)?;
        // By way of text, in which a number is as short as it was written.
        all["learner"] = serde_json::from_str(&serde_json::to_string(&self.config()?)?)?;
        let mut values = BTreeMap::new();
        flatten("", all, &mut values);
        Ok(values)
    }
}

/// Takes a document apart: what stands in a table is named `table.key`.
fn flatten(name: &str, value: Value, values: &mut BTreeMap<String, Value>) {
    match value {
        Value::Object(table) => {
            for (key, value) in table {
                flatten(&below(name, &key), value, values);
            }
        }
        value => {
            values.insert(name.to_owned(), value);
        }
    }
}

fn below(name: &str, key: &str) -> String {
    if name.is_empty() { key.to_owned() } else { format!("{name}.{key}") }
}

/// Refuses numbers that are none: JSON would take them for something that is absent.
fn finite(name: &str, value: &toml::Value) -> Result<(), Invalid> {
    match value {
        toml::Value::Float(number) if !number.is_finite() => Err(Invalid::new(name, number, "a finite number")),
        toml::Value::Array(values) => values.iter().try_for_each(|value| finite(name, value)),
        toml::Value::Table(table) => table.iter().try_for_each(|(key, value)| finite(&below(name, key), value)),
        _ => Ok(()),
    }
}

fn read(path: &PathBuf) -> anyhow::Result<Arc<Workload>> {
    let name = path.display().to_string();
    let text =
        fs::read_to_string(path).map_err(|error| Invalid::new("scenario.workloads", &name, error.to_string()))?;
    let workload = Workload::parse(&text, &name);
    let workload =
        workload.map_err(|error| Invalid::new("scenario.workloads", &name, format!("a workload: {error}")))?;
    Ok(Arc::new(workload))
}
