//! One player's day in one regime.

use futures_executor::block_on;
use meanfield_agent::{
    fleet::Fleet,
    policy::Policy,
    policy::planned::Planned,
    training::{mix, streams::REGIMES},
};
use meanfield_common::{identity::PoolName, reward::Shape};
use meanfield_coordinator::Coordinator;
use meanfield_simulator::{
    cluster::{Model, TenantSpec},
    scenario::{DAY_STEPS, Scenario, Start},
    workload::functions,
};

use super::{
    Job, central,
    link::{Coordination, Way},
    player::Player,
    regime::Regime,
};
use crate::{
    contest::HISTORY_STEPS,
    eval::cell::Result,
    in_process::{self, InProcess},
    score::{Scores, Tally},
};

/// The hour before a day for those that look back on minutes only.
const SHORT_HISTORY: usize = 240;

/// A coordinator with one pool for each cluster of a regime; the pools know their capacity where somebody asks.
pub fn coordinator(regime: Regime, pools: &[PoolName], coordination: Coordination) -> anyhow::Result<Coordinator> {
    let told = coordination != Coordination::None;
    in_process::coordinator(pools, if told { Some(regime.capacity()?) } else { None })
}

/// Who lies, if anybody does: the tenant that needs most, and so yields first.
pub fn liar() -> usize {
    let demand = |place: &usize| functions()[*place].demand;
    (0..functions().len()).max_by(|a, b| demand(a).total_cmp(&demand(b))).unwrap_or(0)
}

impl Job {
    /// The seed of its day.
    fn day(&self) -> u64 {
        mix(self.seed, REGIMES)
    }
}

/// Runs a policy that is not trained.
pub fn run(job: &Job) -> anyhow::Result<Result> {
    let (history, coordination) = match &job.player {
        Player::Rule { contestant, coordination } if contestant.kind.settings().is_some() => {
            (HISTORY_STEPS, *coordination)
        }
        Player::Rule { coordination, .. } | Player::Learner { coordination } => (SHORT_HISTORY, *coordination),
        Player::Central => (SHORT_HISTORY, Coordination::None),
    };
    let scenario = job.regime.scenario(history + DAY_STEPS)?;
    let plans = match &job.player {
        Player::Central => central::plans(&scenario, job.day(), &job.regime.all()?)?,
        _ => Vec::new(),
    };
    let cluster = scenario.cluster();
    let policy = |place: usize, tenant: &TenantSpec| -> std::result::Result<Box<dyn Policy>, meanfield_agent::Error> {
        Ok(match &job.player {
            Player::Rule { contestant, .. } => contestant.kind.policy(contestant.setting(place), tenant, &cluster)?,
            Player::Learner { .. } | Player::Central => {
                Box::new(Planned::new("central", plans.get(place).cloned().unwrap_or_default()))
            }
        })
    };
    play(job, coordination, &scenario, history, policy)
}

/// Runs any policy through a history that does not count and a day that does.
pub fn play<P: Policy>(
    job: &Job,
    coordination: Coordination,
    scenario: &Scenario,
    history: usize,
    mut policy: impl FnMut(usize, &TenantSpec) -> std::result::Result<P, meanfield_agent::Error>,
) -> anyhow::Result<Result> {
    let pool: PoolName = "eval".parse()?;
    let coordinator = coordinator(job.regime, std::slice::from_ref(&pool), coordination)?;
    let liar = liar();
    let mut fleet = Fleet::new(scenario, job.day(), Start::Sized, pool, Shape::BALANCED, |place, tenant| {
        let lie = job.twist.lie.filter(|_| place == liar);
        let way = Way::new(InProcess(coordinator.clone()), coordination, job.twist.stale, lie);
        Ok((way, policy(place, tenant)?))
    })?;
    let mut scores = Scores::new("regimes");
    block_on(async {
        // A round reports the step before it.
        for step in 0..=history + DAY_STEPS {
            if step == history && job.events {
                fleet.cluster().lock().switch(Model::Events)?;
            }
            let steps = fleet.round_in_turn().await?;
            if step > history {
                scores.add(0, &steps);
            }
        }
        anyhow::Ok(())
    })?;
    let functions = scores.functions.values().map(Tally::figures).collect();
    Ok(Result { total: scores.total(), functions })
}
