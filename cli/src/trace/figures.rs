//! Figures of traces, as a table or as JSON.

use meanfield_traces::{
    Trace,
    describe::{Description, describe, describe_sum, quartiles},
};
use serde::Serialize;

use crate::table::table;

/// A column: its title, its figure, and digits after the point.
type Column = (&'static str, fn(&Description) -> Option<f64>, usize);

const COLUMNS: [Column; 16] = [
    ("intervals", |d| Some(d.intervals as f64), 0),
    ("mean", |d| Some(d.mean), 2),
    ("peak", |d| Some(d.peak), 0),
    ("peak/mean", |d| d.peak_to_mean, 2),
    ("cv", |d| d.cv, 3),
    ("dispersion", |d| d.dispersion, 2),
    ("lag-1", |d| d.lag1, 3),
    ("slow", |d| d.slow_share, 3),
    ("daily", |d| d.daily, 3),
    ("period h", |d| d.period.map(|period| period / 3600.0), 2),
    ("strength", |d| d.period_strength, 2),
    ("trend/day", |d| d.trend, 3),
    ("bursts", |d| Some(d.burst_share), 4),
    ("burst p50", |d| d.burst_sizes.map(|sizes| sizes[0]), 1),
    ("idle", |d| Some(d.idle), 3),
    ("tail", |d| d.tail, 2),
];

#[derive(Serialize)]
struct All {
    series: Vec<Description>,
    sum: Option<Description>,
}

/// Prints the figures of so many series, quartiles over all, and those of their sum.
pub fn print(traces: &[Trace], most: usize, json: bool) -> anyhow::Result<()> {
    let mut series: Vec<_> = traces.iter().map(describe).collect();
    let sum = if traces.len() > 1 { describe_sum(traces) } else { None };
    if json {
        say!("{}", serde_json::to_string_pretty(&All { series, sum })?);
        return Ok(());
    }
    series.sort_by(|a, b| b.total.total_cmp(&a.total));
    let mut rows: Vec<_> = series.iter().take(most).map(|one| row(&shortened(&one.name), |c| (c.1)(one))).collect();
    if series.len() > 1 {
        let quartile = |at: usize, name: &str| row(name, |c| quartiles(&series, c.1).map(|quartiles| quartiles[at]));
        rows.extend([quartile(0, "quartile 1"), quartile(1, "median"), quartile(2, "quartile 3")]);
    }
    rows.extend(sum.map(|sum| row(&format!("sum of {}", series.len()), |c| (c.1)(&sum))));
    let header = ["series"].into_iter().chain(COLUMNS.iter().map(|column| column.0)).map(str::to_owned).collect();
    say!("{}", table(header, rows));
    Ok(())
}

fn row(name: &str, figure: impl Fn(&Column) -> Option<f64>) -> Vec<String> {
    let cell = |column: &Column| figure(column).map_or_else(|| "–".to_owned(), |value| format!("{value:.*}", column.2));
    [name.to_owned()].into_iter().chain(COLUMNS.iter().map(cell)).collect()
}

/// Names may be two hashes of 64 characters.
fn shortened(name: &str) -> String {
    const LONGEST: usize = 24;
    if name.chars().count() <= LONGEST {
        name.to_owned()
    } else {
        name.chars().take(LONGEST).chain("…".chars()).collect()
    }
}
