//! Base models: the networks that new agents start from, and that slowly follow what the agents learn.
//!
//! A model is a row of versions. One of them is served, and perhaps another one to a share of the agents as a canary;
//! which, is an operator's word ([`Serving`]). Agents hand in what they learnt, the last word of each counts, and
//! averaging makes a new version that goes a little of the way to them ([`average`]).
//!
//! Changes are made one at a time: on the disk first (`files`), then in memory. Reading never waits for the disk.

pub mod average;
mod files;
mod serving;
mod version;

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use meanfield_common::{
    identity::{AgentId, ModelName},
    invalid::Invalid,
    reward::Reward,
};
use meanfield_learner::ActorCritic;
use parking_lot::{Mutex, RwLock};

pub use serving::{Canary, Serving};
pub(crate) use version::network;
pub use version::{MOST_BYTES, Provenance, Source, Version};

/// Models that may exist; each is a directory and some memory.
const MOST_MODELS: usize = 256;
/// Agents whose last word waits for the next average; beyond that the oldest words are dropped.
const MOST_CONTRIBUTIONS: usize = 1000;
/// How many times as long as the served version a contribution may be, as vectors.
const LONGEST: f64 = 10.0;

/// How base models follow their agents.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// How often contributions are averaged.
    pub every: Duration,
    /// How much of the way to its agents a model goes each time, in `(0, 1]`.
    pub rate: f64,
    /// The share of contributions that is left out at each end, number by number, in `[0, 0.5)`.
    pub trim: f64,
    /// How many agents must have contributed.
    pub least: usize,
    /// How many versions are kept, beside those that are in use.
    pub kept: usize,
}

impl Default for Options {
    fn default() -> Self {
        Self { every: Duration::from_secs(600), rate: 0.1, trim: 0.2, least: 3, kept: 16 }
    }
}

impl Options {
    pub(crate) fn validate(&self) -> Result<(), Invalid> {
        if self.every < Duration::from_secs(1) {
            return Err(Invalid::new("average_every", format!("{} s", self.every.as_secs_f64()), "at least 1 s"));
        }
        if !(self.rate > 0.0 && self.rate <= 1.0) {
            return Err(Invalid::new("average_rate", self.rate, "above 0 and at most 1"));
        }
        if !(0.0..0.5).contains(&self.trim) {
            return Err(Invalid::new("average_trim", self.trim, "at least 0 and below 0.5"));
        }
        if self.least < 3 {
            return Err(Invalid::new(
                "average_least",
                self.least,
                "at least 3: fewer cannot outvote one that is wrong",
            ));
        }
        if self.kept == 0 {
            return Err(Invalid::new("kept_versions", self.kept, "at least 1"));
        }
        Ok(())
    }
}

