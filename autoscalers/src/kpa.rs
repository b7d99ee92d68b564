//! Knative's autoscaler for pods (KPA): how many replicas a revision should have for its load.
//!
//! `knative.dev/serving` 0.51. Load, which is concurrent requests or requests per second, is averaged over a stable and
//! over a panic window. Normally the stable average decides; when the panic average asks for a multiple of the ready
//! pods, both do, and nothing shrinks until that has been over for a stable window. Then the scale's bounds apply, and
//! the way to zero, see [`activation`].
//!
//! A round of [`Kpa::decide`], every two seconds in the real one, stands for the decider's evaluation and the reconcile
//! that it causes. The revision is taken to be routed to, and a proxy that should be in the path to be there at once.

use std::{collections::VecDeque, time::Duration};

use meanfield_common::invalid::{Invalid, within};

pub mod activation;
pub mod window;

use activation::Activation;
use window::{Aggregation, Window};

/// Time between two rounds, which is also the resolution of the delay before scaling down.
pub const TICK: Duration = Duration::from_secs(2);
/// The least load for which a pod can be meant.
const MIN_TARGET: f64 = 0.01;

/// How the autoscaler is set. The default is that of the real one's configuration.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// Load that one pod can take.
    pub total_value: f64,
    /// Which share of that to aim for.
    pub utilisation: f64,
    /// How the seconds of a window are weighed.
    pub aggregation: Aggregation,
    /// By which factor the ready pods may grow in one round.
    pub max_scale_up_rate: f64,
    /// By which divisor the ready pods may shrink in one round.
    pub max_scale_down_rate: f64,
    /// Length of the stable window, in whole seconds.
    pub stable_window: Duration,
    /// Length of the panic window, in percent of the stable one.
    pub panic_window_percentage: f64,
    /// Load over the panic window, in percent of what the ready pods should take, from which on it panics.
    pub panic_threshold_percentage: f64,
    /// How much load must be able to come at once before the proxy leaves the path; unlimited when unset.
    pub target_burst_capacity: Option<f64>,
    /// How long the load must have been lower before scaling down, in whole seconds.
    pub scale_down_delay: Duration,
    /// The least number of pods that are started when any are.
    pub activation_scale: u32,
    /// Bounds, and the way to zero.
    pub activation: activation::Options,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            total_value: 100.0,
            utilisation: 0.7,
            aggregation: Aggregation::Linear,
            max_scale_up_rate: 1000.0,
            max_scale_down_rate: 2.0,
            stable_window: Duration::from_secs(60),
            panic_window_percentage: 10.0,
            panic_threshold_percentage: 200.0,
            target_burst_capacity: Some(211.0),
            scale_down_delay: Duration::ZERO,
            activation_scale: 1,
            activation: activation::Options::default(),
        }
    }
}

impl Options {
    fn validated(self) -> Result<Self, Invalid> {
        for (field, value, low, high) in [
            ("total_value", self.total_value, MIN_TARGET, 1e9),
            ("utilisation", self.utilisation, 0.01, 1.0),
            ("max_scale_up_rate", self.max_scale_up_rate, 1.0, 1e6),
            ("max_scale_down_rate", self.max_scale_down_rate, 1.0, 1e6),
            ("panic_window_percentage", self.panic_window_percentage, 1.0, 100.0),
            ("panic_threshold_percentage", self.panic_threshold_percentage, 110.0, 1000.0),
            ("target_burst_capacity", self.target_burst_capacity.unwrap_or(0.0), 0.0, 1e9),
            ("activation_scale", self.activation_scale.into(), 0.0, activation::MOST.into()),
        ] {
            within(field, value, low, high)?;
        }
        for (field, rate) in
            [("max_scale_up_rate", self.max_scale_up_rate), ("max_scale_down_rate", self.max_scale_down_rate)]
        {
            if rate <= 1.0 {
                return Err(Invalid::new(field, rate, "more than 1"));
            }
        }
        let whole = |time: Duration| time.subsec_nanos() == 0;
        let hour = Duration::from_secs(3600);
        if !whole(self.stable_window) || !(Duration::from_secs(6)..=hour).contains(&self.stable_window) {
            let value = format!("{:?}", self.stable_window);
            return Err(Invalid::new("stable_window", value, "whole seconds within [6 s, 1 h]"));
        }
        if !whole(self.scale_down_delay) || self.scale_down_delay > hour {
            let value = format!("{:?}", self.scale_down_delay);
            return Err(Invalid::new("scale_down_delay", value, "whole seconds within [0 s, 1 h]"));
        }
        Ok(Self { activation: self.activation.validated()?, ..self })
    }

    /// Length of the panic window in seconds.
    #[must_use]
    pub fn panic_window(&self) -> u32 {
        let nanos = (self.stable_window.as_nanos() as f64 * self.panic_window_percentage / 100.0) as u64;
        // To the nearest second.
        (((nanos + 500_000_000) / 1_000_000_000) as u32).max(1)
    }
}

/// What a round came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Decision {
    /// How many replicas there should be.
    pub replicas: u32,
    /// Whether it panics.
    pub panicking: bool,
}

/// The autoscaler of one revision.
#[derive(Debug, Clone, PartialEq)]
pub struct Kpa {
    options: Options,
    target: f64,
    stable: Window,
    panic: Window,
    /// When the load was last above the panic threshold, while it panics.
    panicking_since: Option<Duration>,
    /// The most pods decided on while it panics.
    max_panic_pods: i32,
    delay: Option<Delay>,
    /// The last valid evaluation, which stands while there is no data.
    latest: Option<i32>,
    /// Load that could still come at once.
    excess: i32,
    activation: Activation,
}

