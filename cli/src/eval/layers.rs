//! `meanfield eval layers`, `frontier` and `shift`: what each layer of the decision adds, at what price.
//!
//! A policy that pays more misses less, so two of them are compared at equal cost: the price of a miss is chosen on days
//! of their own, as the highest for which the plan reserves no more cores there than the tuned HPA does. The days that
//! are reported are used once.

use std::cmp::Ordering;

use anyhow::Context;
use meanfield_traces::synth::Preset;
use serde::Serialize;

use super::{
    cell::{self, Setting},
    contestant::{self, Contestant, Kind},
    report::{Entry, Report},
    statistics::Mean,
    tuning,
    workers::{Store, compute},
};
use crate::args::{EvalArgs, Experiment, ModelName};

/// Tenants of the cluster: the twelve functions.
const TENANTS: usize = 12;
/// Prices of a miss, in cores for a window.
pub const PRICES: [f64; 7] = [10.0, 30.0, 100.0, 300.0, 1000.0, 3000.0, 10_000.0];
/// Days on which prices are matched, apart from those for tuning and from those that count.
const MATCHING: u64 = tuning::SEEDS + (1 << 16);

/// What HPA follows is chosen among these.
const HPA: [Kind; 3] = [Kind::HpaCpu, Kind::HpaConcurrency, Kind::HpaRate];

#[derive(Serialize)]
struct Job {
    setting: Setting,
    contestant: Contestant,
}

/// How large an experiment is.
struct Scope<'a> {
    args: &'a EvalArgs,
    store: Store,
    traces: Vec<Preset>,
    seeds: u64,
    matching: u64,
}

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let (name, usual) = match args.experiment {
        Experiment::Frontier => ("frontier", vec![Preset::Diurnal, Preset::AzureFunctions]),
        Experiment::Shift => ("shift", vec![Preset::AzureFunctions]),
        _ => ("layers", vec![Preset::Diurnal, Preset::AzureFunctions, Preset::Worldcup, Preset::Bursty]),
    };
    let traces = match (&args.traces[..], args.quick) {
        ([], true) => usual[..usual.len().min(2)].to_vec(),
        ([], false) => usual,
        (given, _) => given.to_vec(),
    };
    let seeds = args.seeds.unwrap_or(if args.quick { 1 } else { 5 });
    let scope =
        Scope { args, store: Store::new(&args.report)?, traces, seeds, matching: if args.quick { 1 } else { 3 } };
    let contestants = |trace: Preset| match args.experiment {
        Experiment::Frontier => Ok(scope.frontier()),
        Experiment::Shift => scope.matched(
            trace,
            &[
                Kind::Plan,
                Kind::PlanForecast,
                Kind::PlanForecastUnseen,
                Kind::PlanForecastRecalibrated,
                Kind::PlanForecastRaw,
            ],
        ),
        _ => scope
            .matched(trace, &[Kind::Plan, Kind::PlanForecast, Kind::PlanKnown1, Kind::PlanKnown2, Kind::PlanKnown4]),
    };
    let mut jobs = Vec::new();
    for &trace in &scope.traces {
        for contestant in contestants(trace)? {
            for seed in 1..=scope.seeds {
                jobs.push(Job { setting: scope.setting(trace, seed), contestant: contestant.clone() });
            }
        }
    }
    let results = scope.compute("days", &jobs)?;
    let entries = jobs.into_iter().zip(results).map(|(Job { setting, contestant }, result)| Entry {
        setting,
        contestant,
        result,
    });
    let report = Report { name, args, traces: scope.traces.clone(), seeds: scope.seeds, entries: entries.collect() };
    say!("{}", report.terminal());
    report.write(&args.report).with_context(|| format!("cannot write the report to {}", args.report.display()))?;
    say!("\nReport: {}", args.report.join(report.page()).display());
    Ok(())
}

