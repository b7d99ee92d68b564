//! The native engine against LibTorch: forward passes, loss terms, gradients and whole updates agree up to rounding, over
//! several configurations and seeds. And where the two are given different settings the same comparison notices.
//!
//! Needs LibTorch: `eval "$(tests/torch/setup)"`, then
//! `cargo test -p meanfield-learner --features tch --test torch_parity`.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meanfield_learner::adam::{Adam, EPSILON};
use meanfield_learner::network::Scratch;
use meanfield_learner::{
    ActScratch, Activation, ActorCritic, Batch, ChaCha8Rng, Choice, Config, Error, Learner, Mode, Segment, Stats, Step,
    policy, torch,
};
use rand::{RngExt, SeedableRng};
use safetensors::tensor::SafeTensors;
use tch::nn::{self, OptimizerConfig};

/// Largest difference that rounding may explain, relative to the largest value of the array.
const ROUNDING: f64 = 1e-5;
/// The same for the state after many steps of Adam: each divides by the root of a mean of squares, so that a gradient near
/// zero passes its rounding on whole. The largest seen was 2.2e-5.
const ROUNDING_OF_UPDATES: f64 = 1e-4;
/// Terms are sums of numbers around 1 that may cancel each other out; nearer to zero they are compared absolutely.
const TERM: f64 = 1e-1;
/// The same for arrays that may vanish altogether.
const ARRAY: f64 = 1e-7;
const SEEDS: std::ops::Range<u64> = 0..4;

/// Every kind of loss, shape and optimiser setting that there is.
fn configurations() -> Vec<(&'static str, Config)> {
    let small = Config {
        observation: 5,
        auxiliary: 3,
        heads: vec![3, 4, 2],
        hidden: vec![9, 44],
        embedding: 0,
        entropy: 0.05,
        minibatch: 16,
        ..Config::default()
    };
    vec![
        ("paper", Config::paper()),
        ("default", Config::default()),
        ("masked heads", small.clone()),
        ("relu", Config { activation: Activation::Relu, ..small.clone() }),
        ("masks ignored", Config { mask_actions: false, ..small.clone() }),
        ("raw advantages", Config { normalise_advantages: false, ..small.clone() }),
        ("no clipping of gradients", Config { max_gradient_norm: None, ..small.clone() }),
        ("tight clipping of gradients", Config { max_gradient_norm: Some(0.05), ..small.clone() }),
        ("eight heads", Config { heads: vec![2, 3, 4, 5, 2, 3, 1, 9], ..small.clone() }),
        ("one head, no auxiliary", Config { heads: vec![7], auxiliary: 0, hidden: vec![64], ..small.clone() }),
        ("no hidden layer", Config { hidden: vec![], ..small.clone() }),
        ("one big minibatch", Config { minibatch: 1000, epochs: 10, ..small }),
    ]
}

/// What an agent might have seen, with masks that leave at least one action of each head.
struct Scene {
    observation: Vec<f32>,
    auxiliary: Vec<f32>,
    mask: Vec<bool>,
}

fn scene(config: &Config, rng: &mut ChaCha8Rng) -> Scene {
    let mut numbers = |count: usize| (0..count).map(|_| rng.random_range(-1.5..1.5)).collect::<Vec<f32>>();
    let (observation, auxiliary) = (numbers(config.observation), numbers(config.auxiliary));
    let mut mask: Vec<bool> = (0..config.logits()).map(|_| rng.random_bool(0.6)).collect();
    let mut start = 0;
    for &size in &config.heads {
        mask[start + rng.random_range(0..size)] = true;
        start += size;
    }
    Scene { observation, auxiliary, mask }
}

/// 90 steps of the policy: no multiple of a minibatch, with ends and cut-offs.
fn experience(network: &ActorCritic, seed: u64) -> Batch {
    let config = network.config();
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let (mut batch, mut scratch) = (Batch::new(config, 90), ActScratch::default());
    for _ in 0..3 {
        let mut segment = Segment::new(config, 30);
        for step in 0..30 {
            let Scene { observation, auxiliary, mask } = scene(config, rng);
            let choice = network.act(&observation, Some(&mask), Mode::Sample(rng), &mut scratch).unwrap();
            let value = network.value(&observation, &auxiliary, &mut scratch).unwrap();
            let (observation, auxiliary, mask) = (&observation, &auxiliary, Some(mask.as_slice()));
            let (reward, terminated) = (rng.random_range(-1.0..1.0), step == 11);
            segment.push(&Step { observation, auxiliary, mask, choice, reward, value, terminated }).unwrap();
            if step == 19 {
                segment.truncate(0.7).unwrap();
            }
        }
        batch.push_segment(&segment, 0.3).unwrap();
    }
    batch
}

