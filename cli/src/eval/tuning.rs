//! Tuning: the best setting of each policy for each function, found on days of their own.
//!
//! All functions run with the same setting at once, so one run judges it for all of them.

use std::num::NonZero;

use serde::Serialize;

use super::{
    cell::{self, Setting},
    contestant::{self, Contestant, Kind},
    workers::{Store, compute},
};
use crate::score::Figures;

/// What is best.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Aim {
    /// What earns the most of the reward that Meanfield's own agents are trained on.
    Reward,
    /// What costs least in cores with so many for each window that misses, as a plan counts.
    Price(f64),
}

impl Aim {
    fn earned(self, figures: &Figures) -> f64 {
        match self {
            Self::Reward => figures.reward,
            Self::Price(price) => -figures.cost_cores - price * figures.slo_violation_rate_windows,
        }
    }

    fn price(self) -> Option<f64> {
        match self {
            Self::Reward => None,
            Self::Price(price) => Some(price),
        }
    }
}

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
    aim: Aim,
    days: u64,
    threads: Option<NonZero<usize>>,
    store: &Store,
) -> anyhow::Result<Vec<Contestant>> {
    let mut jobs = Vec::new();
    for &kind in kinds {
        for candidate in kind.grid() {
            for day in 0..days {
                let setting = Setting { seed: SEEDS + day, events: false, ..setting.clone() };
                let contestant = Contestant { settings: vec![candidate], ..Contestant::default_of(kind) };
                jobs.push(Job { setting, contestant });
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
                runs.filter_map(|(_, result)| result.functions.get(place)).map(|figures| aim.earned(figures)).sum()
            };
            grid.iter().copied().max_by(|a, b| earned(*a).total_cmp(&earned(*b))).unwrap_or(first)
        };
        let settings = (0..setting.tenants).map(best).collect();
        tuned.push(Contestant { kind, tuned: true, price: aim.price(), settings });
    }
    Ok(tuned)
}
