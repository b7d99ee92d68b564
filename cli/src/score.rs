//! What a policy's days were worth, function by function.

use std::collections::BTreeMap;

use meanfield_agent::{fleet::Step, yardstick::GIB_IN_CORES};
use meanfield_common::action::Action;
use serde::{Deserialize, Serialize};

const GIB: f64 = (1_u64 << 30) as f64;

/// One policy's figures.
pub struct Scores {
    pub policy: &'static str,
    pub functions: BTreeMap<usize, Tally>,
    pub total: Tally,
    /// The first day, step by step.
    pub day: Vec<Moment>,
    rounds: u64,
}

/// One step of the first day, over all functions.
#[derive(Clone, Copy)]
pub struct Moment {
    /// p99 over SLO of the slowest function.
    pub slowest: f64,
    /// Cores reserved and used.
    pub cores: f64,
    pub used: f64,
}

/// Sums over windows (steps).
#[derive(Default, Clone)]
pub struct Tally {
    pub slo_ms: f64,
    windows: f64,
    violated: f64,
    requests: f64,
    violating: f64,
    cores: f64,
    cores_used: f64,
    limits: f64,
    memory: f64,
    memory_used: f64,
    reward: f64,
    actions: f64,
    oscillations: f64,
    oom_kills: f64,
    doubtful: f64,
    seconds: f64,
    medians: Vec<f64>,
    highs: Vec<f64>,
    excess: Vec<f64>,
    previous: Action,
}

/// The figures behind a row of the table, as they stand in summary.json.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Figures {
    pub slo_violation_rate_requests: f64,
    pub slo_violation_rate_windows: f64,
    /// Of the median window; the 99th percentile also over the SLO, and for the window that only 5 % are worse than.
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub p99_over_slo: f64,
    pub p99_over_slo_95th: f64,
    pub cpu_reserved_cores: f64,
    /// Cores that limits allow.
    #[serde(default)]
    pub cpu_limit_cores: f64,
    pub cpu_used_cores: f64,
    pub memory_reserved_gib: f64,
    pub memory_used_gib: f64,
    /// Reserved cores, a gibibyte counting as an eighth of one.
    pub cost_cores: f64,
    pub reward: f64,
    /// Per function and hour.
    pub scaling_actions_per_hour: f64,
    pub oscillations_per_hour: f64,
    pub oom_kills_per_hour: f64,
    /// Windows whose latency the simulator itself does not vouch for.
    pub doubtful_rate_windows: f64,
}

impl Scores {
    pub fn new(policy: &'static str) -> Self {
        Self { policy, functions: BTreeMap::new(), total: Tally::default(), day: Vec::new(), rounds: 0 }
    }

    pub fn add(&mut self, day: u64, steps: &[Step]) {
        self.rounds += 1;
        for step in steps {
            let function = self.functions.entry(step.place).or_default();
            let previous = std::mem::replace(&mut function.previous, step.report.action);
            function.add(step, &previous);
            self.total.add(step, &previous);
        }
        if day == 0 {
            let excess = steps.iter().filter_map(|step| step.report.excess);
            self.day.push(Moment {
                slowest: excess.fold(0.0, f64::max),
                cores: steps.iter().map(|step| step.outcome.cores).sum(),
                used: steps.iter().map(|step| step.report.seen.cpu_used.cores()).sum(),
            });
        }
    }

    /// Over all functions; reserved resources are those of the whole cluster.
    pub fn total(&self) -> Figures {
        let mut figures = self.total.figures();
        let tenants = self.total.windows / self.rounds.max(1) as f64;
        for figure in [
            &mut figures.cpu_reserved_cores,
            &mut figures.cpu_used_cores,
            &mut figures.cpu_limit_cores,
            &mut figures.memory_reserved_gib,
            &mut figures.memory_used_gib,
            &mut figures.cost_cores,
        ] {
            *figure *= tenants;
        }
        figures
    }

    /// p99 over SLO of all windows, in ascending order.
    pub fn excesses(&self) -> Vec<f64> {
        sorted(&self.total.excess)
    }
}

impl Tally {
    fn add(&mut self, step: &Step, previous: &Action) {
        let (report, outcome) = (&step.report, &step.outcome);
        let one = |yes: bool| f64::from(u8::from(yes));
        self.seconds += report.seen.seconds;
        self.cores_used += report.seen.cpu_used.cores();
        self.limits += report.seen.cpu_allowed.cores();
        self.memory_used += report.seen.memory_used.0 as f64;
        self.actions += one(report.action != Action::HOLD);
        self.oscillations += one(report.action.oscillates_after(previous));
        self.oom_kills += f64::from(report.seen.oom_kills);
        self.doubtful += one(outcome.doubt.is_some());
        self.medians.extend(report.seen.latency_p50);
        self.highs.extend(report.seen.latency_p99);
        self.windows += 1.0;
        self.violated += one(outcome.violated);
        self.requests += outcome.requests;
        self.violating += outcome.violating;
        self.cores += outcome.cores;
        self.memory += outcome.memory;
        self.reward += report.reward;
        if let (Some(excess), Some(p99)) = (report.excess, report.seen.latency_p99) {
            self.excess.push(excess);
            self.slo_ms = p99 / excess;
        }
    }

    pub fn figures(&self) -> Figures {
        let windows = self.windows.max(1.0);
        let hours = (self.seconds / 3600.0).max(f64::MIN_POSITIVE);
        let (excess, medians) = (sorted(&self.excess), sorted(&self.medians));
        let (cores, memory) = (self.cores / windows, self.memory / windows / GIB);
        Figures {
            slo_violation_rate_requests: self.violating / self.requests.max(1.0),
            slo_violation_rate_windows: self.violated / windows,
            p50_ms: at(&medians, 0.5),
            p99_ms: at(&sorted(&self.highs), 0.5),
            p99_over_slo: at(&excess, 0.5),
            p99_over_slo_95th: at(&excess, 0.95),
            cpu_reserved_cores: cores,
            cpu_used_cores: self.cores_used / windows,
            cpu_limit_cores: self.limits / windows,
            memory_reserved_gib: memory,
            memory_used_gib: self.memory_used / windows / GIB,
            cost_cores: cores + GIB_IN_CORES * memory,
            reward: self.reward / windows,
            scaling_actions_per_hour: self.actions / hours,
            oscillations_per_hour: self.oscillations / hours,
            oom_kills_per_hour: self.oom_kills / hours,
            doubtful_rate_windows: self.doubtful / windows,
        }
    }
}

/// The value below which so much of the ascending `values` lies; 0 without any.
fn at(values: &[f64], share: f64) -> f64 {
    values.get(((values.len() as f64 - 1.0).max(0.0) * share).round() as usize).copied().unwrap_or(0.0)
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}
