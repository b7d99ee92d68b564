//! The demo's plots.

use meanfield_agent::training::Progress;

use super::report::name;
use crate::{
    plot::{Axes, COLOURS, GREY, Line, SeriesLabelPosition, lines},
    score::Scores,
};

/// Reward over training, and what each policy earns on the held-out days.
pub fn learning(curve: &[Progress], scores: &[Scores]) -> anyhow::Result<String> {
    let points: Vec<_> = curve.iter().enumerate().map(|(episode, point)| (episode as f64, point.reward)).collect();
    let right = points.len() as f64;
    let mut all = vec![("exploring agents", GREY, points)];
    for (score, colour) in scores.iter().zip(COLOURS) {
        let reward = score.total().reward;
        all.push((name(score.policy), colour, vec![(0.0, reward), (right, reward)]));
    }
    // Where it starts, far below, would squeeze what is worth seeing; the curve enters from the bottom.
    let axes = Axes {
        title: "Learning",
        x: "training episode",
        y: "mean reward of a step",
        left: 0.0,
        low: -1.0,
        high: 1.0,
        legend: SeriesLabelPosition::LowerRight,
    };
    lines(&axes, &all)
}

/// The slowest function over the first held-out day.
pub fn latency(scores: &[Scores]) -> anyhow::Result<String> {
    let mut all: Vec<Line<'_>> = (scores.iter().zip(COLOURS).rev())
        .map(|(score, colour)| {
            let points = score.day.iter().enumerate().map(|(step, moment)| (step as f64 / 4.0, moment.slowest));
            (name(score.policy), colour, points.collect())
        })
        .collect();
    let right = scores.first().map_or(1.0, |score| score.day.len() as f64 / 4.0);
    all.push(("SLO", GREY, vec![(0.0, 1.0), (right, 1.0)]));
    let axes = Axes {
        title: "p99 over SLO, slowest function",
        x: "minute of the day",
        y: "p99 / SLO",
        left: 0.0,
        low: 0.0,
        high: 3.0,
        legend: SeriesLabelPosition::UpperRight,
    };
    lines(&axes, &all)
}

/// How many windows are slower than so many times the SLO.
pub fn distribution(scores: &[Scores]) -> anyhow::Result<String> {
    let all: Vec<Line<'_>> = (scores.iter().zip(COLOURS))
        .map(|(score, colour)| {
            let excesses = score.excesses();
            let points = (0..=100).map(|at| {
                let times = 0.5 + 1.5 * f64::from(at) / 100.0;
                let above = excesses.len() - excesses.partition_point(|excess| *excess <= times);
                (times, 100.0 * above as f64 / excesses.len().max(1) as f64)
            });
            (name(score.policy), colour, points.collect())
        })
        .collect();
    let highest =
        all.iter().flat_map(|(_, _, points)| points).filter(|(x, _)| *x >= 0.9).map(|(_, y)| *y).fold(0.5, f64::max);
    let axes = Axes {
        title: "Windows slower than",
        x: "times the SLO",
        y: "% of windows",
        left: 0.5,
        low: 0.0,
        high: highest,
        legend: SeriesLabelPosition::UpperRight,
    };
    lines(&axes, &all)
}

/// CPU reserved and used over the first held-out day.
pub fn cores(scores: &[Scores]) -> anyhow::Result<String> {
    let mut all: Vec<Line<'_>> = (scores.iter().zip(COLOURS))
        .map(|(score, colour)| {
            let points = score.day.iter().enumerate().map(|(step, moment)| (step as f64 / 4.0, moment.cores));
            (name(score.policy), colour, points.collect())
        })
        .collect();
    if let Some(score) = scores.first() {
        let used = score.day.iter().enumerate().map(|(step, moment)| (step as f64 / 4.0, moment.used));
        all.push(("used (Meanfield)", GREY, used.collect()));
    }
    let high = all.iter().flat_map(|(_, _, points)| points).map(|(_, cores)| *cores).fold(1.0, f64::max) * 1.25;
    lines(
        &Axes {
            title: "CPU reserved",
            x: "minute of the day",
            y: "cores",
            left: 0.0,
            low: 0.0,
            high,
            legend: SeriesLabelPosition::UpperRight,
        },
        &all,
    )
}
