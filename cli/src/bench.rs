//! `meanfield bench`: speed and size, beside a peer in the same run where there is one.
//!
//! Each figure is the median of several runs, which alternate between ours and the peer: the machine's noise then
//! falls on both.

mod child;
mod coordinator;
mod learner;
mod members;
mod simulator;
mod size;
mod store;

use std::{fs, process::Command, time::Instant};

use anyhow::Context;
use serde::Serialize;

use crate::{
    args::{Area, BenchArgs},
    table::table,
};

/// One line of the result.
#[derive(Debug, Clone, Serialize)]
struct Row {
    name: &'static str,
    ours: f64,
    /// The same measured of a peer, if there is one.
    peer: Option<f64>,
    /// Ours over the peer's.
    ratio: Option<f64>,
    unit: &'static str,
}

impl Row {
    fn alone(name: &'static str, ours: f64, unit: &'static str) -> Self {
        Self { name, ours, peer: None, ratio: None, unit }
    }
}

pub fn run(args: &BenchArgs) -> anyhow::Result<()> {
    let wanted = |area| args.area == area || args.area == Area::All;
    let mut rows = Vec::new();
    if wanted(Area::Learner) {
        rows.extend(learner::run(&args.python, args.tch.as_deref())?);
    }
    if wanted(Area::Coordinator) {
        rows.extend(coordinator::run(args.agents as usize)?);
    }
    if wanted(Area::Simulator) {
        rows.extend(simulator::run(&args.python)?);
    }
    if wanted(Area::Store) {
        rows.extend(store::run(args.agents as usize)?);
    }
    if wanted(Area::Size) {
        rows.extend(size::run()?);
    }
    if wanted(Area::Demo) {
        rows.push(demo()?);
    }
    let header = ["name", "ours", "peer", "ratio", "unit"].map(str::to_owned);
    say!("{}", table(header.to_vec(), figures(&rows)));
    if let Some(path) = &args.json {
        let text = serde_json::to_string_pretty(&rows)? + "\n";
        fs::write(path, text).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// The whole demo in a process of its own, from start to table.
fn demo() -> anyhow::Result<Row> {
    let report = tempfile::tempdir()?;
    let started = Instant::now();
    let status = Command::new(std::env::current_exe()?).args(["demo", "--report"]).arg(report.path()).status()?;
    anyhow::ensure!(status.success(), "the demo failed");
    Ok(Row::alone("demo, start to table", started.elapsed().as_secs_f64(), "s"))
}

fn figures(rows: &[Row]) -> Vec<Vec<String>> {
    let figure = |value: Option<f64>| value.map_or_else(|| "–".to_owned(), |value| format!("{value:.3}"));
    let row = |row: &Row| {
        let name = row.name.to_owned();
        vec![name, figure(Some(row.ours)), figure(row.peer), figure(row.ratio), row.unit.to_owned()]
    };
    rows.iter().map(row).collect()
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_unstable_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
