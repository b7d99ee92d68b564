//! The Horizontal Pod Autoscaler against `kube-controller-manager`'s own control loop, over thousands of scenarios.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

#[path = "support/hpa_scenario.rs"]
mod hpa_scenario;
#[path = "support/oracle.rs"]
mod oracle;

use meanfield_autoscalers::hpa::{
    Basis, Behavior, Decision, Direction, Failure, Flags, Hpa, Limit, Metric, Millis, Phase, Pod, Reading, Reason,
    Resource, Sample, Seen, Select, Spec, Status, Target,
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use self::{
    hpa_scenario::{MetricJson, Scenario, scenario},
    oracle::{Case, Coverage, compare, compare_now, fresh_seed},
};

const SCENARIOS: usize = 10_000;

#[test]
fn decides_as_the_real_controller() {
    let mut coverage = Coverage::default();
    compare("hpa", &cases(36, &mut coverage));
    coverage.demand(&RULES, 50);
    if let Some(seed) = fresh_seed() {
        compare_now("hpa", &cases(seed, &mut Coverage::default()));
    }
}

fn cases(seed: u64, coverage: &mut Coverage) -> Vec<Case> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let case = |_| {
        let scenario = scenario(&mut rng);
        let (answer, rules) = play(&scenario);
        coverage.count(rules);
        Case { scenario: serde_json::to_string(&scenario).unwrap(), answer }
    };
    (0..SCENARIOS).map(case).collect()
}

/// Our decisions, one word a step as the oracle writes them, and the rules that they exercised.
fn play(scenario: &Scenario) -> (String, Vec<&'static str>) {
    let flags = scenario.flags.ours();
    let mut json = scenario.steps[0].spec.clone().unwrap();
    let mut hpa = Hpa::with_flags(json.ours(), flags).unwrap();
    let (mut now, mut left) = (1_000_000_000, 0);
    let (mut words, mut story) = (Vec::new(), Story::new(flags));
    for step in &scenario.steps {
        now += step.wait;
        if let Some(new) = &step.spec {
            json = new.clone();
            hpa.respecify(json.ours()).unwrap();
        }
        let seen = step.seen(now, &json, left);
        let decision = if step.refuse { hpa.recommend(now, &seen) } else { hpa.decide(now, &seen) };
        words.push(word(&json.metrics, &seen, &decision, step.refuse));
        story.tell(now, hpa.spec(), &seen, &decision, step.refuse);
        left = if step.refuse { seen.replicas } else { decision.replicas };
    }
    (words.join(" "), story.rules)
}

/// The replicas, why the loop was able to scale, which metric it followed, and what limited it.
fn word(metrics: &[MetricJson], seen: &Seen, decision: &Decision, refused: bool) -> String {
    let able = match decision.reason {
        _ if decision.replicas != seen.replicas => {
            if refused {
                'f'
            } else {
                's'
            }
        }
        Reason::Followed { stabilised: None, .. } => 'r',
        Reason::Followed { stabilised: Some(Direction::Up), .. } => 'u',
        Reason::Followed { stabilised: Some(Direction::Down), .. } => 'd',
        _ => 'g',
    };
    let active = match decision.reason {
        Reason::Followed { metric, .. } => match metrics[metric].kind {
            "utilisation" | "use" => "v*".to_owned(),
            _ => format!("v{metric}"),
        },
        Reason::Failed { first } => match (metrics[first].kind, metrics[first].container) {
            ("utilisation" | "use", "") => "R",
            ("utilisation" | "use", _) => "C",
            ("pods", _) => "P",
            ("object", _) => "O",
            _ => "E",
        }
        .to_owned(),
        Reason::Disabled => "x".to_owned(),
        Reason::AboveMax | Reason::BelowMin => "-".to_owned(),
    };
    let limited = match decision.reason {
        Reason::Followed { limit, .. } => match limit {
            Limit::Within => 'w',
            Limit::ScaleUp => 'U',
            Limit::ScaleDown => 'D',
            Limit::Max => 'M',
            Limit::Min => 'm',
        },
        _ => '-',
    };
    format!("{}{able}{active}{limited}", decision.replicas)
}

