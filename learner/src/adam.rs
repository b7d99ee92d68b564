//! The Adam optimiser over a flat parameter vector, in one pass.

use crate::error::Error;
use crate::kernels;
use crate::network::expect;

/// Decay of the mean of the gradients.
pub const BETA_MEAN: f32 = 0.9;
/// Decay of the mean of the squared gradients.
pub const BETA_SQUARE: f32 = 0.999;
/// Added to the denominator; the usual default of other implementations.
pub const EPSILON: f32 = 1e-8;

/// Running moments of the gradients of one network.
#[derive(Debug, Clone, PartialEq)]
pub struct Adam {
    pub(crate) mean: Vec<f32>,
    pub(crate) square: Vec<f32>,
    pub(crate) steps: u64,
    epsilon: f32,
}

impl Adam {
    /// No gradient seen yet, for `parameters` parameters.
    #[must_use]
    pub fn new(parameters: usize, epsilon: f32) -> Self {
        Self { mean: vec![0.0; parameters], square: vec![0.0; parameters], steps: 0, epsilon }
    }

    /// How many steps were taken.
    #[must_use]
    pub fn steps(&self) -> u64 {
        self.steps
    }

    /// Moves `parameters` against `gradients`, which are first multiplied by `scale`; that is where clipping happens
    /// without a pass of its own.
    ///
    /// # Errors
    /// [`Error::Shape`] when a length differs from that at creation.
    pub fn step(
        &mut self,
        parameters: &mut [f32],
        gradients: &[f32],
        scale: f32,
        learning_rate: f32,
    ) -> Result<(), Error> {
        expect("parameters", self.mean.len(), parameters.len())?;
        expect("gradients", self.mean.len(), gradients.len())?;
        self.steps = self.steps.saturating_add(1);
        // Double precision: after few steps 1 - 0.999^t has only a handful of correct bits in single precision.
        let steps = self.steps as f64;
        let mean_correction = 1.0 - f64::from(BETA_MEAN).powf(steps);
        let square_correction = 1.0 - f64::from(BETA_SQUARE).powf(steps);
        let rate = (f64::from(learning_rate) / mean_correction) as f32;
        let root = (1.0 / square_correction.sqrt()) as f32;
        let epsilon = self.epsilon;

        let moments = self.mean.iter_mut().zip(&mut self.square);
        kernels::wide(|| {
            for ((parameter, &gradient), (mean, square)) in parameters.iter_mut().zip(gradients).zip(moments) {
                let gradient = gradient * scale;
                *mean = BETA_MEAN * *mean + (1.0 - BETA_MEAN) * gradient;
                *square = BETA_SQUARE * *square + (1.0 - BETA_SQUARE) * gradient * gradient;
                *parameter -= rate * *mean / (square.sqrt() * root + epsilon);
            }
        });
        Ok(())
    }

    pub(crate) fn copy_from(&mut self, other: &Self) {
        self.mean.copy_from_slice(&other.mean);
        self.square.copy_from_slice(&other.square);
        self.steps = other.steps;
    }
}

/// Length of a gradient that lies in several pieces.
#[must_use]
pub fn global_norm(pieces: &[&[f32]]) -> f32 {
    pieces.iter().map(|piece| kernels::sum_of_squares(piece)).sum::<f64>().sqrt() as f32
}

/// The factor that brings a gradient of length `norm` within `bound`.
#[must_use]
pub fn clip_scale(norm: f32, bound: Option<f32>) -> f32 {
    match bound {
        Some(bound) if norm > bound => bound / norm,
        _ => 1.0,
    }
}
