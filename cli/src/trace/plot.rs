//! A trace over time, as SVG.

use meanfield_traces::Trace;
use plotters::chart::SeriesLabelPosition;

use crate::plot::{Axes, COLOURS, Line, lines};

/// More points than pixels would only make the file large.
const MOST_POINTS: usize = 1500;

/// Draws rates over time; where several intervals share a point, their mean.
pub fn draw(traces: &[Trace]) -> anyhow::Result<String> {
    let longest = traces.iter().map(Trace::seconds).fold(0.0, f64::max);
    let (unit, name) = match longest {
        seconds if seconds > 4.0 * 86_400.0 => (86_400.0, "day"),
        seconds if seconds > 4.0 * 3600.0 => (3600.0, "hour"),
        _ => (60.0, "minute"),
    };
    let all: Vec<Line<'_>> = traces
        .iter()
        .zip(COLOURS)
        .map(|(trace, colour)| {
            let points = trace.coarser(trace.counts.len().div_ceil(MOST_POINTS));
            let middle = |index: usize| (index as f64 + 0.5) * points.interval / unit;
            let points =
                points.counts.iter().enumerate().map(|(index, count)| (middle(index), count / points.interval));
            (trace.name.as_str(), colour, points.collect())
        })
        .collect();
    let high = all.iter().flat_map(|(_, _, points)| points).map(|(_, rate)| *rate).fold(0.0, f64::max);
    lines(
        &Axes {
            title: "Arrivals",
            x: name,
            y: "requests a second",
            left: 0.0,
            low: 0.0,
            high: if high > 0.0 { high * 1.1 } else { 1.0 },
            legend: SeriesLabelPosition::UpperRight,
        },
        &all,
    )
}