const RULES: [&str; 72] = [
    "flags: others than the defaults",
    "utilisation: within tolerance",
    "utilisation: ratio",
    "utilisation: filled",
    "utilisation: filled, within tolerance",
    "utilisation: filled, direction flipped",
    "utilisation: filled, count contradicts",
    "utilisation: no samples",
    "utilisation: no request",
    "utilisation: requests of zero",
    "average: within tolerance",
    "average: ratio",
    "average: filled",
    "average: filled, within tolerance",
    "average: filled, direction flipped",
    "average: filled, count contradicts",
    "average: no samples",
    "value: within tolerance",
    "value: ratio",
    "value: from zero",
    "value: no pods",
    "share: within tolerance",
    "share: share",
    "share: negative",
    "any: unavailable",
    "pods: none",
    "pods: pending",
    "pods: failed",
    "pods: deleted",
    "pods: succeeded",
    "pods: strays",
    "pods: missing",
    "cpu: no condition",
    "cpu: no start",
    "cpu: young, not ready",
    "cpu: young, sample too early",
    "cpu: young, sample at the edge",
    "cpu: young, settled",
    "cpu: exactly at the end of its youth",
    "cpu: never ready",
    "cpu: unready at the edge of never",
    "cpu: unready later",
    "several: highest wins, not the first",
    "several: one failed, no scale down",
    "several: one failed, still followed",
    "several: all failed",
    "bounds: above max",
    "bounds: below min",
    "zero: disabled",
    "zero: disabled, after it was left",
    "zero: reached",
    "zero: left by a metric",
    "zero: left by a raised bound",
    "plain: stabilised",
    "plain: scale-up limit",
    "plain: max",
    "plain: min",
    "plain: recommendation exactly as old as the window",
    "behaviour: stabilised up",
    "behaviour: stabilised down",
    "behaviour: scale-up limit",
    "behaviour: scale-down limit",
    "behaviour: max",
    "behaviour: min",
    "behaviour: recommendation exactly as old as the window",
    "behaviour: change exactly as old as the period",
    "behaviour: longer periods, after changes",
    "behaviour: smallest change of several",
    "behaviour: direction disabled",
    "behaviour: own tolerance",
    "history: seeded at first sight",
    "history: update refused, then another round",
];

/// What happened so far in a scenario, to tell which rules it exercised.
struct Story {
    flags: Flags,
    rules: Vec<&'static str>,
    rounds: Vec<Millis>,
    changes: Vec<Millis>,
    /// The longest period of a policy in the last round.
    longest: u32,
    left_zero: bool,
    refused: bool,
}

impl Story {
    fn new(flags: Flags) -> Self {
        let usual = Flags { scale_to_zero: flags.scale_to_zero, ..Flags::default() };
        let rules = if flags == usual { Vec::new() } else { vec!["flags: others than the defaults"] };
        Self { flags, rules, rounds: Vec::new(), changes: Vec::new(), longest: 0, left_zero: false, refused: false }
    }

    fn note(&mut self, condition: bool, rule: &'static str) {
        if condition {
            self.rules.push(rule);
        }
    }

