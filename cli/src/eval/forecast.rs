//! `meanfield eval forecast`: the forecast network beside simple forecasts, on traces that nobody trained on.
//!
//! The pinball loss says how good quantiles are; the coverage says whether they are what they claim to be. Rates are
//! compared as logarithms, so a trace of ten requests a second counts as much as one of a thousand.

mod fitted;
mod simple;

use std::{fmt::Write, fs};

use anyhow::Context;
use meanfield_agent::{
    policy::{
        forecast::{Care, Forecast},
        outlook::Foresee,
    },
    pretraining::Recipe,
    training::streams::HELD_OUT_TRACES,
};
use meanfield_learner::forecast::{HORIZONS, LEVELS, pinball};
use meanfield_traces::synth::Preset;
use serde::{Deserialize, Serialize};

use self::simple::{Rule, Simple};
use super::{
    networks,
    statistics::Mean,
    workers::{Store, compute},
};
use crate::{
    args::EvalArgs,
    plot::{self, Axes, COLOURS, GREY, SeriesLabelPosition},
    table::table,
};

const SECONDS: f64 = 15.0;
/// Steps before it counts: six hours of 15 s.
const WARM: usize = 1440;

/// A forecaster.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Who {
    Naive,
    Seasonal,
    PeakHold,
    Holt,
    Ets,
    Mstl,
    Raw,
    Corrected,
    Tuned,
}

impl Who {
    const ALL: [Self; 9] = [
        Self::Naive,
        Self::Seasonal,
        Self::PeakHold,
        Self::Holt,
        Self::Ets,
        Self::Mstl,
        Self::Raw,
        Self::Corrected,
        Self::Tuned,
    ];

    fn label(self) -> &'static str {
        match self {
            Self::Naive => "naive",
            Self::Seasonal => "seasonal naive",
            Self::PeakHold => "recent peak",
            Self::Holt => "Holt, damped trend",
            Self::Ets => "ETS, fitted hourly",
            Self::Mstl => "MSTL, fitted hourly",
            Self::Raw => "network as shipped",
            Self::Corrected => "network, corrected",
            Self::Tuned => "network, corrected and tuned",
        }
    }

    fn make(self) -> anyhow::Result<Box<dyn Foresee>> {
        let network = |recalibrate: bool, tune: bool| -> anyhow::Result<Box<dyn Foresee>> {
            Ok(Box::new(Forecast::new(networks::shipped()?, Care { recalibrate, tune, gate: false })))
        };
        Ok(match self {
            Self::Naive => Box::new(Simple::new(Rule::Naive)),
            Self::Seasonal => Box::new(Simple::new(Rule::Seasonal)),
            Self::PeakHold => Box::new(Simple::new(Rule::PeakHold)),
            Self::Holt => Box::new(Simple::new(Rule::Holt)),
            Self::Ets => Box::new(Simple::new(Rule::Ets)),
            Self::Mstl => Box::new(Simple::new(Rule::Mstl)),
            Self::Raw => network(false, false)?,
            Self::Corrected => network(true, false)?,
            Self::Tuned => network(true, true)?,
        })
    }
}

#[derive(Debug, Serialize)]
struct Job {
    who: Who,
    preset: String,
    trace: usize,
}

/// Losses by horizon, and how often what came was within each level.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Figures {
    loss: [f64; HORIZONS.len()],
    coverage: [[f64; LEVELS.len()]; HORIZONS.len()],
}

