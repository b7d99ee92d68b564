//! The two networks of an agent: the actor, which sees only the agent's own state and so can decide alone, and the
//! critic, which also sees the aggregate of the other agents and is needed only for training.

use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use crate::config::Config;
use crate::error::Error;
use crate::network::{Mlp, Scratch, expect};
use crate::policy::{self, Choice};

/// Actor, critic, and the settings that say what their inputs and outputs mean.
#[derive(Debug, Clone, PartialEq)]
pub struct ActorCritic {
    pub(crate) config: Config,
    pub(crate) actor: Mlp,
    pub(crate) critic: Mlp,
}

/// How an action is picked.
#[derive(Debug)]
pub enum Mode<'a> {
    /// At random, by the policy's probabilities: for training.
    Sample(&'a mut ChaCha8Rng),
    /// The most likely one: for serving.
    Greedy,
}

/// Buffers for single decisions and values; keep one per thread and deciding allocates nothing after the first time.
#[derive(Debug, Clone, Default)]
pub struct ActScratch {
    network: Scratch,
    input: Vec<f32>,
}

impl ActorCritic {
    /// Fresh networks. The policy starts near uniform: its output weights are a hundredth of the usual size.
    ///
    /// # Errors
    /// [`Error::Config`] when the configuration does not hold.
    pub fn new(config: Config, seed: u64) -> Result<Self, Error> {
        config.validate()?;
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let Config { observation, auxiliary, activation, ref hidden, .. } = config;
        let actor = Mlp::new(observation, hidden, config.logits(), activation, 0.01, rng);
        let critic = Mlp::new(observation + auxiliary, hidden, 1, activation, 1.0, rng);
        Ok(Self { config, actor, critic })
    }

    /// The same networks with zero parameters, to be filled from elsewhere.
    pub(crate) fn zeros(config: Config) -> Result<Self, Error> {
        config.validate()?;
        let Config { observation, auxiliary, activation, ref hidden, .. } = config;
        let actor = Mlp::zeros(observation, hidden, config.logits(), activation);
        let critic = Mlp::zeros(observation + auxiliary, hidden, 1, activation);
        Ok(Self { config, actor, critic })
    }

    /// Chooses an action. The mask is ignored when the configuration says `mask_actions: false`.
    ///
    /// # Errors
    /// [`Error::Shape`] or [`Error::NonFinite`] for a bad observation or mask, [`Error::MaskedHead`] when nothing is legal.
    pub fn act(
        &self,
        observation: &[f32],
        mask: Option<&[bool]>,
        mode: Mode<'_>,
        scratch: &mut ActScratch,
    ) -> Result<Choice, Error> {
        finite("observation", observation)?;
        expect("observation", self.config.observation, observation.len())?;
        let logits = self.actor.forward_mut(observation, 1, &mut scratch.network)?;
        let heads = &self.config.heads;
        policy::normalise(heads, logits, self.effective(mask))?;
        Ok(match mode {
            Mode::Sample(rng) => policy::sample(heads, logits, rng),
            Mode::Greedy => policy::greedy(heads, logits),
        })
    }

    /// The critic's estimate of the discounted reward to come.
    ///
    /// # Errors
    /// [`Error::Shape`] or [`Error::NonFinite`] for bad inputs.
    pub fn value(&self, observation: &[f32], auxiliary: &[f32], scratch: &mut ActScratch) -> Result<f32, Error> {
        expect("observation", self.config.observation, observation.len())?;
        expect("auxiliary", self.config.auxiliary, auxiliary.len())?;
        finite("observation", observation)?;
        finite("auxiliary", auxiliary)?;
        scratch.input.clear();
        scratch.input.extend_from_slice(observation);
        scratch.input.extend_from_slice(auxiliary);
        let output = self.critic.forward(&scratch.input, 1, &mut scratch.network)?;
        output.first().copied().filter(|value| value.is_finite()).ok_or(Error::NonFinite { what: "value" })
    }

    /// The settings the networks were built with.
    #[must_use]
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The actor.
    #[must_use]
    pub fn actor(&self) -> &Mlp {
        &self.actor
    }

    /// The critic.
    #[must_use]
    pub fn critic(&self) -> &Mlp {
        &self.critic
    }

    /// Parameters of the actor and the critic. Two networks of one configuration agree on their order.
    #[must_use]
    pub fn parameters(&self) -> (&[f32], &[f32]) {
        (self.actor.parameters(), self.critic.parameters())
    }

    /// Replaces all parameters, or none.
    ///
    /// # Errors
    /// [`Error::Shape`] or [`Error::NonFinite`] when they cannot be those of these networks.
    pub fn set_parameters(&mut self, actor: &[f32], critic: &[f32]) -> Result<(), Error> {
        expect("actor parameters", self.actor.parameters().len(), actor.len())?;
        expect("critic parameters", self.critic.parameters().len(), critic.len())?;
        finite("actor parameters", actor)?;
        finite("critic parameters", critic)?;
        self.actor.parameters_mut().copy_from_slice(actor);
        self.critic.parameters_mut().copy_from_slice(critic);
        Ok(())
    }

    fn effective<'m>(&self, mask: Option<&'m [bool]>) -> Option<&'m [bool]> {
        mask.filter(|_| self.config.mask_actions)
    }
}

/// Fails if any value is NaN or infinite.
pub(crate) fn finite(what: &'static str, values: &[f32]) -> Result<(), Error> {
    // Not `all`: an early exit would keep the loop from running four values at a time.
    let bad = values.iter().fold(false, |bad, value| bad | !value.is_finite());
    if bad { Err(Error::NonFinite { what }) } else { Ok(()) }
}
