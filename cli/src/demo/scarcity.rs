//! One minute of scarcity: a third of the tenants is worth ten times the others, and together they want more than there
//! is. The same day is run twice, alone and under the coordinator's grants, and the minute in which most must yield is
//! shown: who does, and why.

use futures_executor::block_on;
use meanfield_agent::{
    fleet::{Fleet, tenant_name},
    policy::{
        Policy,
        forecast::{Care, Forecast, shipped},
        plan::{Options, Plan},
    },
    training::{mix, streams::SCARCE_DAYS},
};
use meanfield_common::{
    identity::PoolName,
    reward::Shape,
    scarcity::allocation::{BARE, BARE_FLOOR},
};
use meanfield_simulator::scenario::{DAY_STEPS, Start};
use serde::Serialize;

use crate::{
    eval::regimes::{
        day,
        link::{Coordination, Way},
        regime::Regime,
    },
    in_process::InProcess,
    table::table,
};

/// An hour to settle in.
const BEFORE: usize = 240;
/// Steps of 15 s.
const MINUTE: usize = 4;

/// One tenant in one step.
#[derive(Debug, Clone, Copy, Default)]
struct Moment {
    excess: f64,
    missed: bool,
    cores: f64,
    offered: f64,
    wanted: f64,
    cap: Option<f64>,
}

/// One tenant in the minute.
#[derive(Debug, Clone, Serialize)]
pub struct Row {
    pub name: String,
    pub weight: f64,
    /// Cores that its requests keep busy, that it wants, and that it may have, if that is less.
    pub offered: f64,
    pub wanted: f64,
    pub granted: Option<f64>,
    /// p99 over SLO at its worst, alone and under grants.
    pub alone: f64,
    pub coordinated: f64,
}

/// Whether a cap leaves less than the bare need of so much work, of somebody who wants so much.
fn yields(cap: Option<f64>, offered: f64, wanted: f64) -> bool {
    cap.is_some_and(|cap| cap < (BARE * offered + BARE_FLOOR).min(wanted))
}

impl Row {
    fn yields(&self) -> bool {
        yields(self.granted, self.offered, self.wanted)
    }
}

/// The minute, and the whole day.
#[derive(Debug, Clone, Serialize)]
pub struct Minute {
    pub capacity: f64,
    pub rows: Vec<Row>,
    /// Misses of the day by weight, alone and under grants, and cores.
    pub day_alone: f64,
    pub day_coordinated: f64,
    pub cores_alone: f64,
    pub cores_coordinated: f64,
}

/// Runs both days in the fluid model.
pub fn run(seed: u64) -> anyhow::Result<Minute> {
    let alone = play(seed, Coordination::None)?;
    let granted = play(seed, Coordination::Grants)?;
    let scenario = Regime::Priorities.scenario(1)?;
    let weights: Vec<f64> = (0..scenario.tenants()).map(|place| scenario.weight(place).get()).collect();
    let yielding = |steps: &[Vec<Moment>]| {
        steps.iter().flatten().filter(|moment| yields(moment.cap, moment.offered, moment.wanted)).count()
    };
    let starts = 0..=granted.len().saturating_sub(MINUTE);
    let start = starts.max_by_key(|start| yielding(&granted[*start..*start + MINUTE])).unwrap_or(0);
    let rows = weights.iter().enumerate().map(|(place, weight)| {
        let of = |day: &[Vec<Moment>]| day[start..start + MINUTE].iter().map(|step| step[place]).collect::<Vec<_>>();
        let (without, with) = (of(&alone), of(&granted));
        let mean = |value: fn(&Moment) -> f64| with.iter().map(value).sum::<f64>() / with.len() as f64;
        let worst = |moments: &[Moment]| moments.iter().map(|moment| moment.excess).fold(0.0, f64::max);
        Row {
            name: tenant_name(place),
            weight: *weight,
            offered: mean(|moment| moment.offered),
            wanted: mean(|moment| moment.wanted),
            granted: with.iter().filter_map(|moment| moment.cap).reduce(f64::min),
            alone: worst(&without),
            coordinated: worst(&with),
        }
    });
    let rows = rows.collect();
    let total: f64 = weights.iter().sum();
    let missed = |day: &[Vec<Moment>]| {
        let step = |step: &Vec<Moment>| -> f64 {
            step.iter().zip(&weights).filter(|(moment, _)| moment.missed).map(|(_, weight)| weight / total).sum()
        };
        day.iter().map(step).sum::<f64>() / day.len() as f64
    };
    let cores = |day: &[Vec<Moment>]| day.iter().flatten().map(|moment| moment.cores).sum::<f64>() / day.len() as f64;
    Ok(Minute {
        capacity: Regime::Priorities.capacity()?.cores.get(),
        rows,
        day_alone: missed(&alone),
        day_coordinated: missed(&granted),
        cores_alone: cores(&alone),
        cores_coordinated: cores(&granted),
    })
}

