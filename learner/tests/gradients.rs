//! The gradient of the whole loss against central differences of an independent double-precision implementation, which
//! shares nothing with the engine but the layout of its parameters.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meanfield_learner::{ActScratch, Activation, ActorCritic, Batch, ChaCha8Rng, Config, Learner, Mode, Segment, Step};
use rand::{RngExt, SeedableRng};

struct Sample {
    observation: Vec<f32>,
    auxiliary: Vec<f32>,
    mask: Vec<bool>,
    actions: Vec<u8>,
    log_prob: f32,
}

/// Outputs of a network whose weight rows run along the wider side, as the engine documents.
fn network(parameters: &[f64], sizes: &[usize], activation: Activation, input: &[f32]) -> Vec<f64> {
    let mut values: Vec<f64> = input.iter().map(|&x| f64::from(x)).collect();
    let mut offset = 0;
    for (layer, shape) in sizes.windows(2).enumerate() {
        let (inputs, outputs) = (shape[0], shape[1]);
        let weight =
            |i: usize, o: usize| parameters[offset + if inputs <= outputs { i * outputs + o } else { o * inputs + i }];
        let mut next: Vec<f64> = (0..outputs)
            .map(|o| {
                parameters[offset + inputs * outputs + o] + (0..inputs).map(|i| values[i] * weight(i, o)).sum::<f64>()
            })
            .collect();
        if layer + 2 < sizes.len() {
            for value in &mut next {
                *value = match activation {
                    Activation::Tanh => value.tanh(),
                    Activation::Relu => value.max(0.0),
                };
            }
        }
        offset += inputs * outputs + outputs;
        values = next;
    }
    values
}

struct Reference<'a> {
    config: &'a Config,
    samples: &'a [Sample],
    advantages: Vec<f64>,
    returns: Vec<f64>,
}

impl Reference<'_> {
    fn sizes(&self, inputs: usize, outputs: usize) -> Vec<usize> {
        [inputs].into_iter().chain(self.config.hidden.iter().copied()).chain([outputs]).collect()
    }

    fn actor_loss(&self, parameters: &[f64]) -> f64 {
        let config = self.config;
        let sizes = self.sizes(config.observation, config.logits());
        let mut total = 0.0;
        for (sample, advantage) in self.samples.iter().zip(&self.advantages) {
            let logits = network(parameters, &sizes, config.activation, &sample.observation);
            let (mut log_prob, mut entropy, mut start) = (0.0, 0.0, 0);
            for (&size, &action) in config.heads.iter().zip(&sample.actions) {
                let legal = |k: &usize| !config.mask_actions || sample.mask[start + k];
                let sum: f64 = (0..size).filter(legal).map(|k| logits[start + k].exp()).sum();
                log_prob += logits[start + usize::from(action)] - sum.ln();
                for k in (0..size).filter(legal) {
                    let p = logits[start + k].exp() / sum;
                    entropy -= p * p.ln();
                }
                start += size;
            }
            let ratio = (log_prob - f64::from(sample.log_prob)).exp();
            let clip = f64::from(config.clip);
            let surrogate = (ratio * advantage).min(ratio.clamp(1.0 - clip, 1.0 + clip) * advantage);
            total += -surrogate - f64::from(config.entropy) * entropy;
        }
        total / self.samples.len() as f64
    }

    fn critic_loss(&self, parameters: &[f64]) -> f64 {
        let config = self.config;
        let sizes = self.sizes(config.observation + config.auxiliary, 1);
        let mut total = 0.0;
        for (sample, target) in self.samples.iter().zip(&self.returns) {
            let input = [sample.observation.as_slice(), &sample.auxiliary].concat();
            let value = network(parameters, &sizes, config.activation, &input)[0];
            total += 0.5 * (value - target).powi(2);
        }
        f64::from(config.value_weight) * total / self.samples.len() as f64
    }
}

fn differences(parameters: &[f32], loss: impl Fn(&[f64]) -> f64) -> Vec<f64> {
    let mut parameters: Vec<f64> = parameters.iter().map(|&p| f64::from(p)).collect();
    (0..parameters.len())
        .map(|index| {
            let (middle, step) = (parameters[index], 1e-6);
            parameters[index] = middle + step;
            let above = loss(&parameters);
            parameters[index] = middle - step;
            let below = loss(&parameters);
            parameters[index] = middle;
            (above - below) / (2.0 * step)
        })
        .collect()
}

fn assert_close(engine: &[f32], reference: &[f64], what: &str) {
    let scale = reference.iter().fold(0.0f64, |most, g| most.max(g.abs()));
    assert!(scale > 1e-3, "{what}: a vanishing gradient would prove nothing");
    for (index, (&engine, &reference)) in engine.iter().zip(reference).enumerate() {
        let error = (f64::from(engine) - reference).abs();
        assert!(error < 2e-5 * scale.max(1.0), "{what}[{index}]: engine {engine}, differences {reference}");
    }
}