    fn tell(&mut self, now: Millis, spec: &Spec, seen: &Seen, decision: &Decision, refused: bool) {
        for (index, proposal) in decision.proposals.iter().enumerate() {
            let family = match spec.metrics[index] {
                Metric::Utilisation { .. } => 0,
                Metric::Use { .. } | Metric::Pods { .. } => 1,
                Metric::Object(Target::Value(_)) | Metric::External(Target::Value(_)) => 2,
                _ => 3,
            };
            let rule = match (family, proposal.map(|proposal| proposal.basis)) {
                (0, Ok(Basis::WithinTolerance)) => "utilisation: within tolerance",
                (0, Ok(Basis::Ratio)) => "utilisation: ratio",
                (0, Ok(Basis::Filled)) => "utilisation: filled",
                (0, Ok(Basis::FilledWithinTolerance)) => "utilisation: filled, within tolerance",
                (0, Ok(Basis::Flipped)) => "utilisation: filled, direction flipped",
                (0, Ok(Basis::Contradicted)) => "utilisation: filled, count contradicts",
                (0, Err(Failure::NoSamples)) => "utilisation: no samples",
                (0, Err(Failure::NoRequest(_))) => "utilisation: no request",
                (0, Err(Failure::ZeroRequests)) => "utilisation: requests of zero",
                (1, Ok(Basis::WithinTolerance)) => "average: within tolerance",
                (1, Ok(Basis::Ratio)) => "average: ratio",
                (1, Ok(Basis::Filled)) => "average: filled",
                (1, Ok(Basis::FilledWithinTolerance)) => "average: filled, within tolerance",
                (1, Ok(Basis::Flipped)) => "average: filled, direction flipped",
                (1, Ok(Basis::Contradicted)) => "average: filled, count contradicts",
                (1, Err(Failure::NoSamples)) => "average: no samples",
                (2, Ok(Basis::WithinTolerance)) => "value: within tolerance",
                (2, Ok(Basis::Ratio)) => "value: ratio",
                (2, Ok(Basis::FromZero)) => "value: from zero",
                (2, Err(Failure::NoPods)) => "value: no pods",
                (3, Ok(Basis::WithinTolerance)) => "share: within tolerance",
                (3, Ok(Basis::Share)) => "share: share",
                (_, Err(Failure::NoPods)) => "pods: none",
                (_, Err(Failure::Unavailable)) => "any: unavailable",
                other => panic!("a combination that cannot be: {other:?}"),
            };
            self.rules.push(rule);
            let series: &[i64] = match &seen.readings[index] {
                Reading::External(series) => series,
                _ => &[],
            };
            self.note(family == 3 && series.iter().any(|value| *value < 0), "share: negative");
            if let (Reading::Pods(reading), Ok(_)) = (&seen.readings[index], proposal) {
                self.note(!reading.strays.is_empty(), "pods: strays");
                let cpu = match spec.metrics[index] {
                    Metric::Utilisation { resource, .. } | Metric::Use { resource, .. } => resource == Resource::Cpu,
                    _ => false,
                };
                for (pod, sample) in seen.pods.iter().zip(&reading.samples) {
                    self.pod(now, pod, *sample, cpu);
                }
            }
        }
        self.several(seen, decision);
        self.manners(now, spec, seen, decision);
        self.note(self.refused, "history: update refused, then another round");
        self.refused = refused && decision.replicas != seen.replicas;
        self.rounds.push(now);
        if decision.replicas != seen.replicas && !refused {
            self.changes.push(now);
        }
    }

    fn pod(&mut self, now: Millis, pod: &Pod, sample: Option<Sample>, cpu: bool) {
        self.note(pod.deleted, "pods: deleted");
        self.note(pod.phase == Phase::Pending, "pods: pending");
        self.note(pod.phase == Phase::Failed, "pods: failed");
        self.note(pod.phase == Phase::Succeeded, "pods: succeeded");
        if pod.deleted || [Phase::Pending, Phase::Failed].contains(&pod.phase) {
            return;
        }
        let Some(sample) = sample else { return self.note(true, "pods: missing") };
        if !cpu {
            return;
        }
        let Some(ready) = pod.ready else { return self.note(true, "cpu: no condition") };
        let Some(started) = pod.started else { return self.note(true, "cpu: no start") };
        let Flags { cpu_initialisation: youth, initial_readiness_delay: delay, .. } = self.flags;
        let (age, covered) = (now - started, sample.at - sample.window);
        self.note(age == youth, "cpu: exactly at the end of its youth");
        if ready.status == Status::False {
            let settling = ready.since - started;
            self.note(age < youth, "cpu: young, not ready");
            self.note(age >= youth && settling < delay, "cpu: never ready");
            self.note(age >= youth && settling == delay, "cpu: unready at the edge of never");
            self.note(age >= youth && settling > delay, "cpu: unready later");
        } else if age < youth {
            self.note(covered < ready.since, "cpu: young, sample too early");
            self.note(covered == ready.since, "cpu: young, sample at the edge");
            self.note(covered > ready.since, "cpu: young, settled");
        }
    }

