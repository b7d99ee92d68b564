//! What a training leaves behind and goes on from.

use meanfield_common::invalid::Invalid;
use meanfield_learner::{ActorCritic, Config, Learner};

use super::Trainer;
use crate::{Error, link::Link};

/// What training goes on from, besides its settings: checkpoints of the learners and of the base models.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Saved {
    /// Episodes done.
    pub iteration: u64,
    /// In the order of places or categories.
    pub learners: Vec<Vec<u8>>,
    /// In the order of categories; none without base models.
    pub bases: Vec<Vec<u8>>,
}

impl<L: Link> Trainer<L> {
    /// Everything that a later [`Trainer::resume`] needs.
    pub fn save(&self) -> Result<Saved, Error> {
        let learners = self.learners.iter().map(Learner::save).collect::<Result<_, _>>()?;
        let bases = self.bases.iter().map(ActorCritic::save).collect::<Result<_, _>>()?;
        Ok(Saved { iteration: self.iteration, learners, bases })
    }

    /// Whether what was saved has as many networks as this training, of the same shape.
    pub fn fits(&self, saved: &Saved) -> Result<(), Error> {
        self.open(saved).map(drop)
    }

    fn open(&self, saved: &Saved) -> Result<(Vec<Learner>, Vec<ActorCritic>), Error> {
        let learners = saved.learners.iter().map(|bytes| Learner::load(bytes)).collect::<Result<Vec<_>, _>>()?;
        let bases = saved.bases.iter().map(|bytes| ActorCritic::load(bytes)).collect::<Result<Vec<_>, _>>()?;
        for config in configs(&learners, &bases) {
            if shape(config) != shape(&self.config) {
                return Err(Invalid::new("checkpoint's networks", shape(config), shape(&self.config)).into());
            }
        }
        for (field, found, wanted) in [
            ("checkpoint's networks", learners.len(), self.learners.len()),
            ("checkpoint's base models", bases.len(), self.bases.len()),
        ] {
            if found != wanted {
                return Err(Invalid::new(field, found, wanted.to_string()).into());
            }
        }
        Ok((learners, bases))
    }

    /// Goes on from what was saved. The numbers are those of a training that was never interrupted but restarted its
    /// agents ([`Trainer::restart`]) at the same episode.
    pub fn resume(&mut self, saved: &Saved, link: impl FnMut(usize) -> L) -> Result<(), Error> {
        let (learners, bases) = self.open(saved)?;
        if configs(&learners, &bases).any(|config| *config != self.config) {
            return Err(Invalid::new("checkpoint's settings", "others", "those of this training").into());
        }
        (self.learners, self.bases, self.iteration) = (learners, bases, saved.iteration);
        let scenario = self.scenario.clone();
        self.restart(&scenario, link)
    }
}

fn configs<'a>(learners: &'a [Learner], bases: &'a [ActorCritic]) -> impl Iterator<Item = &'a Config> {
    learners.iter().map(Learner::network).chain(bases).map(ActorCritic::config)
}

/// The sizes of a pair of networks in words.
fn shape(config: &Config) -> String {
    let Config { observation, auxiliary, hidden, heads, .. } = config;
    format!("{observation}+{auxiliary} inputs, hidden {hidden:?}, heads {heads:?}")
}