impl Kpa {
    /// The autoscaler of a new revision.
    pub fn new(options: Options) -> Result<Self, Invalid> {
        let options = options.validated()?;
        let target = (options.total_value * options.utilisation).max(MIN_TARGET);
        let initial = f64::from(options.activation.initial_scale);
        let excess = match options.target_burst_capacity {
            None => -1,
            Some(0.0) => 0,
            Some(capacity) => (initial * options.total_value - capacity) as i32,
        };
        Ok(Self {
            target,
            stable: Window::new(options.stable_window.as_secs() as u32, options.aggregation)?,
            panic: Window::new(options.panic_window(), options.aggregation)?,
            panicking_since: None,
            max_panic_pods: 0,
            delay: (!options.scale_down_delay.is_zero()).then(|| Delay::new(options.scale_down_delay)),
            latest: None,
            excess,
            activation: Activation::new(options.activation.clone()),
            options,
        })
    }

    /// The autoscaler of a revision that runs already, as after a restart of the autoscaler. With several ready pods it
    /// begins in panic, and so keeps them until it has seen a stable window of load.
    pub fn resume(options: Options, now: Duration, ready: u32) -> Result<Self, Invalid> {
        let mut kpa = Self::new(options)?;
        if ready > 1 {
            kpa.panicking_since = Some(now);
        }
        kpa.max_panic_pods = count(ready);
        kpa.activation.resume(now, ready);
        Ok(kpa)
    }

    /// Adds load that was measured in the second in which `now` lies, over all pods and the proxy.
    pub fn record(&mut self, now: Duration, load: f64) {
        self.stable.record(now, load);
        self.panic.record(now, load);
    }

    /// Evaluates, given how many pods are ready.
    pub fn decide(&mut self, now: Duration, ready: u32) -> Decision {
        if let Some((stable, panic)) = self.averages(now) {
            self.latest = Some(self.evaluate(now, ready, stable, panic));
        }
        let replicas = self.activation.round(now, count(ready), self.latest, self.excess, self.options.stable_window);
        Decision { replicas, panicking: self.panicking_since.is_some() }
    }

    /// The load over the stable and over the panic window; `None` when there is no data to go by.
    #[must_use]
    pub fn averages(&self, now: Duration) -> Option<(f64, f64)> {
        let stable = match (self.stable.average(now), self.options.target_burst_capacity) {
            (Some(stable), _) => stable,
            // The proxy is always in the path and reports only load: silence means that there is none.
            (None, None) => 0.0,
            (None, Some(_)) => return None,
        };
        Some((stable, self.panic.average(now).unwrap_or(0.0)))
    }

    fn evaluate(&mut self, now: Duration, ready: u32, stable: f64, panic: f64) -> i32 {
        let pods = f64::from(ready).max(1.0);
        let most = (self.options.max_scale_up_rate * pods).ceil();
        let least = (pods / self.options.max_scale_down_rate).floor();
        let for_stable = (stable / self.target).ceil();
        let for_panic = (panic / self.target).ceil();
        let activation_scale = count(self.options.activation_scale);
        let reach = |wanted: f64| {
            let within_rates = wanted.max(least).min(most) as i32;
            if activation_scale > 1 && wanted > 0.0 { within_rates.max(activation_scale) } else { within_rates }
        };
        let mut desired = reach(for_stable);

        let calm = self.panicking_since.is_some_and(|since| since.saturating_add(self.options.stable_window) < now);
        if for_panic / pods >= self.options.panic_threshold_percentage / 100.0 {
            self.panicking_since = Some(now);
        } else if calm {
            self.panicking_since = None;
            self.max_panic_pods = 0;
        }
        if self.panicking_since.is_some() {
            self.max_panic_pods = self.max_panic_pods.max(desired).max(reach(for_panic));
            desired = self.max_panic_pods;
        }
        if let Some(delay) = &mut self.delay {
            desired = delay.largest(now, desired);
        }
        self.excess = match self.options.target_burst_capacity {
            None => -1,
            Some(0.0) => 0,
            Some(capacity) => (f64::from(ready) * self.options.total_value - capacity - panic).floor() as i32,
        };
        desired
    }
}

fn count(pods: u32) -> i32 {
    i32::try_from(pods).unwrap_or(i32::MAX)
}

/// The largest of the latest evaluations, so that scaling down waits.
#[derive(Debug, Clone, PartialEq)]
struct Delay {
    ticks: u64,
    /// Evaluations that no later one exceeds, each with its tick: the first is the largest.
    largest: VecDeque<(u64, i32)>,
}

impl Delay {
    fn new(delay: Duration) -> Self {
        Self { ticks: delay.as_secs().div_ceil(TICK.as_secs()), largest: VecDeque::new() }
    }

    /// Counts an evaluation; gives the largest of those that still count.
    fn largest(&mut self, now: Duration, desired: i32) -> i32 {
        let tick = now.as_secs() / TICK.as_secs();
        while self.largest.back().is_some_and(|(_, earlier)| *earlier <= desired) {
            self.largest.pop_back();
        }
        while self.largest.front().is_some_and(|(earlier, _)| tick.saturating_sub(*earlier) >= self.ticks) {
            self.largest.pop_front();
        }
        // Of two evaluations within a tick the larger counts.
        if self.largest.back().is_none_or(|(earlier, _)| *earlier != tick) {
            self.largest.push_back((tick, desired));
        }
        // A clock that goes backwards lets nothing expire; the size is bounded all the same.
        while self.largest.len() as u64 > self.ticks {
            self.largest.pop_front();
        }
        self.largest.front().map_or(desired, |(_, largest)| *largest)
    }
}
