//! `simppo-joint`: twelve agents on one cluster, every variant in both families.

use meanfield_agent::fleet::tenant_name;
use meanfield_learner::{Config, Family, Variant};
use meanfield_simulator::{scenario::Scenario, workload::functions};
use serde::{Deserialize, Serialize};

use super::{
    Scope,
    convergence::{level, mean, median, settled},
    isolated,
    page::{Figure, Page, Table, cell, episodes},
    run::{Served, Session, preset, serve},
};
use crate::eval::{
    contestant::Kind,
    workers::{Store, compute},
};

#[derive(Serialize)]
struct Job {
    preset: String,
    episodes: usize,
    seed: u64,
}

#[derive(Clone, Serialize, Deserialize)]
struct Cell {
    curve: Vec<f64>,
    served: Served,
    /// p99 of each function's network when it is served alone.
    alone: Vec<f64>,
    seconds: f64,
}

fn run_job(job: &Job) -> anyhow::Result<Cell> {
    let config = Config::preset(&job.preset)?;
    let scenario = Scenario::new(functions().len(), 1)?;
    let mut session = Session::new(&config, &scenario, job.seed, 1)?;
    session.train(job.episodes, 0.0, 1.0)?;
    let networks = session.networks(functions().len());
    let served = serve(&config, &networks, &scenario, job.seed)?;
    let mut alone = Vec::new();
    for (place, network) in networks.iter().enumerate() {
        let day = serve(&config, std::slice::from_ref(network), &isolated::alone(place)?, job.seed)?;
        alone.push(day.functions[0].p99_ms);
    }
    Ok(Cell { curve: session.curve, served, alone, seconds: session.seconds })
}

/// A row before it is written: who, its days, its curves and the seconds of its training.
struct Row<'a> {
    label: String,
    paper: &'static str,
    days: Vec<&'a Served>,
    /// p99 of the same networks alone, one list a day.
    alone: Vec<Vec<f64>>,
    curves: Vec<&'a [f64]>,
    seconds: Vec<f64>,
}

fn published(variant: Variant) -> &'static str {
    match variant {
        Variant::Single => "reward −55.9 %, no convergence",
        Variant::Independent => "reward −38.2 %, no convergence",
        Variant::Queue => "p99 +21.8 to +67.7 %, converges",
        Variant::Simppo => "p99 +1.5 to +9.2 %, about 500 episodes",
        Variant::SimppoAll => "degradation 2.6 to 9.7 times SIMPPO's",
        Variant::SimppoUnshared => "(only under churn)",
    }
}

