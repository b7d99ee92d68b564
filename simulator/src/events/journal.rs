//! What happened to a tenant's requests in one step, counted one by one.

use hdrhistogram::Histogram;

/// Seconds of one unit in the histograms.
pub const UNIT: f64 = 1e-7;

/// The longest latency that is told apart, in units: 10 000 s.
const LONGEST: u64 = 100_000_000_000;

/// Counts and sums of one step; times in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Totals {
    /// Requests that arrived, those turned away included.
    pub arrived: u64,
    /// Requests that were answered.
    pub answered: u64,
    /// Requests that were given up on or lost, those turned away included.
    pub failed: u64,
    /// Requests beyond what is simulated one by one: they arrive and fail at once, outside the sums below.
    pub turned_away: u64,
    /// Requests slower than the objective, and failed ones.
    pub violating: u64,
    /// Time from arrival to answer or failure, summed over those requests.
    pub latency: f64,
    /// Requests that were given a slot, and the time from being sent to that, summed.
    pub started: u64,
    /// See `started`.
    pub waited: f64,
    /// The integral over time of the number of requests in the system.
    pub area: f64,
    /// Requests in the system at the end, those of them in no slot, and the sum of their ages.
    pub in_system: u64,
    /// See `in_system`.
    pub waiting: u64,
    /// See `in_system`.
    pub ages: f64,
}

/// A step's requests: every latency, every waiting time, and their exact sums.
#[derive(Debug, Clone)]
pub struct Journal {
    /// From arrival to answer or failure, in units of [`UNIT`] seconds, to three digits. A failed request counts as
    /// the time-out.
    pub latencies: Histogram<u64>,
    /// From being sent to being given a slot, in the same units.
    pub waits: Histogram<u64>,
    /// Counts and sums.
    pub totals: Totals,
    /// When `area` was last brought up to date.
    at: f64,
    /// Requests that did not wait: most of them, so they are entered all at once at the end.
    at_once: u64,
}

impl Journal {
    pub(super) fn new(at: f64) -> Self {
        // Constant bounds that the type accepts, so there is nothing to report.
        #[allow(clippy::expect_used)]
        let histogram = Histogram::new_with_bounds(1, LONGEST, 3).expect("constant bounds");
        Self { latencies: histogram.clone(), waits: histogram, totals: Totals::default(), at, at_once: 0 }
    }

    /// A new step; who is in the system stays there.
    pub(super) fn turn_over(&mut self, at: f64) {
        self.latencies.reset();
        self.waits.reset();
        self.totals = Totals { in_system: self.totals.in_system, ..Totals::default() };
        self.at = at;
    }

    fn pass(&mut self, to: f64) {
        self.totals.area += self.totals.in_system as f64 * (to - self.at);
        self.at = to;
    }

    pub(super) fn arrive(&mut self, at: f64) {
        self.pass(at);
        self.totals.arrived += 1;
        self.totals.in_system += 1;
    }

    pub(super) fn start(&mut self, wait: f64) {
        self.totals.started += 1;
        if wait > 0.0 {
            self.totals.waited += wait;
            self.waits.saturating_record(units(wait));
        } else {
            self.at_once += 1;
        }
    }

    /// The step is over.
    pub(super) fn close(&mut self, at: f64) {
        self.pass(at);
        self.waits.saturating_record_n(0, std::mem::take(&mut self.at_once));
    }

    pub(super) fn answer(&mut self, arrived: f64, at: f64, objective: f64) {
        self.pass(at);
        let latency = at - arrived;
        self.totals.in_system -= 1;
        self.totals.answered += 1;
        self.totals.latency += latency;
        self.totals.violating += u64::from(latency > objective);
        self.latencies.saturating_record(units(latency));
    }

    pub(super) fn fail(&mut self, arrived: f64, at: f64, timeout: f64) {
        self.pass(at);
        let latency = at - arrived;
        self.totals.in_system -= 1;
        self.totals.failed += 1;
        self.totals.violating += 1;
        self.totals.latency += latency;
        // Whoever gets no answer has not got it quickly.
        self.latencies.saturating_record(units(timeout));
    }

    pub(super) fn turn_away(&mut self, count: u64, timeout: f64) {
        self.totals.arrived += count;
        self.totals.turned_away += count;
        self.totals.failed += count;
        self.totals.violating += count;
        self.latencies.saturating_record_n(units(timeout), count);
    }

    /// Median and 99th percentile in seconds of what was answered or failed.
    pub(super) fn percentiles(&self) -> Option<[f64; 2]> {
        (!self.latencies.is_empty())
            .then(|| [0.5, 0.99].map(|quantile| self.latencies.value_at_quantile(quantile) as f64 * UNIT))
    }
}

fn units(seconds: f64) -> u64 {
    (seconds * (1.0 / UNIT)) as u64
}
