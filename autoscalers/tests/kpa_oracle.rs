//! Knative's own code and ours decide on the same replicas, and panic at the same time.
//!
//! Each scenario is the life of a revision, second by second: load comes and goes, pods become ready with a delay. The
//! real code is given the averages of our windows, which `kpa_windows_oracle` compares with the real ones: when that
//! fails too, begin there.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/oracle.rs"]
mod oracle;

use std::{fmt::Write, time::Duration};

use meanfield_autoscalers::kpa::{Decision, Kpa, Options, activation, window::Aggregation};
use oracle::{Case, Coverage};
use rand::{Rng, RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

const SCENARIOS: usize = 10_000;
/// When the clock of the oracle starts: 2000-01-01.
const START: u64 = 946_684_800_000;

const RULES: [&str; 19] = [
    "no data",
    "panic: entered",
    "panic: left",
    "panic: nothing shrinks",
    "panic: from the start",
    "rate: growth is bounded",
    "rate: shrinking is bounded",
    "scale: activation",
    "scale: initial",
    "scale: minimum",
    "scale: maximum",
    "delay before scaling down",
    "zero: reached",
    "zero: not allowed",
    "zero: after a grace period",
    "zero: after the retention",
    "zero: the proxy was there already",
    "zero: one pod for a stable window",
    "zero: could not be activated",
];

#[derive(Serialize)]
struct Scenario {
    options: Settings,
    resume: Option<u32>,
    ticks: Vec<Tick>,
}

#[derive(Serialize)]
struct Settings {
    total_value: f64,
    utilisation: f64,
    max_up_rate: f64,
    max_down_rate: f64,
    stable_window: u64,
    panic_window: f64,
    panic_threshold: f64,
    burst_capacity: Option<f64>,
    scale_down_delay: u64,
    grace: u64,
    retention: u64,
    progress_deadline: u64,
    scale_to_zero: bool,
    initial_scale: u32,
    min_scale: u32,
    max_scale: u32,
    activation_scale: u32,
}

#[derive(Serialize)]
struct Tick {
    after: u64,
    ready: u32,
    averages: Option<(f64, f64)>,
    /// Seconds with load since the last tick, and what it was.
    #[serde(skip)]
    load: Vec<(u64, f64)>,
    #[serde(skip)]
    at: u64,
}

#[test]
fn decides_as_the_real_one() {
    let mut coverage = Coverage::default();
    oracle::compare("kpa", &cases(20_261_116, &mut coverage));
    coverage.demand(&RULES, 50);
}

#[test]
fn decides_as_the_real_one_from_a_fresh_seed() {
    if let Some(seed) = oracle::fresh_seed() {
        oracle::compare_now("kpa", &cases(seed, &mut Coverage::default()));
    }
}

fn cases(seed: u64, coverage: &mut Coverage) -> Vec<Case> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..SCENARIOS)
        .map(|_| {
            let (options, resume) = settings(&mut rng);
            let (ticks, decisions) = live(&mut rng, &options, resume);
            coverage.count(rules(&options, resume, &ticks, &decisions));
            let mut answer = format!("{} {}", options.stable_window.as_secs(), options.panic_window());
            for Decision { replicas, panicking } in decisions {
                write!(answer, " {replicas}{}", if panicking { "!" } else { "" }).unwrap();
            }
            let scenario = Scenario { options: written(&options), resume, ticks };
            Case { scenario: serde_json::to_string(&scenario).unwrap(), answer }
        })
        .collect()
}

fn pick<T: Copy>(rng: &mut impl Rng, from: &[T]) -> T {
    *from.choose(rng).expect("not empty")
}

