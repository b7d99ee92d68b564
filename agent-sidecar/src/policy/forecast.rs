//! The forecast network at work for one workload: corrected by what came of it, tuned on the workload's own past, and set
//! aside while the recent peak does better.

use std::{
    collections::VecDeque,
    sync::{Arc, OnceLock},
};

use meanfield_learner::{
    forecast::{self, HORIZONS, History, LEVELS, Network, Quantiles, Samples, Tuner, pinball},
    network::Scratch,
};
use parking_lot::RwLock;

use super::outlook::{Foresee, Outlook, PeakHold, Spread};

/// How fast corrections follow, as logarithms of the rate: a quantile that is passed too often moves up by this much of
/// what it is short of a step.
const CORRECT: f32 = 0.04;
const MOST_CORRECTION: f32 = 1.5;
/// How much of the rolling losses the newest step is.
const FOLLOW: f64 = 0.01;
/// Steps of its own past on which the network is tuned, how often, and how.
const OWN: usize = 1920;
const TUNE_EVERY: usize = 480;
const LEAST_OWN: usize = 480;
const PASSES: usize = 2;
const RATE: f32 = 5e-4;
/// The newest part of its own past, on which a tuned network must be better to be taken.
const HELD_OUT: f64 = 0.25;

/// The network that ships with the agent; `meanfield train --forecast` made it.
pub fn shipped() -> Result<Arc<Network>, meanfield_learner::Error> {
    static SHIPPED: OnceLock<Result<Arc<Network>, meanfield_learner::Error>> = OnceLock::new();
    let load = || Network::load(include_bytes!("../../data/forecast.safetensors")).map(Arc::new);
    SHIPPED.get_or_init(load).clone()
}

/// How an agent uses the network; each part can be switched off to see what it is worth.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Care {
    /// Whether quantiles are corrected by how often they were passed.
    pub recalibrate: bool,
    /// Whether the network is tuned on the workload's own past.
    pub tune: bool,
    /// Whether the recent peak takes over while it has the smaller loss.
    pub gate: bool,
}

impl Default for Care {
    fn default() -> Self {
        Self { recalibrate: true, tune: true, gate: true }
    }
}

/// A network that may be exchanged while forecasters use it. Clones are handles to the same one.
#[derive(Debug, Clone)]
pub struct Shared(Arc<RwLock<Arc<Network>>>);

impl Shared {
    /// Begins with a network.
    #[must_use]
    pub fn new(network: Arc<Network>) -> Self {
        Self(Arc::new(RwLock::new(network)))
    }

    /// The network as it is now.
    #[must_use]
    pub fn get(&self) -> Arc<Network> {
        self.0.read().clone()
    }

    /// Puts another in its place, from everybody's next step on.
    pub fn replace(&self, network: Arc<Network>) {
        *self.0.write() = network;
    }
}

/// A forecast that waits for what comes of it.
#[derive(Debug, Clone, Copy)]
struct Pending {
    features: [f32; forecast::FEATURES],
    quantiles: Quantiles,
    held: [f32; HORIZONS.len()],
    /// The level that the quantiles are relative to.
    level: Level,
    /// Highest rate so far, and steps since.
    highest: [f64; HORIZONS.len()],
    age: usize,
}

/// What is needed to bring a rate onto the scale of an earlier forecast.
#[derive(Debug, Clone, Copy)]
struct Level {
    one: f64,
    least: f64,
}

impl Level {
    fn of(history: &History, seconds: f64) -> Self {
        let least = 1.0 / seconds.max(1e-9);
        Self { one: history.rate(0.0) + least, least }
    }

    fn relative(self, rate: f64) -> f32 {
        ((rate + self.least) / self.one).ln() as f32
    }
}

/// The forecaster of one workload.
#[derive(Debug, Clone)]
pub struct Forecast {
    source: Shared,
    /// The shared network as it was in the last step.
    shared: Arc<Network>,
    /// The network after tuning, if that made it better.
    own: Option<Arc<Network>>,
    care: Care,
    history: History,
    held: PeakHold,
    pending: VecDeque<Pending>,
    corrections: Quantiles,
    /// Rolling pinball losses of network and recent peak.
    losses: [f64; 2],
    samples: Samples,
    steps: usize,
    scratch: Scratch,
}

impl Forecast {
    /// Uses a network.
    #[must_use]
    pub fn new(network: Arc<Network>, care: Care) -> Self {
        Self::following(Shared::new(network), care)
    }

    /// Uses a network that may be exchanged.
    #[must_use]
    pub fn following(source: Shared, care: Care) -> Self {
        Self {
            shared: source.get(),
            source,
            own: None,
            care,
            history: History::default(),
            held: PeakHold::default(),
            pending: VecDeque::new(),
            corrections: Quantiles::default(),
            losses: [0.0; 2],
            samples: Samples::default(),
            steps: 0,
            scratch: Scratch::default(),
        }
    }

    /// Rolling pinball losses of the network, corrected, and of the recent peak.
    #[must_use]
    pub fn losses(&self) -> [f64; 2] {
        self.losses
    }