/// A learner away from the policy that gathered the batch, so that ratios differ from 1 and some are clipped.
fn moved(config: &Config, seed: u64) -> (Learner, Batch) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed + 100);
    let mut learner = Learner::new(config.clone(), seed).unwrap();
    let batch = experience(learner.network(), seed);
    let mut near = |values: &[f32]| values.iter().map(|v| v + rng.random_range(-0.1..0.1)).collect::<Vec<f32>>();
    let (actor, critic) = learner.network().parameters();
    let (actor, critic) = (near(actor), near(critic));
    learner.network_mut().set_parameters(&actor, &critic).unwrap();
    (learner, batch)
}

/// The largest difference, relative to the largest value or `least`; infinite where only one of them is no number.
fn distance(ours: &[f32], theirs: &[f32], least: f64) -> f64 {
    assert_eq!(ours.len(), theirs.len());
    let scale = theirs.iter().filter(|v| v.is_finite()).fold(least, |most, &v| most.max(f64::from(v).abs()));
    let difference = |(&a, &b): (&f32, &f32)| match a == b {
        true => 0.0,
        false if a.is_finite() && b.is_finite() => f64::from(a - b).abs() / scale,
        false => f64::INFINITY,
    };
    ours.iter().zip(theirs).map(difference).fold(0.0, f64::max)
}

fn assert_near(what: &str, ours: &[f32], theirs: &[f32], bound: f64) {
    let distance = distance(ours, theirs, ARRAY);
    assert!(distance <= bound, "{what}: {distance:e} apart\nours {ours:?}\nLibTorch {theirs:?}");
}

fn assert_terms_near(what: &str, ours: &Stats, theirs: &Stats, bound: f64) {
    for ((ours, theirs), term) in numbers(ours).iter().zip(numbers(theirs)).zip(TERMS) {
        let distance = distance(&[*ours], &[theirs], TERM);
        assert!(distance <= bound, "{what}: {term} is {ours}, of LibTorch {theirs}");
    }
}

const TERMS: [&str; 6] = ["policy loss", "value loss", "entropy", "approximate kl", "clip fraction", "gradient norm"];

fn numbers(stats: &Stats) -> [f32; 6] {
    let Stats { policy_loss, value_loss, entropy, approximate_kl, clip_fraction, gradient_norm } = *stats;
    [policy_loss, value_loss, entropy, approximate_kl, clip_fraction, gradient_norm]
}

fn state(learner: &Learner) -> (serde_json::Value, Vec<(String, Vec<f32>)>) {
    let bytes = learner.save().unwrap();
    let (_, metadata) = SafeTensors::read_metadata(&bytes).unwrap();
    let header = &metadata.metadata().as_ref().unwrap()["meanfield"];
    let mut header: serde_json::Value = serde_json::from_str(header).unwrap();
    header.as_object_mut().unwrap().remove("checksum");
    let floats = |data: &[u8]| data.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let mut tensors: Vec<_> = file.tensors().into_iter().map(|(name, view)| (name, floats(view.data()))).collect();
    tensors.sort_by(|(a, _), (b, _)| a.cmp(b));
    (header, tensors)
}

/// One thread: several only get into each other's way with arrays as small as these.
fn on_libtorch(native: &Learner) -> torch::Learner {
    tch::set_num_threads(1);
    torch::Learner::from_native(native).unwrap()
}

#[test]
fn forward_passes_agree() {
    for (name, config) in configurations() {
        for seed in SEEDS {
            let (learner, _) = moved(&config, seed);
            let torch = on_libtorch(&learner);
            let rng = &mut ChaCha8Rng::seed_from_u64(seed);
            let scenes: Vec<Scene> = (0..50).map(|_| scene(&config, rng)).collect();
            let observations: Vec<f32> = scenes.iter().flat_map(|scene| &scene.observation).copied().collect();
            let states: Vec<f32> =
                scenes.iter().flat_map(|scene| scene.observation.iter().chain(&scene.auxiliary)).copied().collect();
            let masks: Vec<bool> = scenes.iter().flat_map(|scene| &scene.mask).copied().collect();

            let mut scratch = Scratch::default();
            let values = learner.network().critic().forward(&states, 50, &mut scratch).unwrap();
            assert_near(&format!("{name}: values"), values, &torch.values(&states).unwrap(), ROUNDING);
            let mut log_probs = learner.network().actor().forward(&observations, 50, &mut scratch).unwrap().to_vec();
            for (row, mask) in log_probs.chunks_mut(config.logits()).zip(masks.chunks(config.logits())) {
                policy::normalise(&config.heads, row, config.mask_actions.then_some(mask)).unwrap();
            }
            let theirs = torch.log_probs(&observations, Some(&masks)).unwrap();
            assert_near(&format!("{name}: log-probabilities"), &log_probs, &theirs, ROUNDING);

            let mut scratch = ActScratch::default();
            for Scene { observation, mask, .. } in &scenes {
                let ours = learner.network().act(observation, Some(mask), Mode::Greedy, &mut scratch).unwrap();
                let theirs = torch.greedy(observation, Some(mask)).unwrap();
                assert_eq!(ours.actions(), theirs.actions(), "{name}");
                assert_near(name, &[ours.log_prob], &[theirs.log_prob], ROUNDING);
            }
        }
    }
}

