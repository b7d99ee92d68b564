//! The same days for every policy: arrivals that nobody trained on, a tenant that joins, and one that leaves.

use anyhow::Context;
use meanfield_agent::{
    fleet::{Fleet, Step},
    link::Link,
    policy::Policy,
    training::mix,
};
use meanfield_common::{identity::PoolName, reward::Shape};
use meanfield_simulator::scenario::{DAY_STEPS, Scenario, Start};

use crate::{progress::Bar, score::Scores};

/// The place of the tenant that leaves.
const LEAVER: usize = 1;

/// Seeds of held-out days: a stream of its own, which training never draws from.
const HELD_OUT: u64 = 1 << 40;

/// The days, and how they are judged.
pub struct Contest {
    scenario: Scenario,
    days: u64,
    seed: u64,
    shape: Shape,
}

impl Contest {
    pub fn new(tenants: usize, days: u64, seed: u64, shape: Shape) -> anyhow::Result<Self> {
        Ok(Self { scenario: Scenario::new(tenants, DAY_STEPS)?, days, seed, shape })
    }

    /// Rounds of all days together.
    pub fn rounds(&self) -> usize {
        usize::try_from(self.days).unwrap_or(usize::MAX).saturating_mul(DAY_STEPS)
    }

    pub fn days(&self) -> u64 {
        self.days
    }

    /// Runs a policy through all days. `live` agents reach the coordinator over a network, so all of them step at once,
    /// and a bar shows how they do; others call it directly, one after the other.
    pub async fn run<L: Link, P: Policy>(
        &self,
        name: &'static str,
        pool: &PoolName,
        live: Option<&Bar>,
        mut equip: impl FnMut(usize) -> anyhow::Result<(L, P)>,
    ) -> anyhow::Result<Scores> {
        let mut scores = Scores::new(name);
        for day in 0..self.days {
            let mut fleet = self.fleet(day, pool, &mut equip)?;
            for step in 0..DAY_STEPS {
                let event = self.change(day, step, &mut fleet, &mut equip).await?;
                let steps = if live.is_some() { fleet.round().await? } else { fleet.round_in_turn().await? };
                if let Some(bar) = live {
                    event.iter().for_each(|event| bar.say(event));
                    show(bar, &steps);
                }
                scores.add(day, &steps);
            }
            fleet.disband().await?;
        }
        Ok(scores)
    }

    fn fleet<L: Link, P: Policy>(
        &self,
        day: u64,
        pool: &PoolName,
        equip: &mut impl FnMut(usize) -> anyhow::Result<(L, P)>,
    ) -> anyhow::Result<Fleet<L, P>> {
        let tenants = self.scenario.tenants();
        let mut equipment = (0..tenants).map(equip).collect::<anyhow::Result<Vec<_>>>()?.into_iter();
        let first = day * DAY_STEPS as u64;
        let fleet = Fleet::new(&self.scenario, self.day_seed(day), Start::Sized, pool.clone(), self.shape, |_, _| {
            // One for each place, as made above.
            equipment
                .next()
                .ok_or_else(|| meanfield_common::invalid::Invalid::new("places", tenants, "equipped").into())
        });
        Ok(fleet.context("cannot build a day")?.from_round(first))
    }

    /// A third into the day a tenant joins; after two thirds another leaves. Says what happened.
    async fn change<L: Link, P: Policy>(
        &self,
        day: u64,
        step: usize,
        fleet: &mut Fleet<L, P>,
        equip: &mut impl FnMut(usize) -> anyhow::Result<(L, P)>,
    ) -> anyhow::Result<Option<String>> {
        let newcomer = self.scenario.tenants();
        if step == DAY_STEPS / 3 {
            let (link, policy) = equip(newcomer)?;
            let spec = self.scenario.tenant(newcomer, self.day_seed(day), Start::Sized)?;
            let name = fleet.join(newcomer, spec, link, policy)?;
            return Ok(Some(format!("day {}: {name} joins", day + 1)));
        }
        if step == 2 * DAY_STEPS / 3 {
            let name = fleet.leave(LEAVER).await?;
            return Ok(name.map(|name| format!("day {}: {name} leaves", day + 1)));
        }
        Ok(None)
    }

    fn day_seed(&self, day: u64) -> u64 {
        mix(self.seed, HELD_OUT + day)
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
