//! Where the shipped forecast network comes from: traces of every kind, of every size, with days of several lengths.

use meanfield_common::invalid::Invalid;
use meanfield_learner::forecast::{HORIZONS, History, Network, Samples, Tuner};
use meanfield_traces::synth::Preset;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::{Distribution, Poisson};

use crate::{Error, training::mix};

/// Length of a trace: twelve hours of 15 s and a day of the simulated kind.
const STEPS: usize = 3360;
const SECONDS: f64 = 15.0;
/// A history has at least so many steps before something is learnt from it.
const LEAST: usize = 60;
/// Learning rate at the beginning, and towards the end: it falls by the same factor with each pass.
const RATES: (f32, f32) = (2e-3, 5e-5);

/// How the network is made.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// Kinds of load, in equal parts.
    pub presets: Vec<Preset>,
    /// Traces in all.
    pub traces: usize,
    /// One step in so many becomes a sample.
    pub every: usize,
    /// Passes over all samples.
    pub passes: usize,
    /// Seed of everything.
    pub seed: u64,
}

impl Default for Recipe {
    fn default() -> Self {
        Self { presets: Preset::ALL.to_vec(), traces: 480, every: 6, passes: 12, seed: 1 }
    }
}

impl Recipe {
    /// The samples of traces `from` to `to`; traces are independent of each other.
    pub fn samples(&self, from: usize, to: usize) -> Result<Samples, Error> {
        let mut samples = Samples::default();
        for trace in from..to {
            let rates = self.trace(trace)?;
            let mut history = History::default();
            for (step, &rate) in rates.iter().enumerate() {
                history.push(rate, SECONDS);
                let whole = step + HORIZONS[HORIZONS.len() - 1] < rates.len();
                if step < LEAST || !whole || !(step + trace).is_multiple_of(self.every.max(1)) {
                    continue;
                }
                let highest = |horizon: usize| rates[step + 1..=step + horizon].iter().copied().fold(0.0, f64::max);
                samples.push(&history.features(), HORIZONS.map(|horizon| history.relative(highest(horizon))));
            }
        }
        Ok(samples)
    }

    /// Rates as somebody would count them: whole requests of a Poisson stream.
    pub fn trace(&self, trace: usize) -> Result<Vec<f64>, Error> {
        let mut rng = ChaCha8Rng::seed_from_u64(mix(self.seed, trace as u64));
        let kinds = self.presets.len().max(1);
        let preset = self.presets.get(trace % kinds).copied();
        let preset = preset.ok_or_else(|| Invalid::new("presets", 0, "at least one kind of load"))?;
        let mean = (0.5_f64.ln() + (200.0_f64 / 0.5).ln() * rng.random::<f64>()).exp();
        let day = [7_200.0, 14_400.0, 28_800.0, 86_400.0][rng.random_range(0..4)];
        let rates = preset.generate_with_day(mean, STEPS, SECONDS, day, &mut rng);
        Ok(rates.into_iter().map(|rate| counted(rate, &mut rng)).collect())
    }

    /// Trains a network; `report` hears the loss of each pass.
    pub fn train(&self, mut report: impl FnMut(usize, f32)) -> Result<Network, Error> {
        let samples = self.samples(0, self.traces)?;
        let mut tuner = Tuner::new(Network::new(self.seed), self.seed);
        for pass in 0..self.passes {
            let share = pass as f32 / self.passes.max(2) as f32;
            let loss = tuner.pass(&samples, RATES.0 * (RATES.1 / RATES.0).powf(share))?;
            report(pass, loss);
        }
        let mut network = tuner.into_network();
        let names: Vec<_> = self.presets.iter().map(|preset| preset.name()).collect();
        network.provenance = format!(
            "{} synthetic traces of {STEPS} steps of {SECONDS} s ({}), {} samples, {} passes, seed {}",
            self.traces,
            names.join(", "),
            samples.len(),
            self.passes,
            self.seed
        );
        Ok(network)
    }
}

fn counted(rate: f64, rng: &mut ChaCha8Rng) -> f64 {
    Poisson::new(rate * SECONDS).map_or(rate, |poisson| poisson.sample(rng) / SECONDS)
}
