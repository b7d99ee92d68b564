//! The same days for every policy: arrivals that nobody trained on, a tenant that joins, and one that leaves.

use meanfield_agent::{
    fleet::{Fleet, Step},
    link::{Link, Nobody},
    policy::Policy,
    training::{
        mix,
        streams::{HELD_OUT_DAYS, HISTORY},
    },
};
use meanfield_common::{identity::PoolName, invalid::Invalid, reward::Shape};
use meanfield_simulator::{
    cluster::{Model, Spec, TenantSpec},
    scenario::{DAY_STEPS, Scenario, Start},
};

use crate::{progress::Bar, score::Scores};

/// Twelve hours: what looks back has something to look back on.
pub const HISTORY_STEPS: usize = 12 * 240;

/// The place of the tenant that leaves.
const LEAVER: usize = 1;

/// The days, and how they are judged. Every request of a day is run.
pub struct Contest {
    scenario: Scenario,
    /// Twelve hours of the same kind of load in the fluid model, for policies that look back.
    history: Scenario,
    days: u64,
    seed: u64,
    shape: Shape,
}

/// How a policy gets into a day.
pub enum Entrance<'a> {
    /// Over a network, all agents at once; the bar shows how they do.
    Live(&'a Bar),
    /// Without having seen anything.
    Fresh,
    /// After twelve hours of watching and acting on another cluster, which do not count.
    Seasoned,
}

impl Contest {
    pub fn new(tenants: usize, days: u64, seed: u64, shape: Shape) -> anyhow::Result<Self> {
        let scenario = Scenario::new(tenants, DAY_STEPS)?.with_model(Model::Events);
        Ok(Self { scenario, history: Scenario::new(tenants, HISTORY_STEPS)?, days, seed, shape })
    }

    /// Rounds of all days together.
    pub fn rounds(&self) -> usize {
        usize::try_from(self.days).unwrap_or(usize::MAX).saturating_mul(DAY_STEPS)
    }

    pub fn days(&self) -> u64 {
        self.days
    }

    /// The nodes and rules of a day.
    pub fn cluster(&self) -> Spec {
        self.scenario.cluster()
    }

    /// Runs a policy through all days.
    pub async fn run<L: Link, P: Policy>(
        &self,
        name: &'static str,
        pool: &PoolName,
        entrance: &Entrance<'_>,
        mut equip: impl FnMut(usize, &TenantSpec) -> anyhow::Result<(L, P)>,
    ) -> anyhow::Result<Scores> {
        let mut scores = Scores::new(name);
        for day in 0..self.days {
            let mut fleet = self.fleet(day, pool, entrance, &mut equip).await?;
            for step in 0..DAY_STEPS {
                let event = self.change(day, step, &mut fleet, &mut equip).await?;
                let steps = if let Entrance::Live(bar) = entrance {
                    let steps = fleet.round().await?;
                    event.iter().for_each(|event| bar.say(event));
                    show(bar, &steps);
                    steps
                } else {
                    fleet.round_in_turn().await?
                };
                scores.add(day, &steps);
            }
            fleet.disband().await?;
        }
        Ok(scores)
    }

    /// Policies that have seen twelve hours of such load, one a place. They can go into any day, as often as one likes.
    pub fn seasoned<P: Policy + Clone>(&self, fresh: impl Fn() -> anyhow::Result<P>) -> anyhow::Result<Vec<P>> {
        let mut policies =
            (0..self.history.tenants()).map(|_| fresh()).collect::<anyhow::Result<Vec<_>>>()?.into_iter();
        let missing = || Invalid::new("places", self.history.tenants(), "equipped");
        let equip = |_: usize, _: &TenantSpec| Ok((Nobody, policies.next().ok_or_else(missing)?));
        let seed = mix(self.seed, HISTORY);
        let mut fleet = Fleet::new(&self.history, seed, Start::Sized, "history".parse()?, self.shape, equip)?;
        for _ in 0..HISTORY_STEPS {
            futures_executor::block_on(fleet.round_in_turn())?;
        }
        Ok(fleet.agents_mut().map(|(_, agent)| agent.policy_mut().clone()).collect())
    }

    async fn fleet<L: Link, P: Policy>(
        &self,
        day: u64,
        pool: &PoolName,
        entrance: &Entrance<'_>,
        equip: &mut impl FnMut(usize, &TenantSpec) -> anyhow::Result<(L, P)>,
    ) -> anyhow::Result<Fleet<L, P>> {
        let (tenants, seed) = (self.scenario.tenants(), self.day_seed(day));
        let mut equipment = Vec::with_capacity(tenants);
        for place in 0..tenants {
            equipment.push(equip(place, &self.scenario.tenant(place, seed, Start::Sized)?)?);
        }
        let mut equipment = equipment.into_iter();
        let next = |_: usize, _: &TenantSpec| {
            // One for each place, as made above.
            equipment.next().ok_or_else(|| Invalid::new("places", tenants, "equipped").into())
        };
        let first = day * DAY_STEPS as u64;
        let fleet = if matches!(entrance, Entrance::Seasoned) {
            let before = mix(self.seed, HISTORY + day);
            let mut fleet = Fleet::new(&self.history, before, Start::Sized, pool.clone(), self.shape, next)?;
            for _ in 0..HISTORY_STEPS {
                fleet.round_in_turn().await?;
            }
            fleet.move_to(&self.scenario, seed, Start::Sized)?;
            fleet
        } else {
            Fleet::new(&self.scenario, seed, Start::Sized, pool.clone(), self.shape, next)?
        };
        Ok(fleet.from_round(first))
    }

    /// A third into the day a tenant joins; after two thirds another leaves. Says what happened.
    async fn change<L: Link, P: Policy>(
        &self,
        day: u64,
        step: usize,
        fleet: &mut Fleet<L, P>,
        equip: &mut impl FnMut(usize, &TenantSpec) -> anyhow::Result<(L, P)>,
    ) -> anyhow::Result<Option<String>> {
        let newcomer = self.scenario.tenants();
        if step == DAY_STEPS / 3 {
            let spec = self.scenario.tenant(newcomer, self.day_seed(day), Start::Sized)?;
            // Its first step is this one: whoever plans ahead must begin here.
            let mut arrivals = spec.arrivals.to_vec();
            arrivals.rotate_left(step);
            let (link, policy) = equip(newcomer, &TenantSpec { arrivals: arrivals.into(), ..spec.clone() })?;
            let name = fleet.join(newcomer, spec, self.scenario.weight(newcomer), link, policy)?;
            return Ok(Some(format!("day {}: {name} joins", day + 1)));
        }
        if step == 2 * DAY_STEPS / 3 {
            let name = fleet.leave(LEAVER).await?;
            return Ok(name.map(|name| format!("day {}: {name} leaves", day + 1)));
        }
        Ok(None)
    }

    fn day_seed(&self, day: u64) -> u64 {
        mix(self.seed, HELD_OUT_DAYS + day)
    }
}

fn show(bar: &Bar, steps: &[Step]) {
    let count = steps.len().max(1) as f64;
    let sum = |value: fn(&Step) -> f64| steps.iter().map(value).sum::<f64>();
    bar.step(
        sum(|step| step.report.reward) / count,
        sum(|step| f64::from(u8::from(step.outcome.violated))) / count,
        sum(|step| step.outcome.cores),
    );
}
