//! The law from which functions like those of Azure Functions 2019 are drawn.
//!
//! The constants are fitted by `cargo run --release -p meanfield-traces --example calibrate -- DATA 400`, which
//! brings the quartiles of nine figures of made functions near those of the 88 busy ones, and rounded to three digits.
//! docs/traces.md has the table, and says what has changed since.

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{Bursts, Shape, Size, Switching, Wander, normal};

/// The law of a function's shape.
#[derive(Debug, Clone, PartialEq)]
pub struct AzureFunctions {
    /// Median deviation of the logarithm of the rate, and how much its logarithm varies between functions.
    pub deviation: (f64, f64),
    /// How much of that variance is slow, before the logistic function: median and deviation.
    pub slow: (f64, f64),
    /// Seconds of the slow wander.
    pub slow_seconds: f64,
    /// Median seconds of the fast wander, and the deviation of their logarithm.
    pub fast_seconds: (f64, f64),
    /// Largest swing of a day; each function has up to so much.
    pub swing: f64,
    /// Median seconds between bursts, and the deviation of their logarithm between functions.
    pub bursts: (f64, f64),
    /// The exponent of the sizes of bursts.
    pub burst_exponent: f64,
    /// Share of functions that are switched on and off.
    pub switched: f64,
    /// Median seconds on and off; both vary by a factor of e between functions.
    pub on_off: (f64, f64),
}

impl Default for AzureFunctions {
    fn default() -> Self {
        Self {
            deviation: (0.726, 1.13),
            slow: (1.01, 0.805),
            slow_seconds: 28_200.0,
            fast_seconds: (72.0, 2.04),
            swing: 0.708,
            bursts: (22_600.0, 0.708),
            burst_exponent: 1.2,
            switched: 0.647,
            on_off: (5570.0, 14_400.0),
        }
    }
}

impl AzureFunctions {
    /// Draws the shape of one function.
    pub fn shape(&self, rng: &mut ChaCha8Rng) -> Shape {
        let mut around = |(median, deviation): (f64, f64)| median * (deviation * normal(rng)).exp();
        let deviation = around(self.deviation).min(3.0);
        let slow = 1.0 / (1.0 + (-self.slow.0).exp() * around((1.0, self.slow.1)));
        let seconds = around(self.fast_seconds).clamp(5.0, 7200.0);
        let every = around(self.bursts).max(300.0);
        let (on, off) = (around((self.on_off.0, 1.0)), around((self.on_off.1, 1.0)));
        let swing = self.swing * rng.random::<f64>();
        let phase = rng.random::<f64>();
        let switched = rng.random::<f64>() < self.switched;
        Shape {
            day: vec![(swing, phase), (0.3 * swing, 2.0 * phase)],
            wanders: vec![
                Wander { deviation: deviation * slow.sqrt(), seconds: self.slow_seconds, settled: true },
                Wander { deviation: deviation * (1.0 - slow).sqrt(), seconds, settled: true },
            ],
            bursts: vec![Bursts {
                every,
                size: Size::Pareto { least: 1.0, exponent: self.burst_exponent, most: 100.0 },
                rise: 60.0,
                hold: (30.0, 240.0),
                fade: 45.0,
            }],
            switching: switched.then_some(Switching { on, off, rest: 0.0 }),
            ..Shape::default()
        }
    }
}
