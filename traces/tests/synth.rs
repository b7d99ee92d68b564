//! Laws of the generators: means, dispersion, reproducibility, and the load that the simulated cluster began with.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::f64::consts::TAU;

use meanfield_traces::{
    Trace,
    describe::{Description, describe},
    synth::{Bursts, Counting, Crowds, Preset, Scale, Shape, Size, Switching, Wander},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn rng(seed: u64) -> ChaCha8Rng {
    ChaCha8Rng::seed_from_u64(seed)
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len() as f64
}

fn figures(rates: &[f64], step: f64) -> Description {
    describe(&Trace::new("made", None, step, rates.iter().map(|rate| (rate * step).round()).collect()).unwrap())
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    for preset in Preset::ALL {
        let rates = |seed| preset.generate(5.0, 500, 15.0, &mut rng(seed));
        assert_eq!(rates(3), rates(3), "{preset:?}");
        assert_ne!(rates(3), rates(4), "{preset:?}");
        assert_eq!(preset.name().parse::<Preset>().unwrap(), preset);
    }
    let error = "nonsense".parse::<Preset>().unwrap_err().to_string();
    assert!(error.contains("nonsense") && error.contains("azure-functions"), "{error}");
}

#[test]
fn a_whole_day_has_the_mean_that_was_asked_for() {
    for preset in Preset::ALL.into_iter().filter(|preset| *preset != Preset::Diurnal) {
        for seed in 0..5 {
            let rates = preset.generate(20.0, 5760, 15.0, &mut rng(seed));
            // Only the noise of 1.7 million requests is left: four deviations are 0.3 %.
            assert!((mean(&rates) / 20.0 - 1.0).abs() < 0.003, "{preset:?} {seed}: {}", mean(&rates));
        }
    }
}

#[test]
fn a_function_that_is_hardly_ever_on_has_its_mean_too() {
    let switching = Some(Switching { on: 30.0, off: 1e7, rest: 0.0 });
    let shape = Shape { switching, counting: Counting::Exact, ..Shape::default() };
    for seed in 0..20 {
        let rates = shape.generate(2.0, 1440, 60.0, &mut rng(seed));
        assert!((mean(&rates) - 2.0).abs() < 1e-9, "{seed}: {}", mean(&rates));
    }
}

#[test]
fn the_beginning_of_a_day_is_the_mean_only_on_average() {
    let first: Vec<_> = (0..300).map(|seed| mean(&Preset::Bursty.generate(20.0, 40, 15.0, &mut rng(seed)))).collect();
    assert!((mean(&first) / 20.0 - 1.0).abs() < 0.15, "{}", mean(&first));
    let spread = first.iter().map(|one| (one - 20.0).powi(2)).sum::<f64>() / 300.0;
    assert!(spread > 1.0, "{spread}");
}

#[test]
fn a_steady_rate_is_a_poisson_process() {
    for step in [1.0, 15.0, 60.0] {
        let found = figures(&Preset::Steady.generate(2.0, 20_000, step, &mut rng(1)), step);
        // The index of dispersion of n counts has a deviation of sqrt(2 / n) = 0.01.
        assert!((found.dispersion.unwrap() - 1.0).abs() < 0.04, "{found:?}");
        assert!(found.lag1.unwrap().abs() < 0.03, "{found:?}");
    }
}

#[test]
fn a_wander_is_lognormal_and_fades_as_it_says() {
    let wander = Wander { deviation: 0.5, seconds: 150.0, settled: true };
    let shape = Shape { wanders: vec![wander], counting: Counting::Exact, ..Shape::default() };
    let logs: Vec<_> = shape.generate(1.0, 200_000, 15.0, &mut rng(2)).iter().map(|rate| rate.ln()).collect();
    let middle = mean(&logs);
    let variance = mean(&logs.iter().map(|log| (log - middle).powi(2)).collect::<Vec<_>>());
    let next = mean(&logs.windows(2).map(|pair| (pair[0] - middle) * (pair[1] - middle)).collect::<Vec<_>>());
    assert!((variance.sqrt() - 0.5).abs() < 0.02, "{variance}");
    assert!((next / variance - (-0.1_f64).exp()).abs() < 0.01, "{}", next / variance);
}

#[test]
fn switching_is_on_for_its_share_at_any_step() {
    for step in [5.0, 15.0] {
        let switching = Some(Switching { on: 300.0, off: 900.0, rest: 0.0 });
        let shape = Shape { switching, counting: Counting::Exact, scale: Scale::Nominal, ..Shape::default() };
        let rates = shape.generate(1.0, 200_000, step, &mut rng(3));
        assert!((mean(&rates) - 0.25).abs() < 0.03, "{step}: {}", mean(&rates));
    }
}

#[test]
fn crowds_come_at_their_time_also_when_a_day_is_short() {
    let crowds = Crowds {
        times: vec![(0.5, 1.0)],
        size: Size::Uniform { low: 3.0, high: 3.0 },
        rise: 0.05,
        hold: 0.1,
        fade: 0.02,
    };
    for day_seconds in [86_400.0, 7200.0] {
        let shape = Shape {
            day_seconds,
            crowds: Some(crowds.clone()),
            counting: Counting::Exact,
            scale: Scale::Nominal,
            ..Shape::default()
        };
        let rates = shape.generate(1.0, 480, day_seconds / 480.0, &mut rng(4));
        let at = |share: f64| rates[(share * 480.0) as usize];
        assert!((at(0.55) - 4.0).abs() < 1e-9 && (at(0.40) - 1.0).abs() < 1e-9 && at(0.9) < 1.01, "{day_seconds}");
        assert!((at(0.475) - 2.5).abs() < 0.2, "{}", at(0.475));
    }
}

#[test]
fn heavy_bursts_have_the_tail_they_are_given() {
    let size = Size::Pareto { least: 1.0, exponent: 1.5, most: 1e6 };
    let bursts = vec![Bursts { every: 600.0, size, rise: 1.0, hold: (0.0, 0.0), fade: 1.0 }];
    let shape = Shape { bursts, counting: Counting::Exact, ..Shape::default() };
    let trace = Trace::new("made", None, 15.0, shape.generate(10.0, 300_000, 15.0, &mut rng(5))).unwrap();
    let tail = describe(&trace).tail.unwrap();
    assert!((tail - 1.5).abs() < 0.2, "{tail}");
}

#[test]
fn extremes_stay_finite() {
    for preset in Preset::ALL {
        for (rate, step) in [(0.0, 15.0), (1e-9, 15.0), (1e12, 15.0), (1.0, 0.5), (1.0, 3600.0)] {
            let rates = preset.generate(rate, 100, step, &mut rng(1));
            assert!(
                rates.len() == 100 && rates.iter().all(|rate| rate.is_finite() && *rate >= 0.0),
                "{preset:?} {rate}"
            );
        }
        assert!(preset.generate(1.0, 10, f64::NAN, &mut rng(1)).is_empty());
    }
}

/// The cluster's first load, written down a second time: a day of 480 steps, bursts, wander and counting noise.
fn first_load(mean_rate: f64, steps: usize, rng: &mut ChaCha8Rng) -> Vec<f64> {
    fn normal(rng: &mut ChaCha8Rng) -> f64 {
        let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
        radius * (TAU * rng.random::<f64>()).cos()
    }
    let (phase, swing) = (rng.random::<f64>(), 0.25 + 0.35 * rng.random::<f64>());
    let (mut wander, mut extra, mut target, mut rise, mut hold) = (0.0, 0.0_f64, 0.0, 0.0, 0_u32);
    let mut rates = Vec::new();
    for step in 0..steps {
        let day = TAU * (step as f64 / 480.0 + phase);
        wander = 0.9 * wander + 0.04 * normal(rng);
        if rng.random::<f64>() < 1.0 / 120.0 && target == 0.0 {
            target = 0.4 + 1.1 * rng.random::<f64>();
            rise = target / f64::from(rng.random_range(1..=4_u32));
            hold = rng.random_range(4..=24);
        }
        match () {
            () if target == 0.0 => extra *= 0.7,
            () if extra < target => extra = (extra + rise).min(target),
            () if hold > 0 => hold -= 1,
            () => target = 0.0,
        }
        let curve = 1.0 + swing * (day.sin() + 0.3 * (2.0 * day).sin());
        let expected = mean_rate * curve * f64::exp(wander) * (1.0 + extra) * 15.0;
        rates.push((expected + expected.sqrt() * normal(rng)).max(0.0) / 15.0);
    }
    rates
}

#[test]
fn the_preset_diurnal_is_the_first_load() {
    for seed in 0..10 {
        let made = Preset::Diurnal.generate(20.0, 1500, 15.0, &mut rng(seed));
        let first = first_load(20.0, 1500, &mut rng(seed));
        for (step, (made, first)) in made.iter().zip(&first).enumerate() {
            assert!((made - first).abs() < 1e-6 * first.max(1.0), "seed {seed}, step {step}: {made} {first}");
        }
    }
}
