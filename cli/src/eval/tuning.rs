//! Tuning: the best setting of each policy for each function, found on days of their own.
//!
//! All functions run with the same setting at once, so one run judges it for all of them. What is best is what earns the
//! most of the reward that Meanfield's own agents are trained on.

use std::num::NonZero;

use serde::Serialize;

use super::{
    cell::{self, Setting},
    contestant::{self, Contestant, Kind},
    workers::{Store, compute},
};

/// Seeds of tuning days, far from those that count.
pub const SEEDS: u64 = 1 << 32;

#[derive(Serialize)]
struct Job {
    setting: Setting,
    contestant: Contestant,
}

/// The tuned form of a kind under a setting; none where there is nothing to tune. Tuning runs in the fluid model.
pub fn tuned(
    kinds: &[Kind],
    setting: &Setting,
    days: u64,
    threads: Option<NonZero<usize>>,
    store: &Store,
) -> anyhow::Result<Vec<Contestant>> {
    let mut jobs = Vec::new();
    for &kind in kinds {
        for candidate in kind.grid() {
            for day in 0..days {
                let setting = Setting { seed: SEEDS + day, events: false, ..setting.clone() };
                jobs.push(Job { setting, contestant: Contestant { kind, tuned: false, settings: vec![candidate] } });
            }
        }
    }
    let results = compute("tuning", threads, store, &jobs, |job| cell::run(&job.setting, &job.contestant))?;
    let mut tuned = Vec::new();
    for &kind in kinds {
        let grid = kind.grid();
        let Some(&first) = grid.first() else { continue };
        let best = |place: usize| {
            let earned = |candidate: contestant::Setting| -> f64 {
                let runs = jobs
                    .iter()
                    .zip(&results)
                    .filter(|(job, _)| job.contestant.kind == kind && job.contestant.settings == [candidate]);
                runs.filter_map(|(_, result)| result.functions.get(place)).map(|figures| figures.reward).sum()
            };
            grid.iter().copied().max_by(|a, b| earned(*a).total_cmp(&earned(*b))).unwrap_or(first)
        };
        tuned.push(Contestant { kind, tuned: true, settings: (0..setting.tenants).map(best).collect() });
    }
    Ok(tuned)
}
