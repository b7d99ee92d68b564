//! VPA's own code and ours recommend and update the same.
//!
//! Each scenario is the life of a workload: replicas come and go, CPU and memory are sampled, containers are killed for
//! memory, and every now and then there is a recommendation, a pod to update, a limit to scale, an eviction to allow.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/oracle.rs"]
mod oracle;
#[path = "support/vpa_scenario.rs"]
mod scenario;

use std::{fmt::Write, time::Duration};

use meanfield_autoscalers::vpa::{
    Container, Options, Percentiles, Recommendation, Recommender, limit,
    updater::{self, Oom, Updater},
};
use meanfield_common::resources::{Bytes, MilliCores, Resources};
use oracle::{Case, Coverage};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use scenario::{Scenario, Settings, Step};

const SCENARIOS: usize = 10_000;

const RULES: [&str; 27] = [
    "sample: out of order",
    "sample: a new interval",
    "sample: a larger peak replaces the old one",
    "oom: counted",
    "oom: too old",
    "history: none yet, or expired",
    "history: the reference time moved",
    "recommendation: at the floor",
    "recommendation: at the allowed minimum",
    "recommendation: at the allowed maximum",
    "recommendation: the upper bound without confidence",
    "recommendation: confident",
    "recommendation: rounded up",
    "recommendation: the floor is shared",
    "update: outside the bounds",
    "update: request missing",
    "update: quick kill",
    "update: quick kill, nothing to change",
    "update: old and changed enough",
    "update: old, too little to change",
    "update: too young",
    "limit: unset",
    "limit: as the request",
    "limit: in proportion",
    "budget: too few replicas",
    "budget: one, though nothing is tolerated",
    "budget: several",
];

#[test]
fn decides_as_the_real_one() {
    let mut coverage = Coverage::default();
    oracle::compare("vpa", &cases(20_261_116, &mut coverage));
    coverage.demand(&RULES, 50);
}

#[test]
fn decides_as_the_real_one_from_a_fresh_seed() {
    if let Some(seed) = oracle::fresh_seed() {
        oracle::compare_now("vpa", &cases(seed, &mut Coverage::default()));
    }
}

fn cases(seed: u64, coverage: &mut Coverage) -> Vec<Case> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    (0..SCENARIOS)
        .map(|_| {
            let mut play = Play::default();
            let scenario = Scenario::random(&mut rng);
            for step in &scenario.steps {
                play.step(&scenario.options, step);
            }
            coverage.count(play.rules);
            Case { scenario: serde_json::to_string(&scenario).unwrap(), answer: play.answer }
        })
        .collect()
}

/// Our side of one scenario.
#[derive(Default)]
struct Play {
    recommender: Option<Recommender>,
    replicas: Vec<Option<Replica>>,
    latest: Option<Recommendation>,
    latest_other: Option<Recommendation>,
    earliest: Option<i64>,
    answer: String,
    rules: Vec<&'static str>,
}

struct Replica {
    container: Container,
    /// What the coverage needs to know: the end of the interval and its peak.
    end: Option<i64>,
    peak: u64,
}

