//! `simppo-churn`: agents join and leave a group that has converged.

use std::sync::Arc;

use meanfield_learner::{Config, Family, Variant};
use meanfield_simulator::{
    scenario::Scenario,
    workload::{Workload, functions},
};
use rand::{SeedableRng, seq::SliceRandom};
use rand_chacha::ChaCha8Rng;
use serde::{Deserialize, Serialize};

use super::{
    Scope,
    convergence::{level, mean, settled},
    page::{Figure, Page, Table, cell, episodes},
    run::{Session, preset},
};
use crate::eval::workers::{Store, compute};

/// Episodes over which the reward right after a change is averaged; a single one is mostly chance.
const FIRST: usize = 3;
/// How near to its new level a reward must stay: published as not changing by more than 2 %.
const NEAR: f64 = 0.02;
/// How much of the training is done, as far as the learning rate knows, while agents adapt.
const ADAPTING: f32 = 0.5;

/// A group is trained once and then changed in several ways, each apart.
#[derive(Serialize)]
struct Job {
    preset: String,
    agents: usize,
    changes: Vec<i32>,
    episodes: (usize, usize),
    seed: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Cell {
    before: f64,
    /// The rewards after each change.
    after: Vec<Vec<f64>>,
}

impl Cell {
    fn drop(&self, change: usize) -> f64 {
        let first = mean(&self.after[change][..FIRST.min(self.after[change].len())]);
        (self.before - first) / self.before.abs()
    }

