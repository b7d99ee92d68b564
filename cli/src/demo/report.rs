//! The table on the terminal, and the report folder: index.html, SVG plots, summary.json.

use std::{fs, path::Path};

use meanfield_agent::{fleet::tenant_name, training::Progress};
use meanfield_simulator::scenario::DAY_STEPS;
use serde_json::json;

use super::plots;
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
}

impl Report<'_> {
    /// One row a function, one group of columns a policy.
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
        let table = table(header.collect(), self.rows());
        let target = 100.0 * self.args.hpa_target;
        let names = format!("mf = Meanfield, hpa = HPA+VPA (target {target:.0} %), rq = reactive queue model");
        format!(
            "{table}\n\nSimulated; {} held-out day(s) of {DAY_STEPS} steps of 15 s. {names}.\n\
             p99: median window; viol: windows with p99 above the SLO; cores and GiB: reserved by requests.",
            self.contest.days()
        )
    }

    fn header(&self) -> Vec<String> {
        let mut header = vec!["function".to_owned(), "SLO ms".to_owned()];
        for group in ["p99 ms", "viol %", "cores", "GiB"] {
            for score in self.scores {
                header.push(format!("{group}\n{}", short(score.policy)));
            }
        }
        header
    }

    fn rows(&self) -> Vec<Vec<String>> {
        let places = self.scores[0].functions.keys().copied();
        let mut rows: Vec<_> = places
            .map(|place| {
                let tallies: Vec<_> = self.scores.iter().filter_map(|score| score.functions.get(&place)).collect();
                let slo = tallies.first().map_or(0.0, |tally| tally.slo_ms);
                let figures: Vec<_> = tallies.iter().map(|tally| tally.figures()).collect();
                row(tenant_name(place), Some(slo), &figures)
            })
            .collect();
        let totals: Vec<_> = self.scores.iter().map(Scores::total).collect();
        rows.push(row("all".to_owned(), None, &totals));
        rows
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
            header = cells(self.header(), "th"),
            rows = rows,
        )
    }
}

fn row(name: String, slo: Option<f64>, figures: &[Figures]) -> Vec<String> {
    let mut row = vec![name, slo.map_or_else(String::new, |slo| format!("{slo:.0}"))];
    let columns: [fn(&Figures, Option<f64>) -> String; 4] = [
        |one, slo| {
            slo.map_or_else(|| format!("{:.2}×", one.p99_over_slo), |slo| format!("{:.0}", one.p99_over_slo * slo))
        },
        |one, _| format!("{:.2}", 100.0 * one.slo_violation_rate_windows),
        |one, _| format!("{:.1}", one.cpu_reserved_cores),
        |one, _| format!("{:.1}", one.memory_reserved_gib),
    ];
    for column in columns {
        row.extend(figures.iter().map(|one| column(one, slo)));
    }
    row
}

fn short(policy: &str) -> &str {
    match policy {
        "meanfield" => "mf",
        "hpa-vpa" => "hpa",
        "reactive" => "rq",
        other => other,
    }
}
