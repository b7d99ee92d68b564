//! Random lives of a workload under VPA, as the oracle in `tests/oracles/vpa` reads them.

use meanfield_autoscalers::vpa::Recommendation;
use rand::{Rng, RngExt, seq::IndexedRandom};
use serde::Serialize;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The settings, and what happens.
#[derive(Serialize)]
pub struct Scenario {
    options: Settings,
    steps: Vec<Step>,
}

/// Settings of recommender, policy and updater. Times are in milliseconds, CPU in millicores, memory in bytes, but for
/// the pod's minimum, which is in mebibytes.
#[derive(Serialize)]
pub struct Settings {
    pub cpu_half_life: i64,
    pub memory_half_life: i64,
    pub interval: i64,
    pub intervals: u32,
    pub oom_ratio: f64,
    pub oom_bump: u64,
    pub margin: f64,
    pub pod_min_cpu: u64,
    pub pod_min_memory: u64,
    pub cpu_percentiles: [f64; 3],
    pub memory_percentiles: [f64; 3],
    pub cpu_confidence: i64,
    pub memory_confidence: i64,
    pub containers: u32,
    pub replicas: usize,
    pub round_cpu: u64,
    pub round_memory: u64,
    pub min_allowed: [u64; 2],
    pub max_allowed: [u64; 2],
    pub min_change: f64,
    pub min_age: i64,
    pub quick_oom: i64,
    pub min_replicas: u32,
    pub tolerance: f64,
}

/// One thing that happens.
#[derive(Serialize, Default, Clone)]
pub struct Step {
    pub r#do: &'static str,
    pub at: i64,
    pub replica: usize,
    pub value: u64,
    pub started: Option<i64>,
    pub request: [Option<u64>; 2],
    pub other: [Option<u64>; 2],
    pub limit: [u64; 2],
    pub oom: Option<[i64; 2]>,
    pub configured: u32,
    pub running: u32,
    pub pending: u32,
}