    fn recovery(&self, change: usize) -> Option<usize> {
        settled(&self.after[change], NEAR)
    }
}

fn run_job(job: &Job) -> anyhow::Result<Cell> {
    let config = Config::preset(&job.preset)?;
    // Many agents bring enough experience from fewer clusters.
    let environments = if job.agents > 12 { config.environments.min(2) } else { config.environments };
    let config = Config { environments, ..config };
    // All functions in an order of the seed's, then more at random: whoever joins or leaves is anybody.
    let mut rng = ChaCha8Rng::seed_from_u64(job.seed);
    let mut workloads: Vec<Arc<Workload>> = Vec::new();
    while workloads.len() < job.agents + 10 {
        let mut turn = functions().to_vec();
        turn.shuffle(&mut rng);
        workloads.extend(turn);
    }
    let group = |agents: usize| Scenario::of(&workloads, agents, 1);
    let mut session = Session::new(&config, &group(job.agents)?, job.seed, 1)?;
    session.train(job.episodes.0, 0.0, 1.0)?;
    let mut after = Vec::new();
    for change in &job.changes {
        let mut fork = session.fork(&config, &group(job.agents)?, job.seed)?;
        fork.change(&group(job.agents.saturating_add_signed(*change as isize))?)?;
        after.push(fork.train(job.episodes.1, ADAPTING, ADAPTING)?.to_vec());
    }
    Ok(Cell { before: level(&session.curve), after })
}

/// What was published of Table 4.4: reward drop in percent and episodes, for +2, +5, +10, -2, -5, -10.
fn published(agents: usize) -> [&'static str; 6] {
    match agents {
        5 => ["17.9 %, 289", "20.2 %, 370", "38.6 %, 436", "9.1 %, 130", "–", "–"],
        20 => ["13.3 %, 234", "16.6 %, 326", "42.7 %, 455", "9.3 %, 133", "10.3 %, 191", "16.2 %, 309"],
        50 => ["9.3 %, 146", "12.8 %, 243", "24.2 %, 290", "5.8 %, 105", "6.6 %, 149", "11.0 %, 249"],
        _ => ["5.9 %, 136", "7.7 %, 186", "14.9 %, 196", "3.0 %, 47", "4.8 %, 98", "6.5 %, 132"],
    }
}

pub fn run(scope: &Scope<'_>) -> anyhow::Result<()> {
    let store = Store::new(&scope.args.report)?;
    let quick = scope.args.quick;
    let length = |family: Family| match (quick, family) {
        (true, _) => (60, 50),
        (false, Family::Paper) => (300, 200),
        (false, Family::Default) => (120, 80),
    };
    let variants = [Variant::Simppo, Variant::SimppoUnshared];
    let mut jobs = Vec::new();
    for (family, seed) in scope.each() {
        for variant in variants {
            let (preset, episodes) = (preset(variant, family), length(family));
            jobs.push(Job { preset, agents: 12, changes: vec![5, -5], episodes, seed });
        }
    }
    // Table 4.4 with our settings only: a network for each of fifty agents would take the time of all the rest.
    let sizes: &[usize] = if quick { &[5] } else { &[5, 20, 50] };
    const CHANGES: [i32; 6] = [2, 5, 10, -2, -5, -10];
    for &agents in sizes {
        for seed in 1..=scope.seeds {
            let possible = |change: &i32| agents.saturating_add_signed(*change as isize) > 0;
            let changes: Vec<i32> = CHANGES.into_iter().filter(possible).collect();
            let episodes = if quick { (60, 50) } else { (90, 60) };
            jobs.push(Job { preset: preset(Variant::Simppo, Family::Default), agents, changes, episodes, seed });
        }
    }
    let cells = compute("churn", scope.args.threads, &store, &jobs, run_job)?;
    let of = |name: &str, agents: usize| -> Vec<&Cell> {
        let mine = jobs.iter().zip(&cells).filter(|(job, _)| job.preset == name && job.agents == agents);
        mine.map(|(_, cell)| cell).collect()
    };

    let mut rows = Vec::new();
    for family in Family::ALL {
        for (variant, paper) in [
            (Variant::Simppo, ["16.6 %, about 300", "11.3 %, less"]),
            (Variant::SimppoUnshared, ["25 to 120 % larger drop, about 600", "the same"]),
        ] {
            let mine = of(&preset(variant, family), 12);
            let mut row = vec![preset(variant, family)];
            for (change, paper) in paper.into_iter().enumerate() {
                row.push(paper.to_owned());
                row.push(cell(&mine.iter().map(|cell| cell.drop(change)).collect::<Vec<_>>(), 100.0, 1));
                row.push(episodes(&mine.iter().map(|cell| cell.recovery(change)).collect::<Vec<_>>()));
            }
            rows.push(row);
        }
    }
    let mut tables = vec![Table {
        title: "Five agents join twelve, or five of twelve leave".to_owned(),
        header: vec![
            "preset",
            "+5, paper",
            "drop %",
            "episodes to recover",
            "−5, paper",
            "drop %",
            "episodes to recover",
        ],
        rows,
    }];
    let mut rows = Vec::new();
    for &agents in sizes {
        let mine = of(&preset(Variant::Simppo, Family::Default), agents);
        let mut row = vec![agents.to_string()];
        let possible = jobs.iter().find(|job| job.agents == agents).map_or(0, |job| job.changes.len());
        let published = published(agents);
        for (change, paper) in published.into_iter().enumerate() {
            row.push(if change < possible {
                let drops: Vec<f64> = mine.iter().map(|cell| cell.drop(change)).collect();
                let recoveries: Vec<_> = mine.iter().map(|cell| cell.recovery(change)).collect();
                format!("{} %, {} ({paper})", cell(&drops, 100.0, 1), episodes(&recoveries))
            } else {
                "–".to_owned()
            });
        }
        rows.push(row);
    }
    tables.push(Table {
        title: "Reward drop and episodes to recover by size, `simppo` (paper in brackets)".to_owned(),
        header: vec!["agents", "+2", "+5", "+10", "−2", "−5", "−10"],
        rows,
    });
    let mut figures = Vec::new();
    for (job, cell) in jobs.iter().zip(&cells) {
        for (index, change) in job.changes.iter().enumerate() {
            let (what, of) = (format!("{} {} agents", job.preset, job.agents), format!("{change:+}"));
            let recovery = cell.recovery(index).map_or(f64::NAN, |at| at as f64);
            for (name, value) in [("drop", cell.drop(index)), ("episodes_to_recover", recovery)] {
                figures.push(Figure { what: what.clone(), seed: job.seed, of: of.clone(), name, value });
            }
        }
    }
    let curves = jobs.iter().zip(&cells).filter(|(job, _)| job.seed == 1 && job.agents == 12);
    let curves = curves.map(|(job, cell)| (format!("{} +5", job.preset), cell.after[0].clone())).collect();
    let setup = format!(
        "Simulated, fluid model. Groups of random functions, nodes in proportion; {:?} episodes before and after a change with the \
         published settings, {:?} with ours; {} seed(s). Drop: of the mean of the first {FIRST} episodes against the level before. \
         Recovered: the smoothed reward stays within 2 % of its new level.",
        length(Family::Paper),
        length(Family::Default),
        scope.seeds
    );
    Page { name: "simppo-churn", setup, tables, figures, curves }.publish(&scope.args.report)
}
