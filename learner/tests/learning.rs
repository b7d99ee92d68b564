//! Whether the learner learns: small worlds with known answers, several seeds each.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/worlds.rs"]
mod worlds;

use meanfield_learner::{ActScratch, ChaCha8Rng, Config};
use rand::RngExt;
use worlds::{World, config, greedy, train};

/// Each of two heads must name the state it sees, the second one shifted.
struct Identity;

impl World for Identity {
    fn states(&self) -> usize {
        4
    }
    fn step(&self, state: usize, actions: &[u8], rng: &mut ChaCha8Rng) -> (f32, Option<usize>) {
        let right = [state, (state + 1) % 4];
        let hits = actions.iter().zip(right).filter(|&(&action, right)| usize::from(action) == right).count();
        (hits as f32 / 2.0, Some(rng.random_range(0..4)))
    }
}

#[test]
fn identity_is_learned() {
    for seed in 0..3 {
        let (learner, reward) = train(&Identity, &config(&Identity, &[4, 4]), seed, 60);
        assert!(reward > 0.95, "seed {seed}: reward {reward}");
        for state in 0..4 {
            assert_eq!(greedy(&learner, state, 4, None), [state as u8, (state as u8 + 1) % 4]);
        }
    }
}

/// Three states in a row. Going right pays nothing until the end, where staying pays 1 but sometimes throws one back;
/// going left always pays a little at once. `(reward, [probability of each next state])` per state and action.
struct Chain;

const CHAIN: [[(f32, [f64; 3]); 2]; 3] = [
    [(0.25, [1.0, 0.0, 0.0]), (0.0, [0.2, 0.8, 0.0])],
    [(0.35, [1.0, 0.0, 0.0]), (0.0, [0.2, 0.0, 0.8])],
    [(0.35, [1.0, 0.0, 0.0]), (1.0, [0.3, 0.0, 0.7])],
];

impl World for Chain {
    fn states(&self) -> usize {
        3
    }
    fn step(&self, state: usize, actions: &[u8], rng: &mut ChaCha8Rng) -> (f32, Option<usize>) {
        let (reward, next) = CHAIN[state][usize::from(actions[0])];
        let mut left: f64 = rng.random();
        for (state, probability) in next.into_iter().enumerate() {
            left -= probability;
            if left < 0.0 {
                return (reward, Some(state));
            }
        }
        (reward, Some(0))
    }
}

/// The exact value of every state and action.
fn value_iteration(gamma: f64) -> [[f64; 2]; 3] {
    let mut values = [0.0f64; 3];
    let mut table = [[0.0; 2]; 3];
    for _ in 0..10_000 {
        for state in 0..3 {
            for action in 0..2 {
                let (reward, next) = CHAIN[state][action];
                let future: f64 = next.iter().zip(values).map(|(p, v)| p * v).sum();
                table[state][action] = f64::from(reward) + gamma * future;
            }
        }
        values = table.map(|row| row[0].max(row[1]));
    }
    table
}

#[test]
fn the_optimal_policy_of_a_small_world_is_found() {
    // A far-sighted agent goes right everywhere; a short-sighted one takes the small rewards on the way.
    for (gamma, expected) in [(0.9f32, [1, 1, 1]), (0.3, [0, 0, 1])] {
        let table = value_iteration(f64::from(gamma));
        let best = table.map(|row| u8::from(row[1] > row[0]));
        assert_eq!(best, expected, "the world is meant to tell the two apart: {table:?}");
        for seed in 0..4 {
            let config = Config { gamma, ..config(&Chain, &[2]) };
            let (learner, _) = train(&Chain, &config, seed, 80);
            let found = [0, 1, 2].map(|state| greedy(&learner, state, 3, None)[0]);
            assert_eq!(found, best, "gamma {gamma}, seed {seed}");
        }
    }
}

/// Action k pays k / 5, but in state s only the actions up to s are legal.
struct Masked;

impl World for Masked {
    fn states(&self) -> usize {
        5
    }
    fn mask(&self, state: usize) -> Option<Vec<bool>> {
        Some((0..5).map(|action| action <= state).collect())
    }
    fn step(&self, state: usize, actions: &[u8], rng: &mut ChaCha8Rng) -> (f32, Option<usize>) {
        assert!(usize::from(actions[0]) <= state, "a masked action was chosen");
        (f32::from(actions[0]) / 5.0, Some(rng.random_range(0..5)))
    }
}

#[test]
fn masked_actions_are_never_chosen_and_the_best_legal_one_is_found() {
    for seed in 0..3 {
        let (learner, _) = train(&Masked, &config(&Masked, &[5]), seed, 60);
        for state in 0..5 {
            let mask = Masked.mask(state);
            assert_eq!(greedy(&learner, state, 5, mask.as_deref()), [state as u8], "seed {seed}");
        }
    }
}

/// One state, one action, reward 1 for ever. Trajectories are cut off after 32 steps.
struct Endless;

impl World for Endless {
    fn states(&self) -> usize {
        1
    }
    fn step(&self, _: usize, _: &[u8], _: &mut ChaCha8Rng) -> (f32, Option<usize>) {
        (1.0, Some(0))
    }
}

#[test]
fn the_critic_sees_beyond_a_cut_off() {
    let config = Config { gamma: 0.95, ..config(&Endless, &[2]) };
    let (learner, _) = train(&Endless, &config, 1, 300);
    let value = learner.network().value(&[1.0], &[], &mut ActScratch::default()).unwrap();
    // 1 / (1 - gamma) = 20. Were a cut-off an end, the mean over 32 steps would be about 11.
    assert!((value - 20.0).abs() < 1.0, "value {value}");
}

#[test]
fn the_same_seed_gives_the_same_bits() {
    let bits = |seed| {
        let (learner, reward) = train(&Identity, &config(&Identity, &[4, 4]), seed, 5);
        let (actor, critic) = learner.network().parameters();
        let bits: Vec<u32> = actor.iter().chain(critic).map(|p| p.to_bits()).collect();
        (bits, reward.to_bits())
    };
    assert_eq!(bits(3), bits(3));
    assert_ne!(bits(3), bits(4));
}
