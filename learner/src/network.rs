//! Fully connected networks with all parameters in one flat vector.
//!
//! One vector makes the optimiser a single pass, a snapshot a single copy and an exchange between agents a slice. Per
//! layer it holds the weights, then the biases. The rows of a weight matrix always run along its wider side: 7 inputs to
//! 64 outputs are 7 rows of 64, 64 inputs to 7 outputs are 7 rows of 64 too. So the inner loops are long and contiguous
//! whatever the shape, and initialising means making the rows orthonormal.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use crate::config::Activation;
use crate::error::Error;
use crate::kernels;

/// One affine layer: its shape and where its parameters lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layer {
    /// Inputs.
    pub inputs: usize,
    /// Outputs.
    pub outputs: usize,
    offset: usize,
}

impl Layer {
    /// Whether a row of the stored matrix belongs to an input (and runs over the outputs).
    #[must_use]
    pub(crate) fn rows_are_inputs(&self) -> bool {
        self.inputs <= self.outputs
    }

    fn width(&self) -> usize {
        self.inputs.max(self.outputs)
    }

    fn bias_offset(&self) -> usize {
        self.offset + self.inputs * self.outputs
    }

    fn end(&self) -> usize {
        self.bias_offset() + self.outputs
    }

    /// The weights within the network's parameters.
    #[must_use]
    pub(crate) fn weights<'p>(&self, parameters: &'p [f32]) -> &'p [f32] {
        &parameters[self.offset..self.bias_offset()]
    }

    /// The biases within the network's parameters.
    #[must_use]
    pub(crate) fn biases<'p>(&self, parameters: &'p [f32]) -> &'p [f32] {
        &parameters[self.bias_offset()..self.end()]
    }

    pub(crate) fn split_mut<'p>(&self, parameters: &'p mut [f32]) -> (&'p mut [f32], &'p mut [f32]) {
        parameters[self.offset..self.end()].split_at_mut(self.inputs * self.outputs)
    }

    fn forward(&self, parameters: &[f32], input: &[f32], output: &mut [f32]) {
        let biases = self.biases(parameters);
        for row in output.chunks_exact_mut(self.outputs) {
            row.copy_from_slice(biases);
        }
        if self.rows_are_inputs() {
            kernels::combine(input, self.weights(parameters), output, self.width());
        } else {
            kernels::dots(self.weights(parameters), input, output, self.width());
        }
    }

    fn accumulate(&self, input: &[f32], delta: &[f32], gradients: &mut [f32]) {
        let (weights, biases) = self.split_mut(gradients);
        if self.rows_are_inputs() {
            kernels::outer(input, delta, weights, self.width());
        } else {
            kernels::outer(delta, input, weights, self.width());
        }
        kernels::add_rows(delta, biases);
    }

    fn propagate(&self, parameters: &[f32], delta: &[f32], input_delta: &mut [f32]) {
        input_delta.fill(0.0);
        if self.rows_are_inputs() {
            kernels::dots(self.weights(parameters), delta, input_delta, self.width());
        } else {
            kernels::combine(delta, self.weights(parameters), input_delta, self.width());
        }
    }
}

/// Buffers of one forward and backward pass, owned by the caller so that repeated passes allocate nothing.
#[derive(Debug, Clone, Default)]
pub struct Scratch {
    activations: Vec<Vec<f32>>,
    delta: Vec<f32>,
    input_delta: Vec<f32>,
}

impl Scratch {
    fn fit(&mut self, network: &Mlp, batch: usize) {
        self.activations.resize_with(network.layers.len(), Vec::new);
        for (activation, layer) in self.activations.iter_mut().zip(&network.layers) {
            grow(activation, batch * layer.outputs);
        }
    }
}

fn grow(buffer: &mut Vec<f32>, length: usize) {
    if buffer.len() < length {
        buffer.resize(length, 0.0);
    }
}

/// A multi-layer perceptron with a linear output.
#[derive(Debug, Clone, PartialEq)]
pub struct Mlp {
    layers: Vec<Layer>,
    activation: Activation,
    parameters: Vec<f32>,
}

impl Mlp {
    /// A network with all parameters zero: the frame into which stored parameters are put.
    #[must_use]
    pub fn zeros(inputs: usize, hidden: &[usize], outputs: usize, activation: Activation) -> Self {
        let mut layers = Vec::with_capacity(hidden.len() + 1);
        let (mut inputs, mut offset) = (inputs, 0);
        for &outputs in hidden.iter().chain([&outputs]) {
            let layer = Layer { inputs, outputs, offset };
            offset = layer.end();
            inputs = outputs;
            layers.push(layer);
        }
        Self { layers, activation, parameters: vec![0.0; offset] }
    }

