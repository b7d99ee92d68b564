//! Proximal policy optimisation: one update, top to bottom.
//!
//! An update makes several passes over a batch in shuffled minibatches. Each minibatch goes forward through both
//! networks, is scored by three named terms, goes backward, and moves the parameters by one Adam step. With `r` the
//! ratio of the action's probability now to that when it was taken, `A` its advantage and `R` its return:
//!
//! ```text
//! policy loss = -mean(min(r A, clip(r, 1 - clip, 1 + clip) A))
//! value loss  = mean((V - R)^2) / 2                        (not clipped)
//! entropy     = mean(sum over heads of -sum p log p)
//! loss        = policy loss - entropy weight * entropy + value weight * value loss
//! ```
//!
//! Advantages are normalised over the whole batch rather than per minibatch, since a minibatch of five, or the short one
//! at the end, says little about their scale.

use std::ops::Range;

use rand::SeedableRng;
use rand::seq::SliceRandom;
use rand_chacha::ChaCha8Rng;

use crate::actor_critic::ActorCritic;
use crate::adam::{self, Adam};
use crate::config::Config;
use crate::error::Error;
use crate::network::Scratch;
use crate::policy;
use crate::rollout::Batch;

/// What an update did, averaged over all its minibatches.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Stats {
    /// The clipped objective, to be minimised.
    pub policy_loss: f32,
    /// Half the mean squared error of the critic.
    pub value_loss: f32,
    /// Entropy of the policy over all heads, in nats.
    pub entropy: f32,
    /// How far the policy moved from the one that gathered the batch: mean of `r - 1 - log r`.
    pub approximate_kl: f32,
    /// Share of steps whose ratio left the clipping range.
    pub clip_fraction: f32,
    /// Length of the gradient before it was clipped.
    pub gradient_norm: f32,
}

/// The gradient of the loss over a whole batch, in the order of [`ActorCritic::parameters`].
#[derive(Debug)]
pub struct Gradients<'a> {
    /// The loss terms.
    pub stats: Stats,
    /// For the actor's parameters.
    pub actor: &'a [f32],
    /// For the critic's parameters.
    pub critic: &'a [f32],
}

/// Networks in training: parameters, optimisers and the randomness that shuffles.
#[derive(Debug, Clone)]
pub struct Learner {
    pub(crate) network: ActorCritic,
    pub(crate) optimisers: Optimisers,
    pub(crate) rng: ChaCha8Rng,
    workspace: Workspace,
}

/// One optimiser per network.
#[derive(Debug, Clone)]
pub(crate) struct Optimisers {
    pub(crate) actor: Adam,
    pub(crate) critic: Adam,
}

impl Optimisers {
    pub(crate) fn new(network: &ActorCritic) -> Self {
        let (actor, critic) = network.parameters();
        Self { actor: Adam::new(actor.len(), adam::EPSILON), critic: Adam::new(critic.len(), adam::EPSILON) }
    }
}

impl Learner {
    /// A learner with fresh networks.
    ///
    /// # Errors
    /// [`Error::Config`] when the configuration does not hold.
    pub fn new(config: Config, seed: u64) -> Result<Self, Error> {
        Ok(Self::from_network(ActorCritic::new(config, seed)?, seed))
    }

    /// A learner that goes on from given networks, with optimisers that have seen nothing.
    #[must_use]
    pub fn from_network(network: ActorCritic, seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        // The networks are drawn from stream 0 of the same seed.
        rng.set_stream(1);
        let optimisers = Optimisers::new(&network);
        Self::assemble(network, optimisers, rng)
    }

    pub(crate) fn assemble(network: ActorCritic, optimisers: Optimisers, rng: ChaCha8Rng) -> Self {
        let workspace = Workspace::new(&network, &optimisers, &rng);
        Self { network, optimisers, rng, workspace }
    }

    /// The networks as they are now.
    #[must_use]
    pub fn network(&self) -> &ActorCritic {
        &self.network
    }

    /// The networks, to replace parameters by [`ActorCritic::set_parameters`].
    pub fn network_mut(&mut self) -> &mut ActorCritic {
        &mut self.network
    }