    /// Whether the network has the word.
    #[must_use]
    pub fn trusted(&self) -> bool {
        !self.care.gate || self.losses[0] <= self.losses[1]
    }

    /// Whether it uses a network of its own, which tuning made of the shared one.
    #[must_use]
    pub fn tuned(&self) -> bool {
        self.own.is_some()
    }

    /// Goes over to another shared network. What was tuned came from the one before; what was learnt about the workload
    /// and about forecasts of it stays.
    fn follow(&mut self) {
        let now = self.source.get();
        if !Arc::ptr_eq(&now, &self.shared) {
            (self.shared, self.own) = (now, None);
        }
    }

    /// Takes in what came, and settles the forecasts that it completes.
    fn settle(&mut self, rate: f64) {
        let last = HORIZONS[HORIZONS.len() - 1];
        for pending in &mut self.pending {
            pending.age += 1;
            for ((highest, horizon), row) in pending.highest.iter_mut().zip(HORIZONS).zip(0..) {
                if pending.age <= horizon {
                    *highest = highest.max(rate);
                }
                if pending.age == horizon {
                    let came = pending.level.relative(*highest);
                    correct(&mut self.corrections[row], &pending.quantiles[row], came);
                    let losses =
                        [pinball(&pending.quantiles[row], came), pinball(&[pending.held[row]; LEVELS.len()], came)];
                    for (rolling, loss) in self.losses.iter_mut().zip(losses) {
                        *rolling += FOLLOW * (f64::from(loss) - *rolling);
                    }
                }
            }
        }
        if self.pending.front().is_some_and(|oldest| oldest.age >= last)
            && let Some(done) = self.pending.pop_front()
            && self.care.tune
        {
            let targets = [0, 1].map(|row| done.level.relative(done.highest[row]));
            self.samples.push(&done.features, targets);
        }
    }

    /// Tunes a copy of its network on the workload's own past, and keeps it if it is better on the newest part.
    fn tune(&mut self) {
        self.samples.keep_newest(OWN);
        if self.samples.len() < LEAST_OWN {
            return;
        }
        let (old, new) = self.samples.split(((1.0 - HELD_OUT) * self.samples.len() as f64) as usize);
        let base = self.own.as_ref().unwrap_or(&self.shared);
        let mut tuner = Tuner::new((**base).clone(), self.steps as u64);
        let tuned = (0..PASSES).try_for_each(|_| tuner.pass(&old, RATE).map(|_| ()));
        let total = |network: &Network| forecast::loss(network, &new).map(|losses| losses.iter().sum::<f64>());
        // A network that cannot be tuned is as good as one that got no better.
        if let (Ok(()), Ok(before), Ok(after)) = (tuned, total(base), total(tuner.network()))
            && after < before
        {
            self.own = Some(Arc::new(tuner.into_network()));
        }
    }
}

/// Moves each level up when it was passed and down when it was not, so that in the long run it is passed as often as it
/// should be.
fn correct(corrections: &mut [f32; LEVELS.len()], quantiles: &[f32; LEVELS.len()], came: f32) {
    for ((correction, quantile), level) in corrections.iter_mut().zip(quantiles).zip(LEVELS) {
        let passed = f32::from(u8::from(came > *quantile));
        *correction += CORRECT * (passed - (1.0 - level as f32));
        *correction = correction.clamp(-MOST_CORRECTION, MOST_CORRECTION);
    }
}

impl Foresee for Forecast {
    fn name(&self) -> &'static str {
        "plan-forecast"
    }

    fn outlook(&mut self, rate: f64, seconds: f64) -> Outlook {
        let rate = if rate.is_finite() { rate.max(0.0) } else { 0.0 };
        self.follow();
        self.settle(rate);
        self.history.push(rate, seconds);
        self.steps += 1;
        if self.care.tune && self.steps.is_multiple_of(TUNE_EVERY) {
            self.tune();
        }
        let held = self.held.outlook(rate, seconds);
        let features = self.history.features();
        let network = self.own.as_ref().unwrap_or(&self.shared);
        let Ok(mut quantiles) = network.quantiles(&features, &mut self.scratch) else { return held };
        if self.care.recalibrate {
            for (row, corrections) in quantiles.iter_mut().zip(&self.corrections) {
                let mut least = f32::NEG_INFINITY;
                for (quantile, correction) in row.iter_mut().zip(corrections) {
                    *quantile = (*quantile + correction).max(least);
                    least = *quantile;
                }
            }
        }
        let level = Level::of(&self.history, seconds);
        let relative = [held.next, held.ahead].map(|spread| level.relative(spread.0[0]));
        let highest = [0.0; HORIZONS.len()];
        self.pending.push_back(Pending { features, quantiles, held: relative, level, highest, age: 0 });
        if !self.trusted() {
            return held;
        }
        let [next, ahead] = quantiles.map(|row| Spread(row.map(|quantile| self.history.rate(quantile))));
        Outlook { next, ahead }
    }

    fn reset(&mut self) {
        *self = Self::following(self.source.clone(), self.care);
    }
}