fn settings(rng: &mut impl Rng) -> (Options, Option<u32>) {
    let seconds = Duration::from_secs;
    let min_scale = pick(rng, &[0, 0, 0, 0, 1, 3]);
    let options = Options {
        total_value: pick(rng, &[100.0, 100.0, 1.0, 10.0, 7.3, 0.02]),
        utilisation: pick(rng, &[0.7, 0.7, 1.0, 0.33]),
        aggregation: pick(rng, &[Aggregation::Linear, Aggregation::Linear, Aggregation::WeightedExponential]),
        max_scale_up_rate: pick(rng, &[1000.0, 1000.0, 1.1, 2.0, 10.0]),
        max_scale_down_rate: pick(rng, &[2.0, 2.0, 1.1, 5.0, 1000.0]),
        stable_window: seconds(pick(rng, &[60, 60, 6, 15, 30])),
        panic_window_percentage: pick(rng, &[10.0, 10.0, 1.0, 33.3, 50.0, 100.0]),
        panic_threshold_percentage: pick(rng, &[200.0, 200.0, 110.0, 1000.0, 333.3]),
        target_burst_capacity: pick(rng, &[Some(211.0), Some(211.0), Some(0.0), Some(5.0), None]),
        scale_down_delay: seconds(pick(rng, &[0, 0, 0, 1, 7, 30, 120])),
        activation_scale: pick(rng, &[1, 1, 0, 2, 5]),
        activation: activation::Options {
            scale_to_zero: rng.random_bool(0.85),
            grace: seconds(pick(rng, &[30, 30, 5, 90])),
            retention: seconds(pick(rng, &[0, 0, 0, 10, 120])),
            progress_deadline: seconds(pick(rng, &[600, 20, 5])),
            initial_scale: pick(rng, &[1, 1, 1, 0, 2, 6]),
            min_scale,
            max_scale: pick(rng, &[0, 0, 0, min_scale, min_scale + 4, min_scale + 50]),
        },
    };
    let resume = rng.random_bool(0.3).then(|| pick(rng, &[0, 1, 2, 5, 40]));
    (options, resume)
}

fn written(options: &Options) -> Settings {
    let milliseconds = |time: Duration| time.as_millis() as u64;
    Settings {
        total_value: options.total_value,
        utilisation: options.utilisation,
        max_up_rate: options.max_scale_up_rate,
        max_down_rate: options.max_scale_down_rate,
        stable_window: milliseconds(options.stable_window),
        panic_window: options.panic_window_percentage,
        panic_threshold: options.panic_threshold_percentage,
        burst_capacity: options.target_burst_capacity,
        scale_down_delay: milliseconds(options.scale_down_delay),
        grace: milliseconds(options.activation.grace),
        retention: milliseconds(options.activation.retention),
        progress_deadline: milliseconds(options.activation.progress_deadline),
        scale_to_zero: options.activation.scale_to_zero,
        initial_scale: options.activation.initial_scale,
        min_scale: options.activation.min_scale,
        max_scale: options.activation.max_scale,
        activation_scale: options.activation_scale,
    }
}

fn started(options: &Options, resume: Option<u32>) -> Kpa {
    match resume {
        Some(ready) => Kpa::resume(options.clone(), Duration::from_millis(START), ready).unwrap(),
        None => Kpa::new(options.clone()).unwrap(),
    }
}

/// A revision's life, and what was decided in it.
fn live(rng: &mut impl Rng, options: &Options, resume: Option<u32>) -> (Vec<Tick>, Vec<Decision>) {
    let mut kpa = started(options, resume);
    let target = (options.total_value * options.utilisation).max(0.01);
    let (mut ticks, mut decisions) = (Vec::new(), Vec::<Decision>::new());
    let mut now = START;
    let mut ready = resume.unwrap_or(0);
    // Load in pods; without one nothing is reported at all.
    let mut load = Some(1.0);
    let never_ready = rng.random_bool(0.1);
    let exact = rng.random_bool(0.5);
    for _ in 0..rng.random_range(15..45) {
        let after = match rng.random_range(0..30) {
            0 => rng.random_range(1..100_000),
            1 | 2 => rng.random_range(1..4000),
            3 => 1000 * pick(rng, &[5, 6, 10, 15, 20, 30, 35, 50, 60, 90]),
            _ => 2000,
        };
        if rng.random_bool(0.12) {
            load = match rng.random_range(0..8) {
                0 => None,
                1..4 => Some(0.0),
                4 => Some(100.0),
                5 => Some(10.0),
                _ => Some(f64::from(rng.random_range(0..6))),
            };
        }
        let mut reported = Vec::new();
        for second in now / 1000 + 1..=(now + after) / 1000 {
            if let Some(pods) = load {
                let noise = if exact { 1.0 } else { rng.random_range(0.5..1.5) };
                reported.push((second, pods * target * noise));
            }
        }
        now += after;
        for (second, load) in &reported {
            kpa.record(Duration::from_secs(*second), *load);
        }
        let averages = kpa.averages(Duration::from_millis(now));
        let decision = kpa.decide(Duration::from_millis(now), ready);
        ticks.push(Tick { after, ready, averages, load: reported, at: now });
        decisions.push(decision);
        if never_ready {
            continue;
        }
        // Pods follow the load, not our decisions: a wrong one must show as a difference, not as another question. They
        // become ready one after the other, or all at once, and go at once.
        let wanted = match load {
            Some(pods) if pods > 0.0 => pods as u32 + rng.random_range(0..2),
            _ => rng.random_range(0..2),
        };
        let step = pick(rng, &[1, 3, 1000]);
        ready = if wanted > ready { (ready + step).min(wanted) } else { ready - (ready - wanted).min(step * 2) };
    }
    (ticks, decisions)
}

