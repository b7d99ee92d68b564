//! Advantage estimation, Adam and the policy's distributions, each against an independent reference.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meanfield_learner::adam::{Adam, clip_scale, global_norm};
use meanfield_learner::gae::{Trajectory, estimate};
use meanfield_learner::{ChaCha8Rng, Choice, Error, policy};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};

/// Advantages straight from the definition: every step adds up its discounted surprises until its episode ends.
fn by_definition(trajectory: Trajectory<'_>, gamma: f64, lambda: f64) -> Vec<f64> {
    let Trajectory { rewards, values, terminated, truncated, bootstrap } = trajectory;
    let steps = rewards.len();
    let surprise = |t: usize| {
        let next = match (terminated[t], truncated[t]) {
            (true, _) => 0.0,
            (false, Some(value)) => f64::from(value),
            (false, None) => f64::from(values.get(t + 1).copied().unwrap_or(bootstrap)),
        };
        f64::from(rewards[t]) + gamma * next - f64::from(values[t])
    };
    (0..steps)
        .map(|start| {
            let mut sum = 0.0;
            for t in start..steps {
                sum += (gamma * lambda).powi((t - start) as i32) * surprise(t);
                if terminated[t] || truncated[t].is_some() {
                    break;
                }
            }
            sum
        })
        .collect()
}

proptest! {
    #[test]
    fn advantages_match_their_definition(
        steps in prop::collection::vec((-1.0f32..1.0, -2.0f32..2.0, 0u8..10, -2.0f32..2.0), 0..60),
        bootstrap in -2.0f32..2.0, gamma in 0.0f32..=1.0, lambda in 0.0f32..=1.0,
    ) {
        let rewards: Vec<f32> = steps.iter().map(|s| s.0).collect();
        let values: Vec<f32> = steps.iter().map(|s| s.1).collect();
        let terminated: Vec<bool> = steps.iter().map(|s| s.2 == 0).collect();
        let truncated: Vec<Option<f32>> = steps.iter().map(|s| (s.2 < 3).then_some(s.3)).collect();
        let trajectory = Trajectory {
            rewards: &rewards, values: &values, terminated: &terminated, truncated: &truncated, bootstrap,
        };
        let mut advantages = vec![0.0; steps.len()];
        estimate(trajectory, gamma, lambda, &mut advantages).unwrap();
        for (ours, reference) in advantages.iter().zip(by_definition(trajectory, gamma.into(), lambda.into())) {
            prop_assert!((f64::from(*ours) - reference).abs() < 1e-3, "{ours} against {reference}");
        }
    }
}

#[test]
fn a_cut_off_bootstraps_and_an_end_does_not() {
    let advantage = |terminated, truncated| {
        let mut advantages = [0.0];
        let trajectory = Trajectory {
            rewards: &[1.0],
            values: &[2.0],
            terminated: &[terminated],
            truncated: &[truncated],
            bootstrap: 100.0,
        };
        estimate(trajectory, 0.5, 0.9, &mut advantages).unwrap();
        advantages[0]
    };
    assert_eq!(advantage(true, None), 1.0 - 2.0);
    assert_eq!(advantage(false, Some(10.0)), 1.0 + 0.5 * 10.0 - 2.0);
    assert_eq!(advantage(false, None), 1.0 + 0.5 * 100.0 - 2.0);
    assert_eq!(advantage(true, Some(10.0)), 1.0 - 2.0, "an end outranks a cut-off");
}

#[test]
fn lengths_that_differ_are_an_error() {
    let trajectory =
        Trajectory { rewards: &[1.0], values: &[], terminated: &[false], truncated: &[None], bootstrap: 0.0 };
    assert!(matches!(estimate(trajectory, 0.9, 0.9, &mut [0.0]), Err(Error::Shape { what: "values", .. })));
}

#[test]
fn adam_follows_the_textbook() {
    let rng = &mut ChaCha8Rng::seed_from_u64(5);
    for epsilon in [1e-8f32, 1e-5] {
        let count = 37;
        let mut parameters: Vec<f32> = (0..count).map(|_| rng.random_range(-1.0..1.0)).collect();
        let mut reference: Vec<f64> = parameters.iter().map(|&p| f64::from(p)).collect();
        let (mut mean, mut square) = (vec![0.0f64; count], vec![0.0f64; count]);
        let mut adam = Adam::new(count, epsilon);
        for step in 1..=300 {
            let scale = if step % 3 == 0 { 0.25 } else { 1.0 };
            let gradients: Vec<f32> =
                (0..count).map(|k| rng.random_range(-1.0..1.0) * 10f32.powi(k as i32 % 5 - 2)).collect();
            adam.step(&mut parameters, &gradients, scale, 1e-2).unwrap();
            for k in 0..count {
                let gradient = f64::from(gradients[k]) * f64::from(scale);
                mean[k] = 0.9 * mean[k] + 0.1 * gradient;
                square[k] = 0.999 * square[k] + 0.001 * gradient * gradient;
                let corrected_mean = mean[k] / (1.0 - 0.9f64.powi(step));
                let corrected_square = square[k] / (1.0 - 0.999f64.powi(step));
                reference[k] -= 1e-2 * corrected_mean / (corrected_square.sqrt() + f64::from(epsilon));
            }
        }
        for (ours, reference) in parameters.iter().zip(&reference) {
            assert!((f64::from(*ours) - reference).abs() < 2e-4, "{ours} against {reference}");
        }
    }
}

