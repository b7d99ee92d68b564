//! Small worlds for learning tests, and the loop that trains in them.

use meanfield_learner::{ActScratch, Batch, ChaCha8Rng, Config, Learner, Mode, Segment, Step};
use rand::{RngExt, SeedableRng};

/// A world with a few states, shown to the agent one-hot.
pub trait World {
    fn states(&self) -> usize;
    /// Legal actions in a state, over all heads.
    fn mask(&self, _state: usize) -> Option<Vec<bool>> {
        None
    }
    /// Reward and next state; none ends the episode.
    fn step(&self, state: usize, actions: &[u8], rng: &mut ChaCha8Rng) -> (f32, Option<usize>);
}

pub fn one_hot(state: usize, states: usize) -> Vec<f32> {
    (0..states).map(|k| f32::from(u8::from(k == state))).collect()
}

pub fn config(world: &impl World, heads: &[usize]) -> Config {
    Config {
        observation: world.states(),
        auxiliary: 0,
        heads: heads.to_vec(),
        embedding: 0,
        minibatch: 64,
        learning_rate: 3e-3,
        ..Config::default()
    }
}

/// Trains for `updates` updates of 8 trajectories of 32 steps, each cut off at its end, and gives the last mean reward.
pub fn train(world: &impl World, config: &Config, seed: u64, updates: usize) -> (Learner, f32) {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed + 1000);
    let mut learner = Learner::new(config.clone(), seed).unwrap();
    let mut scratch = ActScratch::default();
    let mut segment = Segment::new(config, 32);
    let mut batch = Batch::new(config, 256);
    let mut mean = 0.0;
    for update in 0..updates {
        batch.clear();
        mean = 0.0;
        for _ in 0..8 {
            segment.clear();
            let mut state = rng.random_range(0..world.states());
            for _ in 0..32 {
                let observation = one_hot(state, world.states());
                let mask = world.mask(state);
                let network = learner.network();
                let choice = network.act(&observation, mask.as_deref(), Mode::Sample(rng), &mut scratch).unwrap();
                let value = network.value(&observation, &[], &mut scratch).unwrap();
                let (reward, next) = world.step(state, choice.actions(), rng);
                mean += reward / 256.0;
                let mask = mask.as_deref();
                let (observation, terminated) = (&observation, next.is_none());
                segment.push(&Step { observation, auxiliary: &[], mask, choice, reward, value, terminated }).unwrap();
                state = next.unwrap_or_else(|| rng.random_range(0..world.states()));
            }
            let bootstrap = learner.network().value(&one_hot(state, world.states()), &[], &mut scratch).unwrap();
            batch.push_segment(&segment, bootstrap).unwrap();
        }
        learner.update(&batch, update as f32 / updates as f32).unwrap();
    }
    (learner, mean)
}

pub fn greedy(learner: &Learner, state: usize, states: usize, mask: Option<&[bool]>) -> Vec<u8> {
    let choice =
        learner.network().act(&one_hot(state, states), mask, Mode::Greedy, &mut ActScratch::default()).unwrap();
    choice.actions().to_vec()
}
