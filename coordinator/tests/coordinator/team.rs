//! The team reward, plain and weighted, to the bit; what one agent can do to the others' g; what is agreed on at
//! registration.

use std::collections::BTreeMap;

use meanfield_common::{
    action::{Action, Step},
    mean_field::{Aspects, AuxiliaryState, Contribution, Details, Moments, Sums},
    reward::Reward,
    scarcity::{Amount, Claim, Cores, Entitlement, Gibibytes, Pods, Share, Weight},
    state::{LocalState, Unit},
    wire::{Heartbeat, Register, Registered},
};
use meanfield_coordinator::{
    Coordinator,
    orders::{Order, Terms},
    settings::{Settings, TeamReward},
};
use proptest::prelude::*;
use reqwest::Method;
use serde_json::{Value, json};

use crate::support::*;

fn claiming(weight: f64) -> Claim {
    let amount = Amount { cores: Cores::clamped(1.0), memory_gib: Gibibytes::clamped(1.0) };
    Claim {
        wanted: amount,
        held: amount,
        offered: amount.cores,
        weight: Weight::clamped(weight),
        pending: Pods::default(),
        node_utilisation: Share::clamped(0.5),
        node: None,
    }
}

async fn give(coordinator: &Coordinator, agent: &Registered, weight: Option<Weight>) {
    let given = weight.map(|weight| Entitlement { weight: Some(weight), minimum: None });
    coordinator.order(Order::Entitlement(agent.agent, given), Terms::default()).await.unwrap();
}

fn settings(team_reward: TeamReward) -> Option<Settings> {
    Some(Settings { team_reward, ..Settings::default() })
}

#[derive(Debug, Clone)]
enum Doing {
    Report {
        agent: u8,
        level: u8,
        weight: Option<f64>,
    },
    Join(u8),
    Leave(u8),
    Set(bool),
    /// What an operator gives to an agent.
    Give(u8, Option<f64>),
}

