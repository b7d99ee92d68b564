//! `meanfield eval baselines`: every policy on every trace with every seed, in default and tuned form.

use anyhow::Context;
use meanfield_traces::synth::Preset;
use serde::Serialize;

use super::{
    cell::{self, Setting},
    contestant::{Contestant, Kind},
    load::Load,
    report::{Entry, Report},
    tuning::{self, Aim},
    workers::{Store, compute},
};
use crate::args::{EvalArgs, ModelName};

/// Tenants of the cluster: the twelve functions.
const TENANTS: usize = 12;

#[derive(Serialize)]
struct Job {
    setting: Setting,
    contestant: Contestant,
}

pub fn run(args: &EvalArgs) -> anyhow::Result<()> {
    let (seeds, traces, tuning_days) = if args.quick {
        (2, vec![Preset::Diurnal, Preset::AzureFunctions], 1)
    } else {
        (5, vec![Preset::Diurnal, Preset::AzureFunctions, Preset::Worldcup, Preset::Bursty, Preset::Steady], 2)
    };
    let seeds = args.seeds.unwrap_or(seeds);
    let loads = Load::asked(&args.recorded, &args.traces, &traces)?;
    let store = Store::new(&args.report)?;

    let mut jobs = Vec::new();
    for load in &loads {
        let events = args.model == ModelName::Events;
        let setting = Setting { load: load.clone(), seed: 1, events, tenants: TENANTS, limits: args.limits };
        let mut contestants: Vec<_> = Kind::ALL.map(Contestant::default_of).to_vec();
        contestants.extend(tuning::tuned(&Kind::ALL, &setting, Aim::Reward, tuning_days, args.threads, &store)?);
        // The tuned form stands below the default one.
        contestants.sort_by_key(|contestant| (contestant.kind, contestant.tuned));
        for contestant in contestants {
            for seed in 1..=seeds {
                jobs.push(Job { setting: Setting { seed, ..setting.clone() }, contestant: contestant.clone() });
            }
        }
    }
    let results = compute("days", args.threads, &store, &jobs, |job| cell::run(&job.setting, &job.contestant))?;

    let entries = jobs.into_iter().zip(results).map(|(Job { setting, contestant }, result)| Entry {
        setting,
        contestant,
        result,
    });
    let report = Report { name: "baselines", args, loads, seeds, entries: entries.collect() };
    say!("{}", report.terminal());
    report.write(&args.report).with_context(|| format!("cannot write the report to {}", args.report.display()))?;
    say!("\nReport: {}", args.report.join(report.page()).display());
    Ok(())
}
