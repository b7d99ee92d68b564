//! `simppo-scale`: many agents against few, agent by agent.

use meanfield_learner::{Config, Family, Variant};
use meanfield_simulator::scenario::Scenario;
use serde::{Deserialize, Serialize};

use super::{
    Scope,
    convergence::{kolmogorov_smirnov, mean, settled},
    page::{Figure, Page, Table, cell, episodes},
    run::{Function, Served, Session, preset, serve},
};
use crate::eval::workers::{Store, compute};

#[derive(Serialize)]
struct Job {
    preset: String,
    agents: usize,
    episodes: usize,
    /// Clusters trained on side by side: many agents bring enough experience from one.
    environments: usize,
    seed: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Cell {
    curve: Vec<f64>,
    served: Served,
    seconds: f64,
    /// The most memory that the program had so far, where the system tells.
    mebibytes: Option<f64>,
}

fn run_job(job: &Job) -> anyhow::Result<Cell> {
    let config = Config { environments: job.environments, ..Config::preset(&job.preset)? };
    let scenario = Scenario::new(job.agents, 1)?;
    // One job at a time, on all cores: these are times that somebody waits for.
    let threads = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let mut session = Session::new(&config, &scenario, job.seed, threads)?;
    session.train(job.episodes, 0.0, 1.0)?;
    let mebibytes = peak_memory();
    let served = serve(&config, &session.networks(job.agents), &scenario, job.seed)?;
    Ok(Cell { curve: session.curve, served, seconds: session.seconds, mebibytes })
}

fn peak_memory() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    Some(line.trim().strip_suffix("kB")?.trim().parse::<f64>().ok()? / 1024.0)
}

/// What is compared: its name, where it stands, and what was published of it.
type Compared = (&'static str, fn(&Function) -> f64, &'static str);

