//! The same PPO on LibTorch, through the package `tch`: the reference that the native engine is compared with.
//!
//! A [`Learner`] takes over everything from a native one, parameters, moments of Adam and the randomness that shuffles, and
//! hands it back; so a training can change engines at any time, and both write the same checkpoints. Given the same batch,
//! both go through the same minibatches and end at the same parameters, up to rounding (`tests/torch_parity.rs`).
//! Here LibTorch computes: its matrix products, its log-softmax, its automatic gradient. Nothing is shared with the native
//! arithmetic but the layout of the parameters.
//!
//! It is many times slower than the native engine for networks as small as ours (docs/learning-engine.md).

mod loss;
mod network;

use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;
use tch::{TchError, Tensor};

use self::loss::{Steps, Terms, log_probs};
use self::network::{Network, flat, squared_length};
use crate::actor_critic::{ActorCritic, finite};
use crate::adam;
use crate::config::Config;
use crate::error::Error;
use crate::network::expect;
use crate::policy::Choice;
use crate::ppo::{self, Optimisers, Stats};
use crate::rollout::Batch;

impl From<TchError> for Error {
    fn from(error: TchError) -> Self {
        Self::Torch { reason: error.to_string() }
    }
}

/// The gradient of the loss over a whole batch, in the order of [`ActorCritic::parameters`].
#[derive(Debug, Clone)]
pub struct Gradients {
    /// The loss terms.
    pub stats: Stats,
    /// For the actor's parameters.
    pub actor: Vec<f32>,
    /// For the critic's parameters.
    pub critic: Vec<f32>,
}

/// Networks in training on LibTorch.
#[derive(Debug)]
pub struct Learner {
    config: Config,
    actor: Network,
    critic: Network,
    rng: ChaCha8Rng,
}

impl Learner {
    /// Goes on where a native learner is.
    ///
    /// # Errors
    /// [`Error::Torch`] when LibTorch cannot.
    pub fn from_native(native: &ppo::Learner) -> Result<Self, Error> {
        let ppo::Learner { network, optimisers, rng, .. } = native;
        let activation = network.config.activation;
        Ok(Self {
            config: network.config.clone(),
            actor: Network::new(&network.actor, activation, &optimisers.actor)?,
            critic: Network::new(&network.critic, activation, &optimisers.critic)?,
            rng: rng.clone(),
        })
    }

    /// A native learner that goes on where this one is.
    ///
    /// # Errors
    /// [`Error::Torch`] when LibTorch cannot.
    pub fn to_native(&self) -> Result<ppo::Learner, Error> {
        let mut network = ActorCritic::zeros(self.config.clone())?;
        network.set_parameters(&self.actor.parameters()?, &self.critic.parameters()?)?;
        let mut optimisers = Optimisers::new(&network);
        self.actor.adam.fill(&mut optimisers.actor)?;
        self.critic.adam.fill(&mut optimisers.critic)?;
        Ok(ppo::Learner::assemble(network, optimisers, self.rng.clone()))
    }

    /// As [`ppo::Learner::update`].
    ///
    /// # Errors
    /// As there, and [`Error::Torch`] when LibTorch cannot. After any error the learner is exactly as it was before.
    pub fn update(&mut self, batch: &Batch, progress: f32) -> Result<Stats, Error> {
        batch.check(&self.config)?;
        finite("progress", &[progress])?;
        let learning_rate = self.config.learning_rate_at(progress);
        let mut next = Self {
            config: self.config.clone(),
            actor: self.actor.copy()?,
            critic: self.critic.copy()?,
            rng: self.rng.clone(),
        };
        let stats = next.epochs(batch, learning_rate)?;
        *self = next;
        Ok(stats)
    }

    fn epochs(&mut self, batch: &Batch, learning_rate: f32) -> Result<Stats, Error> {
        let steps = Steps::new(batch, &self.config)?;
        let mut order: Vec<usize> = (0..batch.len()).collect();
        let mut sums = Sums::default();
        for epoch in 0..self.config.epochs {
            order.shuffle(&mut self.rng);
            for minibatch in order.chunks(self.config.minibatch) {
                let backward = self.backward(&steps.select(minibatch)?, epoch)?;
                let Backward { mut actor, mut critic, norm, .. } = backward;
                let scale = adam::clip_scale(norm as f32, self.config.max_gradient_norm);
                if scale < 1.0 {
                    let _ = actor.f_mul_scalar_(f64::from(scale))?;
                    let _ = critic.f_mul_scalar_(f64::from(scale))?;
                }
                self.actor.step(&actor, learning_rate)?;
                self.critic.step(&critic, learning_rate)?;
                sums.add(&backward.terms, minibatch.len(), norm);
            }
        }
        Ok(sums.mean())
    }

    /// As [`ppo::Learner::gradients`].
    ///
    /// # Errors
    /// As for [`Learner::update`].
    pub fn gradients(&self, batch: &Batch) -> Result<Gradients, Error> {
        batch.check(&self.config)?;
        let Backward { terms, actor, critic, norm } = self.backward(&Steps::new(batch, &self.config)?, 0)?;
        let mut sums = Sums::default();
        sums.add(&terms, batch.len(), norm);
        Ok(Gradients { stats: sums.mean(), actor: Vec::try_from(actor)?, critic: Vec::try_from(critic)? })
    }

