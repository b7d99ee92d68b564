//! Random scenarios for the Horizontal Pod Autoscaler.
//!
//! Values are drawn where rules meet: at windows' ends, tolerances' edges, a millisecond to either side. No value overflows
//! the real controller's integers, where what it does depends on the machine.

use meanfield_autoscalers::hpa::Millis;
use rand::{RngExt, seq::IndexedRandom};
use rand_chacha::ChaCha8Rng;

use super::{
    BehaviorJson, FlagsJson, MetricJson, PodJson, PolicyJson, ReadingJson, ReadyJson, RulesJson, Scenario, SpecJson,
    Step,
};

/// The window of every sample.
const WINDOW: Millis = 30_000;

/// A random scenario.
pub fn scenario(rng: &mut ChaCha8Rng) -> Scenario {
    let scale_to_zero = rng.random_bool(0.25);
    let restless = !scale_to_zero && rng.random_bool(0.1);
    let steps = match rng.random_bool(0.3) {
        _ if restless => 12,
        true => 1,
        false => rng.random_range(2..=12),
    };
    let idle = scale_to_zero && rng.random_bool(0.5);
    let flags = FlagsJson { scale_to_zero, tolerance: 100, downscale: 300_000, cpu: 300_000, delay: 30_000 };
    let flags = if rng.random_bool(0.8) {
        flags
    } else {
        FlagsJson {
            scale_to_zero,
            tolerance: pick(rng, &[0, 50, 250]),
            downscale: pick(rng, &[0, 30_500, 60_000, 600_000]),
            cpu: pick(rng, &[0, 60_000, 120_000]),
            delay: pick(rng, &[0, 10_000, 60_000]),
        }
    };
    let traits = Traits {
        flags,
        messy: pick(rng, &[0.0, 0.1, 0.5]),
        failing: pick(rng, &[0.0, 0.0, 0.3]),
        requestless: rng.random_bool(0.05),
        idle,
        restless,
        edited: restless || rng.random_bool(if idle { 0.8 } else { 0.3 }),
        pace: pick(rng, &[0, 5_000, 15_000, 15_000, 60_000]),
    };
    let mut spec = traits.spec(rng);
    let steps = (0..steps)
        .map(|number| {
            let new = number == 0 || (traits.edited && rng.random_bool(0.2));
            if new && number > 0 {
                spec = traits.respecified(rng, &spec);
            }
            traits.step(rng, number == 0, &spec, new)
        })
        .collect();
    Scenario { flags: traits.flags, steps }
}

/// What the steps of a scenario have in common.
struct Traits {
    flags: FlagsJson,
    /// How often a pod is not simply running.
    messy: f64,
    /// How often a metric fails.
    failing: f64,
    /// Whether some pod may lack a request, or request nothing.
    requestless: bool,
    /// Whether there is often nothing to do and nothing in the way of zero replicas.
    idle: bool,
    /// Whether it scales all the time, under periods that grow and shrink: then the order in which old changes are
    /// forgotten shows.
    restless: bool,
    /// Whether the spec changes on the way.
    edited: bool,
    /// Usual milliseconds between steps.
    pace: Millis,
}

