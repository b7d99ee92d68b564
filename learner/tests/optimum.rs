//! PPO against random worlds whose best policy is computed here, exactly and independently of the learner. The same yardstick
//! must call a learner bad whose learning is broken.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/worlds.rs"]
mod worlds;

use meanfield_learner::{ChaCha8Rng, Config, Learner};
use rand::{RngExt, SeedableRng};
use worlds::{World, config, greedy, train};

const STATES: usize = 6;
const GAMMA: f64 = 0.9;
/// How much of the optimal value a learned policy may lack.
const LACK: f64 = 0.02;
const SEEDS: std::ops::Range<u64> = 0..5;
const UPDATES: usize = 120;

/// A world of tables. An action of several heads counts through them like the digits of a number.
struct Table {
    heads: Vec<usize>,
    /// By state and action: what it pays, and the probability of each next state.
    outcomes: Vec<Vec<(f64, [f64; STATES])>>,
    /// By state: which actions are legal. Empty where all are.
    legal: Vec<Vec<bool>>,
}

impl Table {
    /// Rewards are sparse, so that going where they are matters more than taking what is here.
    fn random(heads: &[usize], masked: bool, seed: u64) -> Self {
        let rng = &mut ChaCha8Rng::seed_from_u64(seed);
        let actions: usize = heads.iter().product();
        let outcome = |rng: &mut ChaCha8Rng| {
            let reward = if rng.random_bool(0.3) { rng.random_range(0.0..1.0) } else { 0.0 };
            let mut next = [0.0; STATES];
            for _ in 0..2 {
                next[rng.random_range(0..STATES)] += rng.random_range(0.1..1.0);
            }
            let total: f64 = next.iter().sum();
            (reward, next.map(|weight| weight / total))
        };
        let outcomes = (0..STATES).map(|_| (0..actions).map(|_| outcome(rng)).collect()).collect();
        let mut world = Self { heads: heads.to_vec(), outcomes, legal: Vec::new() };
        if masked {
            // What would be best is forbidden in every other state, and more at random.
            let (_, best) = world.optimum();
            let forbidden =
                |state: usize, action| best[state] == action && state.is_multiple_of(2) || rng.random_bool(0.2);
            world.legal = legal(actions, forbidden);
        }
        world
    }

    fn may(&self, state: usize, action: usize) -> bool {
        self.legal.get(state).is_none_or(|legal| legal[action])
    }

    /// What an action is worth, if states are worth `values`.
    fn worth(&self, state: usize, action: usize, values: &[f64; STATES]) -> f64 {
        let (reward, next) = &self.outcomes[state][action];
        reward + GAMMA * next.iter().zip(values).map(|(probability, value)| probability * value).sum::<f64>()
    }

    /// Values of the states under a policy, or under the best one there is, with its actions.
    fn solve(&self, policy: Option<&[usize; STATES]>) -> ([f64; STATES], [usize; STATES]) {
        let (mut values, mut actions) = ([0.0; STATES], [0; STATES]);
        // 0.9 to the power of 400 is less than a double can tell from nothing.
        for _ in 0..400 {
            let before = values;
            for state in 0..STATES {
                let all = 0..self.outcomes[state].len();
                let open =
                    all.filter(|&action| policy.map_or(self.may(state, action), |policy| policy[state] == action));
                let worth = open.map(|action| (self.worth(state, action, &before), action));
                (values[state], actions[state]) = worth.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap();
            }
        }
        (values, actions)
    }

    fn optimum(&self) -> ([f64; STATES], [usize; STATES]) {
        self.solve(None)
    }

    fn number(&self, actions: &[u8]) -> usize {
        self.heads.iter().zip(actions).fold(0, |number, (&size, &action)| number * size + usize::from(action))
    }

    /// Whether the learner's best actions are worth nearly as much as the best there are; by how much not, if not.
    fn judge(&self, learner: &Learner) -> Result<f64, f64> {
        let policy: [usize; STATES] = std::array::from_fn(|state| {
            let action = self.number(&greedy(learner, state, STATES, self.mask(state).as_deref()));
            assert!(self.may(state, action), "a masked action was chosen");
            action
        });
        let total = |values: [f64; STATES]| values.iter().sum::<f64>();
        let lack = 1.0 - total(self.solve(Some(&policy)).0) / total(self.optimum().0);
        if lack <= LACK { Ok(lack) } else { Err(lack) }
    }
}

fn legal(actions: usize, mut forbidden: impl FnMut(usize, usize) -> bool) -> Vec<Vec<bool>> {
    let row = |state| {
        let mut legal: Vec<bool> = (0..actions).map(|action| !forbidden(state, action)).collect();
        if !legal.contains(&true) {
            legal[state % actions] = true;
        }
        legal
    };
    (0..STATES).map(row).collect()
}

impl World for Table {
    fn states(&self) -> usize {
        STATES
    }
    fn mask(&self, state: usize) -> Option<Vec<bool>> {
        self.legal.get(state).cloned()
    }
    fn step(&self, state: usize, actions: &[u8], rng: &mut ChaCha8Rng) -> (f32, Option<usize>) {
        let (reward, next) = &self.outcomes[state][self.number(actions)];
        let mut left: f64 = rng.random();
        let landed = next.iter().position(|probability| {
            left -= probability;
            left < 0.0
        });
        (*reward as f32, Some(landed.unwrap_or(STATES - 1)))
    }
}

fn settings(world: &Table) -> Config {
    Config { gamma: GAMMA as f32, ..config(world, &world.heads) }
}

#[test]
fn the_optimum_of_random_worlds_is_reached() {
    for (heads, masked) in [(vec![4], false), (vec![4], true), (vec![2, 3], false)] {
        for seed in SEEDS {
            let world = Table::random(&heads, masked, seed);
            let (learner, _) = train(&world, &settings(&world), seed, UPDATES);
            let lack = world.judge(&learner);
            assert!(lack.is_ok(), "heads {heads:?}, masked {masked}, seed {seed}: lacks {lack:?} of the optimum");
        }
    }
}

/// The same world to the eye, but every reward has the other sign: what a flipped advantage would learn from.
struct Flipped<'a>(&'a Table);

impl World for Flipped<'_> {
    fn states(&self) -> usize {
        STATES
    }
    fn step(&self, state: usize, actions: &[u8], rng: &mut ChaCha8Rng) -> (f32, Option<usize>) {
        let (reward, next) = self.0.step(state, actions, rng);
        (-reward, next)
    }
}

#[test]
fn broken_learning_is_called_bad() {
    let mut shortsighted = Vec::new();
    for seed in 0..3 {
        let world = Table::random(&[4], false, seed);
        let idle = Config { learning_rate: 1e-12, learning_rate_final: 0.0, ..settings(&world) };
        let (learner, _) = train(&world, &idle, seed, UPDATES);
        assert!(world.judge(&learner).is_err(), "seed {seed}: without learning");

        let (learner, _) = train(&Flipped(&world), &settings(&world), seed, UPDATES);
        assert!(world.judge(&learner).is_err(), "seed {seed}: with the sign of the advantage flipped");

        let blind = Config { gamma: 0.0, ..settings(&world) };
        let (learner, _) = train(&world, &blind, seed, UPDATES);
        shortsighted.push(world.judge(&learner));
    }
    // In one of these worlds what pays at once is best in the long run too.
    let bad = shortsighted.iter().filter(|judged| judged.is_err()).count();
    assert_eq!(bad, 2, "without regard for the future: {shortsighted:?}");
}