    /// Improves the networks by one batch. `progress` goes from 0 to 1 over the training and sets the learning rate.
    ///
    /// # Errors
    /// [`Error::EmptyBatch`] or [`Error::Shape`] when the batch does not fit; [`Error::Diverged`] when a loss or gradient
    /// is not finite. After any error the learner is exactly as it was before.
    pub fn update(&mut self, batch: &Batch, progress: f32) -> Result<Stats, Error> {
        batch.check(&self.network.config)?;
        if !progress.is_finite() {
            return Err(Error::NonFinite { what: "progress" });
        }
        let learning_rate = self.network.config.learning_rate_at(progress);
        self.workspace.before.take(&self.network, &self.optimisers, &self.rng);
        let result = self.epochs(batch, learning_rate);
        if result.is_err() {
            self.workspace.before.put_back(&mut self.network, &mut self.optimisers, &mut self.rng);
        }
        result
    }

    fn epochs(&mut self, batch: &Batch, learning_rate: f32) -> Result<Stats, Error> {
        let Config { epochs, minibatch, max_gradient_norm, .. } = self.network.config;
        let steps = batch.len();
        self.workspace.prepare(batch, &self.network.config);
        let mut sums = Sums::default();
        for epoch in 0..epochs {
            self.workspace.order.shuffle(&mut self.rng);
            let mut start = 0;
            while start < steps {
                let end = steps.min(start.saturating_add(minibatch));
                self.workspace.losses(&self.network, batch, start..end, epoch, &mut sums)?;
                let norm = self.workspace.gradient_norm(epoch)?;
                let scale = adam::clip_scale(norm, max_gradient_norm);
                let (actor, critic) = (self.network.actor.parameters_mut(), self.network.critic.parameters_mut());
                self.optimisers.actor.step(actor, &self.workspace.actor_gradient, scale, learning_rate)?;
                self.optimisers.critic.step(critic, &self.workspace.critic_gradient, scale, learning_rate)?;
                sums.gradient(norm);
                start = end;
            }
        }
        Ok(sums.mean())
    }

    /// The gradient of the loss over the whole batch, without a step: for tests and for comparing engines.
    ///
    /// # Errors
    /// As for [`Learner::update`].
    pub fn gradients(&mut self, batch: &Batch) -> Result<Gradients<'_>, Error> {
        batch.check(&self.network.config)?;
        let mut sums = Sums::default();
        self.workspace.prepare(batch, &self.network.config);
        self.workspace.losses(&self.network, batch, 0..batch.len(), 0, &mut sums)?;
        sums.gradient(self.workspace.gradient_norm(0)?);
        let Workspace { actor_gradient: actor, critic_gradient: critic, .. } = &self.workspace;
        Ok(Gradients { stats: sums.mean(), actor, critic })
    }
}

/// Running sums behind [`Stats`]; in double precision, since they run over all steps of all epochs.
#[derive(Debug, Default)]
struct Sums {
    policy_loss: f64,
    value_loss: f64,
    entropy: f64,
    approximate_kl: f64,
    clipped: f64,
    steps: f64,
    gradient_norm: f64,
    minibatches: f64,
}

impl Sums {
    fn gradient(&mut self, norm: f32) {
        self.gradient_norm += f64::from(norm);
        self.minibatches += 1.0;
    }

    fn mean(&self) -> Stats {
        let per_step = |sum: f64| (sum / self.steps.max(1.0)) as f32;
        Stats {
            policy_loss: per_step(self.policy_loss),
            value_loss: per_step(self.value_loss),
            entropy: per_step(self.entropy),
            approximate_kl: per_step(self.approximate_kl),
            clip_fraction: per_step(self.clipped),
            gradient_norm: (self.gradient_norm / self.minibatches.max(1.0)) as f32,
        }
    }
}

