//! What the load may be: rates at a few levels of confidence, for the next steps and for the next minute.
//!
//! A [`Plan`](super::plan::Plan) only asks for these quantiles. Who answers is interchangeable: the recent peak, the
//! forecast network, or, for yardsticks, somebody who knows.

use std::{collections::VecDeque, sync::Arc};

use meanfield_learner::forecast::HORIZONS;

use super::recent::push;

/// The levels of confidence.
pub use meanfield_learner::forecast::LEVELS;

/// Steps that CPU is planned ahead. A resize is in force some seconds into a step, and until then the step runs with what
/// the one before had: so a limit is for the next step and for the beginning of the one after.
pub const NEAR: usize = HORIZONS[0];

/// Steps that replicas are planned ahead: starting takes one or two, and shrinking again is not for at least as long.
pub const AHEAD: usize = HORIZONS[1];

/// Steps that count as recent for the peak: two minutes of 15 s.
const PEAK_WINDOW: usize = 8;

/// A rate that is not known: its quantiles at [`LEVELS`], in requests a second.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Spread(pub [f64; LEVELS.len()]);

impl Spread {
    /// A rate that is taken for certain.
    #[must_use]
    pub fn certain(rate: f64) -> Self {
        Self([rate; LEVELS.len()])
    }

    /// The rate between two levels stands for all of them; probabilities add up to 1.
    pub fn atoms(&self) -> impl DoubleEndedIterator<Item = (f64, f64)> + '_ {
        let rates = &self.0;
        let between = (1..LEVELS.len()).map(|at| (LEVELS[at] - LEVELS[at - 1], 0.5 * (rates[at - 1] + rates[at])));
        let [.., last] = *rates;
        // Nobody has seen beyond the last level: the same distance again.
        let beyond = last + (last - rates[LEVELS.len() - 3]).max(0.0);
        std::iter::once((LEVELS[0], rates[0])).chain(between).chain([(1.0 - LEVELS[LEVELS.len() - 1], beyond)])
    }
}

/// What may come.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Outlook {
    /// The highest rate of the next [`NEAR`] steps.
    pub next: Spread,
    /// The highest rate of the next [`AHEAD`] steps.
    pub ahead: Spread,
}

/// Somebody who looks ahead.
pub trait Foresee: Send {
    /// Its name in tables.
    fn name(&self) -> &'static str;

    /// Sees the rate of a step and says what may come.
    fn outlook(&mut self, rate: f64, seconds: f64) -> Outlook;

    /// Forgets the past.
    fn reset(&mut self);
}

impl<F: Foresee + ?Sized> Foresee for Box<F> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn outlook(&mut self, rate: f64, seconds: f64) -> Outlook {
        (**self).outlook(rate, seconds)
    }
    fn reset(&mut self) {
        (**self).reset();
    }
}

/// What was highest of late will come again: no forecast at all, and hard to beat without one.
#[derive(Debug, Clone, Default)]
pub struct PeakHold {
    rates: VecDeque<f64>,
}

impl Foresee for PeakHold {
    fn name(&self) -> &'static str {
        "plan"
    }

    fn outlook(&mut self, rate: f64, _: f64) -> Outlook {
        push(&mut self.rates, rate, PEAK_WINDOW);
        let peak = Spread::certain(self.rates.iter().copied().fold(0.0, f64::max));
        Outlook { next: peak, ahead: peak }
    }

    fn reset(&mut self) {
        self.rates.clear();
    }
}

/// Knows so many of the next rates exactly, and takes what comes after for the highest of these and of late: a yardstick.
#[derive(Debug, Clone)]
pub struct Known {
    arrivals: Arc<[f64]>,
    steps: usize,
    next: usize,
    held: PeakHold,
}

impl Known {
    /// Knows the next `steps` of `arrivals`, which repeat when they end; the first one is over when it is first asked.
    #[must_use]
    pub fn new(arrivals: Arc<[f64]>, steps: usize) -> Self {
        Self { arrivals, steps: steps.max(1), next: 1, held: PeakHold::default() }
    }
}

impl Foresee for Known {
    fn name(&self) -> &'static str {
        "plan-known"
    }

    fn outlook(&mut self, rate: f64, seconds: f64) -> Outlook {
        let held = self.held.outlook(rate, seconds);
        let Some(length) = Some(self.arrivals.len()).filter(|length| *length > 0) else { return held };
        let at = |ahead: usize| self.arrivals[(self.next + ahead) % length];
        let highest = |steps: usize| {
            let known = (0..self.steps.min(steps)).map(at).fold(0.0, f64::max);
            Spread::certain(if self.steps >= steps { known } else { known.max(held.ahead.0[0]) })
        };
        let outlook = Outlook { next: highest(NEAR), ahead: highest(AHEAD) };
        self.next += 1;
        outlook
    }

    fn reset(&mut self) {
        self.next = 1;
        self.held.reset();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn atoms_are_a_probability_and_their_mean_lies_within_the_levels() {
        let spread = Spread([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]);
        let total: f64 = spread.atoms().map(|(weight, _)| weight).sum();
        assert!((total - 1.0).abs() < 1e-12);
        let mean: f64 = spread.atoms().map(|(weight, rate)| weight * rate).sum();
        assert!(mean > 1.0 && mean < 2.5, "{mean}");
        assert!(Spread::certain(4.0).atoms().all(|(_, rate)| rate == 4.0));
    }

    #[test]
    fn the_peak_is_held_for_two_minutes() {
        let mut held = PeakHold::default();
        held.outlook(9.0, 15.0);
        for _ in 1..PEAK_WINDOW {
            assert_eq!(held.outlook(1.0, 15.0).next, Spread::certain(9.0));
        }
        assert_eq!(held.outlook(1.0, 15.0).next, Spread::certain(1.0));
    }

    #[test]
    fn who_knows_one_step_holds_the_peak_beyond_it() {
        let mut known = Known::new(Arc::from([5.0, 1.0, 7.0, 2.0, 2.0, 2.0]), 1);
        let outlook = known.outlook(5.0, 15.0);
        assert_eq!((outlook.next, outlook.ahead), (Spread::certain(5.0), Spread::certain(5.0)));
        let mut far = Known::new(Arc::from([5.0, 1.0, 4.0, 2.0, 2.0, 8.0]), AHEAD);
        let outlook = far.outlook(5.0, 15.0);
        assert_eq!((outlook.next, outlook.ahead), (Spread::certain(4.0), Spread::certain(8.0)));
    }
}
