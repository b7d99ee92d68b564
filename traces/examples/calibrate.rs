//! Compares made traces with real ones, and fits the law of `azure-functions`.
//!
//! `cargo run --release -p meanfield-traces --example calibrate -- DATA` prints quartiles of the figures of the busy
//! functions in DATA/azure2019/minute_counts_one_day.csv.xz beside those of made ones with the same means, and the same
//! for the other presets that have a real model. With a number of trials as second argument it first looks for better constants, by changing
//! some at random and keeping what brings the quartiles nearer; the same number of trials gives the same constants.

#![allow(clippy::print_stdout)]

use std::{error::Error, path::PathBuf};

use meanfield_traces::{
    Trace,
    describe::{Description, describe, quartiles},
    import::{self, Options},
    synth::{AzureFunctions, Preset, Shape, chat, coding},
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

/// Where the search begins: orders of magnitude only.
const ROUGH: AzureFunctions = AzureFunctions {
    deviation: (1.3, 0.4),
    slow: (0.0, 1.0),
    slow_seconds: 7200.0,
    fast_seconds: (240.0, 1.0),
    swing: 0.8,
    bursts: (14_400.0, 1.0),
    burst_exponent: 1.2,
    switched: 0.4,
    on_off: (3600.0, 7200.0),
};

type Figure = (&'static str, fn(&Description) -> Option<f64>, bool);

/// What is compared, and whether on a logarithmic scale.
const FIGURES: [Figure; 9] = [
    ("peak/mean", |d| d.peak_to_mean, true),
    ("cv", |d| d.cv, true),
    ("dispersion", |d| d.dispersion, true),
    ("lag-1", |d| d.lag1, false),
    ("slow share", |d| d.slow_share, false),
    ("daily", |d| d.daily, false),
    ("bursts", |d| Some(d.burst_share), false),
    ("idle", |d| Some(d.idle), false),
    ("tail", |d| d.tail, true),
];

fn made(law: &AzureFunctions, means: &[f64], seeds: u64) -> Vec<Description> {
    let one = |seed: u64, mean: f64, index: usize| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed * 1_000_000 + index as u64);
        let rates = law.shape(&mut rng).generate(mean / 60.0, 1440, 60.0, &mut rng);
        let counts = rates.iter().map(|rate| (rate * 60.0).round()).collect();
        let trace = Trace { name: String::new(), start: None, interval: 60.0, counts };
        // As of the real ones, only those that are busy.
        trace.is_busy().then(|| describe(&trace))
    };
    (0..seeds)
        .flat_map(|seed| means.iter().enumerate().filter_map(move |(index, mean)| one(seed, *mean, index)))
        .collect()
}

/// How far quartiles are apart, in units that make figures comparable.
fn distance(real: &[Description], made: &[Description]) -> f64 {
    let far = |(name, figure, log): &Figure| {
        let (Some(real), Some(made)) = (quartiles(real, figure), quartiles(made, figure)) else { return 10.0 };
        let scale = |value: f64| if *log { value.max(1e-3).ln() } else { value };
        // Bursts are a small share of all intervals.
        let unit = if *log {
            1.0
        } else if *name == "bursts" {
            0.1
        } else {
            0.4
        };
        let weights = [0.5, 1.0, 0.5];
        (0..3).map(|at| weights[at] * ((scale(real[at]) - scale(made[at])) / unit).powi(2)).sum()
    };
    FIGURES.iter().map(far).sum()
}