    fn backward(&self, steps: &Steps, epoch: usize) -> Result<Backward, Error> {
        let terms = Terms::new(&self.config, &self.actor, &self.critic, steps)?;
        let numbers = terms.numbers()?;
        for (term, number) in ["policy loss", "value loss", "entropy"].into_iter().zip(&numbers) {
            if !number.is_finite() {
                return Err(Error::Diverged { term, epoch });
            }
        }
        let views: Vec<&Tensor> = self.actor.views().iter().chain(self.critic.views()).collect();
        let gradients = Tensor::f_run_backward(&[terms.total(&self.config)?], &views, false, false)?;
        let (actor, critic) = gradients.split_at(self.actor.views().len());
        let (actor, critic) = (flat(actor)?, flat(critic)?);
        let squares = [("actor gradient", squared_length(&actor)?), ("critic gradient", squared_length(&critic)?)];
        for (term, square) in squares {
            if !square.is_finite() {
                return Err(Error::Diverged { term, epoch });
            }
        }
        let norm = squares.iter().map(|(_, square)| square).sum::<f64>().sqrt();
        Ok(Backward { terms: numbers, actor, critic, norm })
    }

    /// Log-probabilities of all actions for observations laid end to end, with masks of the same number or none.
    ///
    /// # Errors
    /// [`Error::Shape`] for lengths that do not fit, [`Error::Torch`] when LibTorch cannot.
    pub fn log_probs(&self, observations: &[f32], masks: Option<&[bool]>) -> Result<Vec<f32>, Error> {
        let heads = self.heads(observations, masks)?;
        Ok(Vec::try_from(Tensor::f_cat(&heads, 1)?.f_reshape(-1)?)?)
    }

    /// The critic's values for states, each an observation and an auxiliary, laid end to end.
    ///
    /// # Errors
    /// As for [`Learner::log_probs`].
    pub fn values(&self, states: &[f32]) -> Result<Vec<f32>, Error> {
        let width = self.config.observation + self.config.auxiliary;
        expect("states", states.len() / width * width, states.len())?;
        let states = Tensor::f_from_slice(states)?.f_view([-1, width as i64])?;
        let _guard = tch::no_grad_guard();
        Ok(Vec::try_from(self.critic.forward(&states)?.f_reshape(-1)?)?)
    }

    /// The most likely action of each head.
    ///
    /// # Errors
    /// As for [`Learner::log_probs`].
    pub fn greedy(&self, observation: &[f32], mask: Option<&[bool]>) -> Result<Choice, Error> {
        expect("observation", self.config.observation, observation.len())?;
        finite("observation", observation)?;
        let (mut actions, mut total) = (Vec::with_capacity(self.config.heads.len()), 0.0);
        for head in self.heads(observation, mask)? {
            let (log_prob, action) = head.f_max_dim(1, false)?;
            actions.push(action.f_int64_value(&[0])? as u8);
            total += log_prob.f_double_value(&[0])? as f32;
        }
        Choice::new(&actions, total)
    }

    fn heads(&self, observations: &[f32], masks: Option<&[bool]>) -> Result<Vec<Tensor>, Error> {
        let Config { observation, mask_actions, .. } = self.config;
        let count = observations.len() / observation;
        expect("observations", count * observation, observations.len())?;
        let masks = masks.filter(|_| mask_actions);
        if let Some(masks) = masks {
            expect("masks", count * self.config.logits(), masks.len())?;
        }
        let _guard = tch::no_grad_guard();
        let observations = Tensor::f_from_slice(observations)?.f_view([count as i64, observation as i64])?;
        let illegal = |masks: &[bool]| Tensor::f_from_slice(masks)?.f_view([count as i64, -1])?.f_logical_not();
        let illegal = masks.map(illegal).transpose()?;
        Ok(log_probs(&self.actor.forward(&observations)?, &self.config.heads, illegal.as_ref())?)
    }
}

/// What one minibatch says.
#[derive(Debug)]
struct Backward {
    terms: Vec<f64>,
    actor: Tensor,
    critic: Tensor,
    norm: f64,
}

/// Running sums behind [`Stats`], in the order of [`Terms`].
#[derive(Debug, Default)]
struct Sums {
    terms: [f64; 5],
    steps: f64,
    norms: f64,
    minibatches: f64,
}

impl Sums {
    fn add(&mut self, terms: &[f64], steps: usize, norm: f64) {
        for (sum, term) in self.terms.iter_mut().zip(terms) {
            *sum += term * steps as f64;
        }
        self.steps += steps as f64;
        self.norms += norm;
        self.minibatches += 1.0;
    }

    fn mean(&self) -> Stats {
        let [policy_loss, value_loss, entropy, approximate_kl, clip_fraction] =
            self.terms.map(|sum| (sum / self.steps) as f32);
        let gradient_norm = (self.norms / self.minibatches) as f32;
        Stats { policy_loss, value_loss, entropy, approximate_kl, clip_fraction, gradient_norm }
    }
}
