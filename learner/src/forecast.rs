//! The forecast network: how high a load may go in the next steps, as quantiles.
//!
//! One small network serves every workload, because it hardly sees a scale: rates are logarithms relative to
//! the workload's own level, and only how noisy so few requests are tells small from large ([`history`]). For each horizon it gives the quantiles of the *highest* rate within it, in
//! ascending order by construction, and is trained on the pinball loss ([`Tuner`]), whose minimum is the true quantile.

pub mod history;
mod stored;

use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;

use crate::{
    adam::{self, Adam, clip_scale, global_norm},
    config::Activation,
    error::Error,
    network::{Mlp, Scratch, expect},
};
pub use history::{FEATURES, History};
pub use stored::MOST_BYTES;

/// The levels of the quantiles.
pub const LEVELS: [f64; 8] = [0.5, 0.75, 0.9, 0.95, 0.98, 0.99, 0.995, 0.999];

/// Steps of each horizon.
pub const HORIZONS: [usize; 2] = [2, 5];

/// Numbers that the network gives.
pub const OUTPUTS: usize = LEVELS.len() * HORIZONS.len();

const HIDDEN: [usize; 2] = [64, 64];

/// Quantiles of ln(highest rate / level), one row a horizon.
pub type Quantiles = [[f32; LEVELS.len()]; HORIZONS.len()];

/// The network.
#[derive(Debug, Clone, PartialEq)]
pub struct Network {
    mlp: Mlp,
    /// How it came to be, for whoever finds it in a file.
    pub provenance: String,
}

impl Network {
    /// A fresh one.
    #[must_use]
    pub fn new(seed: u64) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let mlp = Mlp::new(FEATURES, &HIDDEN, OUTPUTS, Activation::Tanh, 0.1, &mut rng);
        Self { mlp, provenance: String::new() }
    }

    /// How many numbers it has learnt.
    #[must_use]
    pub fn parameters(&self) -> usize {
        self.mlp.parameters().len()
    }

    /// What may come after this history.
    ///
    /// # Errors
    /// [`Error::NonFinite`] when a feature is not finite.
    pub fn quantiles(&self, features: &[f32; FEATURES], scratch: &mut Scratch) -> Result<Quantiles, Error> {
        if features.iter().any(|feature| !feature.is_finite()) {
            return Err(Error::NonFinite { what: "forecast features" });
        }
        let raw = self.mlp.forward(features, 1, scratch)?;
        let mut quantiles = Quantiles::default();
        for (row, raw) in quantiles.iter_mut().zip(raw.chunks_exact(LEVELS.len())) {
            ascend(raw, row);
        }
        Ok(quantiles)
    }
}

/// The first output, and steps upwards from it.
fn ascend(raw: &[f32], quantiles: &mut [f32]) {
    let mut at = 0.0;
    for (index, (quantile, raw)) in quantiles.iter_mut().zip(raw).enumerate() {
        at = if index == 0 { *raw } else { at + softplus(*raw) };
        *quantile = at;
    }
}

fn softplus(x: f32) -> f32 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}

fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + (-x).exp())
}

/// The pinball loss of quantiles against what came, averaged over levels: 0 only for certainty that was right.
#[must_use]
pub fn pinball(quantiles: &[f32; LEVELS.len()], came: f32) -> f32 {
    let of = |(quantile, level): (&f32, f64)| {
        let off = came - quantile;
        if off >= 0.0 { level as f32 * off } else { (level as f32 - 1.0) * off }
    };
    quantiles.iter().zip(LEVELS).map(of).sum::<f32>() / LEVELS.len() as f32
}

/// Histories and what came after each.
#[derive(Debug, Clone, Default)]
pub struct Samples {
    features: Vec<f32>,
    targets: Vec<f32>,
}

impl Samples {
    /// Adds one: ln(highest rate / level) for each horizon.
    pub fn push(&mut self, features: &[f32; FEATURES], targets: [f32; HORIZONS.len()]) {
        self.features.extend_from_slice(features);
        self.targets.extend_from_slice(&targets);
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.targets.len() / HORIZONS.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.targets.is_empty()
    }

    /// Keeps the newest `count`.
    pub fn keep_newest(&mut self, count: usize) {
        let surplus = self.len().saturating_sub(count);
        self.features.drain(..surplus * FEATURES);
        self.targets.drain(..surplus * HORIZONS.len());
    }

    /// The first `count`, and the others.
    #[must_use]
    pub fn split(&self, count: usize) -> (Self, Self) {
        let count = count.min(self.len());
        let (features, later) = self.features.split_at(count * FEATURES);
        let (targets, after) = self.targets.split_at(count * HORIZONS.len());
        let part = |features: &[f32], targets: &[f32]| Self { features: features.to_vec(), targets: targets.to_vec() };
        (part(features, targets), part(later, after))
    }