    fn several(&mut self, seen: &Seen, decision: &Decision) {
        let failed = decision.proposals.iter().filter(|proposal| proposal.is_err()).count();
        match decision.reason {
            Reason::Followed { metric, .. } => {
                let first = decision.proposals.iter().position(Result::is_ok);
                self.note(Some(metric) != first, "several: highest wins, not the first");
                self.note(failed > 0, "several: one failed, still followed");
            }
            Reason::Failed { .. } => {
                let all = failed == decision.proposals.len();
                self.note(all, "several: all failed");
                self.note(!all, "several: one failed, no scale down");
            }
            Reason::Disabled => self.note(true, "zero: disabled"),
            Reason::AboveMax => self.note(true, "bounds: above max"),
            Reason::BelowMin => self.note(true, "bounds: below min"),
        }
        self.note(seen.replicas > 0 && decision.replicas == 0, "zero: reached");
        let disabled = decision.reason == Reason::Disabled;
        self.note(disabled && self.left_zero, "zero: disabled, after it was left");
        self.left_zero |= seen.replicas == 0 && decision.replicas > 0;
    }

    fn manners(&mut self, now: Millis, spec: &Spec, seen: &Seen, decision: &Decision) {
        let Reason::Followed { stabilised, limit, .. } = decision.reason else { return };
        let first = self.rounds.is_empty();
        self.note(first && stabilised == Some(Direction::Down), "history: seeded at first sight");
        if seen.replicas == 0 && decision.replicas > 0 {
            self.note(spec.min == 0, "zero: left by a metric");
            self.note(spec.min > 0, "zero: left by a raised bound");
        }
        let aged = |moments: &[Millis], span| moments.iter().any(|moment| now - moment == span);
        match &spec.behavior {
            None => {
                let old = aged(&self.rounds, self.flags.downscale_stabilisation);
                self.note(old, "plain: recommendation exactly as old as the window");
                self.note(stabilised.is_some(), "plain: stabilised");
                self.note(limit == Limit::ScaleUp, "plain: scale-up limit");
                self.note(limit == Limit::Max, "plain: max");
                self.note(limit == Limit::Min, "plain: min");
            }
            Some(Behavior { up, down }) => {
                let default = self.flags.downscale_stabilisation / 1000 * 1000;
                let windows = [up.window.map_or(0, seconds), down.window.map_or(default, seconds)];
                let old = windows.iter().any(|window| aged(&self.rounds, *window));
                self.note(old, "behaviour: recommendation exactly as old as the window");
                self.note(stabilised == Some(Direction::Up), "behaviour: stabilised up");
                self.note(stabilised == Some(Direction::Down), "behaviour: stabilised down");
                self.note(limit == Limit::ScaleUp, "behaviour: scale-up limit");
                self.note(limit == Limit::ScaleDown, "behaviour: scale-down limit");
                self.note(limit == Limit::Max, "behaviour: max");
                self.note(limit == Limit::Min, "behaviour: min");
                let held = match limit {
                    Limit::ScaleUp => up.select,
                    Limit::ScaleDown => down.select,
                    _ => Select::Max,
                };
                let several = [up, down].iter().any(|rules| rules.policies.len() > 1);
                self.note(held == Select::Min && several, "behaviour: smallest change of several");
                self.note(held == Select::Disabled, "behaviour: direction disabled");
                self.note(up.tolerance.is_some() || down.tolerance.is_some(), "behaviour: own tolerance");
                let periods = up.policies.iter().chain(&down.policies).map(|policy| policy.period);
                let old = periods.clone().any(|period| aged(&self.changes, seconds(period)));
                let longest = periods.max().unwrap();
                let longer = self.longest > 0 && longest > self.longest && self.changes.len() > 1;
                self.longest = longest;
                self.note(longer, "behaviour: longer periods, after changes");
                self.note(old, "behaviour: change exactly as old as the period");
            }
        }
    }
}

fn seconds(count: u32) -> Millis {
    Millis::from(count) * 1000
}