fn judge(job: &Job) -> anyhow::Result<Figures> {
    let recipe = Recipe { presets: vec![job.preset.parse()?], ..Recipe::default() };
    let rates = recipe.trace(HELD_OUT_TRACES + job.trace)?;
    let mut who = job.who.make()?;
    let log = |rate: f64| (rate + 1.0 / SECONDS).ln() as f32;
    let (mut loss, mut coverage, mut count) = ([0.0; HORIZONS.len()], [[0.0; LEVELS.len()]; HORIZONS.len()], 0.0);
    for (step, rate) in rates.iter().enumerate() {
        let outlook = who.outlook(*rate, SECONDS);
        if step < WARM || step + HORIZONS[1] >= rates.len() {
            continue;
        }
        count += 1.0;
        for (row, (spread, horizon)) in [outlook.next, outlook.ahead].into_iter().zip(HORIZONS).enumerate() {
            let came = log(rates[step + 1..=step + horizon].iter().copied().fold(0.0, f64::max));
            let quantiles = spread.0.map(log);
            loss[row] += f64::from(pinball(&quantiles, came));
            for (within, quantile) in coverage[row].iter_mut().zip(quantiles) {
                *within += f64::from(u8::from(came <= quantile));
            }
        }
    }
    Ok(Figures { loss: loss.map(|sum| sum / count), coverage: coverage.map(|row| row.map(|sum| sum / count)) })
}

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let traces = if args.traces.is_empty() { Preset::ALL.to_vec() } else { args.traces.clone() };
    let each = usize::try_from(args.seeds.unwrap_or(if args.quick { 4 } else { 24 }))?;
    let mut jobs = Vec::new();
    for who in Who::ALL {
        for preset in &traces {
            for trace in 0..each {
                jobs.push(Job { who, preset: preset.name().to_owned(), trace });
            }
        }
    }
    let results = compute("forecasts", args.threads, &Store::new(&args.report)?, &jobs, judge)?;
    let of = |who: Who, preset: Option<Preset>, value: &dyn Fn(&Figures) -> f64| {
        let chosen = jobs
            .iter()
            .zip(&results)
            .filter(|(job, _)| job.who == who && preset.is_none_or(|preset| preset.name() == job.preset));
        Mean::of(&chosen.map(|(_, figures)| value(figures)).collect::<Vec<_>>())
    };
    let header: Vec<String> = ["forecast".to_owned(), "all".to_owned()]
        .into_iter()
        .chain(traces.iter().map(|trace| trace.name().to_owned()))
        .chain(["covered 90 %", "99 %", "99.9 %"].map(str::to_owned))
        .collect();
    let rows: Vec<Vec<String>> = Who::ALL
        .into_iter()
        .map(|who| {
            let loss = |preset: Option<Preset>| of(who, preset, &|figures| (figures.loss[0] + figures.loss[1]) / 2.0);
            let covered = |level: usize| {
                let mean = of(who, None, &|figures| (figures.coverage[0][level] + figures.coverage[1][level]) / 2.0);
                format!("{:.2}", 100.0 * mean.mean)
            };
            let mut row = vec![who.label().to_owned(), loss(None).text(1000.0, 1)];
            row.extend(traces.iter().map(|trace| format!("{:.1}", 1000.0 * loss(Some(*trace)).mean)));
            row.extend([2, 5, 7].map(covered));
            row
        })
        .collect();
    let setup = format!(
        "Pinball loss x 1000 of the logarithm of the highest rate of the next {} and {} steps of 15 s, averaged; {each} synthetic \
         trace(s) of each kind that nobody trained on, after six hours; and how often what came was within a level. \
         Simple forecasts get their quantiles from their own errors of the last four hours. ETS and MSTL are those of the \
         library augurs; the season of MSTL is the detected one.",
        HORIZONS[0], HORIZONS[1]
    );
    say!("{}\n\n{setup}", table(header.clone(), rows.clone()));

    fs::create_dir_all(&args.report).with_context(|| args.report.display().to_string())?;
    let mut text = format!("{setup}\n\n| {} |\n|{}\n", header.join(" | "), "---|".repeat(header.len()));
    for row in &rows {
        let _ = writeln!(text, "| {} |", row.join(" | "));
    }
    fs::write(args.report.join("forecast.md"), text)?;
    let entries: Vec<_> =
        jobs.iter().zip(&results).map(|(job, figures)| serde_json::json!({ "job": job, "figures": figures })).collect();
    fs::write(args.report.join("forecast.json"), serde_json::to_string_pretty(&entries)? + "\n")?;
    let lines: Vec<plot::Line<'_>> = [Who::PeakHold, Who::Holt, Who::Raw, Who::Corrected, Who::Tuned]
        .into_iter()
        .zip(COLOURS)
        .map(|(who, colour)| {
            let point = |level: usize| {
                let mean = of(who, None, &|figures| (figures.coverage[0][level] + figures.coverage[1][level]) / 2.0);
                (distance(LEVELS[level]), distance(mean.mean))
            };
            (who.label(), colour, (0..LEVELS.len()).map(point).collect())
        })
        .chain([("as claimed", GREY, LEVELS.iter().map(|level| (distance(*level), distance(*level))).collect())])
        .collect();
    let axes = Axes {
        title: "How often what came was within each level (simulated)",
        x: "claimed, as powers of ten from certainty (1: 90 %, 2: 99 %, 3: 99.9 %)",
        y: "observed, the same",
        left: 0.0,
        low: 0.0,
        high: 3.5,
        legend: SeriesLabelPosition::UpperLeft,
    };
    fs::write(args.report.join("forecast.svg"), plot::lines(&axes, &lines)?)?;
    say!("\nReport: {}", args.report.join("forecast.md").display());
    Ok(())
}

/// How near to certainty: 1 at 90 %, 2 at 99 %.
fn distance(share: f64) -> f64 {
    -(1.0 - share).max(1e-4).log10()
}