pub fn run(scope: &Scope<'_>) -> anyhow::Result<()> {
    let store = Store::new(&scope.args.report)?;
    let alone = isolated::cells(scope, &store)?;
    let ensure = isolated::rules(scope, &store, Kind::Ensure)?;
    let mut keys = Vec::new();
    for (family, seed) in scope.each() {
        keys.extend(scope.variants().iter().map(|variant| (family, *variant, seed)));
    }
    // The shipped settings too: they are the default family's, with everybody's own reward.
    let jobs: Vec<Job> = (keys.iter())
        .map(|(family, variant, seed)| {
            let preset = preset(*variant, *family);
            Job { episodes: scope.joint_episodes(*family), preset, seed: *seed }
        })
        .chain((1..=scope.seeds).map(|seed| Job {
            preset: "default".to_owned(),
            episodes: scope.joint_episodes(Family::Default),
            seed,
        }))
        .collect();
    let cells = compute("joint", scope.args.threads, &store, &jobs, run_job)?;

    let (mut tables, mut figures, mut curves) = (Vec::new(), Vec::new(), Vec::new());
    for family in Family::ALL {
        let own: Vec<_> = alone.iter().filter(|(one, ..)| *one == family).collect();
        let p99 = |place: usize| {
            mean(&own.iter().map(|(_, _, cell)| cell.alone[place].functions[0].p99_ms).collect::<Vec<_>>())
        };
        let isolated: Vec<f64> = (0..functions().len()).map(p99).collect();
        let earned = |day: &Served| day.reward;
        let alone_reward = mean(&own.iter().flat_map(|(_, _, cell)| cell.alone.iter().map(earned)).collect::<Vec<_>>());
        let rules: Vec<_> = ensure.iter().filter(|(one, ..)| *one == family).map(|(_, _, cell)| cell).collect();

        let mut rows = vec![Row {
            label: "S-RL, trained alone".to_owned(),
            paper: "p99 2.2 to 4.8 times",
            days: own.iter().map(|(_, _, cell)| &cell.together).collect(),
            alone: (own.iter())
                .map(|(_, _, cell)| cell.alone.iter().map(|day| day.functions[0].p99_ms).collect())
                .collect(),
            curves: Vec::new(),
            seconds: Vec::new(),
        }];
        let mut trained: Vec<(String, &'static str)> =
            scope.variants().iter().map(|variant| (preset(*variant, family), published(*variant))).collect();
        if family == Family::Default {
            trained.push(("default".to_owned(), "–"));
        }
        for (name, paper) in trained {
            let mine: Vec<&Cell> =
                jobs.iter().zip(&cells).filter(|(job, _)| job.preset == name).map(|(_, cell)| cell).collect();
            curves.extend(mine.first().map(|cell| (name.clone(), cell.curve.clone())));
            rows.push(Row {
                label: if name == "default" { "as shipped (`default`)".to_owned() } else { name },
                paper,
                days: mine.iter().map(|cell| &cell.served).collect(),
                alone: mine.iter().map(|cell| cell.alone.clone()).collect(),
                curves: mine.iter().map(|cell| cell.curve.as_slice()).collect(),
                seconds: mine.iter().map(|cell| cell.seconds).collect(),
            });
        }
        let text = rows.iter().map(|row| {
            let worse = |day: &&Served| median(&degradation(day, &isolated));
            let by_function: Vec<f64> = (0..functions().len())
                .map(|place| mean(&row.days.iter().map(|day| degradation(day, &isolated)[place]).collect::<Vec<_>>()))
                .collect();
            let ends = (
                by_function.iter().copied().fold(f64::INFINITY, f64::min),
                by_function.iter().copied().fold(f64::NEG_INFINITY, f64::max),
            );
            let figures = |value: fn(&Served) -> f64| row.days.iter().map(|day| value(day)).collect::<Vec<_>>();
            let reward = figures(|day| day.reward);
            vec![
                row.label.clone(),
                row.paper.to_owned(),
                cell(&reward, 1.0, 3),
                format!("{:+.3}", mean(&reward) - alone_reward),
                cell(&row.days.iter().map(worse).collect::<Vec<_>>(), 100.0, 1),
                cell(
                    &row.days
                        .iter()
                        .zip(&row.alone)
                        .map(|(day, alone)| median(&degradation(day, alone)))
                        .collect::<Vec<_>>(),
                    100.0,
                    1,
                ),
                format!("{:+.1} to {:+.1}", 100.0 * ends.0, 100.0 * ends.1),
                cell(&figures(|day| day.violations), 100.0, 2),
                cell(&figures(|day| day.cores), 1.0, 1),
                if row.curves.is_empty() {
                    "–".to_owned()
                } else {
                    episodes(&row.curves.iter().map(|curve| settled(curve, 0.03)).collect::<Vec<_>>())
                },
                cell(&row.seconds, 1.0, 1),
            ]
        });
        let mut text: Vec<_> = text.collect();
        let by_rules: Vec<f64> = rules
            .iter()
            .map(|cell| {
                let each = cell
                    .together
                    .functions
                    .iter()
                    .zip(&cell.alone)
                    .map(|(now, alone)| now.p99_ms / alone.functions[0].p99_ms - 1.0);
                median(&each.collect::<Vec<_>>())
            })
            .collect();
        let days = |value: fn(&Served) -> f64| rules.iter().map(|cell| value(&cell.together)).collect::<Vec<_>>();
        text.push(vec![
            "ENSURE".to_owned(),
            "p99 +26.9 to +32.5 %".to_owned(),
            cell(&days(|day| day.reward), 1.0, 3),
            "–".to_owned(),
            "–".to_owned(),
            cell(&by_rules, 100.0, 1),
            "–".to_owned(),
            cell(&days(|day| day.violations), 100.0, 2),
            cell(&days(|day| day.cores), 1.0, 1),
            "–".to_owned(),
            "–".to_owned(),
        ]);
        for row in &rows {
            for (seed, day) in (1..).zip(&row.days) {
                for (place, one) in day.functions.iter().enumerate() {
                    let (what, of) = (format!("{} {}", family.name(), row.label.replace(',', "")), tenant_name(place));
                    for (name, value) in
                        [("p99_ms", one.p99_ms), ("violations", one.violations), ("reward", one.reward)]
                    {
                        figures.push(Figure { what: what.clone(), seed, of: of.clone(), name, value });
                    }
                }
            }
            for (seed, curve) in (1..).zip(&row.curves) {
                let what = format!("{} {}", family.name(), row.label);
                figures.push(Figure {
                    what,
                    seed,
                    of: "training".to_owned(),
                    name: "final_reward",
                    value: level(curve),
                });
            }
        }
        tables.push(Table {
            title: format!("Twelve agents at once, {} settings (alone: reward {alone_reward:.3})", family.name()),
            header: vec![
                "variant",
                "paper",
                "reward",
                "reward against alone",
                "p99 against S-RL alone %",
                "p99 against itself alone %",
                "by function, against S-RL",
                "windows missed %",
                "cores",
                "episodes to convergence",
                "seconds of training",
            ],
            rows: text,
        });
    }
    let setup = format!(
        "Simulated, fluid model. Twelve functions share five nodes of 8 cores and 32 GiB; {} episodes with the published settings, {} \
         with ours (those of cpq-rl four times as long); then a day of 480 steps that nobody trained on; {} seed(s); p99 of \
         the median window, of the median function, against S-RL alone with the same settings and against the same networks alone.",
        scope.joint_episodes(Family::Paper),
        scope.joint_episodes(Family::Default),
        scope.seeds
    );
    Page { name: "simppo-joint", setup, tables, figures, curves }.publish(&scope.args.report)
}

/// How much slower each function is than alone.
fn degradation(day: &Served, isolated: &[f64]) -> Vec<f64> {
    day.functions.iter().zip(isolated).map(|(one, alone)| one.p99_ms / alone - 1.0).collect()
}