fn check(config: &Config, seed: u64) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let behaviour = ActorCritic::new(config.clone(), seed).unwrap();
    let (mut scratch, mut samples) = (ActScratch::default(), Vec::new());
    let mut segment = Segment::new(config, 24);
    for step in 0..24 {
        let observation: Vec<f32> = (0..config.observation).map(|_| rng.random_range(-1.5..1.5)).collect();
        let auxiliary: Vec<f32> = (0..config.auxiliary).map(|_| rng.random_range(-1.5..1.5)).collect();
        let mut mask: Vec<bool> = (0..config.logits()).map(|_| rng.random_bool(0.6)).collect();
        let mut start = 0;
        for &size in &config.heads {
            mask[start + rng.random_range(0..size)] = true;
            start += size;
        }
        let choice = behaviour.act(&observation, Some(&mask), Mode::Sample(rng), &mut scratch).unwrap();
        let value = behaviour.value(&observation, &auxiliary, &mut scratch).unwrap();
        segment
            .push(&Step {
                observation: &observation,
                auxiliary: &auxiliary,
                mask: Some(&mask),
                choice,
                reward: rng.random_range(-1.0..1.0),
                value,
                terminated: step % 9 == 8,
            })
            .unwrap();
        let actions = choice.actions().to_vec();
        samples.push(Sample { observation, auxiliary, mask, actions, log_prob: choice.log_prob });
    }
    let mut batch = Batch::new(config, 24);
    batch.push_segment(&segment, 0.3).unwrap();

    // Away from the policy that gathered the batch, so that ratios differ from 1 and some of them are clipped.
    let mut learner = Learner::from_network(behaviour, seed);
    let (actor, critic) = learner.network().parameters();
    let mut moved = |values: &[f32]| values.iter().map(|v| v + rng.random_range(-0.2..0.2)).collect::<Vec<f32>>();
    let (actor, critic) = (moved(actor), moved(critic));
    learner.network_mut().set_parameters(&actor, &critic).unwrap();

    let mut advantages: Vec<f64> = batch.advantages().iter().map(|&a| f64::from(a)).collect();
    if config.normalise_advantages {
        let count = advantages.len() as f64;
        let mean = advantages.iter().sum::<f64>() / count;
        let deviation = (advantages.iter().map(|a| (a - mean).powi(2)).sum::<f64>() / (count - 1.0)).sqrt();
        advantages.iter_mut().for_each(|a| *a = (*a - mean) / deviation);
    }
    let returns = batch.returns().iter().map(|&r| f64::from(r)).collect();
    let reference = Reference { config, samples: &samples, advantages, returns };

    let gradients = learner.gradients(&batch).unwrap();
    let fraction = gradients.stats.clip_fraction;
    assert!(fraction > 0.1 && fraction < 0.9, "both sides of the clip must be covered, not {fraction}");
    assert_close(gradients.actor, &differences(&actor, |p| reference.actor_loss(p)), "actor");
    assert_close(gradients.critic, &differences(&critic, |p| reference.critic_loss(p)), "critic");
    let stats = gradients.stats;
    let actor: Vec<f64> = actor.iter().map(|&p| f64::from(p)).collect();
    let combined = f64::from(stats.policy_loss) - f64::from(config.entropy) * f64::from(stats.entropy);
    assert!((combined - reference.actor_loss(&actor)).abs() < 1e-5, "the reported losses are those differentiated");
}

fn config(activation: Activation) -> Config {
    Config {
        observation: 5,
        auxiliary: 3,
        heads: vec![3, 4, 2],
        // A width of 44 passes through every tile size of the kernels and their remainder.
        hidden: vec![9, 44],
        activation,
        entropy: 0.05,
        embedding: 0,
        ..Config::default()
    }
}

#[test]
fn several_masked_heads_with_tanh() {
    check(&config(Activation::Tanh), 1);
}

#[test]
fn several_masked_heads_with_relu() {
    check(&config(Activation::Relu), 2);
}

#[test]
fn masks_switched_off_and_raw_advantages() {
    check(&Config { mask_actions: false, normalise_advantages: false, ..config(Activation::Tanh) }, 3);
}

#[test]
fn one_head_without_auxiliary_state() {
    check(&Config { heads: vec![7], auxiliary: 0, hidden: vec![64], ..config(Activation::Tanh) }, 4);
}

#[test]
fn no_hidden_layer_at_all() {
    check(&Config { hidden: vec![], ..config(Activation::Tanh) }, 5);
}