    /// A fresh network: orthogonal weights of gain sqrt(2) in the hidden layers and `gain` at the output, biases zero.
    #[must_use]
    pub fn new(
        inputs: usize,
        hidden: &[usize],
        outputs: usize,
        activation: Activation,
        gain: f32,
        rng: &mut ChaCha8Rng,
    ) -> Self {
        let mut network = Self::zeros(inputs, hidden, outputs, activation);
        let last = network.layers.len() - 1;
        for (index, layer) in network.layers.iter().enumerate() {
            let gain = if index == last { gain } else { std::f32::consts::SQRT_2 };
            let (weights, _) = layer.split_mut(&mut network.parameters);
            orthogonal(weights, layer.width(), f64::from(gain), rng);
        }
        network
    }

    /// Inputs of the first layer.
    #[must_use]
    pub fn inputs(&self) -> usize {
        self.layers.first().map_or(0, |layer| layer.inputs)
    }

    /// Outputs of the last layer.
    #[must_use]
    pub fn outputs(&self) -> usize {
        self.layers.last().map_or(0, |layer| layer.outputs)
    }

    /// The layers, first to last.
    #[must_use]
    pub fn layers(&self) -> &[Layer] {
        &self.layers
    }

    /// All parameters.
    #[must_use]
    pub fn parameters(&self) -> &[f32] {
        &self.parameters
    }

    /// All parameters, to be changed in place.
    pub fn parameters_mut(&mut self) -> &mut [f32] {
        &mut self.parameters
    }

    /// Outputs for `batch` inputs laid end to end.
    ///
    /// # Errors
    /// [`Error::Shape`] when `input` is not `batch` times as long as one input.
    pub fn forward<'s>(&self, input: &[f32], batch: usize, scratch: &'s mut Scratch) -> Result<&'s [f32], Error> {
        self.forward_mut(input, batch, scratch).map(|output| &*output)
    }

    /// As [`Mlp::forward`], for a caller who goes on in the buffer of the outputs: no backward pass reads it.
    pub(crate) fn forward_mut<'s>(
        &self,
        input: &[f32],
        batch: usize,
        scratch: &'s mut Scratch,
    ) -> Result<&'s mut [f32], Error> {
        expect("network input", batch * self.inputs(), input.len())?;
        scratch.fit(self, batch);
        let last = self.layers.len() - 1;
        for (index, layer) in self.layers.iter().enumerate() {
            let (before, after) = scratch.activations.split_at_mut(index);
            let source = before.last().map_or(input, |previous| &previous[..batch * layer.inputs]);
            let target = &mut after[0][..batch * layer.outputs];
            layer.forward(&self.parameters, source, target);
            if index < last {
                self.activation.apply(target);
            }
        }
        Ok(&mut scratch.activations[last][..batch * self.outputs()])
    }

    /// Adds to `gradients` what `output_gradient` implies for the parameters, after a [`Mlp::forward`] of the same
    /// `input` through the same `scratch`.
    ///
    /// # Errors
    /// [`Error::Shape`] when a length does not fit the network and the batch.
    pub fn backward(
        &self,
        input: &[f32],
        output_gradient: &[f32],
        batch: usize,
        scratch: &mut Scratch,
        gradients: &mut [f32],
    ) -> Result<(), Error> {
        expect("network input", batch * self.inputs(), input.len())?;
        expect("output gradient", batch * self.outputs(), output_gradient.len())?;
        expect("gradients", self.parameters.len(), gradients.len())?;
        scratch.fit(self, batch);
        scratch.delta.clear();
        scratch.delta.extend_from_slice(output_gradient);
        for (index, layer) in self.layers.iter().enumerate().rev() {
            let Some(previous) = index.checked_sub(1) else {
                layer.accumulate(input, &scratch.delta, gradients);
                break;
            };
            let source = &scratch.activations[previous][..batch * layer.inputs];
            layer.accumulate(source, &scratch.delta, gradients);
            scratch.input_delta.resize(batch * layer.inputs, 0.0);
            layer.propagate(&self.parameters, &scratch.delta, &mut scratch.input_delta);
            self.activation.chain(source, &mut scratch.input_delta);
            std::mem::swap(&mut scratch.delta, &mut scratch.input_delta);
        }
        Ok(())
    }
}

