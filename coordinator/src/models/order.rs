//! What operators want of base models: an [`Order`] gives one model a new state, or ends it, under its terms.
//!
//! All of it is decided under the lock that every change takes, averages too; so of two who saw the same state one wins.

use std::{collections::BTreeMap, sync::Arc};

use meanfield_common::{digest::Digest, identity::ModelName, invalid::Invalid};
use serde_json::{Value, json};

use super::{Document, Error, MOST_MODELS, Model, Models, Rest, Said, SameShape, Serving, Version};
use crate::orders::{Ordered, Terms};

/// What an operator wants of a base model.
#[derive(Debug, Clone, PartialEq)]
pub enum Order {
    /// Takes a version in. The first one of a model is served at once, a later one when [`Self::Serve`] says so.
    Add(Box<Version>),
    /// Says what agents get.
    Serve(Serving),
    /// Goes back to what agents got before the last change, and pins it, so that no average undoes that.
    RollBack,
    /// Forgets the model with all of its versions.
    Remove,
}

impl Models {
    /// Carries out an order, or only says what would happen.
    pub(crate) fn order(
        &self,
        name: &ModelName,
        order: Order,
        terms: &Terms,
        rest: &dyn Rest,
    ) -> Result<Ordered, crate::Error> {
        let _change = self.change.lock();
        let found = self.models.read().get(name).cloned();
        let model = found.as_deref();
        if model.is_none() && !matches!(order, Order::Add(_)) {
            return Err(Error::Unknown(name.clone()).into());
        }
        terms.check(&format_args!("models/{name}"), model.map(|model| model.tag(name)))?;
        let (next, said) = match (order, model) {
            (Order::Add(version), None) => self.first(name, *version)?,
            (Order::Add(version), Some(model)) => {
                version.network.config().same_shape(model.version(model.serving.version)?.network.config())?;
                self.extended(name, model, *version, "model.add", false)
            }
            (Order::Serve(serving), Some(model)) => model.served(name, "model.serve", serving)?,
            (Order::RollBack, Some(model)) => {
                let previous = model.previous.ok_or_else(|| Error::NoPrevious(name.clone()))?;
                model.served(name, "model.rollback", Serving { pinned: true, ..previous })?
            }
            (Order::Remove, Some(model)) => {
                let (target, before) = (format!("models/{name}"), json!(model.serving));
                (None, Said { action: "model.remove", target, before, after: Value::Null })
            }
            (_, None) => return Err(Error::Unknown(name.clone()).into()),
        };
        let ordered = Ordered {
            action: said.action.to_owned(),
            target: said.target.clone(),
            before: said.before.clone(),
            after: said.after.clone(),
            changed: said.before != said.after,
            dry_run: terms.dry_run,
            etag: next.as_ref().map(|next| next.tag(name)),
        };
        if !terms.dry_run {
            self.make(name, model, next, said, rest)?;
        }
        Ok(ordered)
    }

    fn first(&self, name: &ModelName, version: Version) -> Result<(Option<Model>, Said), Error> {
        if self.models.read().len() >= MOST_MODELS {
            return Err(Invalid::new("model", name, format!("one of at most {MOST_MODELS} models")).into());
        }
        let said = added(name, "model.add", 1, &version);
        let (versions, serving) = (BTreeMap::from([(1, Arc::new(version))]), Serving::of(1));
        Ok((Some(Model { versions, serving, previous: None }), said))
    }

    /// A model with one more version, which is served at once if it is promoted.
    pub(super) fn extended(
        &self,
        name: &ModelName,
        model: &Model,
        version: Version,
        action: &'static str,
        promote: bool,
    ) -> (Option<Model>, Said) {
        let mut next = model.clone();
        let number = model.versions.last_key_value().map_or(1, |(last, _)| last + 1);
        let said = added(name, action, number, &version);
        next.versions.insert(number, Arc::new(version));
        if promote {
            next.previous = Some(next.serving);
            next.serving.version = number;
        }
        next.forget(self.options.kept, number);
        (Some(next), said)
    }
}

impl Model {
    /// By what this state of it is known: its versions, what is served and what was before. What agents have handed in is no
    /// part of it.
    pub(crate) fn tag(&self, name: &ModelName) -> Digest {
        // Names and numbers always serialise.
        let document = serde_json::to_string(&Document::from(self)).unwrap_or_default();
        Digest::of(format!("models/{name}\n{document}").as_bytes())
    }

    fn served(&self, name: &ModelName, action: &'static str, serving: Serving) -> Result<(Option<Self>, Said), Error> {
        serving.check(&self.versions)?;
        let target = format!("models/{name}/serving");
        let said = Said { action, target, before: json!(self.serving), after: json!(serving) };
        // The same again is an order too, and changes nothing that could be gone back to.
        let previous = if serving == self.serving { self.previous } else { Some(self.serving) };
        Ok((Some(Self { serving, previous, ..self.clone() }), said))
    }
}

fn added(name: &ModelName, action: &'static str, number: u64, version: &Version) -> Said {
    let after = json!({ "version": number, "digest": version.digest() });
    Said { action, target: format!("models/{name}"), before: Value::Null, after }
}