#[test]
fn loss_terms_and_gradients_agree() {
    for (name, config) in configurations() {
        for seed in SEEDS {
            let (mut learner, batch) = moved(&config, seed);
            let theirs = on_libtorch(&learner).gradients(&batch).unwrap();
            let ours = learner.gradients(&batch).unwrap();
            assert!(ours.stats.clip_fraction > 0.02, "{name}: too few ratios are clipped to prove anything");
            assert_terms_near(name, &ours.stats, &theirs.stats, ROUNDING);
            let total = |terms: [f32; 6]| terms[0] - config.entropy * terms[2] + config.value_weight * terms[1];
            let totals = [total(numbers(&ours.stats)), total(numbers(&theirs.stats))];
            assert!(distance(&totals[..1], &totals[1..], TERM) <= ROUNDING, "{name}: total {totals:?}");
            assert_near(&format!("{name}: actor gradient"), ours.actor, &theirs.actor, ROUNDING);
            assert_near(&format!("{name}: critic gradient"), ours.critic, &theirs.critic, ROUNDING);
        }
    }
}

#[test]
fn whole_updates_agree() {
    for (name, config) in configurations() {
        for seed in SEEDS {
            let mut learner = Learner::new(config.clone(), seed).unwrap();
            let mut torch = on_libtorch(&learner);
            for update in 0..5u8 {
                let batch = experience(learner.network(), 10 * seed + u64::from(update));
                let progress = f32::from(update) / 5.0;
                let (ours, theirs) = (learner.update(&batch, progress), torch.update(&batch, progress));
                let what = format!("{name}, seed {seed}, update {update}");
                assert_terms_near(&what, &ours.unwrap(), &theirs.unwrap(), ROUNDING_OF_UPDATES);
                let ((header, ours), (their_header, theirs)) = (state(&learner), state(&torch.to_native().unwrap()));
                assert_eq!(header, their_header, "{what}: settings, number of steps, position of the shuffling");
                for ((tensor, ours), (_, theirs)) in ours.iter().zip(&theirs) {
                    assert_near(&format!("{what}: {tensor}"), ours, theirs, ROUNDING_OF_UPDATES);
                }
            }
        }
    }
}

/// How far two engines end apart after one update, if LibTorch's has another configuration.
fn after_one_update(ours: &Config, theirs: &Config) -> f64 {
    let (mut learner, batch) = moved(ours, 3);
    let (actor, critic) = learner.network().parameters();
    let mut other = Learner::new(theirs.clone(), 3).unwrap();
    other.network_mut().set_parameters(actor, critic).unwrap();
    let mut torch = on_libtorch(&other);
    learner.update(&batch, 0.5).unwrap();
    torch.update(&batch, 0.5).unwrap();
    let ((_, ours), (_, theirs)) = (state(&learner), state(&torch.to_native().unwrap()));
    let tensors = ours.iter().zip(&theirs);
    tensors.map(|((_, ours), (_, theirs))| distance(ours, theirs, ARRAY)).fold(0.0, f64::max)
}

#[test]
fn any_other_setting_is_noticed() {
    let config = configurations().swap_remove(2).1;
    assert!(after_one_update(&config, &config) < ROUNDING_OF_UPDATES);
    for (name, other) in [
        ("activation", Config { activation: Activation::Relu, ..config.clone() }),
        ("clip", Config { clip: 0.21, ..config.clone() }),
        ("entropy", Config { entropy: 0.06, ..config.clone() }),
        ("value_weight", Config { value_weight: 0.55, ..config.clone() }),
        ("epochs", Config { epochs: 4, ..config.clone() }),
        ("minibatch", Config { minibatch: 15, ..config.clone() }),
        ("max_gradient_norm", Config { max_gradient_norm: Some(0.3), ..config.clone() }),
        ("normalise_advantages", Config { normalise_advantages: false, ..config.clone() }),
        ("mask_actions", Config { mask_actions: false, ..config.clone() }),
        ("learning_rate", Config { learning_rate: 2.1e-3, ..config.clone() }),
        ("learning_rate_final", Config { learning_rate_final: 2e-4, ..config.clone() }),
    ] {
        let distance = after_one_update(&config, &other);
        assert!(distance > 5.0 * ROUNDING_OF_UPDATES, "{name}: only {distance:e} apart");
    }
}