impl Play {
    fn step(&mut self, settings: &Settings, step: &Step) {
        let now = time(step.at);
        let recommender = self.recommender.get_or_insert_with(|| Recommender::new(options(settings)).unwrap());
        self.replicas.resize_with(settings.replicas, || None);
        match step.r#do {
            "start" => {
                let container = recommender.container(now);
                self.replicas[step.replica] = Some(Replica { container, end: None, peak: 0 });
            }
            "cpu" => {
                let replica = self.replicas[step.replica].as_mut().unwrap();
                let counted = recommender.cpu_sample(&mut replica.container, now, MilliCores(step.value));
                self.sampled(settings, step.at, counted);
            }
            "memory" => {
                let replica = self.replicas[step.replica].as_mut().unwrap();
                let counted = recommender.memory_sample(&mut replica.container, now, Bytes(step.value));
                if counted {
                    let end = *replica.end.get_or_insert(step.at);
                    if step.at >= end {
                        self.rules.push("sample: a new interval");
                        replica.end = Some(end + ((step.at - end) / settings.interval + 1) * settings.interval);
                        replica.peak = step.value;
                    } else if step.value > replica.peak {
                        self.rules.push("sample: a larger peak replaces the old one");
                        replica.peak = step.value;
                    }
                }
                self.sampled(settings, step.at, counted);
            }
            "oom" => {
                let replica = self.replicas[step.replica].as_mut().unwrap();
                let counted = recommender.oom(&mut replica.container, now, Bytes(step.value));
                self.rules.push(if counted { "oom: counted" } else { "oom: too old" });
                self.answer.push(if counted { '1' } else { '0' });
            }
            "recommend" => {
                self.latest = recommender.recommend(now);
                // Of the pod's other containers nothing is ever measured. A container without a history is not known.
                let known = settings.containers - u32::from(self.latest.is_none());
                let known = Options { containers: known.max(1), ..options(settings) };
                let mut other = Recommender::new(known).unwrap();
                other.container(now);
                self.latest_other = other.recommend(now);
                self.recommended(settings);
            }
            "update" => self.update(settings, step),
            "limit" => self.limit(step),
            "budget" => self.budget(settings, step),
            unknown => panic!("no such step: {unknown}"),
        }
    }

    /// The requests of a step, which lie near what is recommended.
    fn request(&self, step: &Step) -> [Option<u64>; 2] {
        let recommended = self.latest.map(|Recommendation { lower, target, upper }| [lower, target, upper]);
        [
            step.request[0].request(recommended.map(|of| of.map(|of| of.cpu.0))),
            step.request[1].request(recommended.map(|of| of.map(|of| of.memory.0))),
        ]
    }

    fn sampled(&mut self, settings: &Settings, at: i64, counted: bool) {
        self.answer.push(if counted { '1' } else { '0' });
        if !counted {
            self.rules.push("sample: out of order");
        }
        let earliest = *self.earliest.get_or_insert(at);
        if at - earliest > 101 * settings.cpu_half_life.max(settings.memory_half_life) {
            self.rules.push("history: the reference time moved");
        }
    }

    fn recommended(&mut self, settings: &Settings) {
        let Some(Recommendation { lower, target, upper }) = self.latest else {
            self.rules.push("history: none yet, or expired");
            self.answer.push_str(" r-");
            return;
        };
        let [lower, target, upper] = [lower, target, upper].map(|of| [of.cpu.0, of.memory.0]);
        let all = [lower, target, upper].concat().iter().map(u64::to_string).collect::<Vec<_>>();
        write!(self.answer, " r{}", all.join(",")).unwrap();

        let floor = [settings.pod_min_cpu, settings.pod_min_memory << 20].map(|of| of / u64::from(settings.containers));
        let mut rule = |holds: bool, rule: &'static str| {
            if holds {
                self.rules.push(rule);
            }
        };
        for resource in 0..2 {
            let (min, max) = (settings.min_allowed[resource], settings.max_allowed[resource]);
            let target = target[resource];
            rule(target == floor[resource] && target > 0, "recommendation: at the floor");
            rule(target == floor[resource] && settings.containers > 1, "recommendation: the floor is shared");
            rule(target == min && min > 0, "recommendation: at the allowed minimum");
            rule(target == max && max > 0, "recommendation: at the allowed maximum");
            rule(upper[resource] == 100_000_000_000_000, "recommendation: the upper bound without confidence");
            rule(
                upper[resource] < 2 * target && lower[resource] > floor[resource] && lower[resource] < target,
                "recommendation: confident",
            );
        }
        rule(settings.round_cpu > 1 && target[0] % settings.round_cpu == 0, "recommendation: rounded up");
    }

    fn update(&mut self, settings: &Settings, step: &Step) {
        let updater = Updater::new(updater_options(settings)).unwrap();
        let last_oom = step.oom.map(|[started, finished]| Oom { started: time(started), finished: time(finished) });
        let container = |request: [Option<u64>; 2], recommendation, last_oom| updater::Container {
            cpu: request[0].map(MilliCores),
            memory: request[1].map(Bytes),
            recommendation,
            last_oom,
        };
        let mut containers = vec![container(self.request(step), self.latest, last_oom)];
        for _ in 1..settings.containers {
            containers.push(container(step.other, self.latest_other, None));
        }
        let verdict = updater.wants(time(step.at), step.started.map(time), &containers);
        match verdict {
            None => self.answer.push_str(" u-"),
            Some(priority) => {
                write!(self.answer, " u{}{:x}", u8::from(priority.grow), priority.change.to_bits()).unwrap();
            }
        }
        self.rules.push(self.reason(settings, step, verdict.is_some()));
    }

    /// Which of the updater's rules decided.
    fn reason(&self, settings: &Settings, step: &Step, wants: bool) -> &'static str {
        let recommended = [(self.request(step), self.latest), (step.other, self.latest_other)];
        let pairs = &recommended[..if settings.containers > 1 { 2 } else { 1 }];
        let quick = step.oom.is_some_and(|[started, finished]| {
            finished - started < settings.quick_oom && step.at - finished < settings.quick_oom
        });
        let missing = pairs.iter().any(|(request, of)| of.is_some() && request.contains(&None));
        let outside = pairs.iter().any(|(request, of)| {
            of.is_some_and(|Recommendation { lower, upper, .. }| {
                request[0].is_some_and(|cpu| cpu < lower.cpu.0 || cpu > upper.cpu.0)
                    || request[1].is_some_and(|memory| memory < lower.memory.0 || memory > upper.memory.0)
            })
        });
        let old = step.started.is_some_and(|started| step.at >= started + settings.min_age);
        match (wants, quick) {
            (false, true) => "update: quick kill, nothing to change",
            (false, false) if old => "update: old, too little to change",
            (false, false) => "update: too young",
            (true, _) if missing => "update: request missing",
            (true, _) if outside => "update: outside the bounds",
            (true, true) => "update: quick kill",
            (true, false) => "update: old and changed enough",
        }
    }

    fn limit(&mut self, step: &Step) {
        let Some(Recommendation { target, .. }) = self.latest else {
            self.answer.push_str(" l-");
            return;
        };
        let [cpu, memory] = [0, 1].map(|resource| {
            let request = self.request(step)[resource].unwrap_or(0);
            let original = step.limit[resource] * request.max(7) / 2;
            let scaled = limit(original, request, [target.cpu.0, target.memory.0][resource]);
            self.rules.push(match scaled {
                None => "limit: unset",
                Some(_) if request == 0 || request == original => "limit: as the request",
                Some(_) => "limit: in proportion",
            });
            scaled.map_or("-".to_owned(), |limit| limit.to_string())
        });
        write!(self.answer, " l{cpu},{memory}").unwrap();
    }

    fn budget(&mut self, settings: &Settings, step: &Step) {
        let updater = Updater::new(updater_options(settings)).unwrap();
        let budget = updater.budget(step.configured, step.running, step.pending);
        write!(self.answer, " b{budget}").unwrap();
        if step.running + step.pending < settings.min_replicas {
            self.rules.push("budget: too few replicas");
        } else if (f64::from(step.configured) * settings.tolerance) < 1.0 && budget == 1 {
            self.rules.push("budget: one, though nothing is tolerated");
        } else if budget > 1 {
            self.rules.push("budget: several");
        }
    }
}