impl Scenario {
    /// A random scenario. Each step is played at once: `play` says what is then recommended, near which requests are
    /// the most interesting.
    pub fn random(rng: &mut impl Rng, mut play: impl FnMut(&Settings, &Step) -> Option<Recommendation>) -> Self {
        let options = Settings::random(rng);
        let mut life = Life::random(rng, &options);
        let mut steps = Vec::new();
        let mut latest = None;
        for replica in 0..options.replicas {
            steps.push(Step { r#do: "start", at: life.now, replica, ..Step::default() });
            play(&options, &steps[replica]);
        }
        for _ in 0..rng.random_range(10..60) {
            let step = life.step(rng, &options, latest);
            latest = play(&options, &step);
            steps.push(step);
        }
        // Every life ends with all of the questions.
        for question in [Life::recommend, Life::update, Life::limit, Life::budget] {
            let step = question(&mut life, rng, &options, latest);
            latest = play(&options, &step);
            steps.push(step);
        }
        Self { options, steps }
    }
}

fn maybe<T>(rng: &mut impl Rng, share: f64, value: T, or: T) -> T {
    if rng.random_bool(share) { value } else { or }
}

fn pick<T: Copy>(rng: &mut impl Rng, from: &[T]) -> T {
    *from.choose(rng).expect("not empty")
}

impl Settings {
    fn random(rng: &mut impl Rng) -> Self {
        let time = |rng: &mut _, default: i64| {
            let other = pick(rng, &[10 * MINUTE, HOUR, 7 * HOUR + 13 * SECOND, 3 * DAY]);
            maybe(rng, 0.6, default, other)
        };
        let percentiles = |rng: &mut _| {
            let other = pick(rng, &[[0.1, 0.5, 0.8], [0.0, 1.0, 1.0], [0.25, 0.75, 0.99]]);
            maybe(rng, 0.7, [0.5, 0.9, 0.95], other)
        };
        let allowed = |rng: &mut _, cpu: [u64; 3], memory: [u64; 3]| {
            let (cpu, memory) = (pick(rng, &cpu), pick(rng, &memory));
            [maybe(rng, 0.3, cpu, 0), maybe(rng, 0.3, memory, 0)]
        };
        Self {
            cpu_half_life: time(rng, DAY),
            memory_half_life: time(rng, DAY),
            interval: time(rng, DAY),
            intervals: pick(rng, &[8, 8, 8, 2, 30]),
            oom_ratio: pick(rng, &[1.2, 1.2, 1.0, 1.35, 2.0]),
            oom_bump: pick(rng, &[100 << 20, 100 << 20, 0, 12_345_678]),
            margin: pick(rng, &[0.15, 0.15, 0.15, 0.0, 0.333]),
            pod_min_cpu: pick(rng, &[25, 25, 0, 29, 1001]),
            pod_min_memory: pick(rng, &[250, 250, 0, 7]),
            cpu_percentiles: percentiles(rng),
            memory_percentiles: percentiles(rng),
            cpu_confidence: time(rng, DAY),
            memory_confidence: time(rng, DAY),
            containers: pick(rng, &[1, 1, 1, 2, 3]),
            replicas: rng.random_range(1..=3),
            round_cpu: pick(rng, &[1, 1, 1, 10, 333]),
            round_memory: pick(rng, &[1, 1, 1, 1 << 20, 999]),
            min_allowed: allowed(rng, [1, 100, 1000], [1 << 20, 300 << 20, 1 << 30]),
            max_allowed: allowed(rng, [1000, 2000, 50_000], [1 << 30, 2 << 30, 1 << 34]),
            min_change: pick(rng, &[0.1, 0.1, 0.0, 0.5]),
            min_age: pick(rng, &[12 * HOUR, 12 * HOUR, 0, HOUR]),
            quick_oom: pick(rng, &[10 * MINUTE, 10 * MINUTE, 0, HOUR]),
            min_replicas: pick(rng, &[2, 2, 1, 5]),
            tolerance: pick(rng, &[0.5, 0.5, 0.0, 0.1, 1.0]),
        }
    }
}

/// How one workload behaves.
struct Life {
    now: i64,
    /// Typical time between two samples.
    pace: i64,
    cpu: f64,
    memory: f64,
}

impl Life {
    fn random(rng: &mut impl Rng, options: &Settings) -> Self {
        let furthest = 110 * options.cpu_half_life.max(options.memory_half_life);
        let jump = pick(rng, &[SECOND, MINUTE, MINUTE, HOUR, DAY, furthest]);
        let recent = 1_700_000_000_000 + rng.random_range(0..3 * DAY);
        Self {
            now: maybe(rng, 0.1, 0, recent),
            pace: jump,
            cpu: 10_f64.powf(rng.random_range(0.0..4.5)),
            memory: 10_f64.powf(rng.random_range(6.0..10.5)),
        }
    }

    fn step(&mut self, rng: &mut impl Rng, options: &Settings, latest: Option<Recommendation>) -> Step {
        self.now += rng.random_range(1..=self.pace * 2);
        if rng.random_bool(0.02) {
            self.now += options.interval * i64::from(options.intervals);
        }
        match rng.random_range(0..100) {
            0..45 => self.cpu(rng, options),
            45..80 => self.memory(rng, options),
            80..86 => self.oom(rng, options),
            86..89 => {
                Step { r#do: "start", at: self.now, replica: rng.random_range(0..options.replicas), ..Step::default() }
            }
            89..95 => self.recommend(rng, options, latest),
            95..98 => self.update(rng, options, latest),
            98 => self.limit(rng, options, latest),
            _ => self.budget(rng, options, latest),
        }
    }

    /// A sample's time, now and then one that is late.
    fn sampled(&self, rng: &mut impl Rng) -> i64 {
        if rng.random_bool(0.08) { (self.now - rng.random_range(0..self.pace * 4)).max(0) } else { self.now }
    }

    fn cpu(&self, rng: &mut impl Rng, options: &Settings) -> Step {
        let value = match rng.random_range(0..20) {
            // At and beside the end of the first bucket, and beyond the last.
            0 => pick(rng, &[0, 9, 10, 11, 20, 21, 999_999, 1_000_000, 5_000_000, 100_000_000_000_000]),
            _ => (self.cpu * rng.random_range(0.2..1.8)) as u64,
        };
        Step {
            r#do: "cpu",
            at: self.sampled(rng),
            replica: rng.random_range(0..options.replicas),
            value,
            ..Step::default()
        }
    }

    fn memory(&self, rng: &mut impl Rng, options: &Settings) -> Step {
        let value = match rng.random_range(0..20) {
            // On the ends of the first buckets, which are whole numbers, and beyond the last.
            0 => pick(rng, &[0, 9_999_999, 10_000_000, 20_500_000, 31_525_000, 43_101_250, 1 << 40, 1 << 46]),
            _ => (self.memory * rng.random_range(0.5..1.5)) as u64,
        };
        Step {
            r#do: "memory",
            at: self.sampled(rng),
            replica: rng.random_range(0..options.replicas),
            value,
            ..Step::default()
        }
    }

    fn oom(&self, rng: &mut impl Rng, options: &Settings) -> Step {
        let late =
            pick(rng, &[0, 0, options.interval - 1, options.interval, options.interval + 1, 3 * options.interval]);
        let replica = rng.random_range(0..options.replicas);
        let value = (self.memory * rng.random_range(0.5..1.2)) as u64;
        Step { r#do: "oom", at: (self.now - late).max(0), replica, value, ..Step::default() }
    }

    fn recommend(&mut self, _: &mut impl Rng, _: &Settings, _: Option<Recommendation>) -> Step {
        Step { r#do: "recommend", at: self.now, ..Step::default() }
    }

    fn update(&mut self, rng: &mut impl Rng, options: &Settings, latest: Option<Recommendation>) -> Step {
        let before = |rng: &mut _, threshold: i64| {
            let ages = [threshold - 1, threshold, threshold + 1, threshold / 2, 2 * threshold, 0];
            pick(rng, &ages).max(0)
        };
        let started = (self.now - before(rng, options.min_age)).max(0);
        let finished = (self.now - before(rng, options.quick_oom)).max(0);
        let killed = [(finished - before(rng, options.quick_oom)).max(0), finished];
        Step {
            r#do: "update",
            at: self.now,
            started: maybe(rng, 0.95, Some(started), None),
            request: near(rng, latest),
            other: [Some(pick(rng, &[8, 12, 25, 100])), Some(pick(rng, &[87_381_333, 131_072_000, 1 << 28]))],
            oom: maybe(rng, 0.3, Some(killed), None),
            ..Step::default()
        }
    }

    fn limit(&mut self, rng: &mut impl Rng, _: &Settings, latest: Option<Recommendation>) -> Step {
        let request = near(rng, latest);
        let limit = request.map(|request| {
            let above = rng.random_range(0..5) * request.unwrap_or(100) / 2;
            pick(rng, &[0, request.unwrap_or(7), above])
        });
        Step { r#do: "limit", at: self.now, request, limit, ..Step::default() }
    }

    fn budget(&mut self, rng: &mut impl Rng, _: &Settings, _: Option<Recommendation>) -> Step {
        let configured = rng.random_range(0..9);
        let (some, few) = (rng.random_range(0..9), rng.random_range(0..3));
        let running = maybe(rng, 0.5, configured, some);
        let pending = maybe(rng, 0.6, 0, few);
        Step { r#do: "budget", at: self.now, configured, running, pending, ..Step::default() }
    }
}

/// Requests on, beside and between the recommended bounds.
fn near(rng: &mut impl Rng, latest: Option<Recommendation>) -> [Option<u64>; 2] {
    let Some(Recommendation { lower, target, upper }) = latest else {
        return [Some(rng.random_range(1..1000)), Some(rng.random_range(1..1 << 30))];
    };
    let mixed = rng.random_bool(0.5);
    let usual = rng.random_range(0..8);
    let [cpu, memory] = [[lower.cpu.0, target.cpu.0, upper.cpu.0], [lower.memory.0, target.memory.0, upper.memory.0]]
        .map(|[lower, target, upper]| match if mixed { rng.random_range(0..8) } else { usual } {
            0 => lower.saturating_sub(1),
            1 => lower,
            2 => upper,
            3 => upper + 1,
            4 => target,
            5 => (target as f64 * rng.random_range(0.9..1.1)) as u64,
            6 => (target as f64 * rng.random_range(0.6..1.5)) as u64,
            _ => rng.random_range(lower..=upper.max(lower)),
        });
    [maybe(rng, 0.97, Some(cpu), None), maybe(rng, 0.97, Some(memory), None)]
}
