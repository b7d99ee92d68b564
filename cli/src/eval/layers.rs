//! `meanfield eval layers`, `frontier` and `shift`: what each layer of the decision adds, at what price.
//!
//! A policy that pays more misses less, so two of them are compared at equal cost: the price of a miss is chosen on days
//! of their own, as the one with the fewest misses there among those for which the plan reserves no more cores than
//! any tuned HPA does. The days that are reported are used once.

use anyhow::Context;
use meanfield_traces::synth::Preset;
use serde::Serialize;

use super::{
    cell::{self, Setting},
    contestant::{self, Contestant, Kind},
    load::Load,
    report::{Entry, Report},
    statistics::Mean,
    tuning::{self, Aim},
    workers::{Store, compute},
};
use crate::args::{EvalArgs, Experiment, ModelName};

/// Tenants of the cluster: the twelve functions.
const TENANTS: usize = 12;
/// Prices of a miss, in cores for a window.
pub const PRICES: [f64; 5] = [10.0, 30.0, 100.0, 300.0, 1000.0];
/// Days on which prices are matched, apart from those for tuning and from those that count.
const MATCHING: u64 = tuning::SEEDS + (1 << 16);

/// What HPA follows is chosen among these.
const HPA: [Kind; 3] = [Kind::HpaCpu, Kind::HpaConcurrency, Kind::HpaRate];

#[derive(Serialize)]
struct Job {
    setting: Setting,
    contestant: Contestant,
}

/// Means over the days for matching.
struct Judged {
    cores: f64,
    misses: f64,
}

/// How large an experiment is.
struct Scope<'a> {
    args: &'a EvalArgs,
    store: Store,
    loads: Vec<Load>,
    seeds: u64,
    matching: u64,
}

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let (name, usual) = match args.experiment {
        Experiment::Frontier => ("frontier", vec![Preset::Diurnal, Preset::AzureFunctions]),
        Experiment::Shift => ("shift", vec![Preset::AzureFunctions]),
        _ => ("layers", vec![Preset::Diurnal, Preset::AzureFunctions, Preset::Worldcup, Preset::Bursty]),
    };
    let usual = if args.quick { &usual[..1] } else { &usual };
    let loads = Load::asked(&args.recorded, &args.traces, usual)?;
    let seeds = args.seeds.unwrap_or(if args.quick { 1 } else { 5 });
    let scope =
        Scope { args, store: Store::new(&args.report)?, loads, seeds, matching: if args.quick { 1 } else { 2 } };
    let contestants = |load: &Load| match args.experiment {
        Experiment::Frontier => scope.frontier(load),
        Experiment::Shift => scope.matched(
            load,
            &[
                Kind::Plan,
                Kind::PlanForecast,
                Kind::PlanForecastUnseen,
                Kind::PlanForecastRecalibrated,
                Kind::PlanForecastRaw,
            ],
        ),
        _ => scope
            .matched(load, &[Kind::Plan, Kind::PlanForecast, Kind::PlanPpo, Kind::PlanPpoUngated, Kind::PlanKnown2]),
    };
    let mut jobs = Vec::new();
    for load in &scope.loads {
        for contestant in contestants(load)? {
            for seed in 1..=scope.seeds {
                jobs.push(Job { setting: scope.setting(load, seed), contestant: contestant.clone() });
            }
        }
    }
    let results = scope.compute("days", &jobs)?;
    let entries = jobs.into_iter().zip(results).map(|(Job { setting, contestant }, result)| Entry {
        setting,
        contestant,
        result,
    });
    let report = Report { name, args, loads: scope.loads.clone(), seeds: scope.seeds, entries: entries.collect() };
    say!("{}", report.terminal());
    report.write(&args.report).with_context(|| format!("cannot write the report to {}", args.report.display()))?;
    say!("\nReport: {}", args.report.join(report.page()).display());
    Ok(())
}