pub fn run(scope: &Scope<'_>) -> anyhow::Result<()> {
    let store = Store::new(&scope.args.report)?;
    let quick = scope.args.quick;
    let (ours, theirs) = (preset(Variant::Simppo, Family::Default), preset(Variant::Simppo, Family::Paper));
    // The larger the group, the later: peak memory only grows.
    let mut jobs = Vec::new();
    let mut add = |preset: &str, agents: usize, episodes: usize, environments: usize, seeds: u64| {
        let preset = preset.to_owned();
        jobs.extend((1..=seeds).map(|seed| Job { preset: preset.clone(), agents, episodes, environments, seed }));
    };
    if quick {
        add(&ours, 12, 40, 4, 1);
        add(&ours, 36, 20, 2, 1);
    } else {
        add(&ours, 12, 120, 4, scope.seeds);
        add("default", 12, 120, 4, scope.seeds);
        add(&theirs, 12, 400, 1, 1);
        add(&ours, 110, 80, 2, scope.seeds);
        add("default", 110, 80, 2, scope.seeds);
        add("default", 1000, 40, 2, 1);
    }
    let cells = compute("scale", std::num::NonZero::new(1), &store, &jobs, run_job)?;

    let mut groups: Vec<(&str, usize, Vec<&Cell>)> = Vec::new();
    for (job, cell) in jobs.iter().zip(&cells) {
        match groups.iter_mut().find(|(preset, agents, _)| (*preset, *agents) == (job.preset.as_str(), job.agents)) {
            Some((_, _, cells)) => cells.push(cell),
            None => groups.push((&job.preset, job.agents, vec![cell])),
        }
    }
    let rows = groups.iter().map(|(preset, agents, cells)| {
        let days = |value: fn(&Served) -> f64| cells.iter().map(|cell| value(&cell.served)).collect::<Vec<_>>();
        let slow: Vec<f64> = cells
            .iter()
            .map(|cell| mean(&cell.served.functions.iter().map(|one| one.p99_over_slo).collect::<Vec<_>>()))
            .collect();
        let settled: Vec<_> = cells.iter().map(|cell| settled(&cell.curve, 0.03)).collect();
        let waited: Vec<f64> = (cells.iter().zip(&settled))
            .filter_map(|(cell, settled)| Some(cell.seconds * (*settled)? as f64 / cell.curve.len() as f64))
            .collect();
        let memory = cells.iter().filter_map(|cell| cell.mebibytes).fold(0.0, f64::max);
        vec![
            format!("{preset}, {agents}"),
            cell(&days(|day| day.reward), 1.0, 3),
            cell(&days(|day| day.violations), 100.0, 2),
            cell(&slow, 1.0, 3),
            format!("{:.2}", mean(&days(|day| day.cores)) / *agents as f64),
            episodes(&settled),
            cell(&waited, 1.0, 1),
            cell(&cells.iter().map(|cell| cell.seconds).collect::<Vec<_>>(), 1.0, 1),
            format!("{memory:.0}"),
        ]
    });
    let mut tables = vec![Table {
        title: "Agent by agent".to_owned(),
        header: vec![
            "preset, agents",
            "reward",
            "windows missed %",
            "p99/SLO",
            "cores an agent",
            "episodes to convergence",
            "seconds to convergence",
            "seconds in all",
            "MiB at most",
        ],
        rows: rows.collect(),
    }];
    let mut rows = Vec::new();
    for name in [ours.as_str(), "default"] {
        let mut sizes = groups.iter().filter(|(preset, agents, _)| *preset == name && *agents < 1000);
        let (Some((_, few, small)), Some((_, many, large))) = (sizes.next(), sizes.next()) else { continue };
        let all = |cells: &[&Cell], value: fn(&Function) -> f64| -> Vec<f64> {
            cells.iter().flat_map(|cell| cell.served.functions.iter().map(value)).collect()
        };
        let compared: [Compared; 4] = [
            ("p99/SLO", |one| one.p99_over_slo, "below 1.9 % apart, p = 0.56"),
            ("CPU utilisation", |one| one.cpu_utilisation, "p = 0.67"),
            ("windows missed", |one| one.violations, "–"),
            ("reward", |one| one.reward, "–"),
        ];
        for (figure, value, paper) in compared {
            let (a, b) = (all(small, value), all(large, value));
            let (distance, probability) = kolmogorov_smirnov(&a, &b);
            rows.push(vec![
                format!("{name}: {figure}"),
                paper.to_owned(),
                format!("{:.4}", mean(&a)),
                format!("{:.4}", mean(&b)),
                format!("{:+.1} %", 100.0 * (mean(&b) / mean(&a) - 1.0)),
                format!("{distance:.3}"),
                format!("{probability:.2}"),
            ]);
            if rows.len() == 1 {
                tables[0].title = format!("Agent by agent, {few} against {many}");
            }
        }
    }
    tables.push(Table {
        title: "Few against many: means over agents, and Kolmogorov and Smirnov's test over agents".to_owned(),
        header: vec!["figure", "paper (20 against 110)", "few", "many", "difference", "distance", "p"],
        rows,
    });
    let mut figures = Vec::new();
    for (job, cell) in jobs.iter().zip(&cells) {
        for (place, one) in cell.served.functions.iter().enumerate() {
            let (what, of) = (format!("{} {} agents", job.preset, job.agents), format!("agent {place}"));
            for (name, value) in
                [("p99_over_slo", one.p99_over_slo), ("violations", one.violations), ("reward", one.reward)]
            {
                figures.push(Figure { what: what.clone(), seed: job.seed, of: of.clone(), name, value });
            }
        }
    }
    let curves = groups.iter().map(|(preset, agents, cells)| (format!("{preset}, {agents}"), cells[0].curve.clone()));
    let setup = format!(
        "Simulated, fluid model. Nodes in proportion to agents; the twelve functions in turn; a day of 480 steps that nobody trained \
         on; {} seed(s), one for 1000 agents and for the published settings. Times are of this machine, on all of its cores.",
        scope.seeds
    );
    let curves = curves.collect();
    Page { name: "simppo-scale", setup, tables, figures, curves }.publish(&scope.args.report)
}
