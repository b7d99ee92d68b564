//! The table on the terminal, and the report folder: index.html, SVG plots, summary.json.

use std::{fs, path::Path};

use meanfield_agent::{fleet::tenant_name, training::Progress};
use meanfield_simulator::scenario::DAY_STEPS;
use serde_json::json;

use super::{plots, scarcity::Minute};
use crate::{
    args::{DemoArgs, Preset},
    contest::Contest,
    score::{Figures, Scores},
    table::table,
};

/// All that a report is made of.
pub struct Report<'a> {
    pub args: &'a DemoArgs,
    pub episodes: u64,
    pub contest: &'a Contest,
    pub curve: &'a [Progress],
    pub scores: &'a [Scores],
    pub minute: &'a Minute,
}

impl Report<'_> {
    /// One row a function, one group of columns a policy; below it, one row a policy.
    pub fn table(&self) -> String {
        // On the terminal a group's name stands over the first of its columns only.
        let mut last = String::new();
        let header = self.header().into_iter().map(|name| match name.split_once('\n') {
            Some((group, policy)) if group == last => format!("\n{policy}"),
            Some((group, _)) => {
                group.clone_into(&mut last);
                name
            }
            None => name,
        });
        let functions = table(header.collect(), self.rows());
        let totals = table(TOTALS.map(str::to_owned).to_vec(), self.totals());
        format!(
            "{functions}\n\n{totals}\n\nSimulated, every request run; {} held-out day(s) of {DAY_STEPS} steps of 15 s. {}.\n\
             windows: those of 15 s with p99 above the SLO; cores and GiB: reserved by requests.",
            self.contest.days(),
            self.hpa()
        )
    }

    /// What HPA was set to.
    fn hpa(&self) -> String {
        match self.args.hpa_target {
            Some(target) => format!("HPA's target is {:.0} %", 100.0 * target),
            None => "HPA's target is the best one for each function, found on other days".to_owned(),
        }
    }

    fn header(&self) -> Vec<String> {
        let mut header = vec!["function".to_owned(), "SLO ms".to_owned()];
        for group in ["p99 ms", "windows %", "cores"] {
            for score in self.scores {
                header.push(format!("{group}\n{}", short(score.policy)));
            }
        }
        header
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let places = self.scores[0].functions.keys().copied();
        places
            .map(|place| {
                let tallies: Vec<_> = self.scores.iter().filter_map(|score| score.functions.get(&place)).collect();
                let slo = tallies.first().map_or(0.0, |tally| tally.slo_ms);
                let figures: Vec<_> = tallies.iter().map(|tally| tally.figures()).collect();
                row(tenant_name(place), slo, &figures)
            })
            .collect()
    }

    /// One row a policy: over all functions.
    fn totals(&self) -> Vec<Vec<String>> {
        let row = |score: &Scores| {
            let total = score.total();
            vec![
                format!("{} ({})", name(score.policy), short(score.policy)),
                format!("{:.2}", 100.0 * total.slo_violation_rate_windows),
                format!("{:.2}", 100.0 * total.slo_violation_rate_requests),
                format!("{:.2}", total.p99_over_slo),
                format!("{:.1}", total.cpu_reserved_cores),
                format!("{:.1}", total.memory_reserved_gib),
                format!("{:.1}", total.cost_cores),
                format!("{:.2}", total.oom_kills_per_hour),
            ]
        };
        self.scores.iter().map(row).collect()
    }

    /// Writes the folder.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        let plots = [
            ("learning.svg", plots::learning(self.curve, self.scores)?),
            ("latency.svg", plots::latency(self.scores)?),
            ("distribution.svg", plots::distribution(self.scores)?),
            ("cores.svg", plots::cores(self.scores)?),
        ];
        for (name, svg) in &plots {
            fs::write(folder.join(name), svg)?;
        }
        let mut summary = serde_json::to_string_pretty(&self.summary())?;
        summary.push('\n');
        fs::write(folder.join("summary.json"), summary)?;
        fs::write(folder.join("index.html"), self.page())?;
        Ok(())
    }

    fn summary(&self) -> serde_json::Value {
        let preset = match self.args.preset {
            Preset::Default => "default",
            Preset::Paper => "paper",
        };
        let policies: Vec<_> = self
            .scores
            .iter()
            .map(|score| {
                let functions: Vec<_> = score
                    .functions
                    .iter()
                    .map(|(place, tally)| {
                        json!({ "name": tenant_name(*place), "slo_ms": tally.slo_ms, "figures": tally.figures() })
                    })
                    .collect();
                json!({ "name": score.policy, "total": score.total(), "functions": functions })
            })
            .collect();
        let training: Vec<_> = (self.curve.iter())
            .map(|point| json!({ "reward": point.reward, "violations": point.violations, "cores": point.cores }))
            .collect();
        json!({
            "simulated": true,
            "version": env!("CARGO_PKG_VERSION"),
            "seed": self.args.seed,
            "agents": self.args.agents,
            "hpa_target": self.args.hpa_target,
            "episodes": self.episodes,
            "preset": preset,
            "held_out_days": self.contest.days(),
            "steps_per_day": DAY_STEPS,
            "policies": policies,
            "scarcity": self.minute,
            "training": training,
        })
    }

    fn page(&self) -> String {
        let cells = |cells: Vec<String>, tag: &str| -> String {
            let cell = |cell: String| format!("<{tag}>{}</{tag}>", cell.replace('\n', "<br>"));
            format!("<tr>{}</tr>\n", cells.into_iter().map(cell).collect::<String>())
        };
        let rows: String = self.rows().into_iter().map(|row| cells(row, "td")).collect();
        format!(
            include_str!("page.html"),
            seed = self.args.seed,
            agents = self.args.agents,
            episodes = self.episodes,
            days = self.contest.days(),
            steps = DAY_STEPS,
            hpa = self.hpa(),
            header = cells(self.header(), "th"),
            rows = rows,
            totals_header = cells(TOTALS.map(str::to_owned).to_vec(), "th"),
            minute_header = cells(self.minute.cells().0, "th"),
            minute_rows = self.minute.cells().1.into_iter().map(|row| cells(row, "td")).collect::<String>(),
            minute_words = self.minute.words(),
            totals = self.totals().into_iter().map(|row| cells(row, "td")).collect::<String>(),
        )
    }
}

/// Columns of the totals.
const TOTALS: [&str; 8] = ["policy", "windows %", "requests %", "p99/SLO", "cores", "GiB", "cost", "OOM/h"];

fn row(name: String, slo: f64, figures: &[Figures]) -> Vec<String> {
    let mut row = vec![name, format!("{slo:.0}")];
    let columns: [fn(&Figures) -> String; 3] = [
        |one| format!("{:.0}", one.p99_ms),
        |one| format!("{:.2}", 100.0 * one.slo_violation_rate_windows),
        |one| format!("{:.1}", one.cpu_reserved_cores),
    ];
    for column in columns {
        row.extend(figures.iter().map(column));
    }
    row
}

/// A policy's name for readers.
pub fn name(policy: &str) -> &'static str {
    match policy {
        "meanfield" => "Meanfield",
        "hpa-vpa" => "HPA+VPA",
        "ppo" => "PPO alone",
        "plan" => "queue model",
        _ => "clairvoyant plan",
    }
}

fn short(policy: &str) -> &str {
    match policy {
        "meanfield" => "mf",
        "hpa-vpa" => "hpa",
        "plan" => "qm",

        "clairvoyant" => "cv",
        other => other,
    }
}
