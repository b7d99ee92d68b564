//! A network of LibTorch tensors over one flat vector that is laid out like the native one.
//!
//! The layers' weights and biases are views into the vector. Autograd takes them for parameters of their own, while the
//! optimiser moves the whole vector at once and the layers see it move.

use tch::{Kind, TchError, Tensor};

use crate::adam::{BETA_MEAN, BETA_SQUARE, EPSILON};
use crate::config::Activation;
use crate::network::{Layer, Mlp};

/// A multi-layer perceptron with the state of its optimiser.
#[derive(Debug)]
pub(super) struct Network {
    layers: Vec<Layer>,
    activation: Activation,
    parameters: Tensor,
    /// Weights and biases by turns, as views of `parameters`.
    views: Vec<Tensor>,
    pub(super) adam: Adam,
}

impl Network {
    pub(super) fn new(native: &Mlp, activation: Activation, adam: &crate::adam::Adam) -> Result<Self, TchError> {
        let adam = Adam {
            mean: Tensor::f_from_slice(&adam.mean)?,
            square: Tensor::f_from_slice(&adam.square)?,
            steps: adam.steps,
        };
        Self::over(native.layers().to_vec(), activation, Tensor::f_from_slice(native.parameters())?, adam)
    }

    fn over(layers: Vec<Layer>, activation: Activation, parameters: Tensor, adam: Adam) -> Result<Self, TchError> {
        let mut views = Vec::with_capacity(2 * layers.len());
        let mut offset = 0;
        for layer in &layers {
            let (inputs, outputs) = (layer.inputs as i64, layer.outputs as i64);
            let shape = if layer.rows_are_inputs() { [inputs, outputs] } else { [outputs, inputs] };
            let weights = parameters.f_narrow(0, offset, inputs * outputs)?.f_view(shape)?;
            let biases = parameters.f_narrow(0, offset + inputs * outputs, outputs)?;
            for view in [weights, biases] {
                views.push(view.f_detach()?.f_set_requires_grad(true)?);
            }
            offset += (inputs + 1) * outputs;
        }
        Ok(Self { layers, activation, parameters, views, adam })
    }

    /// One that shares nothing with this one.
    pub(super) fn copy(&self) -> Result<Self, TchError> {
        let Adam { mean, square, steps } = &self.adam;
        let adam = Adam { mean: copy(mean)?, square: copy(square)?, steps: *steps };
        Self::over(self.layers.clone(), self.activation, copy(&self.parameters)?, adam)
    }

    pub(super) fn parameters(&self) -> Result<Vec<f32>, TchError> {
        Vec::try_from(&self.parameters)
    }

    /// Outputs for inputs of shape `[batch, inputs]`.
    pub(super) fn forward(&self, input: &Tensor) -> Result<Tensor, TchError> {
        let mut values = input.shallow_clone();
        let last = self.layers.len() - 1;
        for (index, (layer, views)) in self.layers.iter().zip(self.views.chunks_exact(2)).enumerate() {
            let (weights, biases) = (&views[0], &views[1]);
            values = if layer.rows_are_inputs() {
                biases.f_addmm(&values, weights)?
            } else {
                biases.f_addmm(&values, &weights.f_tr()?)?
            };
            if index < last {
                values = match self.activation {
                    Activation::Tanh => values.f_tanh()?,
                    Activation::Relu => values.f_relu()?,
                };
            }
        }
        Ok(values)
    }

    /// What autograd differentiates by.
    pub(super) fn views(&self) -> &[Tensor] {
        &self.views
    }

    /// Moves the parameters by one step of Adam.
    pub(super) fn step(&mut self, gradient: &Tensor, learning_rate: f32) -> Result<(), TchError> {
        self.adam.step(&mut self.parameters, gradient, f64::from(learning_rate))
    }
}

/// Gradients of a network's views as one vector in the order of its parameters.
pub(super) fn flat(gradients: &[Tensor]) -> Result<Tensor, TchError> {
    let flat: Vec<Tensor> = gradients.iter().map(|gradient| gradient.f_reshape(-1)).collect::<Result<_, _>>()?;
    Tensor::f_cat(&flat, 0)
}

fn copy(tensor: &Tensor) -> Result<Tensor, TchError> {
    let mut copy = tensor.f_empty_like()?;
    copy.f_copy_(tensor)?;
    Ok(copy)
}

/// Adam's state over a flat vector. LibTorch's own optimiser would do, but the bindings do not show its moments, which a
/// checkpoint needs; a test compares the two.
#[derive(Debug)]
pub(super) struct Adam {
    mean: Tensor,
    square: Tensor,
    steps: u64,
}

impl Adam {
    fn step(&mut self, parameters: &mut Tensor, gradient: &Tensor, learning_rate: f64) -> Result<(), TchError> {
        let (mean_decay, square_decay) = (f64::from(BETA_MEAN), f64::from(BETA_SQUARE));
        self.steps = self.steps.saturating_add(1);
        let steps = self.steps as f64;
        let rate = learning_rate / (1.0 - mean_decay.powf(steps));
        let root = (1.0 - square_decay.powf(steps)).sqrt();

        let _ = self.mean.f_lerp_(gradient, 1.0 - mean_decay)?;
        let _ = self.square.f_lerp_(&gradient.f_square()?, 1.0 - square_decay)?;
        let denominator = self.square.f_sqrt()?.f_div_scalar_(root)?.f_add_scalar_(f64::from(EPSILON))?;
        let _ = parameters.f_sub_(&self.mean.f_mul_scalar(rate)?.f_div_(&denominator)?)?;
        Ok(())
    }

    /// The same state for the native engine.
    pub(super) fn fill(&self, native: &mut crate::adam::Adam) -> Result<(), TchError> {
        native.mean = Vec::try_from(&self.mean)?;
        native.square = Vec::try_from(&self.square)?;
        native.steps = self.steps;
        Ok(())
    }
}

/// The squared length of a gradient; in double precision, like the native engine's.
pub(super) fn squared_length(gradient: &Tensor) -> Result<f64, TchError> {
    gradient.f_square()?.f_sum(Kind::Double)?.f_double_value(&[])
}
