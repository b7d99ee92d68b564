//! Random lives of a workload under VPA, as the oracle in `tests/oracles/vpa` reads them.

use rand::{Rng, RngExt, seq::IndexedRandom};
use serde::Serialize;

const SECOND: i64 = 1000;
const MINUTE: i64 = 60 * SECOND;
const HOUR: i64 = 60 * MINUTE;
const DAY: i64 = 24 * HOUR;

/// The settings, and what happens.
#[derive(Serialize)]
pub struct Scenario {
    pub options: Settings,
    pub steps: Vec<Step>,
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
    pub request: [Near; 2],
    pub other: [Option<u64>; 2],
    /// A limit in halves of the request.
    pub limit: [u64; 2],
    pub oom: Option<[i64; 2]>,
    pub configured: u32,
    pub running: u32,
    pub pending: u32,
}

/// A request that is told by where it lies: what is recommended is for each side to find out.
#[derive(Serialize, Default, Clone, Copy)]
pub struct Near {
    kind: u8,
    by: f64,
    otherwise: u64,
}

impl Near {
    fn random(rng: &mut impl Rng) -> [Self; 2] {
        let kinds = [rng.random_range(0..8), rng.random_range(0..8)];
        let kinds = if rng.random_bool(0.5) { kinds } else { [kinds[0]; 2] };
        kinds.map(|kind| Self {
            kind: maybe(rng, 0.97, kind, 8),
            by: rng.random_range(0.6..1.5),
            otherwise: rng.random_range(1..1 << 30),
        })
    }

    /// The request, given the lower bound, the target and the upper bound, if there are any; none for the last kind.
    pub fn request(&self, recommended: Option<[u64; 3]>) -> Option<u64> {
        let Some([lower, target, upper]) = recommended else {
            return (self.kind != 8).then_some(self.otherwise);
        };
        match self.kind {
            0 => Some(lower.saturating_sub(1)),
            1 => Some(lower),
            2 => Some(upper),
            3 => Some(upper + 1),
            4 => Some(target),
            5 => Some((target as f64 * self.by.sqrt().sqrt()) as u64),
            6 => Some((target as f64 * self.by) as u64),
            7 => Some(lower + self.otherwise % (upper - lower + 1)),
            _ => None,
        }
    }
}

impl Scenario {
    /// A random scenario.
    pub fn random(rng: &mut impl Rng) -> Self {
        let options = Settings::random(rng);
        let mut life = Life::random(rng, &options);
        let mut steps: Vec<_> = (0..options.replicas)
            .map(|replica| Step { r#do: "start", at: life.now, replica, ..Step::default() })
            .collect();
        for _ in 0..rng.random_range(10..60) {
            steps.push(life.step(rng, &options));
        }
        // Every life ends with all of the questions.
        steps.extend([life.recommend(), life.update(rng, &options), life.limit(rng), life.budget(rng)]);
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
    /// When CPU and memory were last sampled.
    last: [Option<i64>; 2],
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
            last: [None; 2],
            pace: jump,
            cpu: 10_f64.powf(rng.random_range(0.0..4.5)),
            memory: 10_f64.powf(rng.random_range(6.0..10.5)),
        }
    }

    fn step(&mut self, rng: &mut impl Rng, options: &Settings) -> Step {
        self.now += rng.random_range(1..=self.pace * 2);
        if rng.random_bool(0.02) {
            self.now += options.interval * i64::from(options.intervals);
        }
        if let (Some(last), true) = (self.last[0], rng.random_bool(0.02)) {
            // The moment at which the history expires, or the one before.
            let expires = last + options.interval * i64::from(options.intervals);
            self.now = self.now.max(expires - pick(rng, &[0, 0, 1]));
            return self.recommend();
        }
        match rng.random_range(0..100) {
            0..45 => self.cpu(rng, options),
            45..80 => self.memory(rng, options),
            80..86 => self.oom(rng, options),
            86..89 => {
                Step { r#do: "start", at: self.now, replica: rng.random_range(0..options.replicas), ..Step::default() }
            }
            89..95 => self.recommend(),
            95..98 => self.update(rng, options),
            98 => self.limit(rng),
            _ => self.budget(rng),
        }
    }

    /// A sample's time, now and then one that is late or that was sampled already.
    fn sampled(&mut self, rng: &mut impl Rng, resource: usize) -> i64 {
        let at = match (rng.random_range(0..100), self.last[resource]) {
            (0..6, _) => (self.now - rng.random_range(0..self.pace * 4)).max(0),
            (6..12, Some(last)) => last,
            _ => self.now,
        };
        self.last[resource] = Some(at);
        at
    }

    fn cpu(&mut self, rng: &mut impl Rng, options: &Settings) -> Step {
        let value = match rng.random_range(0..20) {
            // At and beside the end of the first bucket, and beyond the last.
            0 => pick(rng, &[0, 9, 10, 11, 20, 21, 999_999, 1_000_000, 5_000_000, 100_000_000_000_000]),
            _ => (self.cpu * rng.random_range(0.2..1.8)) as u64,
        };
        Step {
            r#do: "cpu",
            at: self.sampled(rng, 0),
            replica: rng.random_range(0..options.replicas),
            value,
            ..Step::default()
        }
    }

    fn memory(&mut self, rng: &mut impl Rng, options: &Settings) -> Step {
        let value = match rng.random_range(0..20) {
            // On the ends of the first buckets, which are whole numbers, and beyond the last.
            0 => pick(rng, &[0, 9_999_999, 10_000_000, 20_500_000, 31_525_000, 43_101_250, 1 << 40, 1 << 46]),
            _ => (self.memory * rng.random_range(0.5..1.5)) as u64,
        };
        Step {
            r#do: "memory",
            at: self.sampled(rng, 1),
            replica: rng.random_range(0..options.replicas),
            value,
            ..Step::default()
        }
    }

    fn oom(&self, rng: &mut impl Rng, options: &Settings) -> Step {
        let interval = options.interval;
        let late = pick(rng, &[0, 0, interval - 1, interval, interval + 1, 3 * interval]);
        // Late by an interval counts from the last sample.
        let from = maybe(rng, 0.5, self.now, self.last[1].unwrap_or(self.now));
        let replica = rng.random_range(0..options.replicas);
        let value = (self.memory * rng.random_range(0.5..1.2)) as u64;
        Step { r#do: "oom", at: (from - late).max(0), replica, value, ..Step::default() }
    }

    fn recommend(&self) -> Step {
        Step { r#do: "recommend", at: self.now, ..Step::default() }
    }

    fn update(&self, rng: &mut impl Rng, options: &Settings) -> Step {
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
            request: Near::random(rng),
            other: [Some(pick(rng, &[8, 12, 25, 100])), Some(pick(rng, &[87_381_333, 131_072_000, 1 << 28]))],
            oom: maybe(rng, 0.3, Some(killed), None),
            ..Step::default()
        }
    }

    fn limit(&self, rng: &mut impl Rng) -> Step {
        let limit = [rng.random_range(0..6), rng.random_range(0..6)];
        Step { r#do: "limit", at: self.now, request: Near::random(rng), limit, ..Step::default() }
    }

    fn budget(&self, rng: &mut impl Rng) -> Step {
        let configured = rng.random_range(0..9);
        let (some, few) = (rng.random_range(0..9), rng.random_range(0..3));
        let running = maybe(rng, 0.5, configured, some);
        let pending = maybe(rng, 0.6, 0, few);
        Step { r#do: "budget", at: self.now, configured, running, pending, ..Step::default() }
    }
}
