//! What a policy's days were worth, function by function.

use std::collections::BTreeMap;

use meanfield_agent::fleet::Step;
use serde::Serialize;

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
    memory: f64,
    reward: f64,
    excess: Vec<f64>,
}

/// The figures behind a row of the table, as they stand in summary.json.
#[derive(Debug, Clone, Serialize)]
pub struct Figures {
    pub slo_violation_rate_requests: f64,
    pub slo_violation_rate_windows: f64,
    /// p99 over SLO of a window: the median window, and the one that only 5 % are worse than.
    pub p99_over_slo: f64,
    pub p99_over_slo_95th: f64,
    pub cpu_reserved_cores: f64,
    pub memory_reserved_gib: f64,
    pub reward: f64,
}

impl Scores {
    pub fn new(policy: &'static str) -> Self {
        Self { policy, functions: BTreeMap::new(), total: Tally::default(), day: Vec::new(), rounds: 0 }
    }

    pub fn add(&mut self, day: u64, steps: &[Step]) {
        self.rounds += 1;
        for step in steps {
            self.functions.entry(step.place).or_default().add(step);
            self.total.add(step);
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
        figures.cpu_reserved_cores *= tenants;
        figures.memory_reserved_gib *= tenants;
        figures
    }

    /// p99 over SLO of all windows, in ascending order.
    pub fn excesses(&self) -> Vec<f64> {
        sorted(&self.total.excess)
    }
}

impl Tally {
    fn add(&mut self, step: &Step) {
        let (report, outcome) = (&step.report, &step.outcome);
        self.windows += 1.0;
        self.violated += f64::from(u8::from(outcome.violated));
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
        let excess = sorted(&self.excess);
        let at = |share: f64| excess.get(((excess.len() as f64 - 1.0).max(0.0) * share).round() as usize).copied();
        Figures {
            slo_violation_rate_requests: self.violating / self.requests.max(1.0),
            slo_violation_rate_windows: self.violated / windows,
            p99_over_slo: at(0.5).unwrap_or(0.0),
            p99_over_slo_95th: at(0.95).unwrap_or(0.0),
            cpu_reserved_cores: self.cores / windows,
            memory_reserved_gib: self.memory / windows / f64::from(1 << 30),
            reward: self.reward / windows,
        }
    }
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    values
}