fn doing() -> impl Strategy<Value = Doing> {
    let weight = || prop::option::of(0.001..1000.0_f64);
    prop_oneof![
        6 => (0..8_u8, 0..100_u8, weight()).prop_map(|(agent, level, weight)| Doing::Report { agent, level, weight }),
        1 => (0..8_u8).prop_map(Doing::Join),
        1 => (0..8_u8).prop_map(Doing::Leave),
        1 => any::<bool>().prop_map(Doing::Set),
        2 => (0..8_u8, weight()).prop_map(|(agent, weight)| Doing::Give(agent, weight)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// In any order of joins, reports and leaves, of weights that operators give and take back, and of turning the weights on
    /// and off, an agent is told to the bit what a recomputation from everybody's last report gives, and about what floating
    /// point gives.
    #[test]
    fn the_team_reward_is_a_recomputation_s(doings in prop::collection::vec(doing(), 1..80)) {
        block_on(async {
            let coordinator = in_memory();
            // With what each reported last, and the weight that it had then.
            let mut members: BTreeMap<u8, (Registered, Option<(Heartbeat, Weight)>)> = BTreeMap::new();
            let mut given: BTreeMap<u8, Weight> = BTreeMap::new();
            let (mut how, mut sequence) = (TeamReward::Mean, 0);
            for doing in doings {
                match doing {
                    Doing::Join(agent) => {
                        let registered = member(&coordinator, &format!("a{agent}")).await;
                        members.insert(agent, (registered, None));
                    }
                    Doing::Leave(agent) => {
                        if let Some((registered, _)) = members.remove(&agent) {
                            coordinator.remove(registered.agent).await.unwrap();
                            given.remove(&agent);
                        }
                    }
                    Doing::Give(agent, weight) => {
                        let Some((registered, _)) = members.get(&agent) else { continue };
                        let weight = weight.map(Weight::clamped);
                        give(&coordinator, registered, weight).await;
                        given.remove(&agent);
                        given.extend(weight.map(|weight| (agent, weight)));
                    }
                    Doing::Set(weighted) => {
                        how = if weighted { TeamReward::Weighted } else { TeamReward::Mean };
                        coordinator.set_pool(&pool("default"), settings(how)).await.unwrap();
                    }
                    Doing::Report { agent, level, weight } => {
                        let Some((registered, last)) = members.get_mut(&agent) else { continue };
                        sequence += 1;
                        let claim = weight.map(claiming);
                        let message = Heartbeat { claim, ..beat(registered.epoch, sequence, level) };
                        let claimed = claim.map(|claim| claim.weight).unwrap_or_default();
                        *last = Some((message, given.get(&agent).copied().unwrap_or(claimed)));
                        let answer = coordinator.heartbeat(registered.agent, &message).unwrap();
                        let reports: Vec<_> = members.values().filter_map(|(_, last)| *last).collect();
                        let mut sums = Sums::default();
                        for (one, weight) in reports.iter().rev() {
                            sums.add(&contribution(one).weighing(*weight));
                        }
                        let exact = if how == TeamReward::Weighted { sums.weighted_reward() } else { sums.mean_reward() };
                        assert_eq!(answer.team_reward.map(f64::to_bits), exact.map(f64::to_bits));
                        let weigh = |weight: &Weight| if how == TeamReward::Weighted { weight.get() } else { 1.0 };
                        let total: f64 = reports.iter().map(|(_, weight)| weigh(weight)).sum();
                        let weighed = reports.iter().map(|(one, weight)| weigh(weight) * one.reward.get());
                        let mean = weighed.sum::<f64>() / total;
                        // A weight is kept to 2^-22, which is 1/4000 of the smallest one.
                        assert!((answer.team_reward.unwrap() - mean).abs() < 0.05, "{answer:?} {mean}");
                        assert_eq!(coordinator.pool(&pool("default")).unwrap().team_reward, answer.team_reward);
                    }
                }
                assert!(coordinator.audit());
            }
        });
    }
}

#[test]
fn weights_count_by_hand_and_equal_ones_change_nothing() {
    block_on(async {
        let coordinator = in_memory();
        coordinator.set_pool(&pool("default"), settings(TeamReward::Weighted)).await.unwrap();
        let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
        let report = |of: Registered, sequence, level, weight: Option<f64>| {
            let message = Heartbeat { claim: weight.map(claiming), ..beat(of.epoch, sequence, level) };
            coordinator.heartbeat(of.agent, &message).unwrap().team_reward.unwrap()
        };
        // Rewards are the level minus 30: 10 with weight 3 and -20 with weight 1.
        report(a, 1, 40, Some(3.0));
        assert_eq!(report(b, 1, 10, None), (3.0 * 10.0 - 20.0) / 4.0);
        assert_eq!(report(a, 2, 40, None), -5.0, "without a claim it counts as one");
        assert_eq!(coordinator.pool(&pool("default")).unwrap().mean_reward, Some(-5.0));
        // What an operator gives counts more than what is claimed, from the next report on.
        give(&coordinator, &b, Some(Weight::clamped(4.0))).await;
        assert_eq!(report(a, 3, 40, Some(1.0)), -5.0);
        assert!(coordinator.audit());
        assert_eq!(report(b, 2, 10, Some(1000.0)), (10.0 - 4.0 * 20.0) / 5.0);
        give(&coordinator, &b, None).await;
        assert!(coordinator.audit());
        assert_eq!(report(b, 3, 10, Some(1.0)), -5.0);
        assert!(coordinator.audit());
    });
}

#[test]
fn a_round_is_answered_alike_also_when_the_setting_changes_within_it() {
    block_on(async {
        let coordinator = in_memory();
        let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
        let report = |of: Registered, round: u64, level, weight| {
            let message = Heartbeat { claim: Some(claiming(weight)), ..beat(of.epoch, round, level) };
            coordinator.heartbeat(of.agent, &in_round(round, message)).unwrap().team_reward
        };
        for (agent, level, weight) in [(a, 40, 3.0), (b, 10, 1.0)] {
            report(agent, 1, level, weight);
        }
        assert_eq!(report(a, 2, 40, 3.0), Some(-5.0));
        coordinator.set_pool(&pool("default"), settings(TeamReward::Weighted)).await.unwrap();
        assert_eq!(report(b, 2, 10, 1.0), Some(-5.0), "as everybody in this round");
        assert_eq!([report(b, 3, 10, 1.0), report(a, 3, 40, 3.0)], [Some(2.5); 2]);
    });
}

/// The fields of g with the length of their ranges.
fn fields(g: &AuxiliaryState) -> [(Moments, f64); 6] {
    [
        (g.cpu_limit, 2.0),
        (g.memory_limit, 2.0),
        (g.vertical, 4.0),
        (g.horizontal, 2.0),
        (g.slo_preservation, 2.0),
        (g.utilisation, 2.0),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    /// One agent that reports extreme but valid values instead of any others moves what another one is told of `n` others,
    /// where R is the length of a field's range, by no more than
    ///
    /// - R of a sum, R / n of a mean and R sqrt(n - 1) / n of a standard deviation (x -> std(x) is the length of a
    ///   projection divided by sqrt(n), and one coordinate's part of that projection is sqrt(1 - 1/n));
    /// - one place among the n sorted values of a percentile;
    /// - w / W of the range of rewards, 2 10^6, of the team reward, with its weight w among all weights W.
    #[test]
    fn a_poisoned_agent_moves_g_by_no_more_than_its_share(
        levels in prop::collection::vec(0..100_u8, 2..30),
        (honest, weight, low) in (0..100_u8, 0.01..1000.0_f64, any::<bool>()),
    ) {
        block_on(async {
            let coordinator = in_memory();
            coordinator.set_pool(&pool("default"), settings(TeamReward::Weighted)).await.unwrap();
            let observer = member(&coordinator, "observer").await;
            let poisoned = member(&coordinator, "poisoned").await;
            for (agent, level) in levels.iter().enumerate() {
                let registered = member(&coordinator, &format!("a{agent}")).await;
                coordinator.heartbeat(registered.agent, &beat(registered.epoch, 1, *level)).unwrap();
            }
            let n = levels.len() as f64 + 1.0;
            let tell = |sequence: u64, poison: &Heartbeat| {
                coordinator.heartbeat(poisoned.agent, poison).unwrap();
                let asking = Heartbeat { detail: true, ..beat(observer.epoch, sequence, 50) };
                coordinator.heartbeat(observer.agent, &asking).unwrap()
            };
            let claim = Some(claiming(weight));
            let before = tell(1, &Heartbeat { claim, ..beat(poisoned.epoch, 1, honest) });
            let unit = Unit::clamped(if low { -1.0 } else { 1.0 });
            let step = if low { Step::Down } else { Step::Up };
            let extreme = Heartbeat {
                state: LocalState {
                    slo_preservation: unit,
                    cpu_utilisation: unit,
                    memory_utilisation: unit,
                    arrival_change: unit,
                    cpu_limit: unit,
                    memory_limit: unit,
                    replicas: unit,
                },
                action: Action { cpu: step, memory: step, replicas: step },
                reward: Reward::try_from(if low { -1e6 } else { 1e6 }).unwrap(),
                claim,
                ..beat(poisoned.epoch, 2, honest)
            };
            let after = tell(2, &extreme);
            let slack = 1e-9;
            for ((was, range), (is, _)) in fields(&before.auxiliary).into_iter().zip(fields(&after.auxiliary)) {
                assert!((is.sum - was.sum).abs() <= range + slack, "{was:?} {is:?}");
                assert!((is.mean - was.mean).abs() <= range / n + slack, "{was:?} {is:?}");
                assert!((is.std - was.std).abs() <= range * (n - 1.0).sqrt() / n + slack, "{was:?} {is:?}");
            }
            let detail = |answer: &meanfield_common::wire::Answer| answer.auxiliary.detail.as_deref().unwrap().percentiles.unwrap()[4];
            let (was, is) = (detail(&before), detail(&after));
            let mut preserved: Vec<_> = levels.iter().chain([&honest]).map(|level| f64::from(*level) / 100.0).collect();
            preserved.sort_unstable_by(f64::total_cmp);
            for (place, percent) in [10, 50, 90].into_iter().enumerate() {
                let rank = (preserved.len() * percent).div_ceil(100).max(1) - 1;
                let (below, above) = (rank.checked_sub(1), preserved.get(rank + 1));
                let lowest = below.map_or(-1.0, |below| preserved[below]);
                let highest = above.copied().unwrap_or(1.0);
                let bin = 1.0 / 64.0 + slack;
                assert!((lowest - bin..=highest + bin).contains(&is[place]), "{was:?} {is:?} {preserved:?}");
            }
            let total = weight + n;
            let moved = (after.team_reward.unwrap() - before.team_reward.unwrap()).abs();
            // A weight is kept to 2^-22, which is 1/40,000 of the smallest one here.
            assert!(moved <= 2e6 * weight / total * 1.001, "{moved} with {weight} of {total}");
            assert!(coordinator.audit());
        });
    }
}

#[tokio::test]
async fn an_answer_has_the_details_that_were_agreed_on_and_a_restart_keeps_them() {
    let dir = tempfile::tempdir().unwrap();
    let wanting = |agent: &str, wants| Register { wants, ..register(agent) };
    let parts = [Aspects::NONE, Aspects::STATES, Aspects::CATEGORIES | Aspects::PERCENTILES, Aspects::ALL];
    let mut registered = Vec::new();
    for restart in [false, true] {
        let coordinator = on_disk(dir.path()).unwrap();
        for (agent, wants) in parts.iter().enumerate().filter(|_| !restart) {
            let one = coordinator.register(wanting(&format!("a{agent}"), *wants)).await.unwrap();
            assert_eq!(one.agreed, *wants);
            registered.push(one);
        }
        let report = |agent: usize, sequence, detail| {
            let one: &Registered = &registered[agent];
            let message = Heartbeat { detail, ..beat(one.epoch, sequence, 10 + 20 * agent as u8) };
            coordinator.heartbeat(one.agent, &message).unwrap().auxiliary.detail
        };
        for agent in 0..4 {
            report(agent, 1, false);
        }
        for (agent, wants) in parts.iter().enumerate() {
            let mut others = Details::default();
            let level = |agent: usize| 10 + 20 * agent as u8;
            let all = (0..4).filter(|other| *other != agent).map(|other| beat(registered[0].epoch, 1, level(other)));
            all.for_each(|one| others.add(&contribution(&one)));
            assert_eq!(report(agent, 2, false), others.detail(None, *wants), "{wants:?}");
            assert_eq!(report(agent, 3, true), others.detail(None, Aspects::ALL), "the flag asks for all");
            assert_eq!(coordinator.agent(registered[agent].agent).unwrap().details, *wants);
        }
        assert!(coordinator.audit());
    }
    let coordinator = on_disk(dir.path()).unwrap();
    let again = coordinator.register(wanting("a3", Aspects::NONE)).await.unwrap();
    let message = beat(again.epoch, 1, 10);
    assert_eq!(coordinator.heartbeat(again.agent, &message).unwrap().auxiliary.detail, None, "it wants no more");
}

#[tokio::test]
async fn what_a_coordinator_does_not_know_is_not_agreed_on() {
    let served = Served::start(Default::default()).await;
    let body = json!({"name": "a", "pool": "default", "category": "io", "wants": ["states", "of-tomorrow"]});
    let reply = send(served.request(Method::POST, "/v1/agents").json(&body)).await;
    assert_eq!((reply.status.as_u16(), &reply.json::<Value>()["agreed"]), (201, &json!(["states"])));
    let registered: Registered = reply.json();
    let beaten = serde_json::to_value(beat(registered.epoch, 1, 10)).unwrap();
    let path = format!("/v1/agents/{}/heartbeat", registered.agent);
    let detail =
        send(served.request(Method::POST, &path).json(&beaten)).await.json::<Value>()["auxiliary"]["detail"].clone();
    assert_eq!(detail.as_object().unwrap().keys().collect::<Vec<_>>(), ["states"], "and nothing else is in the answer");
    let plain = json!({"name": "b", "pool": "default", "category": "io"});
    let reply: Value = send(served.request(Method::POST, "/v1/agents").json(&plain)).await.json();
    assert_eq!(reply.as_object().unwrap().len(), 3, "an older agent sees what it always saw: {reply}");
    served.ended().await.unwrap();
}

/// Everything that a contribution weighs is in 48 bytes: a million agents have up to two of them.
#[test]
fn a_contribution_stays_small() {
    assert!(size_of::<Option<Contribution>>() <= 48, "{}", size_of::<Option<Contribution>>());
}
