//! Base models: the networks that new agents start from, and that slowly follow what the agents learn.
//!
//! A model is a row of versions. One of them is served, and perhaps another one to a share of the agents as a canary;
//! which, is an operator's word ([`Serving`]). Agents hand in what they learnt, the last word of each counts, and
//! averaging makes a new version that goes a little of the way to them ([`average`]).
//!
//! Changes are made one at a time: the files first (`files`), then one commit to the store that names them, with the
//! entry in the audit log, then in memory. Reading never waits for the disk.

pub mod average;
mod files;
mod order;
mod serving;
mod version;

use std::{
    collections::{BTreeMap, HashMap},
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use meanfield_common::{
    digest::Digest,
    identity::{AgentId, ModelName},
    invalid::Invalid,
    reward::Reward,
};
use meanfield_learner::ActorCritic;
use parking_lot::{Mutex, RwLock};
use serde_json::Value;

pub use files::Document;
pub use order::Order;
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
    #[error(
        "models in {path:?}: {reason}; restore it from a backup, or move the model's directory away, which removes the model"
    )]
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

/// What the audit log and events say of a change, but for who made it.
pub(crate) struct Said {
    pub(crate) action: &'static str,
    pub(crate) target: String,
    pub(crate) before: Value,
    pub(crate) after: Value,
}

/// The rest of the coordinator, as a change of a base model needs it.
pub(crate) trait Rest {
    /// Whether anything can be made durable. A file that is written for a change that cannot be might take another's place.
    fn ready(&self) -> Result<(), crate::Error>;

    /// Makes durable, at once, what a model is from now on (none when it is forgotten) and what is said of that.
    fn commit(&self, name: &ModelName, document: Option<Document>, said: &Said) -> Result<(), crate::Error>;

    /// Tells whoever watches. Called when the change is visible, and before the next one can be made.
    fn tell(&self, name: &ModelName, said: Said);
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
    /// See [`Self::revision`]; 0 for none.
    revision: AtomicU64,
    contributions: Mutex<HashMap<ModelName, HashMap<AgentId, Contribution>>>,
}

impl Models {
    /// Looks whether what a data directory holds can be opened, and changes nothing. The caller holds its lock.
    pub(crate) fn rehearse(data_dir: &Path, known: &[(ModelName, Document)]) -> Result<(), Error> {
        files::Files::rehearse(data_dir, known)
    }

    /// The documents of an earlier layout in a data directory, to be added to those that the store holds.
    pub(crate) fn old(
        data_dir: Option<&Path>,
        known: &[(ModelName, Document)],
    ) -> Result<Vec<(ModelName, Document)>, Error> {
        data_dir.map_or_else(|| Ok(Vec::new()), |data_dir| files::Files::open(data_dir)?.old(known))
    }

    /// Which of the models that the store holds have no directory any more: whoever moved it away wants the rest to go on.
    pub(crate) fn missing(data_dir: Option<&Path>, known: &[(ModelName, Document)]) -> Result<Vec<ModelName>, Error> {
        data_dir.map_or_else(|| Ok(Vec::new()), |data_dir| files::Files::open(data_dir)?.missing(known))
    }

    /// What the store knows, with the networks from the data directory; without one, models live in memory.
    pub(crate) fn open(
        data_dir: Option<&Path>,
        documents: Vec<(ModelName, Document)>,
        options: Options,
    ) -> Result<Self, Error> {
        let files = data_dir.map(files::Files::open).transpose()?;
        let models = files.as_ref().map_or_else(|| Ok(BTreeMap::new()), |files| files.load(documents))?;
        let models = models.into_iter().map(|(name, model)| (name, Arc::new(model))).collect();
        let (change, contributions) = (Mutex::default(), Mutex::default());
        let revision = AtomicU64::new(revision(&models));
        Ok(Self { options, files, change, models: RwLock::new(models), revision, contributions })
    }

    /// A number that follows from what is served of all models, the same after a restart: who finds another one than before
    /// has a reason to look. Part of every answer to a heartbeat, so it is only read here.
    pub(crate) fn revision(&self) -> Option<u64> {
        Some(self.revision.load(Ordering::Relaxed)).filter(|revision| *revision > 0)
    }

    /// Makes a change visible: a model, or that there is none of a name any more.
    fn show(&self, name: &ModelName, model: Option<Model>) {
        let mut models = self.models.write();
        match model {
            Some(model) => drop(models.insert(name.clone(), Arc::new(model))),
            None => drop(models.remove(name)),
        }
        self.revision.store(revision(&models), Ordering::Relaxed);
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
    pub(crate) fn average(
        &self,
        name: &ModelName,
        made_unix_ms: u64,
        rest: &dyn Rest,
    ) -> Result<Option<u64>, crate::Error> {
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
        let (next, mut said) = self.extended(name, &model, version, "model.average", promote);
        // Nobody ordered it, so whoever watches hears of it here only.
        said.after["served"] = promote.into();
        let number = next.as_ref().and_then(|next| next.versions.keys().last().copied());
        self.make(name, Some(&model), next, said, rest)?;
        Ok(number)
    }

    /// Averages every model; what fails is logged, and tried again with the next contributions.
    pub(crate) fn average_all(&self, made_unix_ms: u64, rest: &dyn Rest) {
        for (name, _) in self.all() {
            match self.average(&name, made_unix_ms, rest) {
                Ok(Some(version)) => tracing::info!(model = %name, version, "averaged what agents have learnt"),
                Ok(None) => {}
                Err(error) => tracing::warn!(model = %name, %error, "cannot average what agents have learnt"),
            }
        }
    }

    /// Makes a model's new state, or that there is none any more, durable and then visible.
    fn make(
        &self,
        name: &ModelName,
        before: Option<&Model>,
        next: Option<Model>,
        said: Said,
        rest: &dyn Rest,
    ) -> Result<(), crate::Error> {
        rest.ready()?;
        if let (Some(files), Some(next)) = (&self.files, &next) {
            files.write(name, before, next)?;
        }
        rest.commit(name, next.as_ref().map(Document::from), &said)?;
        let removed = next.is_none();
        if let Some(files) = &self.files {
            tidied(name, next.as_ref().map_or_else(|| files.remove(name), |next| files.sweep(name, next)));
        }
        self.show(name, next);
        if removed {
            self.contributions.lock().remove(name);
        }
        rest.tell(name, said);
        Ok(())
    }
}

/// The digest of what is served of all models, in as many bits as a JSON number has in every language.
fn revision(models: &BTreeMap<ModelName, Arc<Model>>) -> u64 {
    if models.is_empty() {
        return 0;
    }
    // Names and numbers always serialise.
    let file = |model: &Model, number| model.versions.get(&number).map(|version| version.digest());
    let served = models.iter().map(|(name, model)| {
        let Serving { version, canary, .. } = model.serving;
        (name, file(model, version), canary.map(|canary| (file(model, canary.version), canary.share)))
    });
    let served: Vec<_> = served.collect();
    let [a, b, c, d, e, f, ..] = *Digest::of(serde_json::to_string(&served).unwrap_or_default().as_bytes()).bytes();
    u64::from_be_bytes([0, 0, a, b, c, d, e, f]).max(1)
}

/// The change is made by then: files that nobody needs any more are no reason to call it failed, and go at the next start.
fn tidied(name: &ModelName, outcome: Result<(), Error>) {
    if let Err(error) = outcome {
        tracing::warn!(model = %name, %error, "files that are needed no more could not be removed");
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
