//! A trace's components, and how they make rates.

use std::f64::consts::TAU;

use rand::distr::Distribution;
use rand_chacha::ChaCha8Rng;
use rand_distr::Poisson;

use super::{Bursts, Crowds, FINEST, Switching, Wander, burst::Bursting, crowd::Crowding, normal, wander::Wandering};

/// How arrivals are counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Counting {
    /// Not at all: rates as they are.
    Exact,
    /// Whole requests by Poisson's law.
    Poisson,
    /// Poisson's mean and variance, but not whole; negative numbers become zero.
    Normal,
}

/// What the mean rate means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// The rate without bursts: what bursts and wander add comes on top.
    Nominal,
    /// The mean over all steps, or over a day where there are fewer: a heavy-tailed trace has it too.
    Realised,
}

/// What a trace is made of. The default is a steady rate.
#[derive(Debug, Clone, PartialEq)]
pub struct Shape {
    /// Seconds of a day; fewer than 86,400 compress it.
    pub day_seconds: f64,
    /// Harmonics of the day: the k-th is `amplitude * sin(2 pi (k day + phase))`, added to 1.
    pub day: Vec<(f64, f64)>,
    /// Factor on two days of seven, and the day of the week on which the trace begins, 5 and 6 being those two.
    pub weekend: Option<(f64, f64)>,
    /// Growth in means a day, along a straight line that does not go below zero.
    pub trend: f64,
    /// Wander of the logarithm; several add.
    pub wanders: Vec<Wander>,
    /// Bursts; several kinds add.
    pub bursts: Vec<Bursts>,
    /// Flash crowds.
    pub crowds: Option<Crowds>,
    /// On and off.
    pub switching: Option<Switching>,
    /// How arrivals are counted.
    pub counting: Counting,
    /// What the mean rate means.
    pub scale: Scale,
}

impl Default for Shape {
    fn default() -> Self {
        Self {
            day_seconds: 86_400.0,
            day: Vec::new(),
            weekend: None,
            trend: 0.0,
            wanders: Vec::new(),
            bursts: Vec::new(),
            crowds: None,
            switching: None,
            counting: Counting::Poisson,
            scale: Scale::Realised,
        }
    }
}

impl Shape {
    /// Arrival rates in requests a second, for so many steps of `step_seconds`.
    ///
    /// Steps that are not positive and finite give no rates at all.
    pub fn generate(&self, mean_rate: f64, steps: usize, step_seconds: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
        if !(step_seconds > 0.0 && step_seconds.is_finite()) {
            return Vec::new();
        }
        let day_steps = (self.day_seconds / step_seconds).clamp(0.0, 1e6) as usize;
        let whole = if self.scale == Scale::Realised { steps.max(day_steps) } else { steps };
        let mut state = State::start(self, whole as f64 * step_seconds, step_seconds, rng);
        if self.scale == Scale::Nominal {
            return (0..steps)
                .map(|_| {
                    let rate = mean_rate * state.step(self, rng);
                    self.count(rate, step_seconds, rng)
                })
                .collect();
        }
        let mut rates: Vec<_> = (0..whole).map(|_| state.step(self, rng)).collect();
        let mut sum: f64 = rates.iter().sum();
        if sum == 0.0 && self.switching.is_some() {
            // Off all day has no mean; a day that begins on has one.
            state = State { on: true, ..State::start(self, whole as f64 * step_seconds, step_seconds, rng) };
            rates = (0..whole).map(|_| state.step(self, rng)).collect();
            sum = rates.iter().sum();
        }
        let gain = if sum > 0.0 { mean_rate * whole as f64 / sum } else { 0.0 };
        rates.truncate(steps);
        rates.into_iter().map(|rate| self.count(gain * rate, step_seconds, rng)).collect()
    }

    fn count(&self, rate: f64, seconds: f64, rng: &mut ChaCha8Rng) -> f64 {
        let expected = rate.max(0.0) * seconds;
        match self.counting {
            Counting::Exact => expected / seconds,
            // Beyond what Poisson's law can be drawn for, it is normal.
            Counting::Poisson if expected < 1e9 => {
                let poisson = Poisson::new(expected);
                poisson.map_or(0.0, |poisson| poisson.sample(rng)) / seconds
            }
            Counting::Poisson | Counting::Normal => (expected + expected.sqrt() * normal(rng)).max(0.0) / seconds,
        }
    }

    /// Day, week and trend at a time in days.
    fn curve(&self, day: f64) -> f64 {
        let harmonic =
            |(k, (amplitude, phase)): (usize, &(f64, f64))| amplitude * (TAU * ((k + 1) as f64 * day + phase)).sin();
        let daily = 1.0 + self.day.iter().enumerate().map(harmonic).sum::<f64>();
        let weekly =
            self.weekend.map_or(1.0, |(factor, first)| if (day + first).rem_euclid(7.0) >= 5.0 { factor } else { 1.0 });
        daily.max(0.0) * weekly * (1.0 + self.trend * day).max(0.0)
    }
}

/// Where every component is.
struct State {
    fine: f64,
    parts: u32,
    done: u64,
    wanders: Vec<Wandering>,
    bursts: Vec<Bursting>,
    crowding: Option<Crowding>,
    on: bool,
}

impl State {
    fn start(shape: &Shape, seconds: f64, step: f64, rng: &mut ChaCha8Rng) -> Self {
        let parts = (step / FINEST).ceil().clamp(1.0, 1e5);
        let fine = step / parts;
        Self {
            fine,
            parts: parts as u32,
            done: 0,
            wanders: shape.wanders.iter().map(|wander| wander.start(fine, rng)).collect(),
            bursts: shape.bursts.iter().map(|_| Bursting::default()).collect(),
            crowding: shape.crowds.as_ref().map(|crowds| crowds.start(seconds / shape.day_seconds, rng)),
            on: shape.switching.as_ref().is_none_or(|switching| switching.start(rng)),
        }
    }

    /// The mean over one step, relative to the mean rate.
    fn step(&mut self, shape: &Shape, rng: &mut ChaCha8Rng) -> f64 {
        (0..self.parts).map(|_| self.part(shape, rng)).sum::<f64>() / f64::from(self.parts)
    }

    fn part(&mut self, shape: &Shape, rng: &mut ChaCha8Rng) -> f64 {
        let day = self.done as f64 * self.fine / shape.day_seconds;
        self.done += 1;
        let wander: f64 = self.wanders.iter_mut().map(|wander| wander.next(rng)).sum();
        let bursts = shape.bursts.iter().zip(&mut self.bursts);
        let burst: f64 = bursts.map(|(bursts, now)| bursts.next(now, self.fine, rng)).sum();
        let crowds = shape.crowds.as_ref().zip(self.crowding.as_ref());
        let crowd = crowds.map_or(0.0, |(crowds, crowding)| crowds.at(crowding, day));
        let switch = shape.switching.as_ref().map_or(1.0, |one| one.next(&mut self.on, self.fine, rng));
        shape.curve(day) * wander.exp() * (1.0 + burst) * (1.0 + crowd) * switch
    }
}
