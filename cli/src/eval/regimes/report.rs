//! The tables of `eval regimes`: on the terminal, and as Markdown, CSV, JSON and SVG.

use std::{fmt::Write, fs, path::Path};

use meanfield_agent::fleet::tenant_name;
use meanfield_simulator::scenario::DAY_STEPS;
use serde::Serialize;

use super::{
    Job, day,
    link::{Lie, Twist},
    player::Player,
    regime::Regime,
};
use crate::{
    args::{EvalArgs, ModelName},
    eval::{cell, statistics::Mean},
    plot,
    table::table,
};

/// The file to open first.
pub const PAGE: &str = "regimes.md";

/// One player's day.
#[derive(Serialize)]
pub struct Entry {
    pub job: Job,
    pub result: cell::Result,
}

pub struct Report<'a> {
    pub args: &'a EvalArgs,
    pub regimes: Vec<Regime>,
    pub seeds: u64,
    pub entries: Vec<Entry>,
}

/// A column on the terminal: its heading, the factor and decimals to print with, and what it is of a day.
type Column = (&'static str, f64, usize, fn(&Entry) -> f64);

const COLUMNS: [Column; 5] = [
    ("windows %", 100.0, 2, |entry| entry.result.total.slo_violation_rate_windows),
    ("by weight %", 100.0, 2, weighted),
    ("requests %", 100.0, 2, |entry| entry.result.total.slo_violation_rate_requests),
    ("worst function %", 100.0, 1, |entry| of_functions(entry, 0.0, f64::max)),
    ("cores", 1.0, 1, |entry| entry.result.total.cpu_reserved_cores),
];

fn of_functions(entry: &Entry, start: f64, fold: fn(f64, f64) -> f64) -> f64 {
    entry.result.functions.iter().map(|figures| figures.slo_violation_rate_windows).fold(start, fold)
}

/// Violating windows, each counted with its tenant's weight.
fn weighted(entry: &Entry) -> f64 {
    let Ok(scenario) = entry.job.regime.scenario(1) else { return f64::NAN };
    let weights = (0..entry.result.functions.len()).map(|place| scenario.weight(place).get());
    let rates = entry.result.functions.iter().map(|figures| figures.slo_violation_rate_windows);
    let (sum, all) =
        weights.zip(rates).fold((0.0, 0.0), |(sum, all), (weight, rate)| (sum + weight * rate, all + weight));
    sum / all
}

/// Violating windows of the one who lies, or would.
fn of_liar(entry: &Entry) -> f64 {
    entry.result.functions.get(day::liar()).map_or(f64::NAN, |figures| figures.slo_violation_rate_windows)
}

/// Violating windows of all the others.
fn of_others(entry: &Entry) -> f64 {
    let count = entry.result.functions.len() as f64;
    (of_functions(entry, 0.0, |sum, rate| sum + rate) - of_liar(entry)) / (count - 1.0).max(1.0)
}

fn cells(entries: &[&Entry]) -> Vec<String> {
    let text = |(_, factor, decimals, value): &Column| format!("{:.*}", decimals, factor * mean(entries, *value).mean);
    COLUMNS.iter().map(text).collect()
}

fn twisted(twist: Twist) -> String {
    match twist {
        Twist { stale: 0, lie: None } => "honest, answers 15 s old".to_owned(),
        Twist { stale, lie: None } => format!("answers {} s old", 15 * (stale + 1)),
        Twist { lie: Some(Lie::Claim), .. } => "one claims ten times what it wants".to_owned(),
        Twist { lie: Some(Lie::Work), .. } => "one claims ten times, and three times its work".to_owned(),
        Twist { lie: Some(Lie::Small), .. } => "one claims a tenth of its want and work".to_owned(),
        Twist { lie: Some(Lie::Weight), .. } => "one claims a weight of ten".to_owned(),
    }
}

impl Report<'_> {
    /// Labels in order of appearance, each with its days.
    fn rows(&self, wanted: impl Fn(&Entry) -> bool, label: impl Fn(&Entry) -> String) -> Vec<(String, Vec<&Entry>)> {
        let mut rows: Vec<(String, Vec<&Entry>)> = Vec::new();
        for entry in self.entries.iter().filter(|entry| wanted(entry)) {
            let label = label(entry);
            match rows.iter_mut().find(|(known, _)| *known == label) {
                Some((_, entries)) => entries.push(entry),
                None => rows.push((label, vec![entry])),
            }
        }
        rows
    }

    fn of_regime(&self, regime: Regime) -> Vec<(String, Vec<&Entry>)> {
        let plain = |entry: &Entry| entry.job.regime == regime && entry.job.twist == Twist::default();
        self.rows(plain, |entry| entry.job.player.label())
    }

    fn setup(&self) -> String {
        let model = match self.args.model {
            ModelName::Events => "every request is run (event model; 110 agents in the fluid model)",
            ModelName::Fluid => "in closed form (fluid model)",
        };
        format!(
            "Simulated. Twelve functions on five nodes of 8 cores and 32 GiB; a day of {DAY_STEPS} steps of 15 s that nobody \
             was trained on; {model}; {} seed(s); learners: {}.",
            self.seeds, "each training played on all of these days"
        )
    }

    /// One row a player and regime.
    pub fn terminal(&self) -> String {
        let header = ["regime", "player"].into_iter().chain(COLUMNS.iter().map(|(name, ..)| *name)).map(str::to_owned);
        let rows = self.regimes.iter().flat_map(|regime| {
            let rows = self.of_regime(*regime).into_iter();
            rows.map(|(label, entries)| {
                let first = [regime.label().to_owned(), label];
                first.into_iter().chain(cells(&entries)).collect()
            })
        });
        format!("{}\n\n{}", table(header.collect(), rows.collect()), self.setup())
    }

    /// Every player with its heading, in the order of the table: who knows the load comes last.
    fn players(&self) -> Vec<&Player> {
        let mut players: Vec<&Player> = Vec::new();
        for Entry { job, .. } in &self.entries {
            if !players.contains(&&job.player) {
                players.push(&job.player);
            }
        }
        players.sort_by_key(|player| **player == Player::Central);
        players
    }

    /// One row a regime, one column a player.
    fn overview(&self, cell: impl Fn(&[&Entry]) -> String) -> String {
        let players = self.players();
        let mut text = String::new();
        head(&mut text, "regime (highest demand)", players.iter().map(|player| player.heading()));
        for regime in &self.regimes {
            let days = |player: &&Player| {
                let plain = |entry: &&Entry| {
                    entry.job.regime == *regime && entry.job.player == **player && entry.job.twist == Twist::default()
                };
                cell(&self.entries.iter().filter(plain).collect::<Vec<_>>())
            };
            let name = format!("{} ({:.0} %)", regime.label(), 100.0 * regime.peak());
            row(&mut text, &name, players.iter().map(days));
        }
        text
    }

    /// Old answers and lies: one row a twist, some columns a regime.
    fn twists(&self) -> Option<String> {
        let odd = |entry: &&Entry| entry.job.twist != Twist::default();
        let player = &self.entries.iter().find(odd)?.job.player;
        let twisted_in = |regime: &&Regime| self.entries.iter().filter(odd).any(|entry| entry.job.regime == **regime);
        let regimes: Vec<_> = self.regimes.iter().filter(twisted_in).collect();
        let columns = [("all", weighted as fn(&Entry) -> f64), ("the one", of_liar), ("the others", of_others)];
        let mut text = format!(
            "## Old answers and lies\n\n{}; the one who lies is {}. Percent of windows that miss, for all by weight.\n\n",
            player.label(),
            tenant_name(day::liar()),
        );
        let names = regimes.iter().flat_map(|regime| columns.map(|(name, _)| format!("{}: {name}", regime.label())));
        head(&mut text, "what is different", names);
        let of_player = |entry: &Entry| entry.job.player == *player && regimes.contains(&&entry.job.regime);
        for (label, entries) in self.rows(of_player, |entry| twisted(entry.job.twist)) {
            let of = |regime: &&Regime| -> Vec<&Entry> {
                entries.iter().copied().filter(|entry| entry.job.regime == **regime).collect()
            };
            let cells = regimes.iter().flat_map(|regime| columns.map(|(_, value)| percent(&of(regime), value, true)));
            row(&mut text, &label, cells);
        }
        Some(text)
    }

    fn markdown(&self) -> String {
        let misses = self.overview(|days| {
            let cores = mean(days, |entry| entry.result.total.cpu_reserved_cores);
            format!("{} @ {:.0}", percent(days, weighted, true), cores.mean)
        });
        let requests =
            self.overview(|days| percent(days, |entry| entry.result.total.slo_violation_rate_requests, false));
        let worst = self.overview(|days| percent(days, |entry| of_functions(entry, 0.0, f64::max), false));
        format!(
            "{}\n\nWindows that miss the objective, percent by weight, at so many reserved cores:\n\n{misses}\n\
             By request (slower than the objective or given up on, percent):\n\n{requests}\n\
             The worst function (percent of its windows):\n\n{worst}\n{}",
            self.setup(),
            self.twists().unwrap_or_default()
        )
    }

    /// One line a player, regime, seed and function.
    fn csv(&self) -> anyhow::Result<String> {
        let mut text = String::from("regime,player,twist,seed,function,weight");
        let mut names: Vec<String> = Vec::new();
        for Entry { job, result } in &self.entries {
            let scenario = job.regime.scenario(1)?;
            for (place, figures) in result.functions.iter().enumerate() {
                let serde_json::Value::Object(figures) = serde_json::to_value(figures)? else { continue };
                if names.is_empty() {
                    names = figures.keys().cloned().collect();
                    let _ = writeln!(text, ",{}", names.join(","));
                }
                let (regime, player, twist) = (job.regime.label(), job.player.label(), twisted(job.twist));
                let (name, weight) = (tenant_name(place), scenario.weight(place).get());
                let _ = write!(text, "{regime},\"{player}\",\"{twist}\",{},{name},{weight}", job.seed);
                for name in &names {
                    let _ = write!(text, ",{}", figures[name]);
                }
                text.push('\n');
            }
        }
        Ok(text)
    }

    /// Cost and weighted violations in the scarcest regime that was run.
    fn plot(&self) -> anyhow::Result<String> {
        let scarce = [Regime::Overload, Regime::Priorities].into_iter().find(|regime| self.regimes.contains(regime));
        let regime = scarce.or_else(|| self.regimes.first().copied()).unwrap_or(Regime::Overload);
        let rows = self.of_regime(regime).into_iter();
        let points: Vec<_> = rows
            .map(|(label, entries)| {
                let cores = mean(&entries, |entry| entry.result.total.cpu_reserved_cores).mean;
                (label, cores, 100.0 * mean(&entries, weighted).mean)
            })
            .collect();
        let title = format!("What coordination is worth: {} (simulated)", regime.label());
        plot::scatter(&title, "cores by request", "windows that miss the SLO, % by weight", &points)
    }

    /// Writes the folder.
    pub fn write(&self, folder: &Path) -> anyhow::Result<()> {
        fs::create_dir_all(folder)?;
        fs::write(folder.join(PAGE), self.markdown())?;
        fs::write(folder.join("regimes.csv"), self.csv()?)?;
        fs::write(folder.join("regimes.svg"), self.plot()?)?;
        let json =
            serde_json::json!({ "simulated": true, "version": env!("CARGO_PKG_VERSION"), "entries": self.entries });
        fs::write(folder.join("regimes.json"), serde_json::to_string_pretty(&json)? + "\n")?;
        Ok(())
    }
}

fn head(text: &mut String, first: &str, names: impl Iterator<Item = String>) {
    let names: Vec<_> = names.collect();
    let _ = writeln!(text, "| {first} | {} |\n|---|{}", names.join(" | "), "---|".repeat(names.len()));
}

fn row(text: &mut String, first: &str, cells: impl Iterator<Item = String>) {
    let _ = writeln!(text, "| {first} | {} |", cells.collect::<Vec<_>>().join(" | "));
}

fn mean(days: &[&Entry], value: fn(&Entry) -> f64) -> Mean {
    Mean::of(&days.iter().map(|entry| value(entry)).collect::<Vec<_>>())
}

/// A mean in percent; a dash where nothing was run.
fn percent(days: &[&Entry], value: fn(&Entry) -> f64, interval: bool) -> String {
    let mean = mean(days, value);
    match days {
        [] => "–".to_owned(),
        _ if interval => mean.text(100.0, 1),
        _ => format!("{:.1}", 100.0 * mean.mean),
    }
}