/// Everything an update needs besides the batch and the parameters. It grows to the largest minibatch seen and stays.
#[derive(Debug, Clone)]
struct Workspace {
    order: Vec<usize>,
    advantages: Vec<f32>,
    actor_input: Vec<f32>,
    critic_input: Vec<f32>,
    log_probs: Vec<f32>,
    logit_gradient: Vec<f32>,
    value_gradient: Vec<f32>,
    actor_scratch: Scratch,
    critic_scratch: Scratch,
    actor_gradient: Vec<f32>,
    critic_gradient: Vec<f32>,
    before: Snapshot,
}

impl Workspace {
    fn new(network: &ActorCritic, optimisers: &Optimisers, rng: &ChaCha8Rng) -> Self {
        let (actor, critic) = network.parameters();
        Self {
            order: Vec::new(),
            advantages: Vec::new(),
            actor_input: Vec::new(),
            critic_input: Vec::new(),
            log_probs: Vec::new(),
            logit_gradient: Vec::new(),
            value_gradient: Vec::new(),
            actor_scratch: Scratch::default(),
            critic_scratch: Scratch::default(),
            actor_gradient: vec![0.0; actor.len()],
            critic_gradient: vec![0.0; critic.len()],
            before: Snapshot {
                actor: actor.to_vec(),
                critic: critic.to_vec(),
                optimisers: optimisers.clone(),
                rng: rng.clone(),
            },
        }
    }

    fn prepare(&mut self, batch: &Batch, config: &Config) {
        self.order.clear();
        self.order.extend(0..batch.len());
        self.advantages.clear();
        self.advantages.extend_from_slice(batch.advantages());
        if config.normalise_advantages {
            normalise(&mut self.advantages);
        }
    }

    /// Scores one minibatch and leaves the gradient of its loss in the two gradient vectors.
    fn losses(
        &mut self,
        network: &ActorCritic,
        batch: &Batch,
        range: Range<usize>,
        epoch: usize,
        sums: &mut Sums,
    ) -> Result<(), Error> {
        let config = &network.config;
        let heads = &config.heads;
        let logits = network.actor.outputs();
        let count = range.len();
        let share = 1.0 / count as f32;
        let steps = &self.order[range];

        self.actor_input.clear();
        self.critic_input.clear();
        for &step in steps {
            self.actor_input.extend_from_slice(batch.observation(step));
            self.critic_input.extend_from_slice(batch.observation(step));
            self.critic_input.extend_from_slice(batch.auxiliary(step));
        }

        // Policy loss and entropy, and their gradient with respect to the logits.
        let output = network.actor.forward(&self.actor_input, count, &mut self.actor_scratch)?;
        self.log_probs.clear();
        self.log_probs.extend_from_slice(output);
        self.logit_gradient.clear();
        self.logit_gradient.resize(count * logits, 0.0);
        let (mut policy_loss, mut entropy, mut approximate_kl, mut clipped) = (0.0, 0.0, 0.0, 0.0);
        let rows = self.log_probs.chunks_exact_mut(logits).zip(self.logit_gradient.chunks_exact_mut(logits));
        for (&step, (log_probs, gradient)) in steps.iter().zip(rows) {
            let mask = config.mask_actions.then(|| batch.mask(step));
            policy::normalise(heads, log_probs, mask).map_err(|_| Error::Diverged { term: "policy output", epoch })?;

            let advantage = self.advantages[step];
            let log_ratio = policy::log_prob(heads, log_probs, batch.actions(step)) - batch.log_prob(step);
            let ratio = log_ratio.exp();
            let nearest = ratio.clamp(1.0 - config.clip, 1.0 + config.clip);
            let (free, bounded) = (ratio * advantage, nearest * advantage);
            policy_loss -= f64::from(free.min(bounded));
            approximate_kl += f64::from(ratio - 1.0 - log_ratio);
            clipped += f64::from(u8::from(ratio != nearest));
            // Where the bounded term is the smaller one, it is constant in the parameters.
            let pull = if free <= bounded { -free * share } else { 0.0 };

            let mut start = 0;
            for (&size, &action) in heads.iter().zip(batch.actions(step)) {
                let head = &log_probs[start..start + size];
                let head_gradient = &mut gradient[start..start + size];
                let head_entropy = policy::head_entropy(head);
                entropy += f64::from(head_entropy);
                for (gradient, &log_prob) in head_gradient.iter_mut().zip(head) {
                    // A masked action has no probability, and its logit no influence.
                    if log_prob > f32::NEG_INFINITY {
                        let probability = log_prob.exp();
                        let bonus = config.entropy * share * (log_prob + head_entropy);
                        *gradient = probability * (bonus - pull);
                    }
                }
                head_gradient[usize::from(action)] += pull;
                start += size;
            }
        }

        // Value loss, and its gradient with respect to the critic's output.
        let values = network.critic.forward(&self.critic_input, count, &mut self.critic_scratch)?;
        self.value_gradient.clear();
        let mut value_loss = 0.0;
        for (&step, &value) in steps.iter().zip(values) {
            let error = value - batch.returns()[step];
            value_loss += f64::from(0.5 * error * error);
            self.value_gradient.push(config.value_weight * share * error);
        }

        for (term, sum) in [("policy loss", policy_loss), ("entropy", entropy), ("value loss", value_loss)] {
            if !sum.is_finite() {
                return Err(Error::Diverged { term, epoch });
            }
        }
        sums.policy_loss += policy_loss;
        sums.value_loss += value_loss;
        sums.entropy += entropy;
        sums.approximate_kl += approximate_kl;
        sums.clipped += clipped;
        sums.steps += count as f64;

        self.actor_gradient.fill(0.0);
        self.critic_gradient.fill(0.0);
        let Self { actor_scratch, critic_scratch, actor_gradient, critic_gradient, .. } = self;
        network.actor.backward(&self.actor_input, &self.logit_gradient, count, actor_scratch, actor_gradient)?;
        network.critic.backward(&self.critic_input, &self.value_gradient, count, critic_scratch, critic_gradient)
    }

