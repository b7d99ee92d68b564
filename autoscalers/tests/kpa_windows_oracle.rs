//! The windows of Knative's autoscaler and ours average the same: to the last bit, or to six digits when weighted.
//!
//! The weights begin with an exponential, whose last bit in Go depends on the processor.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/oracle.rs"]
mod oracle;

use std::time::Duration;

use meanfield_autoscalers::kpa::window::{Aggregation, Window};
use oracle::{Case, Coverage};
use rand::{Rng, RngExt, SeedableRng, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

const SCENARIOS: usize = 10_000;

const RULES: [&str; 8] = [
    "linear",
    "weighted",
    "empty",
    "part of the window",
    "silence within the window",
    "silence for the whole window",
    "a late value",
    "a value too late",
];

#[derive(Serialize)]
struct Scenario {
    seconds: u32,
    weighted: bool,
    steps: Vec<Step>,
}

/// A value is recorded, or the average asked for.
#[derive(Serialize)]
struct Step {
    at: u64,
    value: Option<f64>,
}

#[test]
fn averages_as_the_real_ones() {
    let mut coverage = Coverage::default();
    oracle::compare("kpa_windows", &cases(20_261_116, &mut coverage));
    coverage.demand(&RULES, 50);
}

#[test]
fn averages_as_the_real_ones_from_a_fresh_seed() {
    if let Some(seed) = oracle::fresh_seed() {
        oracle::compare_now("kpa_windows", &cases(seed, &mut Coverage::default()));
    }
}

fn cases(seed: u64, coverage: &mut Coverage) -> Vec<Case> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..SCENARIOS)
        .map(|_| {
            let scenario = random(&mut rng);
            let (answer, rules) = play(&scenario);
            coverage.count(rules);
            Case { scenario: serde_json::to_string(&scenario).unwrap(), answer }
        })
        .collect()
}

fn random(rng: &mut impl Rng) -> Scenario {
    let seconds = *[1, 2, 6, 6, 15, 42, 60, 60, 100].choose(rng).unwrap();
    let window = u64::from(seconds) * 1000;
    let mut now: u64 = *[0, 1_000_000_000_000, 1_700_000_000_123].choose(rng).unwrap();
    let whole = rng.random_bool(0.5);
    let mut steps = Vec::new();
    for _ in 0..rng.random_range(20..120) {
        now += match rng.random_range(0..40) {
            0 => window - 1000 + 500 * rng.random_range(0..5),
            1 => rng.random_range(0..window * 2),
            2..10 => rng.random_range(0..3000),
            _ => 1000,
        };
        let late = if rng.random_bool(0.05) { rng.random_range(0..window * 3 / 2) } else { 0 };
        let load = if whole { f64::from(rng.random_range(0..50)) } else { rng.random_range(0.0..1000.0) };
        let value = rng.random_bool(0.85).then_some(load);
        steps.push(Step { at: now.saturating_sub(late), value });
    }
    steps.extend([0, 1, window - 1, window, window + 1000].map(|later| Step { at: now + later, value: None }));
    Scenario { seconds, weighted: rng.random_bool(0.4), steps }
}

fn play(scenario: &Scenario) -> (String, Vec<&'static str>) {
    let aggregation = if scenario.weighted { Aggregation::WeightedExponential } else { Aggregation::Linear };
    let mut window = Window::new(scenario.seconds, aggregation).unwrap();
    let mut rules = vec![if scenario.weighted { "weighted" } else { "linear" }];
    let length = u64::from(scenario.seconds);
    let (mut first, mut last) = (None, None);
    let mut answers = Vec::new();
    for step in &scenario.steps {
        let second = step.at / 1000;
        if let Some(value) = step.value {
            window.record(Duration::from_millis(step.at), value);
            if last.is_some_and(|last| second < last) {
                let too_late = last.is_some_and(|last| second + length <= last);
                rules.push(if too_late { "a value too late" } else { "a late value" });
            }
            first = first.or(Some(second));
            last = last.max(Some(second));
            continue;
        }
        let average = window.average(Duration::from_millis(step.at));
        answers.push(match average {
            None => "-".to_owned(),
            Some(average) if scenario.weighted => format!("{average:.6}"),
            Some(average) => format!("{:x}", average.to_bits()),
        });
        match (average, last.map(|last: u64| second.saturating_sub(last))) {
            (None, _) | (_, None) => rules.push("empty"),
            (_, Some(0)) if first.is_some_and(|first| second < first + length) => rules.push("part of the window"),
            (_, Some(0)) => {}
            (_, Some(silent)) if silent < length => rules.push("silence within the window"),
            _ => rules.push("silence for the whole window"),
        }
    }
    (answers.join(" "), rules)
}