    fn row(&self, index: usize) -> (&[f32], &[f32]) {
        (&self.features[index * FEATURES..][..FEATURES], &self.targets[index * HORIZONS.len()..][..HORIZONS.len()])
    }
}

/// A network in training.
#[derive(Debug, Clone)]
pub struct Tuner {
    network: Network,
    adam: Adam,
    gradients: Vec<f32>,
    scratch: Scratch,
    rng: ChaCha8Rng,
}

/// Samples of one gradient step, and the bound on its length.
const MINIBATCH: usize = 128;
const MOST_GRADIENT: f32 = 1.0;

impl Tuner {
    /// Goes on from a network.
    #[must_use]
    pub fn new(network: Network, seed: u64) -> Self {
        let count = network.parameters();
        Self {
            network,
            adam: Adam::new(count, adam::EPSILON),
            gradients: vec![0.0; count],
            scratch: Scratch::default(),
            rng: ChaCha8Rng::seed_from_u64(seed),
        }
    }

    /// The network as it is now.
    #[must_use]
    pub fn into_network(self) -> Network {
        self.network
    }

    /// The network as it is now.
    #[must_use]
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// One pass over the samples in random order; gives the mean loss on the way.
    ///
    /// # Errors
    /// [`Error::EmptyBatch`] without samples; [`Error::NonFinite`] when a loss is not finite, the network being as it
    /// was before that step.
    pub fn pass(&mut self, samples: &Samples, learning_rate: f32) -> Result<f32, Error> {
        if samples.is_empty() {
            return Err(Error::EmptyBatch);
        }
        let mut order: Vec<u32> = (0..u32::try_from(samples.len()).unwrap_or(u32::MAX)).collect();
        order.shuffle(&mut self.rng);
        let (mut inputs, mut targets) = (Vec::new(), Vec::new());
        let mut total = 0.0;
        for batch in order.chunks(MINIBATCH) {
            inputs.clear();
            targets.clear();
            for &index in batch {
                let (features, target) = samples.row(index as usize);
                inputs.extend_from_slice(features);
                targets.extend_from_slice(target);
            }
            total += f64::from(self.step(&inputs, &targets, learning_rate)?) * batch.len() as f64;
        }
        Ok((total / samples.len() as f64) as f32)
    }

    fn step(&mut self, inputs: &[f32], targets: &[f32], learning_rate: f32) -> Result<f32, Error> {
        let count = targets.len() / HORIZONS.len();
        expect("forecast samples", count * FEATURES, inputs.len())?;
        let raw = self.network.mlp.forward(inputs, count, &mut self.scratch)?.to_vec();
        let mut slopes = vec![0.0; raw.len()];
        let share = 1.0 / (count * OUTPUTS) as f32;
        let mut loss = 0.0;
        let rows = raw.chunks_exact(LEVELS.len()).zip(slopes.chunks_exact_mut(LEVELS.len()));
        for ((raw, slopes), &came) in rows.zip(targets) {
            let mut quantiles = [0.0; LEVELS.len()];
            ascend(raw, &mut quantiles);
            loss += pinball(&quantiles, came);
            // A quantile moves with every step below it, so slopes add up from the top.
            let mut above = 0.0;
            for level in (0..LEVELS.len()).rev() {
                above += if came < quantiles[level] { 1.0 } else { 0.0 } - LEVELS[level] as f32;
                slopes[level] = share * above * if level == 0 { 1.0 } else { sigmoid(raw[level]) };
            }
        }
        let loss = loss / targets.len() as f32;
        if !loss.is_finite() {
            return Err(Error::NonFinite { what: "forecast loss" });
        }
        self.gradients.fill(0.0);
        self.network.mlp.backward(inputs, &slopes, count, &mut self.scratch, &mut self.gradients)?;
        let scale = clip_scale(global_norm(&[&self.gradients]), Some(MOST_GRADIENT));
        self.adam.step(self.network.mlp.parameters_mut(), &self.gradients, scale, learning_rate)?;
        Ok(loss)
    }
}

/// The mean pinball loss of a network over samples, one figure a horizon.
///
/// # Errors
/// As [`Network::quantiles`].
pub fn loss(network: &Network, samples: &Samples) -> Result<[f64; HORIZONS.len()], Error> {
    let mut scratch = Scratch::default();
    let mut sums = [0.0; HORIZONS.len()];
    for index in 0..samples.len() {
        let (features, targets) = samples.row(index);
        let mut row = [0.0; FEATURES];
        row.copy_from_slice(features);
        let quantiles = network.quantiles(&row, &mut scratch)?;
        for ((sum, quantiles), came) in sums.iter_mut().zip(&quantiles).zip(targets) {
            *sum += f64::from(pinball(quantiles, *came));
        }
    }
    Ok(sums.map(|sum| sum / samples.len().max(1) as f64))
}
