//! The forecast network against theory: the quantiles of a known distribution, and what breaks when it does not learn.
#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meanfield_learner::{
    ChaCha8Rng,
    forecast::{FEATURES, HORIZONS, LEVELS, Network, Samples, Tuner, loss, pinball},
    network::Scratch,
};
use rand::{RngExt, SeedableRng};

/// z-scores of the levels.
const Z: [f64; LEVELS.len()] = [0.0, 0.674_490, 1.281_552, 1.644_854, 2.053_749, 2.326_348, 2.575_829, 3.090_232];
const SPREAD: f64 = 0.3;

/// A standard normal number (Box and Muller).
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let (u, v) = (rng.random::<f64>().max(1e-300), rng.random::<f64>());
    (-2.0 * u.ln()).sqrt() * (std::f64::consts::TAU * v).cos()
}

/// What comes is half the first feature, and normal around that; for the second horizon a quarter more.
fn sample(rng: &mut ChaCha8Rng) -> ([f32; FEATURES], [f32; HORIZONS.len()]) {
    let mut features = [0.0; FEATURES];
    features.fill_with(|| (2.0 * rng.random::<f64>() - 1.0) as f32);
    let came = 0.5 * f64::from(features[0]) + SPREAD * normal(rng);
    (features, [came as f32, came as f32 + 0.25])
}

fn samples(count: usize, seed: u64) -> Samples {
    let rng = &mut ChaCha8Rng::seed_from_u64(seed);
    let mut samples = Samples::default();
    for _ in 0..count {
        let (features, targets) = sample(rng);
        samples.push(&features, targets);
    }
    samples
}

fn trained(rate: f32) -> Network {
    let data = samples(80_000, 1);
    let mut tuner = Tuner::new(Network::new(7), 7);
    for pass in 0..6 {
        tuner.pass(&data, rate * 0.5_f32.powi(pass)).unwrap();
    }
    tuner.into_network()
}

/// How far the share of what came within a level is from that level, at most.
fn furthest(network: &Network) -> f64 {
    let rng = &mut ChaCha8Rng::seed_from_u64(9);
    let mut within = [[0.0; LEVELS.len()]; HORIZONS.len()];
    for _ in 0..5000 {
        let (features, targets) = sample(rng);
        let quantiles = network.quantiles(&features, &mut Scratch::default()).unwrap();
        for ((within, row), came) in within.iter_mut().zip(&quantiles).zip(targets) {
            for (within, quantile) in within.iter_mut().zip(row) {
                *within += f64::from(u8::from(came <= *quantile)) / 5000.0;
            }
        }
    }
    let off = |row: &[f64; LEVELS.len()]| row.iter().zip(LEVELS).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
    within.iter().map(off).fold(0.0, f64::max)
}

#[test]
fn quantiles_are_those_of_the_distribution_that_was_learnt() {
    let network = trained(3e-3);
    let off = furthest(&network);
    assert!(off < 0.03, "off by {off}");
    // The same check notices when nothing was learnt.
    assert!(furthest(&trained(1e-9)) > 0.2);
    let held_out = samples(5000, 2);
    let (before, after) = (loss(&Network::new(7), &held_out).unwrap(), loss(&network, &held_out).unwrap());
    // The least that anybody can reach: the pinball loss of the true quantiles.
    let rng = &mut ChaCha8Rng::seed_from_u64(3);
    let least: f64 = (0..20_000)
        .map(|_| {
            let z = normal(rng);
            f64::from(pinball(&Z.map(|level| (SPREAD * level) as f32), (SPREAD * z) as f32))
        })
        .sum::<f64>()
        / 20_000.0;
    assert!(
        after[0] < 1.1 * least && after[1] < 1.1 * least && before[0] > 1.5 * least,
        "{before:?} {after:?} {least}"
    );
}

#[test]
fn quantiles_ascend_whatever_the_network() {
    let rng = &mut ChaCha8Rng::seed_from_u64(5);
    for seed in 0..20 {
        let (features, _) = sample(rng);
        for row in Network::new(seed).quantiles(&features, &mut Scratch::default()).unwrap() {
            assert!(row.windows(2).all(|pair| pair[0] <= pair[1]), "{row:?}");
        }
    }
}

#[test]
fn the_same_seed_gives_the_same_bytes_and_bad_input_is_refused() {
    let data = samples(500, 3);
    let once = |seed: u64| {
        let mut tuner = Tuner::new(Network::new(seed), seed);
        tuner.pass(&data, 1e-3).unwrap();
        tuner.into_network().save().unwrap()
    };
    assert_eq!(once(1), once(1));
    assert_ne!(once(1), once(2));
    assert!(Tuner::new(Network::new(1), 1).pass(&Samples::default(), 1e-3).is_err());
    let mut features = [0.0; FEATURES];
    features[3] = f32::NAN;
    assert!(Network::new(1).quantiles(&features, &mut Scratch::default()).is_err());
    // A target that is no number stops the training, and the network is as before.
    let mut bad = Samples::default();
    bad.push(&[0.0; FEATURES], [f32::NAN, 0.0]);
    let mut tuner = Tuner::new(Network::new(1), 1);
    assert!(tuner.pass(&bad, 1e-3).unwrap_err().to_string().contains("forecast loss"));
    assert_eq!(tuner.into_network(), Network::new(1));
}
