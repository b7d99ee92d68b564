//! What the actor's outputs mean: several independent choices, one per softmax head, some actions possibly masked.
//!
//! [`normalise`] turns raw outputs into log-probabilities in place; every other function reads those. A masked action has
//! log-probability minus infinity, so it is never sampled, never the best, and adds nothing to the entropy.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::config::MAX_HEADS;
use crate::error::Error;
use crate::network::expect;

/// One action per head, with its log-probability. Inline, so that deciding allocates nothing.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Choice {
    actions: [u8; MAX_HEADS],
    heads: u8,
    /// Log-probability of all the actions together, under the policy and mask that chose them.
    pub log_prob: f32,
}

impl Choice {
    /// A choice made elsewhere, for instance by a fallback controller.
    ///
    /// # Errors
    /// [`Error::Shape`] for more than eight heads.
    pub fn new(actions: &[u8], log_prob: f32) -> Result<Self, Error> {
        let mut choice = Self { log_prob, ..Self::default() };
        if actions.len() > MAX_HEADS {
            return Err(Error::Shape { what: "choice", expected: MAX_HEADS, found: actions.len() });
        }
        actions.iter().for_each(|&action| choice.push(usize::from(action)));
        Ok(choice)
    }

    /// The action of each head.
    #[must_use]
    pub fn actions(&self) -> &[u8] {
        &self.actions[..usize::from(self.heads)]
    }

    fn push(&mut self, action: usize) {
        if let Some(slot) = self.actions.get_mut(usize::from(self.heads)) {
            *slot = action as u8;
            self.heads += 1;
        }
    }
}

/// Splits a slice over all heads into one slice per head.
pub(crate) fn per_head<'a, T>(heads: &'a [usize], all: &'a [T]) -> impl Iterator<Item = &'a [T]> {
    let mut start = 0;
    heads.iter().map(move |&size| {
        let head = &all[start..start + size];
        start += size;
        head
    })
}

/// Turns logits into log-probabilities in place, head by head.
///
/// # Errors
/// [`Error::Shape`] for a wrong length or more than eight heads, [`Error::MaskedHead`] when a mask leaves a head without
/// any action, and [`Error::NonFinite`] when a logit is NaN or infinite.
pub fn normalise(heads: &[usize], logits: &mut [f32], mask: Option<&[bool]>) -> Result<(), Error> {
    expect("logits", heads.iter().sum(), logits.len())?;
    if heads.len() > MAX_HEADS {
        return Err(Error::Shape { what: "heads", expected: MAX_HEADS, found: heads.len() });
    }
    if let Some(mask) = mask {
        expect("mask", logits.len(), mask.len())?;
        for (logit, &legal) in logits.iter_mut().zip(mask) {
            if !legal {
                *logit = f32::NEG_INFINITY;
            }
        }
    }
    // Every head's sum before any head's logarithm: a logarithm has to wait for its sum, the exponentials of the next head
    // do not.
    let mut totals = [(0.0, 0.0); MAX_HEADS];
    let mut start = 0;
    for ((head, &size), slot) in heads.iter().enumerate().zip(&mut totals) {
        let end = start + size;
        if mask.is_some_and(|mask| !mask[start..end].contains(&true)) {
            return Err(Error::MaskedHead { head });
        }
        *slot = total(&logits[start..end]);
        start = end;
    }
    let mut start = 0;
    for (&size, (largest, total)) in heads.iter().zip(totals) {
        if !total.is_finite() {
            return Err(Error::NonFinite { what: "policy output" });
        }
        let shift = largest + total.ln();
        logits[start..start + size].iter_mut().for_each(|logit| *logit -= shift);
        start += size;
    }
    Ok(())
}

/// The largest logit and the sum of exponentials, shifted by it: so none overflows and at least one of them is 1.
fn total(logits: &[f32]) -> (f32, f32) {
    // A comparison that NaN fails, one instruction where `f32::max` takes several. NaN still reaches the sum.
    let largest = logits.iter().fold(f32::NEG_INFINITY, |most, &logit| if logit > most { logit } else { most });
    (largest, logits.iter().map(|logit| (logit - largest).exp()).sum())
}

/// The most likely action of each head; the first of equals.
#[must_use]
pub fn greedy(heads: &[usize], log_probs: &[f32]) -> Choice {
    let mut choice = Choice::default();
    for head in per_head(heads, log_probs) {
        let mut best = (0, f32::NEG_INFINITY);
        for (action, &log_prob) in head.iter().enumerate() {
            if log_prob > best.1 {
                best = (action, log_prob);
            }
        }
        choice.push(best.0);
        choice.log_prob += best.1;
    }
    choice
}

/// A random action of each head, by its probability.
#[must_use]
pub fn sample(heads: &[usize], log_probs: &[f32], rng: &mut ChaCha8Rng) -> Choice {
    let mut choice = Choice::default();
    for head in per_head(heads, log_probs) {
        let mut left: f32 = rng.random();
        let mut drawn = (0, f32::NEG_INFINITY);
        for (action, &log_prob) in head.iter().enumerate() {
            if log_prob == f32::NEG_INFINITY {
                continue;
            }
            // Also the answer when rounding leaves a rest after the last action: the last legal one.
            drawn = (action, log_prob);
            left -= log_prob.exp();
            if left < 0.0 {
                break;
            }
        }
        choice.push(drawn.0);
        choice.log_prob += drawn.1;
    }
    choice
}

/// Log-probability of one action per head.
#[must_use]
pub fn log_prob(heads: &[usize], log_probs: &[f32], actions: &[u8]) -> f32 {
    per_head(heads, log_probs)
        .zip(actions)
        .map(|(head, &action)| head.get(usize::from(action)).copied().unwrap_or(f32::NEG_INFINITY))
        .sum()
}

/// Entropy of all heads together, in nats.
#[must_use]
pub fn entropy(heads: &[usize], log_probs: &[f32]) -> f32 {
    per_head(heads, log_probs).map(head_entropy).sum()
}

/// Entropy of one head.
pub(crate) fn head_entropy(log_probs: &[f32]) -> f32 {
    -log_probs.iter().filter(|p| **p > f32::NEG_INFINITY).map(|&log_prob| log_prob.exp() * log_prob).sum::<f32>()
}
