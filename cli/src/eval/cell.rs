//! One cell of an experiment: one policy on one trace with one seed, for all functions at once.

use futures_executor::block_on;
use meanfield_agent::{
    fleet::Fleet,
    link::Nobody,
    policy::Policy,
    training::{mix, streams::EXPERIMENT},
};
use meanfield_common::{identity::PoolName, reward::Shape};
use meanfield_simulator::{
    cluster::Model,
    scenario::{DAY_STEPS, OVERCOMMIT, Scenario, Start},
};
use meanfield_traces::synth::Preset;
use serde::{Deserialize, Serialize};

use super::{contestant::Contestant, load::Load};
use crate::{
    contest::HISTORY_STEPS,
    score::{Figures, Scores},
};

/// Where and when.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Setting {
    pub load: Load,
    pub seed: u64,
    /// Whether the counted day runs request by request.
    pub events: bool,
    pub tenants: usize,
    /// CPU limits over CPU requests.
    pub limits: f64,
}

impl Setting {
    /// So many tenants under the usual load, in closed form.
    pub fn usual(tenants: usize) -> Self {
        Self { load: Load::Made(Preset::Diurnal), seed: 1, events: false, tenants, limits: OVERCOMMIT }
    }
}

/// What came of it.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct Result {
    pub total: Figures,
    pub functions: Vec<Figures>,
}

/// Runs a policy through twelve hours of the fluid model that do not count, and then through a day that does.
pub fn run(setting: &Setting, contestant: &Contestant) -> anyhow::Result<Result> {
    let seed = mix(setting.seed, EXPERIMENT);
    let scenario = Scenario::new(setting.tenants, HISTORY_STEPS + DAY_STEPS)?.with_overcommit(setting.limits)?;
    let scenario = setting.load.onto(scenario, setting.seed, seed)?;
    let cluster = scenario.cluster();
    let pool: PoolName = "eval".parse()?;
    let mut fleet = Fleet::new(&scenario, seed, Start::Sized, pool, Shape::BALANCED, |place, tenant| {
        let policy = contestant.kind.policy_on(setting.seed, contestant.setting(place), tenant, &cluster)?;
        Ok((Nobody, policy))
    })?;
    let mut scores = Scores::new(contestant.kind.label());
    // A round reports the step before it.
    for step in 0..=HISTORY_STEPS + DAY_STEPS {
        if step == HISTORY_STEPS && setting.events {
            fleet.cluster().lock().switch(Model::Events)?;
        }
        let steps = block_on(round(&mut fleet))?;
        if step > HISTORY_STEPS {
            scores.add(0, &steps);
        }
    }
    let functions = scores.functions.values().map(crate::score::Tally::figures).collect();
    Ok(Result { total: scores.total(), functions })
}

async fn round(fleet: &mut Fleet<Nobody, Box<dyn Policy>>) -> anyhow::Result<Vec<meanfield_agent::fleet::Step>> {
    Ok(fleet.round_in_turn().await?)
}