#[test]
fn clipping_brings_the_norm_to_its_bound() {
    let (actor, critic) = ([3.0f32; 100], [4.0f32; 100]);
    let norm = global_norm(&[&actor, &critic]);
    assert!((norm - 50.0).abs() < 1e-4);
    assert!((norm * clip_scale(norm, Some(0.5)) - 0.5).abs() < 1e-6);
    assert_eq!(clip_scale(norm, None), 1.0);
    assert_eq!(clip_scale(0.1, Some(0.5)), 1.0, "a short gradient is not stretched");
}

proptest! {
    #[test]
    fn masked_softmax_is_a_distribution(
        logits in prop::collection::vec(-200.0f32..200.0, 9), mask in prop::collection::vec(any::<bool>(), 9), seed: u64,
    ) {
        let heads = [3, 4, 2];
        let mut log_probs = logits.clone();
        let outcome = policy::normalise(&heads, &mut log_probs, Some(&mask));
        let starved = [0..3, 3..7, 7..9].into_iter().position(|head| !mask[head].contains(&true));
        if let Some(head) = starved {
            prop_assert_eq!(outcome, Err(Error::MaskedHead { head }));
            return Ok(());
        }
        outcome.unwrap();
        let mut entropy = 0.0;
        for head in [0..3, 3..7, 7..9] {
            let total: f64 = head.clone().filter(|&k| mask[k]).map(|k| f64::from(logits[k]).exp()).sum();
            for k in head {
                let exact = if mask[k] { f64::from(logits[k]).exp() / total } else { 0.0 };
                prop_assert!((f64::from(log_probs[k]).exp() - exact).abs() < 1e-5);
                entropy -= if exact > 0.0 { exact * exact.ln() } else { 0.0 };
            }
        }
        prop_assert!((f64::from(policy::entropy(&heads, &log_probs)) - entropy).abs() < 1e-3);

        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        for choice in [policy::sample(&heads, &log_probs, rng), policy::greedy(&heads, &log_probs)] {
            let mut start = 0;
            for (&size, &action) in heads.iter().zip(choice.actions()) {
                prop_assert!(mask[start + usize::from(action)], "a masked action was chosen");
                start += size;
            }
            prop_assert_eq!(choice.log_prob, policy::log_prob(&heads, &log_probs, choice.actions()));
        }
    }
}

#[test]
fn sampling_follows_the_probabilities() {
    let mut log_probs = [0.1f32.ln(), 0.6f32.ln(), 0.3f32.ln(), 5.0];
    policy::normalise(&[4], &mut log_probs, Some(&[true, true, true, false])).unwrap();
    let rng = &mut ChaCha8Rng::seed_from_u64(11);
    let mut counts = [0u32; 4];
    for _ in 0..100_000 {
        counts[usize::from(policy::sample(&[4], &log_probs, rng).actions()[0])] += 1;
    }
    for (count, probability) in counts.iter().zip([0.1, 0.6, 0.3, 0.0]) {
        assert!((f64::from(*count) / 1e5 - probability).abs() < 0.006, "{counts:?}");
    }
}

#[test]
fn extremes_of_the_softmax() {
    let mut equal = [0.0f32; 3];
    policy::normalise(&[3], &mut equal, None).unwrap();
    assert_eq!(policy::greedy(&[3], &equal).actions(), [0], "the first of equals");
    let mut far = [1e30f32, -1e30, 0.0];
    policy::normalise(&[3], &mut far, None).unwrap();
    assert_eq!(far[0], 0.0);
    assert_eq!(policy::entropy(&[3], &far), 0.0);
    for bad in [f32::NAN, f32::INFINITY] {
        let refused = policy::normalise(&[3], &mut [0.0, bad, 0.0], None);
        assert_eq!(refused, Err(Error::NonFinite { what: "policy output" }));
    }
    let mut masked = [0.0, f32::NAN, 0.0];
    policy::normalise(&[3], &mut masked, Some(&[true, false, true])).unwrap();
    assert!(matches!(policy::normalise(&[3], &mut [0.0; 2], None), Err(Error::Shape { what: "logits", .. })));
    assert!(matches!(policy::normalise(&[3], &mut [0.0; 3], Some(&[true])), Err(Error::Shape { what: "mask", .. })));
    assert!(Choice::new(&[0; 9], 0.0).is_err());
}
