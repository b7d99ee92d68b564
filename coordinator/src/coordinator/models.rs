//! What the handle does with base models. Whatever changes one may wait for the disk, and is one commit with its entry in the
//! audit log if somebody is named.

use std::{path::Path, sync::Arc};

use futures_executor::block_on;
use meanfield_common::{
    identity::{AgentId, ModelName},
    reward::Reward,
};
use serde_json::{Value, json};

use super::Coordinator;
use crate::{
    audit::{Actor, Log, Note},
    error::Error,
    events::{About, Kind},
    ledger::Change,
    models::{self, Document, Model, Models, Provenance, Rest, Said, Source, Version},
    orders::{Ordered, Terms},
    store::{Store, Write},
};

/// Brings what the store knows of base models in line with their files, in one commit: documents of an earlier layout are
/// taken over, and a model whose directory was moved away is forgotten, which the audit log says as of any removal.
pub(super) fn settle(
    store: &mut dyn Store,
    log: &Log,
    data_dir: Option<&Path>,
    mut documents: Vec<(ModelName, Document)>,
    now: u64,
) -> Result<Vec<(ModelName, Document)>, Error> {
    let (old, missing) = (Models::old(data_dir, &documents)?, Models::missing(data_dir, &documents)?);
    if old.is_empty() && missing.is_empty() {
        return Ok(documents);
    }
    let (mut writes, mut notes) = (Vec::new(), Vec::new());
    for (name, document) in documents.extract_if(.., |(name, _)| missing.contains(name)) {
        tracing::warn!(model = %name, "the files of a base model are gone: it is removed");
        let (target, before) = (format!("models/{name}"), json!(document.serving()).to_string());
        let after = Value::Null.to_string();
        notes.push(Note { actor: Actor::own(), action: "model.remove", target, before, after });
        writes.push(Write::Model(name, None));
    }
    writes.extend(old.iter().map(|(name, document)| Write::Model(name.clone(), Some(document.clone()))));
    let draft = log.draft(notes, now);
    writes.extend(draft.writes());
    store.commit(&writes)?;
    log.append(draft);
    documents.extend(old);
    Ok(documents)
}

/// Whose change it is, and where it goes.
struct ByWhom<'a>(&'a Coordinator, Option<&'a Actor>);

impl Rest for ByWhom<'_> {
    /// Waits for the store's thread, as its callers wait for files.
    fn ready(&self) -> Result<(), Error> {
        self.0.0.writer.hindrance().map_or(Ok(()), Err)
    }

    fn commit(&self, name: &ModelName, document: Option<Document>, said: &Said) -> Result<(), Error> {
        let Self(coordinator, by) = self;
        let Said { action, target, before, after } = said;
        let note = by.cloned().map(|actor| {
            let (before, after) = (before.to_string(), after.to_string());
            Note { actor, action, target: target.clone(), before, after }
        });
        block_on(coordinator.0.writer.submit(Change::Model(name.clone(), document, note))).map(drop)
    }

    fn tell(&self, name: &ModelName, said: Said) {
        let Said { action, before, after, .. } = said;
        if before != after {
            let detail = Some(json!({ "action": action, "model": name, "after": after }));
            self.0.0.membership.events().publish(Kind::Model, About { detail, ..About::default() });
        }
    }
}

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

    /// A version of a base model as an operator uploads it now.
    ///
    /// # Errors
    /// If the bytes are no network.
    pub fn uploaded(&self, bytes: Vec<u8>) -> Result<Box<Version>, Error> {
        let provenance = Provenance { made_unix_ms: self.0.clock.wall(), source: Source::Upload };
        Ok(Box::new(Version::new(bytes, provenance)?))
    }

    /// Carries out an order about a base model under its terms, or only says what would happen; returns when it is durable.
    ///
    /// # Errors
    /// If there is no such model or version, a new version has another shape than the served one, the model was never served
    /// otherwise, the order was made for another state than there is, or the disk fails.
    pub fn order_model(&self, name: &ModelName, order: models::Order, terms: &Terms) -> Result<Ordered, Error> {
        let ordered = self.0.models.order(name, order, terms, &ByWhom(self, terms.actor.as_ref()));
        let ordered = ordered.inspect_err(|error| {
            // Whoever asked is not told where files are.
            if let Error::Models(models::Error::Io { .. } | models::Error::Damaged { .. }) = error {
                tracing::error!(model = %name, %error, "cannot change a base model");
            }
        })?;
        if !ordered.dry_run {
            let actor = terms.actor.as_ref().map_or("the program", |actor| actor.name());
            self.0.metrics.orders.inc();
            tracing::info!(actor, action = ordered.action, target = ordered.target, after = %ordered.after, "ordered");
        }
        Ok(ordered)
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
        self.0.models.average_all(self.0.clock.wall(), &ByWhom(self, None));
    }
}
