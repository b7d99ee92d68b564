//! Shapes by name.

use std::str::FromStr;

use meanfield_common::invalid::Invalid;
use rand::RngExt;
use rand_chacha::ChaCha8Rng;

use super::{AzureFunctions, Bursts, Counting, Crowds, Scale, Shape, Size, Switching, Wander};

/// A kind of load. Shapes are drawn: two traces of a preset differ as two services of that kind do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preset {
    /// A function as the busy ones of Azure Functions 2019: rare, wandering, heavy-tailed.
    AzureFunctions,
    /// A site in the news: a day's curve, and crowds at the times of matches.
    Worldcup,
    /// A language model: a chat that wanders slowly, or a coding assistant that comes in spells.
    Llm,
    /// A steady rate with nothing but the noise of independent requests.
    Steady,
    /// A day of two hours with moderate bursts: the simulated cluster's first load.
    Diurnal,
    /// Bursts of heavy-tailed size every quarter of an hour on a steady rate.
    Bursty,
}

impl Preset {
    /// All of them.
    pub const ALL: [Self; 6] =
        [Self::AzureFunctions, Self::Worldcup, Self::Llm, Self::Steady, Self::Diurnal, Self::Bursty];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::AzureFunctions => "azure-functions",
            Self::Worldcup => "worldcup",
            Self::Llm => "llm",
            Self::Steady => "steady",
            Self::Diurnal => "diurnal",
            Self::Bursty => "bursty",
        }
    }

    /// Arrival rates in requests a second, for so many steps, with the preset's own length of a day.
    pub fn generate(self, mean_rate: f64, steps: usize, step_seconds: f64, rng: &mut ChaCha8Rng) -> Vec<f64> {
        self.shape(rng).generate(mean_rate, steps, step_seconds, rng)
    }

    /// The same with a day of so many seconds.
    pub fn generate_with_day(
        self,
        mean_rate: f64,
        steps: usize,
        step_seconds: f64,
        day_seconds: f64,
        rng: &mut ChaCha8Rng,
    ) -> Vec<f64> {
        let shape = Shape { day_seconds, ..self.shape(rng) };
        shape.generate(mean_rate, steps, step_seconds, rng)
    }

    /// Draws the shape of one trace.
    pub fn shape(self, rng: &mut ChaCha8Rng) -> Shape {
        match self {
            Self::AzureFunctions => AzureFunctions::default().shape(rng),
            Self::Worldcup => worldcup(rng),
            Self::Llm if rng.random::<f64>() < 0.5 => chat(),
            Self::Llm => coding(),
            Self::Steady => Shape::default(),
            Self::Diurnal => diurnal(rng),
            Self::Bursty => bursty(),
        }
    }
}

impl FromStr for Preset {
    type Err = Invalid;

    fn from_str(text: &str) -> Result<Self, Invalid> {
        let names = Self::ALL.map(Self::name).join(", ");
        let found = Self::ALL.into_iter().find(|preset| preset.name() == text);
        found.ok_or_else(|| Invalid::new("preset", text, format!("one of {names}")))
    }
}

/// The load that the simulated cluster began with, in law: two hours a day, a burst in half an hour.
fn diurnal(rng: &mut ChaCha8Rng) -> Shape {
    let phase = rng.random::<f64>();
    let swing = 0.25 + 0.35 * rng.random::<f64>();
    Shape {
        day_seconds: 7200.0,
        day: vec![(swing, phase), (0.3 * swing, 2.0 * phase)],
        // Per 15 s it keeps 0.9 of itself and is pushed by 0.04.
        wanders: vec![Wander { deviation: 0.04 / 0.19_f64.sqrt(), seconds: -15.0 / 0.9_f64.ln(), settled: false }],
        bursts: vec![Bursts {
            every: 1800.0,
            size: Size::Uniform { low: 0.4, high: 1.5 },
            rise: 60.0,
            hold: (60.0, 360.0),
            fade: -15.0 / 0.7_f64.ln(),
        }],
        counting: Counting::Normal,
        scale: Scale::Nominal,
        ..Shape::default()
    }
}

fn bursty() -> Shape {
    Shape {
        wanders: vec![Wander { deviation: 0.1, seconds: 300.0, settled: true }],
        bursts: vec![Bursts {
            every: 900.0,
            size: Size::Pareto { least: 1.0, exponent: 1.5, most: 20.0 },
            rise: 30.0,
            hold: (30.0, 300.0),
            fade: 60.0,
        }],
        ..Shape::default()
    }
}

/// World Cup 1998, 10 to 14 June: nights at half of the afternoon, kick-offs at 15:30 and 19:00 UTC.
fn worldcup(rng: &mut ChaCha8Rng) -> Shape {
    const MINUTE: f64 = 1.0 / 1440.0;
    let shift = 0.02 * (rng.random::<f64>() - 0.5);
    Shape {
        day: vec![(0.33, 0.55 + shift), (0.08, 0.1)],
        wanders: vec![
            Wander { deviation: 0.3, seconds: 86_400.0, settled: true },
            Wander { deviation: 0.05, seconds: 300.0, settled: true },
        ],
        crowds: Some(Crowds {
            times: vec![(0.53, 0.3), (0.65, 0.9), (0.80, 0.9)],
            size: Size::Lognormal { median: 0.8, deviation: 0.8 },
            rise: 60.0 * MINUTE,
            hold: 105.0 * MINUTE,
            fade: 30.0 * MINUTE,
        }),
        ..Shape::default()
    }
}

/// Azure LLM 2023, conversation: steady for minutes, drifting over the hour.
pub fn chat() -> Shape {
    Shape { wanders: vec![Wander { deviation: 0.24, seconds: 900.0, settled: true }], ..Shape::default() }
}

/// Azure LLM 2023, code: spells of a minute or two, idle between them.
pub fn coding() -> Shape {
    Shape {
        switching: Some(Switching { on: 60.0, off: 60.0, rest: 0.0 }),
        wanders: vec![
            Wander { deviation: 0.4, seconds: 300.0, settled: true },
            Wander { deviation: 0.8, seconds: 10.0, settled: true },
        ],
        ..Shape::default()
    }
}
