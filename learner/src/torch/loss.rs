//! The loss of PPO as a graph of tensors, from which LibTorch works out the gradient by itself.

use tch::{Kind, TchError, Tensor};

use super::network::Network;
use crate::config::Config;
use crate::rollout::Batch;

/// Steps as tensors, one row each.
#[derive(Debug)]
pub(super) struct Steps {
    observations: Tensor,
    /// What the critic sees: observations and auxiliaries side by side.
    states: Tensor,
    /// Which actions a mask forbids.
    illegal: Option<Tensor>,
    actions: Tensor,
    log_probs: Tensor,
    advantages: Tensor,
    returns: Tensor,
}

impl Steps {
    pub(super) fn new(batch: &Batch, config: &Config) -> Result<Self, TchError> {
        let steps = 0..batch.len();
        let rows = |values: &[f32]| Tensor::f_from_slice(values)?.f_view([batch.len() as i64, -1]);
        let observations: Vec<f32> = steps.clone().flat_map(|step| batch.observation(step)).copied().collect();
        let state = |step| batch.observation(step).iter().chain(batch.auxiliary(step)).copied();
        let states: Vec<f32> = steps.clone().flat_map(state).collect();
        let actions: Vec<i64> = steps.clone().flat_map(|step| batch.actions(step)).map(|&one| i64::from(one)).collect();
        let log_probs: Vec<f32> = steps.clone().map(|step| batch.log_prob(step)).collect();
        let illegal: Vec<bool> = steps.flat_map(|step| batch.mask(step)).map(|legal| !legal).collect();
        let illegal = Tensor::f_from_slice(&illegal)?.f_view([batch.len() as i64, -1])?;
        Ok(Self {
            observations: rows(&observations)?,
            states: rows(&states)?,
            illegal: config.mask_actions.then_some(illegal),
            actions: Tensor::f_from_slice(&actions)?.f_view([batch.len() as i64, -1])?,
            log_probs: Tensor::f_from_slice(&log_probs)?,
            advantages: advantages(batch.advantages(), config)?,
            returns: Tensor::f_from_slice(batch.returns())?,
        })
    }

    /// Some of the steps, in that order.
    pub(super) fn select(&self, steps: &[usize]) -> Result<Self, TchError> {
        let steps: Vec<i64> = steps.iter().map(|&step| step as i64).collect();
        let steps = Tensor::f_from_slice(&steps)?;
        let some = |all: &Tensor| all.f_index_select(0, &steps);
        Ok(Self {
            observations: some(&self.observations)?,
            states: some(&self.states)?,
            illegal: self.illegal.as_ref().map(some).transpose()?,
            actions: some(&self.actions)?,
            log_probs: some(&self.log_probs)?,
            advantages: some(&self.advantages)?,
            returns: some(&self.returns)?,
        })
    }
}

fn advantages(raw: &[f32], config: &Config) -> Result<Tensor, TchError> {
    let raw = Tensor::f_from_slice(raw)?;
    if !config.normalise_advantages {
        return Ok(raw);
    }
    let wide = raw.f_to_kind(Kind::Double)?;
    let centred = wide.f_sub(&wide.f_mean(Kind::Double)?)?;
    // A single value has no deviation.
    if centred.numel() == 1 {
        return centred.f_to_kind(Kind::Float);
    }
    centred.f_div(&wide.f_std(true)?.f_add_scalar(1e-8)?)?.f_to_kind(Kind::Float)
}

/// Log-probabilities of all actions, head by head; of an illegal one minus infinity.
pub(super) fn log_probs(logits: &Tensor, heads: &[usize], illegal: Option<&Tensor>) -> Result<Vec<Tensor>, TchError> {
    let logits = match illegal {
        Some(illegal) => logits.f_masked_fill(illegal, f64::NEG_INFINITY)?,
        None => logits.shallow_clone(),
    };
    let sizes: Vec<i64> = heads.iter().map(|&size| size as i64).collect();
    let heads = logits.f_split_with_sizes(&sizes, 1)?;
    heads.iter().map(|head| head.f_log_softmax(1, Kind::Float)).collect()
}

/// The terms, each the mean over the steps given.
#[derive(Debug)]
pub(super) struct Terms {
    pub(super) policy_loss: Tensor,
    pub(super) value_loss: Tensor,
    pub(super) entropy: Tensor,
    pub(super) approximate_kl: Tensor,
    pub(super) clip_fraction: Tensor,
}

impl Terms {
    pub(super) fn new(config: &Config, actor: &Network, critic: &Network, steps: &Steps) -> Result<Self, TchError> {
        let logits = actor.forward(&steps.observations)?;
        let heads = log_probs(&logits, &config.heads, steps.illegal.as_ref())?;
        let mut log_prob = steps.log_probs.f_neg()?;
        let mut entropy = Tensor::f_zeros_like(&steps.log_probs)?;
        for (head, log_probs) in heads.iter().enumerate() {
            let action = steps.actions.f_narrow(1, head as i64, 1)?;
            log_prob = log_prob.f_add(&log_probs.f_gather(1, &action, false)?.f_squeeze_dim(1)?)?;
            // An impossible action adds nothing, though zero times infinity would not be a number.
            let finite = log_probs.f_masked_fill(&log_probs.f_isinf()?, 0.0)?;
            entropy = entropy.f_sub(&log_probs.f_exp()?.f_mul(&finite)?.f_sum_dim_intlist(1, false, Kind::Float)?)?;
        }
        let (log_ratio, clip) = (log_prob, f64::from(config.clip));
        let ratio = log_ratio.f_exp()?;
        let nearest = ratio.f_clamp(1.0 - clip, 1.0 + clip)?;
        let surrogate = ratio.f_mul(&steps.advantages)?.f_minimum(&nearest.f_mul(&steps.advantages)?)?;
        let error = critic.forward(&steps.states)?.f_squeeze_dim(1)?.f_sub(&steps.returns)?;
        Ok(Self {
            policy_loss: surrogate.f_mean(Kind::Float)?.f_neg()?,
            value_loss: error.f_square()?.f_mean(Kind::Float)?.f_mul_scalar(0.5)?,
            entropy: entropy.f_mean(Kind::Float)?,
            approximate_kl: ratio.f_sub(&log_ratio)?.f_sub_scalar(1.0)?.f_mean(Kind::Float)?,
            clip_fraction: ratio.f_ne_tensor(&nearest)?.f_mean(Kind::Float)?,
        })
    }

    /// What is minimised.
    pub(super) fn total(&self, config: &Config) -> Result<Tensor, TchError> {
        let entropy = self.entropy.f_mul_scalar(f64::from(config.entropy))?;
        let value = self.value_loss.f_mul_scalar(f64::from(config.value_weight))?;
        self.policy_loss.f_sub(&entropy)?.f_add(&value)
    }

    /// In the order of the fields.
    pub(super) fn numbers(&self) -> Result<Vec<f64>, TchError> {
        let Self { policy_loss, value_loss, entropy, approximate_kl, clip_fraction } = self;
        let terms = [policy_loss, value_loss, entropy, approximate_kl, clip_fraction];
        Vec::try_from(Tensor::f_stack(&terms, 0)?.f_detach()?.f_to_kind(Kind::Double)?)
    }
}