    fn gradient_norm(&self, epoch: usize) -> Result<f32, Error> {
        let norm = adam::global_norm(&[&self.actor_gradient, &self.critic_gradient]);
        if norm.is_finite() {
            return Ok(norm);
        }
        let actor_is_fine = adam::global_norm(&[&self.actor_gradient]).is_finite();
        Err(Error::Diverged { term: if actor_is_fine { "critic gradient" } else { "actor gradient" }, epoch })
    }
}

/// Shifts and scales to mean 0 and deviation 1. A constant, or a single value, becomes 0.
fn normalise(values: &mut [f32]) {
    let count = values.len() as f64;
    let mean = values.iter().map(|&v| f64::from(v)).sum::<f64>() / count;
    let variance = values.iter().map(|&v| (f64::from(v) - mean).powi(2)).sum::<f64>() / (count - 1.0).max(1.0);
    let deviation = variance.sqrt() + 1e-8;
    values.iter_mut().for_each(|v| *v = ((f64::from(*v) - mean) / deviation) as f32);
}

/// The learner's state before an update, kept so that a failed one leaves no trace.
#[derive(Debug, Clone)]
struct Snapshot {
    actor: Vec<f32>,
    critic: Vec<f32>,
    optimisers: Optimisers,
    rng: ChaCha8Rng,
}

impl Snapshot {
    fn take(&mut self, network: &ActorCritic, optimisers: &Optimisers, rng: &ChaCha8Rng) {
        let (actor, critic) = network.parameters();
        self.actor.copy_from_slice(actor);
        self.critic.copy_from_slice(critic);
        self.optimisers.actor.copy_from(&optimisers.actor);
        self.optimisers.critic.copy_from(&optimisers.critic);
        self.rng.clone_from(rng);
    }

    fn put_back(&self, network: &mut ActorCritic, optimisers: &mut Optimisers, rng: &mut ChaCha8Rng) {
        network.actor.parameters_mut().copy_from_slice(&self.actor);
        network.critic.parameters_mut().copy_from_slice(&self.critic);
        optimisers.actor.copy_from(&self.optimisers.actor);
        optimisers.critic.copy_from(&self.optimisers.critic);
        rng.clone_from(&self.rng);
    }
}
