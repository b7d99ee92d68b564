//! What the handle does with base models. Whatever changes one may wait for the disk.

use std::sync::Arc;

use meanfield_common::{
    identity::{AgentId, ModelName},
    reward::Reward,
};

use super::Coordinator;
use crate::{
    error::Error,
    models::{self, Model, Provenance, Serving, Source, Version},
};

impl Coordinator {
    /// All base models, by name.
    #[must_use]
    pub fn models(&self) -> Vec<(ModelName, Arc<Model>)> {
        self.0.models.all()
    }

    /// One base model, and how many agents' last words wait for its next average.
    ///
    /// # Errors
    /// If there is none of this name.
    pub fn model(&self, name: &ModelName) -> Result<(Arc<Model>, usize), Error> {
        Ok((self.0.models.get(name)?, self.0.models.waiting(name)))
    }

    /// The version of a base model that an agent gets, or the one of a number.
    ///
    /// # Errors
    /// If there is none of this name or number.
    pub fn model_file(
        &self,
        name: &ModelName,
        version: Option<u64>,
        agent: Option<&str>,
    ) -> Result<(u64, Arc<Version>), Error> {
        Ok(self.0.models.get(name)?.choose(version, agent)?)
    }

    /// Takes a new version of a base model in, and returns its number when that is durable. The first one is served at
    /// once, a later one when [`Self::serve_model`] says so.
    ///
    /// # Errors
    /// If the bytes are no network, or one of another shape than the served one, or the disk fails.
    pub fn add_model(&self, name: &ModelName, bytes: Vec<u8>) -> Result<u64, Error> {
        let provenance = Provenance { made_unix_ms: self.0.clock.wall(), source: Source::Upload };
        let number = self.0.models.add(name, Version::new(bytes, provenance)?)?;
        tracing::info!(model = %name, version = number, "took in a version of a base model");
        Ok(number)
    }

    /// Says which version agents get, and returns when that is durable.
    ///
    /// # Errors
    /// If there is no such model or version, the share is out of bounds, or the disk fails.
    pub fn serve_model(&self, name: &ModelName, serving: Serving) -> Result<(), Error> {
        self.0.models.serve(name, serving)?;
        tracing::info!(model = %name, ?serving, "serves a base model");
        Ok(())
    }

    /// Goes back to what agents got before the last change, and pins it.
    ///
    /// # Errors
    /// If there is no such model, it was never served otherwise, or the disk fails.
    pub fn roll_back_model(&self, name: &ModelName) -> Result<Serving, Error> {
        let serving = self.0.models.roll_back(name)?;
        tracing::info!(model = %name, ?serving, "rolled a base model back");
        Ok(serving)
    }

    /// Forgets a base model with all of its versions.
    ///
    /// # Errors
    /// If there is no such model, or the disk fails.
    pub fn remove_model(&self, name: &ModelName) -> Result<(), Error> {
        self.0.models.remove(name)?;
        tracing::info!(model = %name, "forgot a base model");
        Ok(())
    }

    /// Takes in what a member has learnt, for the next average; it replaces what the same member said before. It is
    /// kept in memory only.
    ///
    /// # Errors
    /// If the agent is no member, there is no such model, or the bytes are no network that can be averaged with it.
    pub fn contribute(&self, name: &ModelName, agent: AgentId, bytes: &[u8], reward: Reward) -> Result<(), Error> {
        self.agent(agent)?;
        self.0.models.contribute(name, agent, models::network(bytes)?, reward)?;
        self.0.metrics.contributions.inc();
        Ok(())
    }

    /// Makes new versions of base models from what agents have handed in, where enough did. [`crate::serve`] calls
    /// this by itself.
    pub fn average_models(&self) {
        self.0.models.average_all(self.0.clock.wall());
    }
}
