//! The base model that an agent decides with, kept at the version that the coordinator serves to it.
//!
//! Each answer to a heartbeat has a number that changes with what is served of any model; when it does, the agent asks for
//! its file, saying which one it has, and takes over another one with its next decision. As in [`crate::sharing`], nothing
//! here is a reason to stop: what cannot be had or used changes nothing, is logged once, and is tried again later.

use std::sync::Arc;

use meanfield_common::{
    digest::Digest,
    identity::{AgentName, Category, ModelName, PoolName},
    invalid::Invalid,
    mean_field::Aspects,
    reward::Shape,
};
use meanfield_learner::ActorCritic;
use parking_lot::Mutex;
use tracing::{info, warn};

use crate::{
    Error,
    link::{self, Ask, Link},
    membership::Membership,
    policy::{
        Decision, Feedback, Policy, View,
        ppo::{self, Ppo},
    },
    sharing::RETRY_AFTER,
};

/// Which base model an agent wants: the one of a name if the coordinator has it, else the one of a category.
#[derive(Debug, Clone, Default)]
pub struct Wanted {
    /// The name of a model, or of a class that is finer than a category.
    pub name: Option<ModelName>,
    /// The category whose model is as good where there is none of that name.
    pub category: Option<Category>,
    /// One version of it, whatever is served.
    pub version: Option<u64>,
}

/// A version of a base model, as it was found.
#[derive(Debug, Clone)]
pub struct Found {
    /// Of which model.
    pub model: ModelName,
    /// Which version; older coordinators do not say.
    pub version: Option<u64>,
    /// What the file is known by.
    pub digest: Digest,
    /// The file.
    pub bytes: Vec<u8>,
}

impl Wanted {
    /// The names to ask for, in order.
    pub fn names(&self) -> impl Iterator<Item = ModelName> + use<> {
        // Names of categories are names of models too.
        let category = self.category.and_then(|category| category.name().parse().ok());
        self.name.clone().into_iter().chain(category)
    }

    /// Asks for it; none if it is the one that the caller has.
    ///
    /// # Errors
    /// If there is none of any of the names, or the coordinator is away.
    pub async fn find<L: Link>(
        &self,
        link: &mut L,
        pool: &PoolName,
        name: &AgentName,
        had: Option<Digest>,
    ) -> Result<Option<Found>, link::Error> {
        let mut missing = None;
        for model in self.names() {
            match link.base_model(&Ask { model: &model, version: self.version, pool, name, had }).await {
                Ok(file) => {
                    return Ok(file.map(|link::File { version, bytes }| Found {
                        model,
                        version,
                        digest: Digest::of(&bytes),
                        bytes,
                    }));
                }
                Err(error) if error.is_unknown_model() => missing = Some(error),
                Err(error) => return Err(error),
            }
        }
        Err(missing.unwrap_or_else(nothing_wanted))
    }

    /// The workload is of another category than it was thought to be. Says whether that matters: it does not to whoever
    /// wants one model whatever the category.
    pub fn recategorise(&mut self, category: Category) -> bool {
        let matters = self.category.is_some();
        self.category = self.category.and(Some(category));
        matters
    }
}

/// Why nothing is found of a [`Wanted`] that has no names.
pub(crate) fn nothing_wanted() -> link::Error {
    link::Error::Unreachable("no base model is asked for".to_owned())
}

/// A network that waits for the policy's next decision.
#[derive(Debug, Clone, Default)]
struct Inbox(Arc<Mutex<Option<Arc<ActorCritic>>>>);

/// Keeps a [`Follower`]'s network at what the coordinator serves.
#[derive(Debug)]
pub struct Following {
    wanted: Wanted,
    used: Digest,
    /// The number of the answer that it was last looked after for.
    looked: Option<u64>,
    /// Answers since the last attempt that failed.
    failed: Option<usize>,
    inbox: Inbox,
}

/// PPO that serves a base model, and goes over to another version when it is there.
#[derive(Debug)]
pub struct Follower {
    policy: Ppo,
    inbox: Inbox,
}

/// A network that this program can serve.
fn servable(bytes: &[u8]) -> Result<ActorCritic, Error> {
    let network = ActorCritic::load(bytes)?;
    ppo::check(network.config())?;
    if ppo::is_residual(network.config()) {
        let bound = "that of a network which decides alone";
        return Err(Invalid::new("observation", network.config().observation, bound).into());
    }
    Ok(network)
}

impl Following {
    /// Begins with what was found at the start: the policy, the reward that belongs to it, and who keeps it up to date.
    ///
    /// # Errors
    /// If it is no network that can be served.
    pub fn begin(wanted: Wanted, found: &Found) -> Result<(Follower, Shape, Self), Error> {
        let network = servable(&found.bytes)?;
        let (shape, inbox) = (network.config().reward, Inbox::default());
        let policy = Follower { policy: Ppo::serving(Arc::new(network)), inbox: inbox.clone() };
        Ok((policy, shape, Self { wanted, used: found.digest, looked: None, failed: None, inbox }))
    }

    /// The workload is of another category than it was thought to be.
    pub fn recategorise(&mut self, category: Category) {
        if self.wanted.recategorise(category) {
            self.looked = None;
        }
    }

    /// Hears an answer's number, and looks for another version if it is a new one. Says with which reward it goes on if
    /// there is another.
    pub async fn hear<L: Link>(&mut self, named: Option<u64>, membership: &mut Membership<L>) -> Option<Shape> {
        if named.is_none() || named == self.looked {
            return None;
        }
        if let Some(since) = &mut self.failed {
            *since += 1;
            if *since < RETRY_AFTER {
                return None;
            }
        }
        let found = membership.find(&self.wanted, Some(self.used)).await;
        let taken = match found {
            Ok(None) => Ok(None),
            Ok(Some(found)) => servable(&found.bytes).map(|network| Some((found, network))).map_err(|e| e.to_string()),
            Err(error) => Err(error.to_string()),
        };
        match taken {
            Ok(taken) => {
                (self.looked, self.failed) = (named, None);
                let (found, network) = taken?;
                let Found { model, version, digest, .. } = found;
                info!(agent = %membership.name(), %model, version, %digest, "going over to another version");
                self.used = digest;
                let shape = network.config().reward;
                *self.inbox.0.lock() = Some(Arc::new(network));
                Some(shape)
            }
            Err(reason) => {
                if self.failed.is_none() {
                    warn!(agent = %membership.name(), reason, "cannot look for another version of the base model");
                }
                self.failed = Some(0);
                None
            }
        }
    }
}

impl Policy for Follower {
    fn name(&self) -> &'static str {
        self.policy.name()
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, Error> {
        if let Some(network) = self.inbox.0.lock().take() {
            self.policy.set_network(network);
        }
        self.policy.decide(view)
    }

    fn feedback(&mut self, feedback: Feedback) -> Result<(), Error> {
        self.policy.feedback(feedback)
    }

    fn wants(&self) -> Aspects {
        self.policy.wants()
    }

    fn reset(&mut self) {
        self.policy.reset();
    }
}