fn time(milliseconds: i64) -> Duration {
    Duration::from_millis(u64::try_from(milliseconds).unwrap())
}

fn options(settings: &Settings) -> Options {
    let percentiles = |[lower, target, upper]: [f64; 3]| Percentiles { lower, target, upper };
    let resources = |[cpu, memory]: [u64; 2]| Resources { cpu: MilliCores(cpu), memory: Bytes(memory) };
    Options {
        cpu_half_life: time(settings.cpu_half_life),
        memory_half_life: time(settings.memory_half_life),
        memory_interval: time(settings.interval),
        memory_intervals: settings.intervals,
        oom_bump_ratio: settings.oom_ratio,
        oom_min_bump: Bytes(settings.oom_bump),
        margin: settings.margin,
        pod_min: resources([settings.pod_min_cpu, settings.pod_min_memory << 20]),
        containers: settings.containers,
        cpu_percentiles: percentiles(settings.cpu_percentiles),
        memory_percentiles: percentiles(settings.memory_percentiles),
        cpu_confidence_interval: time(settings.cpu_confidence),
        memory_confidence_interval: time(settings.memory_confidence),
        round_cpu: MilliCores(settings.round_cpu),
        round_memory: Bytes(settings.round_memory),
        min_allowed: resources(settings.min_allowed),
        max_allowed: resources(settings.max_allowed),
    }
}

fn updater_options(settings: &Settings) -> updater::Options {
    updater::Options {
        min_change: settings.min_change,
        min_age: time(settings.min_age),
        quick_oom: time(settings.quick_oom),
        min_replicas: settings.min_replicas,
        tolerance: settings.tolerance,
    }
}
