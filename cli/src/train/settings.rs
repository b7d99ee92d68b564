//! What to train, as a TOML file.

use std::{collections::HashMap, fs, path::PathBuf, sync::Arc};

use anyhow::Context;
use meanfield_agent::policy::ppo;
use meanfield_common::invalid::Invalid;
use meanfield_learner::Config;
use meanfield_simulator::{
    scenario::Scenario,
    workload::{Workload, functions},
};
use meanfield_traces::synth::Preset;
use serde::{Deserialize, Serialize};

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
        Self { agents: 12, loads: vec![Preset::Diurnal.name().to_owned()], demand: 1.0, workloads: Vec::new() }
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
        let preset = Config::preset(&self.preset)
            .map_err(|error| Invalid::new("preset", format!("{:?}", self.preset), error.to_string()))?;
        // As JSON, which can say that there is none of something: in TOML the preset's would become the default's.
        let mut settings = serde_json::to_value(&preset).context("the preset cannot be written down")?;
        for (key, value) in &self.learner {
            settings[key] = serde_json::to_value(value)?;
        }
        let config: Config = serde_json::from_value(settings)
            .map_err(|error| Invalid::new("learner", "what it is", format!("settings of a learner: {error}")))?;
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
        let Cluster { agents, loads, demand, workloads } = &self.scenario;
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
        Ok((Scenario::of(&scaled, *agents, 1)?, presets))
    }

    /// Which settings differ, for an error message.
    pub fn differences(&self, other: &Self) -> anyhow::Result<Vec<String>> {
        let tables = [toml::Table::try_from(self)?, toml::Table::try_from(other)?];
        let [ours, theirs]: [HashMap<_, _>; 2] = tables.map(|table| table.into_iter().collect());
        let mut names: Vec<_> =
            ours.keys().chain(theirs.keys()).filter(|key| ours.get(*key) != theirs.get(*key)).collect();
        names.sort_unstable();
        names.dedup();
        Ok(names.into_iter().cloned().collect())
    }
}

fn read(path: &PathBuf) -> anyhow::Result<Arc<Workload>> {
    let name = path.display().to_string();
    let text =
        fs::read_to_string(path).map_err(|error| Invalid::new("scenario.workloads", &name, error.to_string()))?;
    let workload = Workload::parse(&text, &name)?;
    Ok(Arc::new(workload))
}