impl Scope<'_> {
    fn setting(&self, load: &Load, seed: u64) -> Setting {
        let events = self.args.model == ModelName::Events;
        Setting { load: load.clone(), seed, events, tenants: TENANTS, limits: self.args.limits }
    }

    fn compute(&self, name: &'static str, jobs: &[Job]) -> anyhow::Result<Vec<cell::Result>> {
        compute(name, self.args.threads, &self.store, jobs, |job| cell::run(&job.setting, &job.contestant))
    }

    /// How each does on the days for matching.
    fn judged(&self, load: &Load, contestants: &[Contestant]) -> anyhow::Result<Vec<Judged>> {
        let mut jobs = Vec::new();
        for contestant in contestants {
            for day in 0..self.matching {
                jobs.push(Job { setting: self.setting(load, MATCHING + day), contestant: contestant.clone() });
            }
        }
        let results = self.compute("matching", &jobs)?;
        let of = |results: &[cell::Result], value: fn(&cell::Result) -> f64| {
            Mean::of(&results.iter().map(value).collect::<Vec<_>>()).mean
        };
        let each = results.chunks(usize::try_from(self.matching)?);
        let judge = |days: &[cell::Result]| Judged {
            cores: of(days, |day| day.total.cpu_reserved_cores),
            misses: of(days, |day| day.total.slo_violation_rate_windows),
        };
        Ok(each.map(judge).collect())
    }

    /// Tuned rules, and plans at the price that misses least within the cores of the thriftiest tuned HPA.
    fn matched(&self, load: &Load, plans: &[Kind]) -> anyhow::Result<Vec<Contestant>> {
        let kinds = if self.args.quick { HPA.to_vec() } else { [&HPA[..], &[Kind::Kpa, Kind::Ensure]].concat() };
        let rules = self.tuned(&kinds, load, Aim::Reward)?;
        let judged = self.judged(load, &rules)?;
        let hpa = rules.iter().zip(&judged).filter(|(rule, _)| HPA.contains(&rule.kind));
        let fewest = hpa.map(|(_, judged)| judged.cores).fold(f64::INFINITY, f64::min);
        let mut contestants = rules;
        contestants.push(Contestant::default_of(Kind::Reactive));
        for &kind in plans {
            let priced: Vec<_> = self.prices().map(|price| at(kind, price)).collect();
            let judged = self.judged(load, &priced)?;
            let within = priced.into_iter().zip(judged).filter(|(_, judged)| judged.cores <= fewest);
            let matched = within.min_by(|(_, a), (_, b)| a.misses.total_cmp(&b.misses));
            // Whoever needs more than HPA at every price has no row here.
            contestants.extend(matched.map(|(matched, _)| Contestant { tuned: true, ..matched }));
        }
        // Also as they are shipped: corrections are learnt at that price.
        let shipped =
            plans.iter().filter(|kind| [Kind::PlanForecast, Kind::PlanPpo, Kind::PlanPpoUngated].contains(kind));
        contestants.extend(shipped.copied().map(Contestant::default_of));
        contestants.push(Contestant::default_of(Kind::Clairvoyant));
        Ok(contestants)
    }

    fn prices(&self) -> impl Iterator<Item = f64> + use<> {
        PRICES.into_iter().step_by(if self.args.quick { 3 } else { 1 })
    }

    fn tuned(&self, kinds: &[Kind], load: &Load, aim: Aim) -> anyhow::Result<Vec<Contestant>> {
        let days = if self.args.quick { 1 } else { 2 };
        tuning::tuned(kinds, &self.setting(load, 1), aim, days, self.args.threads, &self.store)
    }

    /// Every policy at every price of a miss: plans are told it, rules are tuned for it, function by function.
    fn frontier(&self, load: &Load) -> anyhow::Result<Vec<Contestant>> {
        let kinds = [&HPA[..], &[Kind::Kpa]].concat();
        let mut rules = Vec::new();
        for price in self.prices() {
            rules.extend(self.tuned(&kinds, load, Aim::Price(price))?);
        }
        rules.sort_by_key(|rule| rule.kind);
        let known = [Kind::PlanKnown1, Kind::PlanKnown2, Kind::PlanKnown4];
        let plans = [Kind::Plan, Kind::PlanForecast, Kind::PlanPpo].into_iter().chain(known);
        let plans = plans.flat_map(|kind| self.prices().map(move |price| at(kind, price)));
        let alone = [Kind::Reactive, Kind::Clairvoyant].map(Contestant::default_of);
        Ok(rules.into_iter().chain(plans).chain(alone).collect())
    }
}

/// A plan at a price.
fn at(kind: Kind, price: f64) -> Contestant {
    let settings = vec![contestant::Setting { target: price, roomy: false }];
    Contestant { settings, ..Contestant::default_of(kind) }
}