impl Traits {
    fn spec(&self, rng: &mut ChaCha8Rng) -> SpecJson {
        let mut metrics: Vec<_> = (0..pick(rng, &[1, 1, 2, 3])).map(|_| metric(rng)).collect();
        let outside = metrics.iter().any(|metric| ["object", "external"].contains(&metric.kind));
        if self.flags.scale_to_zero && !outside {
            metrics[0] = MetricJson { kind: "external", ..metrics[0].clone() };
        }
        if self.idle {
            let outside = |metric: &MetricJson| MetricJson {
                kind: pick(rng, &["object", "external"]),
                container: "",
                average: rng.random_bool(0.5),
                ..metric.clone()
            };
            metrics = metrics.iter().map(outside).collect();
        }
        let min = if self.flags.scale_to_zero && rng.random_bool(0.7) { 0 } else { rng.random_range(1..=5) };
        let max = (min + pick(rng, &[0, 3, 10, 40, 200])).max(1);
        let hasty = RulesJson { window: Some(0), select: None, policies: None, tolerance: None };
        let mut behavior = rng.random_bool(0.6).then(|| BehaviorJson {
            up: rng.random_bool(0.8).then(|| rules(rng)),
            down: rng.random_bool(0.8).then(|| if self.idle { hasty.clone() } else { rules(rng) }),
        });
        if self.restless {
            let mut few = || {
                let policy = |value, period| PolicyJson { r#type: "Pods", value, period };
                let policies = Some(vec![policy(rng.random_range(1..=4), pick(rng, &[1, 20, 1800]))]);
                Some(RulesJson { policies, ..hasty.clone() })
            };
            behavior = Some(BehaviorJson { up: few(), down: few() });
        }
        SpecJson { min, max, metrics, behavior }
    }

    /// An edit: bounds or behaviour, rarely all.
    fn respecified(&self, rng: &mut ChaCha8Rng, old: &SpecJson) -> SpecJson {
        let new = self.spec(rng);
        match rng.random_range(0..4) {
            _ if self.restless => SpecJson { behavior: new.behavior, ..old.clone() },
            _ if self.idle => SpecJson { min: rng.random_range(0..=3).min(old.max), ..old.clone() },
            0 => SpecJson { min: rng.random_range(1..=3).min(old.max), ..old.clone() },
            1 => SpecJson { behavior: new.behavior, ..old.clone() },
            2 => SpecJson { max: new.max.max(old.min), ..old.clone() },
            _ => new,
        }
    }

    fn step(&self, rng: &mut ChaCha8Rng, first: bool, spec: &SpecJson, new: bool) -> Step {
        let wait = match rng.random_range(0..10) {
            2..=5 if self.idle => 300_001,
            2..=5 if self.restless => pick(rng, &[1_000, 10_000, 30_000]),
            0 => pick(rng, &[0, 1, 14_999, 15_001, 30_000, 299_999, 300_000, 300_001]),
            1 => rng.random_range(0..120_000),
            _ => self.pace,
        };
        let most = spec.max + 3;
        let meddled = if self.restless { 0.07 } else { 0.2 };
        let replicas = (first || rng.random_bool(meddled)).then(|| match rng.random_range(0..12) {
            0 => 0,
            1..=6 if self.idle && !first => 0,
            1 => rng.random_range(0..=most),
            _ => rng.random_range(spec.min.max(1)..=spec.max).min(rng.random_range(1..=30)),
        });
        let guess = replicas.unwrap_or_else(|| rng.random_range(1..=spec.max.min(20)));
        let pods = match rng.random_range(0..20) {
            0 => 0,
            1 => rng.random_range(1..=30),
            2 => (guess + rng.random_range(0..=3)).min(40),
            _ => guess.min(40),
        };
        let pods: Vec<_> = (0..pods).map(|_| self.pod(rng)).collect();
        let idle = self.idle && rng.random_bool(0.6);
        let load = if idle { 0.0 } else { ratio(rng) };
        let readings = spec.metrics.iter().map(|metric| {
            let load = if idle || rng.random_bool(0.7) { load } else { ratio(rng) };
            (!rng.random_bool(self.failing)).then(|| self.reading(rng, metric, load, guess, &pods))
        });
        let readings = readings.collect();
        let observed = rng.random_bool(0.2).then(|| rng.random_range(0..=guess + 3));
        Step {
            wait,
            spec: new.then(|| spec.clone()),
            replicas,
            observed,
            refuse: rng.random_bool(0.05),
            pods,
            readings,
        }
    }

    fn pod(&self, rng: &mut ChaCha8Rng) -> PodJson {
        let mut request = |least: i64, most: i64| match rng.random_range(0..40) {
            0 if self.requestless => None,
            1..10 if self.requestless => Some(0),
            _ => Some(rng.random_range(least..=most)),
        };
        let requests = [[request(100, 1000), request(1 << 36, 1 << 40)], [request(0, 200), request(0, 1 << 36)]];
        let mut pod = PodJson {
            phase: "Running",
            deleted: false,
            ready: Some(ReadyJson { status: "True", since: 900_000 }),
            started: Some(1_000_000),
            requests,
            sampled: 10_000,
        };
        if !rng.random_bool(self.messy) {
            return pod;
        }
        let near = |rng: &mut ChaCha8Rng, at: Millis| at + pick(rng, &[-1, 0, 0, 1, -5_000, 5_000]);
        let status = pick(rng, &["True", "True", "False", "Unknown"]);
        match rng.random_range(0..12) {
            0 | 1 => pod.phase = "Pending",
            2 => pod.phase = "Failed",
            3 => pod.phase = pick(rng, &["Succeeded", "Unknown"]),
            4 => pod.deleted = true,
            5 => pod.ready = None,
            6 => pod.started = None,
            7 => {
                // Ready or not, long after the start or soon after it.
                let started = rng.random_range(400_000..900_000);
                pod.started = Some(started);
                pod.ready = Some(ReadyJson { status: "False", since: near(rng, started - self.flags.delay) });
            }
            8 => {
                pod.started = Some(near(rng, self.flags.cpu));
                pod.ready = Some(ReadyJson { status, since: rng.random_range(0..290_000) });
            }
            _ => {
                // Young; the sample's window begins about when the pod became ready.
                let since = rng.random_range(40_000..200_000);
                pod.started = Some(since + rng.random_range(0..90_000));
                pod.sampled = near(rng, since - WINDOW);
                pod.ready = Some(ReadyJson { status, since });
            }
        }
        pod
    }

    fn reading(
        &self,
        rng: &mut ChaCha8Rng,
        metric: &MetricJson,
        load: f64,
        guess: u32,
        pods: &[PodJson],
    ) -> ReadingJson {
        let whole = |target: i64| (target as f64 * load).round() as i64;
        if ["object", "external"].contains(&metric.kind) {
            let value = if metric.average { whole(metric.target * i64::from(guess)) } else { whole(metric.target) };
            let values = match rng.random_range(0..25) {
                0 => vec![-value],
                1 if metric.kind == "external" => vec![value, -2 * value, value],
                // Without replicas the real controller's result would not fit its type.
                2 if metric.kind == "external" && !self.flags.scale_to_zero => vec![i64::MAX - 5, value, -value],
                3 | 4 if metric.kind == "external" => vec![value / 3, value - value / 3],
                _ => vec![value],
            };
            return ReadingJson { values, ..ReadingJson::default() };
        }
        let exact = rng.random_bool(0.4);
        let lost = if rng.random_bool(0.3) { 0.4 } else { self.messy / 2.0 };
        let samples = pods.iter().map(|pod| {
            let target = match metric.kind {
                "utilisation" => pod.request(metric).unwrap_or(100) * metric.target / 100,
                _ => metric.target,
            };
            let jitter = if exact { 1.0 } else { rng.random_range(0.8..1.2) };
            let value = (target as f64 * load * jitter).round() as i64;
            let value = if rng.random_bool(0.005) { -value } else { value };
            (!rng.random_bool(lost)).then_some((value, pod.sampled, WINDOW))
        });
        let samples = samples.collect();
        let strays = if rng.random_bool(0.1) {
            (0..rng.random_range(1..=3))
                .map(|_| whole(if metric.kind == "utilisation" { 500 } else { metric.target }))
                .collect()
        } else {
            Vec::new()
        };
        ReadingJson { samples, strays, values: Vec::new() }
    }
}

fn metric(rng: &mut ChaCha8Rng) -> MetricJson {
    let kind = pick(rng, &["utilisation", "utilisation", "use", "pods", "object", "external"]);
    let resource = pick(rng, &["cpu", "cpu", "memory"]);
    let container = match kind {
        "utilisation" | "use" => pick(rng, &["", "", "", "", "", "", "", "app", "app", "absent"]),
        _ => "",
    };
    let average = !["object", "external"].contains(&kind) || rng.random_bool(0.5);
    let target = match kind {
        "utilisation" => pick(rng, &[1, 10, 50, 70, 80, 100, 150]),
        _ => pick(rng, &[1, 10, 1000, 3333, 100_000]),
    };
    MetricJson { kind, resource, container, average, target }
}

fn rules(rng: &mut ChaCha8Rng) -> RulesJson {
    let policy = |rng: &mut ChaCha8Rng| {
        let period = pick(rng, &[1, 15, 30, 60, 60, 300, 1800]);
        if rng.random_bool(0.5) {
            PolicyJson { r#type: "Pods", value: rng.random_range(1..=8), period }
        } else {
            PolicyJson { r#type: "Percent", value: pick(rng, &[1, 10, 33, 50, 100, 150, 900]), period }
        }
    };
    RulesJson {
        window: rng.random_bool(0.7).then(|| pick(rng, &[0, 0, 15, 30, 60, 300, 3600])),
        select: rng.random_bool(0.6).then(|| pick(rng, &["Max", "Min", "Min", "Disabled"])),
        policies: rng.random_bool(0.7).then(|| (0..rng.random_range(1..=3)).map(|_| policy(rng)).collect()),
        tolerance: rng.random_bool(0.3).then(|| pick(rng, &[0, 1, 50, 70, 200, 333, 1000])),
    }
}

fn pick<T: Copy>(rng: &mut ChaCha8Rng, from: &[T]) -> T {
    *from.choose(rng).unwrap()
}

/// How far a metric is from its target.
fn ratio(rng: &mut ChaCha8Rng) -> f64 {
    match rng.random_range(0..12) {
        0 => 0.0,
        1 => pick(rng, &[0.9, 1.1, 0.8999, 1.1001, 1.0, 0.8, 1.2, 0.93, 1.07]),
        2..=4 => rng.random_range(0.85..1.15),
        5 => rng.random_range(2.0..12.0),
        6..=8 => rng.random_range(0.1..0.9),
        _ => rng.random_range(1.1..2.5),
    }
}
