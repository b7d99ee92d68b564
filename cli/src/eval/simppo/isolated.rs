//! `simppo-isolated`: each function alone on its node, S-RL beside ENSURE.

use std::sync::Arc;

use meanfield_agent::fleet::tenant_name;
use meanfield_learner::{ActorCritic, Family, Variant};
use meanfield_simulator::{scenario::Scenario, workload::functions};
use serde::{Deserialize, Serialize};

use super::{
    Scope,
    convergence::{mean, settled},
    page::{Figure, Page, Table, cell, episodes},
    run::{Served, Session, preset, serve, serve_rules},
};
use crate::eval::{
    contestant::Kind,
    workers::{Store, compute},
};

/// Every function trained alone, then served alone, then all of them together.
#[derive(Serialize)]
pub struct Job {
    pub family: &'static str,
    pub episodes: usize,
    pub seed: u64,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct Cell {
    pub curves: Vec<Vec<f64>>,
    pub alone: Vec<Served>,
    pub together: Served,
}

/// ENSURE needs no training.
#[derive(Serialize)]
pub struct RuleJob {
    pub kind: Kind,
    pub family: &'static str,
    pub seed: u64,
}

#[derive(Clone, Serialize, Deserialize)]
pub struct RuleCell {
    pub alone: Vec<Served>,
    pub together: Served,
}

/// The cluster of one function.
pub fn alone(place: usize) -> anyhow::Result<Scenario> {
    Ok(Scenario::of(&functions()[place..=place], 1, 1)?)
}

pub fn run_job(job: &Job) -> anyhow::Result<Cell> {
    let family = super::family(job.family);
    let config = Variant::Single.of(family);
    let (mut curves, mut served, mut networks) = (Vec::new(), Vec::new(), Vec::<Arc<ActorCritic>>::new());
    for place in 0..functions().len() {
        let scenario = alone(place)?;
        let mut session = Session::new(&config, &scenario, job.seed, 1)?;
        session.train(job.episodes, 0.0, 1.0)?;
        let trained = session.networks(1);
        served.push(serve(&config, &trained, &scenario, job.seed)?);
        networks.extend(trained);
        curves.push(session.curve);
    }
    let together = serve(&config, &networks, &Scenario::new(functions().len(), 1)?, job.seed)?;
    Ok(Cell { curves, alone: served, together })
}

pub fn run_rules(job: &RuleJob) -> anyhow::Result<RuleCell> {
    let shape = Variant::Single.of(super::family(job.family)).reward;
    let alone = (0..functions().len())
        .map(|place| serve_rules(job.kind, shape, &alone(place)?, job.seed))
        .collect::<anyhow::Result<Vec<_>>>()?;
    let together = serve_rules(job.kind, shape, &Scenario::new(functions().len(), 1)?, job.seed)?;
    Ok(RuleCell { alone, together })
}

/// Cells of every function trained alone, for each family and seed.
pub fn cells(scope: &Scope<'_>, store: &Store) -> anyhow::Result<Vec<(Family, u64, Cell)>> {
    let jobs: Vec<Job> = scope
        .each()
        .map(|(family, seed)| Job { family: family.name(), episodes: scope.alone_episodes(family), seed })
        .collect();
    let cells = compute("alone", scope.args.threads, store, &jobs, run_job)?;
    Ok(scope.each().zip(cells).map(|((family, seed), cell)| (family, seed, cell)).collect())
}

pub fn rules(scope: &Scope<'_>, store: &Store, kind: Kind) -> anyhow::Result<Vec<(Family, u64, RuleCell)>> {
    let jobs: Vec<RuleJob> = scope.each().map(|(family, seed)| RuleJob { kind, family: family.name(), seed }).collect();
    let cells = compute("rules", scope.args.threads, store, &jobs, run_rules)?;
    Ok(scope.each().zip(cells).map(|((family, seed), cell)| (family, seed, cell)).collect())
}

pub fn run(scope: &Scope<'_>) -> anyhow::Result<()> {
    let store = Store::new(&scope.args.report)?;
    let cells = cells(scope, &store)?;
    let ensure = rules(scope, &store, Kind::Ensure)?;
    let frugal = rules(scope, &store, Kind::EnsureUtil)?;

    let (mut tables, mut figures, mut curves) = (Vec::new(), Vec::new(), Vec::new());
    for family in Family::ALL {
        let of = |(one, _, _): &&(Family, u64, Cell)| *one == family;
        let trained: Vec<&Cell> = cells.iter().filter(of).map(|(_, _, cell)| cell).collect();
        let days = |place: usize| trained.iter().map(move |cell| &cell.alone[place].functions[0]);
        let by_rules = |cells: &[(Family, u64, RuleCell)], place: usize| -> Vec<(f64, f64)> {
            let own =
                cells.iter().filter(|(one, ..)| *one == family).map(|(_, _, cell)| &cell.alone[place].functions[0]);
            own.map(|day| (day.p99_over_slo, day.cpu_utilisation)).collect()
        };
        let mut rows = Vec::new();
        let mut ratios = Vec::new();
        for place in 0..functions().len() {
            let ours: Vec<f64> = days(place).map(|day| day.p99_over_slo).collect();
            let used: Vec<f64> = days(place).map(|day| day.cpu_utilisation).collect();
            let missed: Vec<f64> = days(place).map(|day| day.violations).collect();
            let (theirs, their_use): (Vec<f64>, Vec<f64>) = by_rules(&ensure, place).into_iter().unzip();
            let (lean, lean_use): (Vec<f64>, Vec<f64>) = by_rules(&frugal, place).into_iter().unzip();
            let settled: Vec<_> = trained.iter().map(|cell| settled(&cell.curves[place], 0.03)).collect();
            let ratio = mean(&lean) / mean(&ours);
            ratios.push(ratio);
            rows.push(vec![
                tenant_name(place),
                cell(&ours, 1.0, 2),
                cell(&used, 100.0, 0),
                cell(&missed, 100.0, 1),
                episodes(&settled),
                format!("{:.2} at {:.0} %", mean(&theirs), 100.0 * mean(&their_use)),
                format!("{:.2} at {:.0} %", mean(&lean), 100.0 * mean(&lean_use)),
                format!("{ratio:.2}"),
            ]);
        }
        for (_, seed, cell) in cells.iter().filter(of) {
            for (place, served) in cell.alone.iter().enumerate() {
                let day = &served.functions[0];
                let what = preset(Variant::Single, family);
                for (name, value) in [
                    ("p99_over_slo", day.p99_over_slo),
                    ("cpu_utilisation", day.cpu_utilisation),
                    ("violations", day.violations),
                    ("reward", day.reward),
                ] {
                    figures.push(Figure { what: what.clone(), seed: *seed, of: tenant_name(place), name, value });
                }
            }
        }
        rows.push(vec![
            "mean of all".to_owned(),
            String::new(),
            String::new(),
            String::new(),
            "paper: 280–350".to_owned(),
            String::new(),
            String::new(),
            format!("{:.2} (paper: at least 1.6)", mean(&ratios)),
        ]);
        tables.push(Table {
            title: format!("S-RL alone, {} settings, beside ENSURE", family.name()),
            header: vec![
                "function",
                "S-RL p99/SLO",
                "CPU use %",
                "windows missed %",
                "episodes to convergence",
                "ENSURE p99/SLO at CPU use",
                "ENSURE-Util",
                "ENSURE-Util over S-RL",
            ],
            rows,
        });
        curves.extend(trained.first().map(|cell| (format!("primes, {}", family.name()), cell.curves[1].clone())));
    }
    let setup = format!(
        "Simulated, fluid model. Each function alone on a node of 8 cores and 32 GiB; {} episodes with the published \
         settings, {} with ours; then a day of 480 steps of 15 s \
         that nobody trained on; {} seed(s); p99 of the median window.",
        scope.alone_episodes(Family::Paper),
        scope.alone_episodes(Family::Default),
        scope.seeds
    );
    Page { name: "simppo-isolated", setup, tables, figures, curves }.publish(&scope.args.report)
}