impl Scope<'_> {
    fn setting(&self, trace: Preset, seed: u64) -> Setting {
        Setting { trace, seed, events: self.args.model == ModelName::Events, tenants: TENANTS }
    }

    fn compute(&self, name: &'static str, jobs: &[Job]) -> anyhow::Result<Vec<cell::Result>> {
        compute(name, self.args.threads, &self.store, jobs, |job| cell::run(&job.setting, &job.contestant))
    }

    /// Means of cores and reward over the days for matching.
    fn judged(&self, trace: Preset, contestants: &[Contestant]) -> anyhow::Result<Vec<(f64, f64)>> {
        let mut jobs = Vec::new();
        for contestant in contestants {
            for day in 0..self.matching {
                jobs.push(Job { setting: self.setting(trace, MATCHING + day), contestant: contestant.clone() });
            }
        }
        let results = self.compute("matching", &jobs)?;
        let of = |results: &[cell::Result], value: fn(&cell::Result) -> f64| {
            Mean::of(&results.iter().map(value).collect::<Vec<_>>()).mean
        };
        let each = results.chunks(usize::try_from(self.matching)?);
        Ok(each.map(|days| (of(days, |day| day.total.cpu_reserved_cores), of(days, |day| day.total.reward))).collect())
    }

    /// Tuned rules, and plans at the highest price that keeps them within the cores of the best tuned HPA.
    fn matched(&self, trace: Preset, plans: &[Kind]) -> anyhow::Result<Vec<Contestant>> {
        let days = if self.args.quick { 1 } else { 2 };
        let kinds = [&HPA[..], &[Kind::Kpa, Kind::Ensure]].concat();
        let rules = tuning::tuned(&kinds, self.setting(trace, 1), days, self.args.threads, &self.store)?;
        let judged = self.judged(trace, &rules)?;
        let best = (rules.iter().zip(&judged).filter(|(rule, _)| HPA.contains(&rule.kind)))
            .max_by(|(_, a), (_, b)| a.1.partial_cmp(&b.1).unwrap_or(Ordering::Equal))
            .map(|(_, (cores, _))| *cores)
            .context("HPA is among the rules")?;
        let mut contestants = rules;
        contestants.push(Contestant::default_of(Kind::Reactive));
        for &kind in plans {
            let priced: Vec<_> = PRICES.iter().map(|price| at(kind, *price)).collect();
            let judged = self.judged(trace, &priced)?;
            let mut within = priced.iter().zip(&judged).filter(|(_, (cores, _))| *cores <= best);
            let matched = within.next_back().map_or(&priced[0], |(matched, _)| matched);
            contestants.push(Contestant { tuned: true, ..matched.clone() });
        }
        contestants.push(Contestant::default_of(Kind::PlanForecast));
        contestants.push(Contestant::default_of(Kind::Clairvoyant));
        Ok(contestants)
    }

    /// Every policy over the whole range of its setting.
    fn frontier(&self) -> Vec<Contestant> {
        let quick = self.args.quick;
        let rules = HPA.into_iter().chain([Kind::Kpa]).flat_map(|kind| {
            let grid = kind.settings().map_or(&[] as &[f64], |(_, grid)| grid);
            grid.iter().step_by(if quick { 3 } else { 1 }).map(move |target| Contestant {
                settings: vec![contestant::Setting { target: *target, roomy: true }],
                ..Contestant::default_of(kind)
            })
        });
        let plans = [Kind::Plan, Kind::PlanForecast, Kind::PlanKnown1, Kind::PlanKnown2, Kind::PlanKnown4];
        let plans = plans
            .into_iter()
            .flat_map(|kind| PRICES.iter().step_by(if quick { 3 } else { 1 }).map(move |price| at(kind, *price)));
        let alone = [Kind::Reactive, Kind::Clairvoyant].map(Contestant::default_of);
        rules.chain(plans).chain(alone).collect()
    }
}

/// A plan at a price.
fn at(kind: Kind, price: f64) -> Contestant {
    let settings = vec![contestant::Setting { target: price, roomy: false }];
    Contestant { settings, ..Contestant::default_of(kind) }
}
