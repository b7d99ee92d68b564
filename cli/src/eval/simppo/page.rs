//! The tables of an experiment: on the terminal, and as Markdown, CSV, JSON and SVG.

use std::{fmt::Write, fs, path::Path};

use super::super::statistics::Mean;
use crate::{
    plot::{Axes, COLOURS, Line, SeriesLabelPosition, lines},
    table::table,
};

/// A table of words and figures.
pub struct Table {
    pub title: String,
    pub header: Vec<&'static str>,
    pub rows: Vec<Vec<String>>,
}

/// One figure of one run, as a line of CSV.
pub struct Figure {
    pub what: String,
    pub seed: u64,
    pub of: String,
    pub name: &'static str,
    pub value: f64,
}

/// An experiment's report.
pub struct Page {
    pub name: &'static str,
    pub setup: String,
    pub tables: Vec<Table>,
    pub figures: Vec<Figure>,
    pub curves: Vec<(String, Vec<f64>)>,
}

impl Page {
    fn markdown(&self) -> String {
        let mut text = format!("{}\n", self.setup);
        for Table { title, header, rows } in &self.tables {
            let _ = writeln!(text, "\n### {title}\n\n| {} |\n|{}", header.join(" | "), "---|".repeat(header.len()));
            for row in rows {
                let _ = writeln!(text, "| {} |", row.join(" | "));
            }
        }
        text
    }

    /// Prints the tables and writes the folder.
    pub fn publish(&self, folder: &Path) -> anyhow::Result<()> {
        for Table { title, header, rows } in &self.tables {
            let header = header.iter().map(|&name| name.to_owned()).collect();
            say!("{title}\n\n{}\n", table(header, rows.clone()));
        }
        say!("{}", self.setup);
        fs::create_dir_all(folder)?;
        let file = |extension: &str| folder.join(format!("{}.{extension}", self.name));
        fs::write(file("md"), self.markdown())?;
        let mut csv = String::from("run,seed,of,figure,value\n");
        let mut rows = Vec::new();
        for Figure { what, seed, of, name, value } in &self.figures {
            let _ = writeln!(csv, "{what},{seed},{of},{name},{value}");
            rows.push(serde_json::json!({ "run": what, "seed": seed, "of": of, "figure": name, "value": value }));
        }
        fs::write(file("csv"), csv)?;
        let json = serde_json::json!({
            "simulated": true, "version": env!("CARGO_PKG_VERSION"), "setup": self.setup, "figures": rows,
        });
        fs::write(file("json"), serde_json::to_string_pretty(&json)? + "\n")?;
        if !self.curves.is_empty() {
            fs::write(file("svg"), self.plot()?)?;
        }
        say!("\nReport: {}", file("md").display());
        Ok(())
    }

    /// Learning curves, smoothed, each over the range that it goes through: families earn different rewards.
    fn plot(&self) -> anyhow::Result<String> {
        let all: Vec<Line<'_>> = (self.curves.iter().zip(COLOURS.iter().cycle()))
            .map(|((label, curve), colour)| {
                let smooth: Vec<f64> =
                    curve.windows(super::convergence::WINDOW).map(super::convergence::mean).collect();
                let ends = (smooth.iter().copied().fold(f64::INFINITY, f64::min), super::convergence::level(curve));
                let scale = (ends.1 - ends.0).abs().max(1e-9);
                let points = smooth.iter().enumerate().map(|(at, value)| (at as f64, (value - ends.0) / scale));
                (label.as_str(), *colour, points.collect())
            })
            .collect();
        let axes = Axes {
            title: "Learning (simulated)",
            x: "episode",
            y: "reward: 0 its lowest, 1 its final level",
            left: 0.0,
            low: 0.0,
            high: 1.2,
            legend: SeriesLabelPosition::LowerRight,
        };
        lines(&axes, &all)
    }
}

/// A mean with its interval, times a factor.
pub fn cell(values: &[f64], factor: f64, decimals: usize) -> String {
    if values.is_empty() { "–".to_owned() } else { Mean::of(values).text(factor, decimals) }
}

/// Episodes until something settled; says how often it did not.
pub fn episodes(values: &[Option<usize>]) -> String {
    let known: Vec<f64> = values.iter().flatten().map(|at| *at as f64).collect();
    let missing = values.len() - known.len();
    match (known.is_empty(), missing) {
        (true, _) => "never".to_owned(),
        (false, 0) => cell(&known, 1.0, 0),
        (false, _) => format!("{} ({missing} of {} never)", cell(&known, 1.0, 0), values.len()),
    }
}