/// Every step of a day, tenant by tenant.
fn play(seed: u64, coordination: Coordination) -> anyhow::Result<Vec<Vec<Moment>>> {
    let pool: PoolName = "scarce".parse()?;
    let coordinator = day::coordinator(Regime::Priorities, std::slice::from_ref(&pool), coordination)?;
    let scenario = Regime::Priorities.scenario(BEFORE + DAY_STEPS)?;
    let network = shipped()?;
    let mut fleet = Fleet::new(&scenario, mix(seed, SCARCE_DAYS), Start::Sized, pool, Shape::BALANCED, |_, _| {
        let policy: Box<dyn Policy> =
            Box::new(Plan::new(Options::default(), Forecast::new(network.clone(), Care::default()))?);
        Ok((Way::new(InProcess(coordinator.clone()), coordination, 0, None), policy))
    })?;
    let mut day = Vec::with_capacity(DAY_STEPS);
    for step in 0..=BEFORE + DAY_STEPS {
        let steps = block_on(fleet.round_in_turn())?;
        if step <= BEFORE {
            continue;
        }
        let members = coordinator.agents();
        let moment = |step: &meanfield_agent::fleet::Step| {
            let name = tenant_name(step.place);
            let member = members.iter().find(|member| member.name.as_str() == name);
            let claim = member.and_then(|member| member.claim);
            let grant = member.filter(|_| coordination == Coordination::Grants).and_then(|member| member.grant);
            Moment {
                excess: step.report.excess.unwrap_or(0.0),
                missed: step.outcome.violated,
                cores: step.outcome.cores,
                offered: claim.map_or(0.0, |claim| claim.offered.get()),
                wanted: claim.map_or(0.0, |claim| claim.wanted.cores.get()),
                cap: grant.and_then(|grant| grant.cores).map(|cores| cores.get()),
            }
        };
        day.push(steps.iter().map(moment).collect());
    }
    Ok(day)
}

impl Minute {
    fn header() -> Vec<String> {
        ["function", "weight", "work", "wants", "may have", "p99/SLO alone", "with grants", ""]
            .map(str::to_owned)
            .to_vec()
    }

    /// Those who yield last, the most valuable first.
    pub fn cells(&self) -> (Vec<String>, Vec<Vec<String>>) {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let value = |row: &Row| row.weight / row.wanted.max(row.offered).max(1e-3);
        rows.sort_by(|a, b| a.yields().cmp(&b.yields()).then(value(b).total_cmp(&value(a))));
        let cells = rows.iter().map(|row| {
            vec![
                row.name.clone(),
                format!("{:.0}", row.weight),
                format!("{:.1}", row.offered),
                format!("{:.1}", row.wanted),
                row.granted.map_or("all".to_owned(), |cores| format!("{cores:.1}")),
                format!("{:.1}", row.alone),
                format!("{:.1}", row.coordinated),
                if row.yields() { "yields".to_owned() } else { String::new() },
            ]
        });
        (Self::header(), cells.collect())
    }

    /// What it comes to, in words.
    pub fn words(&self) -> String {
        format!(
            "Together they want {:.0} cores by requests, and there are {:.0}. The least weight for each core yields; {} of the {} others keep their objective. Over the day, misses by weight: {:.1} % alone at {:.1} cores, {:.1} % with grants at {:.1}.",
            self.rows.iter().map(|row| row.wanted).sum::<f64>(),
            self.capacity,
            self.rows.iter().filter(|row| !row.yields() && row.coordinated <= 1.0).count(),
            self.rows.iter().filter(|row| !row.yields()).count(),
            100.0 * self.day_alone,
            self.cores_alone,
            100.0 * self.day_coordinated,
            self.cores_coordinated
        )
    }

    pub fn terminal(&self) -> String {
        let (header, rows) = self.cells();
        format!(
            "One minute of scarcity (simulated, fluid model; cores by requests, worst p99 of the minute):\n{}\n{}",
            table(header, rows),
            self.words()
        )
    }
}
