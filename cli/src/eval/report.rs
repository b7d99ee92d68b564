//! The tables of `eval baselines`: on the terminal, and as Markdown, CSV, JSON and SVG.

use std::{fmt::Write, fs, path::Path};

use meanfield_agent::fleet::tenant_name;
use meanfield_simulator::scenario::{DAY_STEPS, TALLEST};
use serde::Serialize;

use super::{
    cell::{self, Setting},
    contestant::Contestant,
    load::{Load, PEAK},
    statistics::Mean,
};
use crate::{
    args::{EvalArgs, ModelName},
    plot,
    score::Figures,
    table::table,
};

/// One policy's day.
#[derive(Serialize)]
pub struct Entry {
    pub setting: Setting,
    pub contestant: Contestant,
    pub result: cell::Result,
}

pub struct Report<'a> {
    /// The experiment, which names its files.
    pub name: &'static str,
    pub args: &'a EvalArgs,
    pub loads: Vec<Load>,
    pub seeds: u64,
    pub entries: Vec<Entry>,
}

/// A column: its heading, the factor and decimals to print with, and what it is about.
type Column = (&'static str, f64, usize, fn(&Figures) -> f64);

const COLUMNS: [Column; 10] = [
    ("windows %", 100.0, 2, |figures| figures.slo_violation_rate_windows),
    ("requests %", 100.0, 2, |figures| figures.slo_violation_rate_requests),
    ("p99/SLO", 1.0, 2, |figures| figures.p99_over_slo),
    ("cores", 1.0, 1, |figures| figures.cpu_reserved_cores),
    ("limits", 1.0, 1, |figures| figures.cpu_limit_cores),
    ("GiB", 1.0, 1, |figures| figures.memory_reserved_gib),
    ("cost", 1.0, 1, |figures| figures.cost_cores),
    ("actions/h", 1.0, 1, |figures| figures.scaling_actions_per_hour),
    ("back and forth/h", 1.0, 1, |figures| figures.oscillations_per_hour),
    ("OOM/h", 1.0, 2, |figures| figures.oom_kills_per_hour),
];

impl Report<'_> {
    /// Labels in order, each with its figures; over all traces, or over one. Over all there are only those who took part
    /// in each: the mean of a policy that left out the hard ones would flatter it.
    fn rows(&self, load: Option<&Load>) -> Vec<(String, Vec<&Figures>)> {
        let mut rows: Vec<(String, Vec<&Figures>)> = Vec::new();
        for entry in self.entries.iter().filter(|entry| load.is_none_or(|load| entry.setting.load == *load)) {
            let label = entry.contestant.label();
            match rows.iter_mut().find(|(known, _)| *known == label) {
                Some((_, figures)) => figures.push(&entry.result.total),
                None => rows.push((label, vec![&entry.result.total])),
            }
        }
        if load.is_none() {
            let everywhere = self.loads.len() * usize::try_from(self.seeds).unwrap_or(usize::MAX);
            rows.retain(|(_, figures)| figures.len() == everywhere);
        }
        rows
    }

    fn cells(figures: &[&Figures], interval: bool) -> Vec<String> {
        let text = |(_, factor, decimals, value): &Column| {
            let mean = Mean::of(&figures.iter().map(|figures| value(figures)).collect::<Vec<_>>());
            if interval { mean.text(*factor, *decimals) } else { format!("{:.*}", decimals, factor * mean.mean) }
        };
        COLUMNS.iter().map(text).collect()
    }

    fn setup(&self) -> String {
        let model = match self.args.model {
            ModelName::Events => "every request is run (event model)",
            ModelName::Fluid => "in closed form (fluid model)",
        };
        let loads: Vec<_> = self.loads.iter().map(Load::name).collect();
        format!(
            "Simulated. Twelve functions share five nodes of 8 cores and 32 GiB; arrivals above {TALLEST} times their mean are drawn \
             again (recorded days with such are left out), and days on which all together ask for more than {:.0} % of the cores are scaled down to that; a day of {DAY_STEPS} steps of 15 s after twelve \
             hours that do not count; {model}; limits {} times the requests; {} seed(s) on each of {}.",
            100.0 * PEAK,
            self.args.limits,
            self.seeds,
            loads.join(", ")
        )
    }

    /// One row a policy, over all traces.
    pub fn terminal(&self) -> String {
        let header = std::iter::once("policy").chain(COLUMNS.iter().map(|(name, ..)| *name)).map(str::to_owned);
        let rows = self
            .rows(None)
            .into_iter()
            .map(|(label, figures)| std::iter::once(label).chain(Self::cells(&figures, false)).collect());
        format!(
            "{}\n\n{}\nwindows: share of 15 s windows with p99 above the SLO; cost: reserved cores, a GiB counting as 1/8 core.",
            table(header.collect(), rows.collect()),
            self.setup()
        )
    }

    fn markdown(&self) -> String {
        let mut text = format!("{}\n", self.setup());
        let all = std::iter::once(None).chain(self.loads.iter().map(Some));
        for load in all.filter(|load| load.is_none() || self.loads.len() > 1) {
            let title = load.map_or("all traces", Load::name);
            let _ = writeln!(text, "\n### {title}\n");
            let names: Vec<_> = COLUMNS.iter().map(|(name, ..)| *name).collect();
            let _ = writeln!(text, "| policy | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
            for (label, figures) in self.rows(load) {
                let _ = writeln!(text, "| {label} | {} |", Self::cells(&figures, true).join(" | "));
            }
        }
        text
    }

    /// One line a policy, trace, seed and function.
    fn csv(&self) -> anyhow::Result<String> {
        let mut text = String::from("policy,tuned,tuned_for,target,memory_for_every_slot,trace,seed,function");
        let mut names: Vec<String> = Vec::new();
        for entry in &self.entries {
            for (place, figures) in entry.result.functions.iter().enumerate() {
                let serde_json::Value::Object(figures) = serde_json::to_value(figures)? else { continue };
                if names.is_empty() {
                    names = figures.keys().cloned().collect();
                    let _ = writeln!(text, ",{}", names.join(","));
                }
                let Entry { setting, contestant, .. } = entry;
                let kind = serde_json::to_value(contestant.kind)?;
                let kind = kind.as_str().unwrap_or_default();
                let (trace, seed, own) = (setting.load.name(), setting.seed, contestant.setting(place));
                let _ = write!(
                    text,
                    "{kind},{},{},{},{},{trace},{seed},{}",
                    contestant.tuned,
                    contestant.price.map_or_else(String::new, |price| price.to_string()),
                    own.target,
                    own.roomy,
                    tenant_name(place)
                );
                for name in &names {
                    let _ = write!(text, ",{}", figures[name]);
                }
                text.push('\n');
            }
        }
        Ok(text)
    }

    /// The file to open first.
    pub fn page(&self) -> String {
        format!("{}.md", self.name)
    }

    /// Where settings were swept there is a picture for each trace, with a line for each policy.
    fn plots(&self) -> anyhow::Result<Vec<(String, String)>> {
        if self.name != "frontier" {
            return Ok(vec![(format!("{}.svg", self.name), self.plot()?)]);
        }
        let of = |load: &Load| Ok((format!("frontier-{}.svg", load.name()), self.frontier(load)?));
        self.loads.iter().map(of).collect()
    }

    /// Violations against cores on a trace, one line a policy.
    fn frontier(&self, load: &Load) -> anyhow::Result<String> {
        let mut lines: Vec<(&str, Vec<(f64, f64)>)> = Vec::new();
        for (label, figures) in self.rows(Some(load)) {
            let entry = self.entries.iter().find(|entry| entry.contestant.label() == label);
            let Some(kind) = entry.map(|entry| entry.contestant.kind.label()) else { continue };
            let mean =
                |value: fn(&Figures) -> f64| Mean::of(&figures.iter().map(|one| value(one)).collect::<Vec<_>>()).mean;
            let point = (mean(|one| one.cpu_reserved_cores), 100.0 * mean(|one| one.slo_violation_rate_windows));
            match lines.iter_mut().find(|(name, _)| *name == kind) {
                Some((_, points)) => points.push(point),
                None => lines.push((kind, vec![point])),
            }
        }
        plot::frontier(&format!("Misses against cores, {} (simulated)", load.name()), &lines)
    }

    /// Cost and violations of each policy: nearer to the lower left is better.
    fn plot(&self) -> anyhow::Result<String> {
        let points: Vec<_> = (self.rows(None).into_iter())
            .map(|(label, figures)| {
                let mean = |value: fn(&Figures) -> f64| {
                    Mean::of(&figures.iter().map(|one| value(one)).collect::<Vec<_>>()).mean
                };
                (label, mean(|one| one.cost_cores), 100.0 * mean(|one| one.slo_violation_rate_windows))
            })
            .collect();
        plot::scatter(
            "What keeping the SLO costs (simulated)",
            "cost in cores",
            "windows that miss the SLO, %",
            &points,
        )
    }

    /// Writes the folder.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        let file = |kind: &str| folder.join(format!("{}.{kind}", self.name));
        fs::write(file("md"), self.markdown())?;
        fs::write(file("csv"), self.csv()?)?;
        for (name, svg) in self.plots()? {
            fs::write(folder.join(name), svg)?;
        }
        let json =
            serde_json::json!({ "simulated": true, "version": env!("CARGO_PKG_VERSION"), "entries": self.entries });
        fs::write(file("json"), serde_json::to_string_pretty(&json)? + "\n")?;
        Ok(())
    }
}