/// Why something about models failed. A refused request has changed nothing.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A value outside its bound.
    #[error(transparent)]
    Invalid(#[from] Invalid),
    /// No model has this name.
    #[error("there is no base model \"{0}\"")]
    Unknown(ModelName),
    /// The model was never served otherwise.
    #[error("the base model \"{0}\" was never served otherwise: there is nothing to go back to")]
    NoPrevious(ModelName),
    /// A file cannot be read or written. Each says its reason itself and has no source, or a chain would say it twice.
    #[error("models in {path:?}: {reason}")]
    Io {
        /// Which file.
        path: PathBuf,
        /// Why.
        reason: std::io::Error,
    },
    /// A file is not what was written.
    #[error("models in {path:?}: {reason}; restore it from a backup, or move the model's directory away")]
    Damaged {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
}

/// One model, as it is at some moment.
#[derive(Debug, Clone, PartialEq)]
pub struct Model {
    /// All versions that are kept.
    pub versions: BTreeMap<u64, Arc<Version>>,
    /// What agents get.
    pub serving: Serving,
    /// What they got before the last change.
    pub previous: Option<Serving>,
}

/// What an agent has learnt.
struct Contribution {
    network: ActorCritic,
    reward: f64,
    /// Grows with each: the smallest is the oldest.
    order: u64,
}

/// All base models.
pub(crate) struct Models {
    options: Options,
    files: Option<files::Files>,
    /// Taken by whoever makes a change, for the whole of it.
    change: Mutex<()>,
    models: RwLock<BTreeMap<ModelName, Arc<Model>>>,
    contributions: Mutex<HashMap<ModelName, HashMap<AgentId, Contribution>>>,
}

impl Models {
    /// What a data directory holds; without one, models live in memory.
    pub(crate) fn open(data_dir: Option<&Path>, options: Options) -> Result<Self, Error> {
        let files = data_dir.map(files::Files::open).transpose()?;
        let models = files.as_ref().map_or_else(|| Ok(BTreeMap::new()), files::Files::load)?;
        let models = models.into_iter().map(|(name, model)| (name, Arc::new(model))).collect();
        let (change, contributions) = (Mutex::default(), Mutex::default());
        Ok(Self { options, files, change, models: RwLock::new(models), contributions })
    }

    pub(crate) fn all(&self) -> Vec<(ModelName, Arc<Model>)> {
        self.models.read().iter().map(|(name, model)| (name.clone(), Arc::clone(model))).collect()
    }

    pub(crate) fn get(&self, name: &ModelName) -> Result<Arc<Model>, Error> {
        self.models.read().get(name).cloned().ok_or_else(|| Error::Unknown(name.clone()))
    }

    /// How many agents' last words wait for the next average.
    pub(crate) fn waiting(&self, name: &ModelName) -> usize {
        self.contributions.lock().get(name).map_or(0, HashMap::len)
    }

    /// Takes a new version in. The first one of a model is served at once, a later one when an operator says so.
    pub(crate) fn add(&self, name: &ModelName, version: Version) -> Result<u64, Error> {
        let _change = self.change.lock();
        let model = self.models.read().get(name).cloned();
        if model.is_none() && self.models.read().len() >= MOST_MODELS {
            return Err(Invalid::new("model", name, format!("one of at most {MOST_MODELS} models")).into());
        }
        let Some(model) = model else {
            let (versions, serving) = (BTreeMap::from([(1, Arc::new(version))]), Serving::of(1));
            return self.keep(name, Model { versions, serving, previous: None }).map(|()| 1);
        };
        let served = model.version(model.serving.version)?;
        version.network.config().same_shape(served.network.config())?;
        self.extend(name, &model, version, false)
    }

    /// Says what agents get. Returns what they got before.
    pub(crate) fn serve(&self, name: &ModelName, serving: Serving) -> Result<(), Error> {
        let _change = self.change.lock();
        let model = self.get(name)?;
        serving.check(&model.versions)?;
        if serving == model.serving {
            return Ok(());
        }
        let previous = Some(model.serving);
        self.keep(name, Model { serving, previous, ..(*model).clone() })
    }

    /// Goes back to what agents got before the last change, and pins it, so that no average undoes that.
    pub(crate) fn roll_back(&self, name: &ModelName) -> Result<Serving, Error> {
        let _change = self.change.lock();
        let model = self.get(name)?;
        let previous = model.previous.ok_or_else(|| Error::NoPrevious(name.clone()))?;
        let serving = Serving { pinned: true, ..previous };
        let previous = Some(model.serving);
        self.keep(name, Model { serving, previous, ..(*model).clone() })?;
        Ok(serving)
    }

    /// Forgets a model with all of its versions.
    pub(crate) fn remove(&self, name: &ModelName) -> Result<(), Error> {
        let _change = self.change.lock();
        self.get(name)?;
        if let Some(files) = &self.files {
            files.remove(name)?;
        }
        self.models.write().remove(name);
        self.contributions.lock().remove(name);
        Ok(())
    }

    /// Takes in what an agent has learnt; it replaces what the same agent said before.
    pub(crate) fn contribute(
        &self,
        name: &ModelName,
        agent: AgentId,
        network: ActorCritic,
        reward: Reward,
    ) -> Result<(), Error> {
        let model = self.get(name)?;
        let served = &model.version(model.serving.version)?.network;
        network.config().same_shape(served.config())?;
        let (length, most) = (average::norm(&network), LONGEST * average::norm(served).max(1.0));
        if length > most {
            return Err(
                Invalid::new("weights", format!("of norm {length:.3}"), format!("of norm {most:.3} at most")).into()
            );
        }
        let mut contributions = self.contributions.lock();
        let waiting = contributions.entry(name.clone()).or_default();
        if waiting.len() >= MOST_CONTRIBUTIONS && !waiting.contains_key(&agent) {
            let oldest = waiting.iter().min_by_key(|(_, one)| one.order).map(|(agent, _)| *agent);
            oldest.map(|oldest| waiting.remove(&oldest));
        }
        let order = waiting.values().map(|one| one.order).max().map_or(0, |last| last + 1);
        waiting.insert(agent, Contribution { network, reward: reward.get(), order });
        Ok(())
    }

    /// Makes a new version of a model from what its agents handed in since the last one, if enough of them did. It is
    /// served at once, unless the model is pinned or has a canary.
    pub(crate) fn average(&self, name: &ModelName, made_unix_ms: u64) -> Result<Option<u64>, Error> {
        let _change = self.change.lock();
        let model = self.get(name)?;
        let served = &model.version(model.serving.version)?.network;
        let taken = {
            let mut contributions = self.contributions.lock();
            let Some(waiting) = contributions.get_mut(name) else { return Ok(None) };
            // What was handed in while another shape was served cannot be averaged any more.
            waiting.retain(|_, one| one.network.config().same_shape(served.config()).is_ok());
            if waiting.len() < self.options.least {
                return Ok(None);
            }
            std::mem::take(waiting)
        };
        // In order of ids: the sums, and so the bytes, must not depend on the order of a hash map.
        let taken: BTreeMap<AgentId, Contribution> = taken.into_iter().collect();
        let networks: Vec<&ActorCritic> = taken.values().map(|one| &one.network).collect();
        let network = average::towards(served, &networks, self.options.rate, self.options.trim)?;
        let source = Source::Average {
            parent: model.serving.version,
            rate: self.options.rate,
            trim: self.options.trim,
            agents: taken.iter().map(|(agent, one)| (*agent, one.reward)).collect(),
        };
        let version = Version::of(network, Provenance { made_unix_ms, source })?;
        let promote = !model.serving.pinned && model.serving.canary.is_none();
        self.extend(name, &model, version, promote).map(Some)
    }

    /// Averages every model; what fails is logged, and tried again with the next contributions.
    pub(crate) fn average_all(&self, made_unix_ms: u64) {
        for (name, _) in self.all() {
            match self.average(&name, made_unix_ms) {
                Ok(Some(version)) => tracing::info!(model = %name, version, "averaged what agents have learnt"),
                Ok(None) => {}
                Err(error) => tracing::warn!(model = %name, %error, "cannot average what agents have learnt"),
            }
        }
    }

    fn extend(&self, name: &ModelName, model: &Model, version: Version, promote: bool) -> Result<u64, Error> {
        let mut next = model.clone();
        let number = model.versions.last_key_value().map_or(1, |(last, _)| last + 1);
        next.versions.insert(number, Arc::new(version));
        if promote {
            next.previous = Some(next.serving);
            next.serving.version = number;
        }
        next.forget(self.options.kept, number);
        self.keep(name, next)?;
        Ok(number)
    }

    /// Makes a model's new state durable, and then visible.
    fn keep(&self, name: &ModelName, model: Model) -> Result<(), Error> {
        if let Some(files) = &self.files {
            files.write(name, &model)?;
        }
        self.models.write().insert(name.clone(), Arc::new(model));
        Ok(())
    }
}

impl Model {
    fn version(&self, number: u64) -> Result<&Arc<Version>, Error> {
        self.versions.get(&number).ok_or_else(|| serving::no_version("version", number, &self.versions).into())
    }

    /// The version for whoever asks, by number or by name.
    pub(crate) fn choose(&self, version: Option<u64>, agent: Option<&str>) -> Result<(u64, Arc<Version>), Error> {
        let number = version.unwrap_or_else(|| self.serving.choose(agent));
        self.version(number).map(|version| (number, Arc::clone(version)))
    }

    /// Drops the oldest versions beyond so many; those in use, and the newest, stay.
    fn forget(&mut self, kept: usize, newest: u64) {
        let in_use = |number: u64| {
            let uses = |serving: &Serving| serving.uses(number);
            number == newest || uses(&self.serving) || self.previous.as_ref().is_some_and(uses)
        };
        let idle: Vec<u64> = self.versions.keys().copied().filter(|number| !in_use(*number)).collect();
        for number in idle.iter().take((idle.len() + 1).saturating_sub(kept)) {
            self.versions.remove(number);
        }
    }
}

/// The same inputs, outputs and layers: what makes two networks' numbers comparable one by one.
trait SameShape {
    fn same_shape(&self, served: &Self) -> Result<(), Invalid>;
}

impl SameShape for meanfield_learner::Config {
    fn same_shape(&self, served: &Self) -> Result<(), Invalid> {
        let shape = |config: &Self| {
            let Self { observation, auxiliary, heads, hidden, activation, .. } = config;
            format!("{observation} + {auxiliary} inputs, {hidden:?} hidden ({activation:?}), {heads:?} actions")
        };
        let (given, wanted) = (shape(self), shape(served));
        if given == wanted {
            Ok(())
        } else {
            Err(Invalid::new("shape", given, format!("that of the served version: {wanted}")))
        }
    }
}