/// Whether the decisions would have been others with these options.
fn matters(options: &Options, resume: Option<u32>, ticks: &[Tick], decisions: &[Decision]) -> bool {
    let mut kpa = started(options, resume);
    ticks.iter().zip(decisions).any(|(tick, decision)| {
        for (second, load) in &tick.load {
            kpa.record(Duration::from_secs(*second), *load);
        }
        kpa.decide(Duration::from_millis(tick.at), tick.ready) != *decision
    })
}

/// The rules that a scenario exercised.
fn rules(options: &Options, resume: Option<u32>, ticks: &[Tick], decisions: &[Decision]) -> Vec<&'static str> {
    let mut rules = Vec::new();
    let mut rule = |holds: bool, rule: &'static str| {
        if holds {
            rules.push(rule);
        }
    };
    let target = (options.total_value * options.utilisation).max(0.01);
    for (tick, decision) in ticks.iter().zip(decisions) {
        let Some((stable, panic)) = tick.averages else {
            rule(true, "no data");
            continue;
        };
        let pods = f64::from(tick.ready).max(1.0);
        rule((stable / target).ceil() > (options.max_scale_up_rate * pods).ceil(), "rate: growth is bounded");
        rule((stable / target).ceil() < (pods / options.max_scale_down_rate).floor(), "rate: shrinking is bounded");
        let needed = (stable.max(panic) / target).ceil();
        rule(decision.panicking && f64::from(decision.replicas) > needed, "panic: nothing shrinks");
        let idle = stable == 0.0 && options.activation.scale_to_zero && options.activation.min_scale == 0;
        rule(idle && !decision.panicking && decision.replicas == 1, "zero: one pod for a stable window");
    }
    rule(decisions[0].panicking && resume.is_some_and(|ready| ready > 1), "panic: from the start");
    for (before, after) in decisions.iter().zip(&decisions[1..]) {
        rule(!before.panicking && after.panicking, "panic: entered");
        rule(before.panicking && !after.panicking, "panic: left");
        rule(before.replicas > 0 && after.replicas == 0, "zero: reached");
    }
    let activation = &options.activation;
    let with = |activation| Options { activation, ..options.clone() };
    for (name, without) in [
        ("delay before scaling down", Options { scale_down_delay: Duration::ZERO, ..options.clone() }),
        ("scale: activation", Options { activation_scale: 1, ..options.clone() }),
        ("scale: initial", with(activation::Options { initial_scale: 1, ..activation.clone() })),
        ("scale: minimum", with(activation::Options { min_scale: 0, ..activation.clone() })),
        ("scale: maximum", with(activation::Options { max_scale: 0, ..activation.clone() })),
        ("zero: not allowed", with(activation::Options { scale_to_zero: true, ..activation.clone() })),
        (
            "zero: after a grace period",
            with(activation::Options { grace: Duration::from_nanos(1), ..activation.clone() }),
        ),
        ("zero: after the retention", with(activation::Options { retention: Duration::ZERO, ..activation.clone() })),
        ("zero: the proxy was there already", Options { target_burst_capacity: Some(0.0), ..options.clone() }),
        (
            "zero: could not be activated",
            with(activation::Options { progress_deadline: Duration::from_secs(86_400), ..activation.clone() }),
        ),
    ] {
        rule(without != *options && matters(&without, resume, ticks, decisions), name);
    }
    rules
}