fn changed(law: &AzureFunctions, rng: &mut ChaCha8Rng) -> AzureFunctions {
    let mut law = law.clone();
    for _ in 0..1 + rng.random_range(0..3_u32) {
        let push = 0.5 * (rng.random::<f64>() + rng.random::<f64>() - 1.0);
        let factor = push.exp();
        match rng.random_range(0..14_u32) {
            0 => law.deviation.0 *= factor,
            1 => law.deviation.1 *= factor,
            2 => law.slow.0 += 2.0 * push,
            3 => law.slow.1 *= factor,
            4 => law.slow_seconds *= factor,
            5 => law.fast_seconds.0 *= factor * factor,
            6 => law.fast_seconds.1 *= factor,
            7 => law.swing = (law.swing * factor).min(1.0),
            8 => law.bursts.0 *= factor * factor,
            9 => law.bursts.1 *= factor,
            10 => law.burst_exponent *= factor,
            11 => law.switched = (law.switched * factor).min(1.0),
            12 => law.on_off.0 *= factor * factor,
            _ => law.on_off.1 *= factor * factor,
        }
    }
    law
}

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let data = PathBuf::from(arguments.next().ok_or("usage: calibrate DATA [TRIALS]")?);
    let trials: u32 = arguments.next().map_or(Ok(0), |trials| trials.parse())?;
    let imported = import::read(&data.join("azure2019/minute_counts_one_day.csv.xz"), &Options::default())?;
    let traces: Vec<_> = imported.traces.into_iter().filter(Trace::is_busy).collect();
    let means: Vec<_> = traces.iter().map(|trace| trace.total() / trace.counts.len() as f64).collect();
    let real: Vec<_> = traces.iter().map(describe).collect();

    let mut law = if trials > 0 { ROUGH } else { AzureFunctions::default() };
    let mut best = distance(&real, &made(&law, &means, 3));
    let mut rng = ChaCha8Rng::seed_from_u64(1);
    for trial in 0..trials {
        let other = changed(&law, &mut rng);
        let far = distance(&real, &made(&other, &means, 3));
        if far < best {
            (law, best) = (other, far);
            eprintln!("trial {trial}: {best:.3}");
        }
    }
    println!("{law:#?}\ndistance {best:.3}\n");
    compare("azure-functions", &real, &made(&law, &means, 10));

    let worldcup = import::read(&data.join("worldcup98/requests_per_minute_to_june_15.csv.gz"), &Options::default())?;
    let matches: Vec<_> = worldcup.traces.iter().map(|trace| describe(&last(trace, 5 * 1440))).collect();
    compare(
        "worldcup, the last five days",
        &matches,
        &many(20, 60.0, 5 * 1440, 24_000.0, |rng| Preset::Worldcup.shape(rng)),
    );
    let options = Options { interval: Some(15.0), ..Options::default() };
    for (name, shape) in [("conv", chat as fn() -> Shape), ("code", coding)] {
        let path = data.join(format!("azure_llm2023/AzureLLMInferenceTrace_{name}.csv.gz"));
        let traces = import::read(&path, &options)?.traces;
        let real: Vec<_> = traces.iter().map(describe).collect();
        compare(name, &real, &many(200, 15.0, real[0].intervals, real[0].mean, |_| shape()));
    }
    Ok(())
}

/// The end of a trace.
fn last(trace: &Trace, intervals: usize) -> Trace {
    let from = trace.counts.len().saturating_sub(intervals);
    Trace { counts: trace.counts[from..].to_vec(), ..trace.clone() }
}

fn many(count: u64, step: f64, steps: usize, mean: f64, shape: impl Fn(&mut ChaCha8Rng) -> Shape) -> Vec<Description> {
    let one = |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let rates = shape(&mut rng).generate(mean / step, steps, step, &mut rng);
        let counts = rates.iter().map(|rate| (rate * step).round()).collect();
        describe(&Trace { name: String::new(), start: None, interval: step, counts })
    };
    (0..count).map(one).collect()
}

fn compare(title: &str, real: &[Description], made: &[Description]) {
    println!("{title}: {} real, {} made", real.len(), made.len());
    println!("{:12} {:>10} {:>10} {:>10}   {:>10} {:>10} {:>10}", "", "real .25", ".5", ".75", "made .25", ".5", ".75");
    for (name, figure, _) in FIGURES {
        let [r, m] = [real, made].map(|all| quartiles(all, figure).unwrap_or([f64::NAN; 3]));
        println!(
            "{name:12} {:>10.3} {:>10.3} {:>10.3}   {:>10.3} {:>10.3} {:>10.3}",
            r[0], r[1], r[2], m[0], m[1], m[2]
        );
    }
    println!();
}
