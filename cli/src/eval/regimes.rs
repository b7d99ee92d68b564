//! `meanfield eval regimes`: from plenty to overload, with and without coordination.
//!
//! Each regime is a cluster with its load; each player a policy with its way to coordinate: alone, by the price, or by
//! grants. A clairvoyant that plans centrally shows what could be reached. Learners are trained in the regime in which
//! they are judged. Then answers grow old and agents lie.

mod central;
pub mod day;
mod learner;
pub mod link;
mod player;
pub mod regime;
mod report;

use anyhow::Context;
use serde::{Deserialize, Serialize};

use super::{
    contestant::{Contestant, Kind},
    workers::{Store, compute},
};
use crate::args::{EvalArgs, ModelName};
use link::{Coordination, Lie, Twist};
use player::Player;
use regime::Regime;
use report::{Entry, Report};

/// One player's day.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Job {
    pub regime: Regime,
    pub player: Player,
    pub twist: Twist,
    pub seed: u64,
    /// Whether the counted day runs request by request.
    pub events: bool,
}

/// Who plays in every regime; another policy is one more line.
fn players(hpa: &Contestant) -> Vec<Player> {
    let plan = |kind, coordination| Player::rule(Contestant::default_of(kind), coordination);
    vec![
        Player::rule(hpa.clone(), Coordination::None),
        plan(Kind::Plan, Coordination::None),
        plan(Kind::Plan, Coordination::Grants),
        plan(Kind::PlanForecast, Coordination::None),
        plan(Kind::PlanForecast, Coordination::Price),
        plan(Kind::PlanForecast, Coordination::Grants),
        Player::Central,
    ]
}

/// Answers that are older, and agents that lie, under grants in overload.
fn twists() -> Vec<Twist> {
    let stale = [1, 2, 8].map(|rounds| Twist { stale: rounds, ..Twist::default() });
    let lies = Lie::ALL.map(|lie| Twist { lie: Some(lie), ..Twist::default() });
    stale.into_iter().chain(lies).collect()
}

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let (seeds, regimes) =
        if args.quick { (2, vec![Regime::Roomy, Regime::Overload]) } else { (5, Regime::ALL.to_vec()) };
    let seeds = args.seeds.unwrap_or(seeds);
    let store = Store::new(&args.report)?;
    let events = args.model == ModelName::Events;
    let hpa = player::tuned_hpa(args, &store)?;

    let mut jobs = Vec::new();
    let mut add = |regime: Regime, player: &Player, twist: Twist| {
        // A thousand more for each seed would be thousands of pods by request: many tenants run in closed form.
        let events = events && regime != Regime::Many;
        jobs.extend((1..=seeds).map(|seed| Job { regime, player: player.clone(), twist, seed, events }));
    };
    for &regime in &regimes {
        players(&hpa).iter().for_each(|player| add(regime, player, Twist::default()));
    }
    let granted = Player::rule(Contestant::default_of(Kind::PlanForecast), Coordination::Grants);
    if !args.quick {
        for regime in [Regime::Overload, Regime::Priorities] {
            twists().into_iter().for_each(|twist| add(regime, &granted, twist));
        }
    }
    let results = compute("regimes", args.threads, &store, &jobs, day::run)?;
    let mut entries: Vec<_> = jobs.into_iter().zip(results).map(|(job, result)| Entry { job, result }).collect();

    let learners = learner::compute_all(args, &regimes, seeds, events, &store)?;
    entries.extend(learners.into_iter().map(|(job, result)| Entry { job, result }));

    let report = Report { args, regimes, seeds, entries };
    say!("{}", report.terminal());
    report.write(&args.report).with_context(|| format!("cannot write the report to {}", args.report.display()))?;
    say!("\nReport: {}", args.report.join(report::PAGE).display());
    Ok(())
}