impl Activation {
    fn apply(self, values: &mut [f32]) {
        match self {
            Self::Tanh => kernels::tanh(values),
            // A comparison that NaN fails, so that it passes through.
            Self::Relu => values.iter_mut().for_each(|v| *v = if *v < 0.0 { 0.0 } else { *v }),
        }
    }

    /// Multiplies by the derivative, expressed through the activation's own result.
    fn chain(self, results: &[f32], delta: &mut [f32]) {
        for (delta, &y) in delta.iter_mut().zip(results) {
            *delta *= match self {
                Self::Tanh => 1.0 - y * y,
                Self::Relu => f32::from(u8::from(y > 0.0)),
            };
        }
    }
}

/// Fails unless `found` values were given where `expected` are needed.
pub(crate) fn expect(what: &'static str, expected: usize, found: usize) -> Result<(), Error> {
    if expected == found { Ok(()) } else { Err(Error::Shape { what, expected, found }) }
}

/// Fills `weights` with rows that are orthogonal to each other and of length `gain`, uniformly among all such matrices.
fn orthogonal(weights: &mut [f32], width: usize, gain: f64, rng: &mut ChaCha8Rng) {
    let mut basis: Vec<Vec<f64>> = Vec::with_capacity(weights.len() / width);
    for row in weights.chunks_exact_mut(width) {
        let direction = loop {
            let mut candidate: Vec<f64> = (0..width).map(|_| gaussian(rng)).collect();
            // Twice: once leaves rounding errors along the earlier rows.
            for earlier in basis.iter().chain(&basis) {
                let along: f64 = candidate.iter().zip(earlier).map(|(a, b)| a * b).sum();
                candidate.iter_mut().zip(earlier).for_each(|(a, b)| *a -= along * b);
            }
            let length = candidate.iter().map(|a| a * a).sum::<f64>().sqrt();
            // A draw inside the span of the earlier rows has no direction of its own; draw again.
            if length > 1e-6 {
                candidate.iter_mut().for_each(|a| *a /= length);
                break candidate;
            }
        };
        for (weight, value) in row.iter_mut().zip(&direction) {
            *weight = (gain * value) as f32;
        }
        basis.push(direction);
    }
}

/// A standard normal number, by Box and Muller.
fn gaussian(rng: &mut ChaCha8Rng) -> f64 {
    let radius: f64 = 1.0 - rng.random::<f64>();
    let angle: f64 = rng.random();
    (-2.0 * radius.ln()).sqrt() * (std::f64::consts::TAU * angle).cos()
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::SeedableRng;

    #[test]
    fn fresh_weights_are_orthogonal_with_their_gain() {
        let rng = &mut ChaCha8Rng::seed_from_u64(3);
        let network = Mlp::new(7, &[64, 64], 3, Activation::Tanh, 0.01, rng);
        for (layer, gain) in network.layers().iter().zip([2f64.sqrt(), 2f64.sqrt(), 0.01]) {
            let rows: Vec<&[f32]> = layer.weights(network.parameters()).chunks_exact(layer.width()).collect();
            for (i, a) in rows.iter().enumerate() {
                for (j, b) in rows.iter().enumerate() {
                    let product: f64 = a.iter().zip(*b).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
                    let expected = if i == j { gain * gain } else { 0.0 };
                    assert!((product - expected).abs() < 1e-6, "rows {i} and {j}: {product}");
                }
            }
            assert!(layer.biases(network.parameters()).iter().all(|&bias| bias == 0.0));
        }
    }

    #[test]
    fn a_sample_does_not_depend_on_its_batch() {
        let rng = &mut ChaCha8Rng::seed_from_u64(4);
        let network = Mlp::new(5, &[64, 40], 3, Activation::Tanh, 1.0, rng);
        let inputs: Vec<f32> = (0..35).map(|k| (k as f32).sin()).collect();
        let together = network.forward(&inputs, 7, &mut Scratch::default()).unwrap().to_vec();
        for (input, output) in inputs.chunks(5).zip(together.chunks(3)) {
            assert_eq!(network.forward(input, 1, &mut Scratch::default()).unwrap(), output);
        }
        assert!(network.forward(&inputs, 6, &mut Scratch::default()).is_err());
    }
}