#[test]
fn the_smallest_change_of_a_parameter_that_matters_is_noticed() {
    let config = configurations().swap_remove(2).1;
    let (mut learner, batch) = moved(&config, 1);
    let theirs = on_libtorch(&learner).gradients(&batch).unwrap();
    let (actor, critic) = learner.network().parameters();
    for at in [0, actor.len() / 2, actor.len() - 1] {
        let mut changed = actor.to_vec();
        changed[at] += 0.01;
        let mut other = learner.clone();
        other.network_mut().set_parameters(&changed, critic).unwrap();
        assert!(
            distance(other.gradients(&batch).unwrap().actor, &theirs.actor, ARRAY) > 10.0 * ROUNDING,
            "parameter {at}"
        );
    }
    assert!(distance(learner.gradients(&batch).unwrap().actor, &theirs.actor, ARRAY) < ROUNDING);
}

#[test]
fn adam_agrees_with_the_one_of_libtorch() {
    let store = nn::VarStore::new(tch::Device::Cpu);
    let theirs = store.root().zeros("parameters", &[100]);
    let mut optimiser = nn::Adam { eps: f64::from(EPSILON), ..nn::Adam::default() }.build(&store, 1e-3).unwrap();
    let (mut ours, mut adam) = (vec![0.0f32; 100], Adam::new(100, EPSILON));
    let rng = &mut ChaCha8Rng::seed_from_u64(1);
    for step in 1..=500 {
        // From sizes where epsilon counts to large ones.
        let gradient: Vec<f32> = (0..100).map(|k| rng.random_range(-1.0..1.0) * 10f32.powi(k % 12 - 9)).collect();
        let rate = 1e-3 / step as f32;
        adam.step(&mut ours, &gradient, 1.0, rate).unwrap();
        optimiser.set_lr(f64::from(rate));
        optimiser.backward_step(&theirs.dot(&tch::Tensor::from_slice(&gradient)));
    }
    assert_near("Adam", &ours, &Vec::<f32>::try_from(&theirs).unwrap(), ROUNDING);
}

#[test]
fn engines_can_be_changed_without_loss() {
    let config = configurations().swap_remove(2).1;
    let mut learner = Learner::new(config, 5).unwrap();
    let batch = experience(learner.network(), 5);
    learner.update(&batch, 0.0).unwrap();
    let saved = learner.save().unwrap();
    let torch = on_libtorch(&learner);
    assert_eq!(torch.to_native().unwrap().save().unwrap(), saved, "there and back, bit for bit");
}

#[test]
fn both_engines_refuse_the_same_and_stay_as_they_were() {
    let config = Config { normalise_advantages: false, minibatch: 4, ..configurations().swap_remove(2).1 };
    let (observation, auxiliary) = (vec![0.5; config.observation], vec![0.5; config.auxiliary]);
    let batch = |rewards: &[f32], log_prob: f32| {
        let mut segment = Segment::new(&config, rewards.len());
        for &reward in rewards {
            let choice = Choice::new(&[0, 0, 0], log_prob).unwrap();
            let (observation, auxiliary) = (&observation, &auxiliary);
            let step = Step { observation, auxiliary, mask: None, choice, reward, value: 0.0, terminated: false };
            segment.push(&step).unwrap();
        }
        let mut batch = Batch::new(&config, rewards.len());
        batch.push_segment(&segment, 0.0).unwrap();
        batch
    };
    let mut learner = Learner::new(config.clone(), 0).unwrap();
    let mut torch = on_libtorch(&learner);
    let saved = learner.save().unwrap();
    let mut rewards = [0.0; 400];
    rewards[0] = 1e30;
    for bad in [batch(&rewards, -3.3), batch(&[-1.0; 8], -1e4), Batch::new(&config, 1)] {
        let (ours, theirs) = (learner.update(&bad, 0.0).unwrap_err(), torch.update(&bad, 0.0).unwrap_err());
        assert_eq!(ours, theirs);
        assert_eq!(learner.save().unwrap(), saved);
        assert_eq!(torch.to_native().unwrap().save().unwrap(), saved);
    }
    let good = batch(&[1.0; 8], -3.3);
    assert_eq!(torch.update(&good, f32::NAN), Err(Error::NonFinite { what: "progress" }));
    let elsewhere = Learner::new(Config::paper(), 0).unwrap();
    let error = on_libtorch(&elsewhere).update(&good, 0.0).unwrap_err();
    assert!(matches!(error, Error::Shape { .. }), "{error}");
    assert!(matches!(torch.values(&[0.0; 7]), Err(Error::Shape { .. })));
    assert!(matches!(torch.greedy(&[0.0; 6], None), Err(Error::Shape { .. })));
}
