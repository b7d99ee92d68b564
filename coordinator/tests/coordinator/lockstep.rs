//! Lock-step rounds: answers do not depend on the order of arrival, and equal a computation from scratch.

use std::collections::BTreeMap;

use meanfield_common::{
    identity::{AgentId, Epoch},
    mean_field::{Contribution, Sums},
    wire::{Answer, Leave},
};
use meanfield_coordinator::{Coordinator, Error};
use proptest::prelude::*;

use crate::support::*;

/// What an agent does within a round, in this order.
#[derive(Debug, Clone, Copy)]
enum Act {
    Beat(u8),
    Join,
    Leave,
}

type Script = Vec<Act>;

fn script() -> impl Strategy<Value = Script> {
    use Act::{Beat, Join, Leave};
    (0..9_u8, 0..=100_u8, 0..=100_u8).prop_map(|(kind, level, other)| match kind {
        0 => vec![],
        1 => vec![Beat(level), Leave],
        2 => vec![Leave, Join],
        3 => vec![Leave, Join, Beat(level)],
        4 => vec![Beat(level), Leave, Join, Beat(other)],
        5 => vec![Beat(level), Beat(other)],
        6 => vec![Beat(level), Join],
        _ => vec![Beat(level)],
    })
}

const AGENTS: usize = 6;

/// What happens before a round begins, and what each agent does in it.
type Round = (Vec<(usize, bool)>, Vec<Script>);

fn rounds() -> impl Strategy<Value = Vec<Round>> {
    let between = prop::collection::vec((0..AGENTS, any::<bool>()), 0..4);
    let within = prop::collection::vec(script(), AGENTS);
    prop::collection::vec((between, within), 1..8)
}

/// An order in which the scripts' acts may arrive: any that keeps each agent's own order and begins with a beat,
/// since what happens before a round's first beat belongs to the round before.
fn interleave(scripts: &[Script], seed: &mut u64) -> Vec<(usize, Act)> {
    let mut next = vec![0; scripts.len()];
    let mut order: Vec<(usize, Act)> = Vec::new();
    loop {
        let may_go = |&agent: &usize| match scripts[agent].get(next[agent]) {
            Some(act) => !order.is_empty() || matches!(act, Act::Beat(_)),
            None => false,
        };
        let ready: Vec<usize> = (0..scripts.len()).filter(may_go).collect();
        if ready.is_empty() {
            return order;
        }
        *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let agent = ready[(*seed >> 33) as usize % ready.len()];
        order.push((agent, scripts[agent][next[agent]]));
        next[agent] += 1;
    }
}

/// A coordinator, and beside it what its members reported.
struct Run {
    coordinator: Coordinator,
    members: BTreeMap<usize, (AgentId, Epoch)>,
    latest: BTreeMap<usize, Contribution>,
    sequence: u64,
}

fn sum<'a>(contributions: impl Iterator<Item = &'a Contribution>) -> Sums {
    let mut sums = Sums::default();
    contributions.for_each(|one| sums.add(one));
    sums
}

impl Run {
    async fn join(&mut self, agent: usize) {
        let registered = member(&self.coordinator, &format!("agent-{agent}")).await;
        self.members.insert(agent, (registered.agent, registered.epoch));
        self.latest.remove(&agent);
    }

    async fn leave(&mut self, agent: usize) {
        if let Some((id, epoch)) = self.members.remove(&agent) {
            self.coordinator.leave(id, Leave { epoch }).await.unwrap();
            self.latest.remove(&agent);
        }
    }

    /// Reports, checks the answer against the snapshot, and gives it.
    fn beat(&mut self, round: u64, agent: usize, level: u8, frozen: &BTreeMap<usize, Contribution>) -> Option<Answer> {
        let (id, epoch) = *self.members.get(&agent)?;
        self.sequence += 1;
        let message = in_round(round, beat(epoch, self.sequence, level));
        let answer = self.coordinator.heartbeat(id, &message).unwrap();
        let others = sum(frozen.iter().filter(|(other, _)| **other != agent).map(|(_, one)| one));
        assert_eq!(answer.auxiliary, others.auxiliary(), "round {round}, agent {agent}");
        assert_eq!(answer.team_reward, sum(frozen.values()).mean_reward());
        assert_eq!(self.coordinator.heartbeat(id, &message).unwrap(), answer, "a retry is answered alike");
        self.latest.insert(agent, contribution(&message));
        Some(answer)
    }

    async fn round(&mut self, round: u64, order: &[(usize, Act)]) -> BTreeMap<usize, Vec<Answer>> {
        let frozen = self.latest.clone();
        let mut answers = BTreeMap::<usize, Vec<Answer>>::new();
        for &(agent, act) in order {
            match act {
                Act::Beat(level) => {
                    let mut answer = self.beat(round, agent, level, &frozen);
                    // The sequence number is the test's own count of messages, so it follows the order.
                    answer.iter_mut().for_each(|answer| answer.sequence.0 = 0);
                    answers.entry(agent).or_default().extend(answer);
                }
                Act::Join => self.join(agent).await,
                Act::Leave => self.leave(agent).await,
            }
        }
        answers
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn answers_do_not_depend_on_the_order_of_arrival(rounds in rounds(), seed in any::<u64>()) {
        let mut seed = seed;
        let mut expected = None;
        for _ in 0..3 {
            let answers = block_on(async {
                let mut run = Run {
                    coordinator: in_memory(),
                    members: BTreeMap::new(),
                    latest: BTreeMap::new(),
                    sequence: 0,
                };
                let mut answers = Vec::new();
                for (round, (between, scripts)) in rounds.iter().enumerate() {
                    for &(agent, joins) in between {
                        if joins { run.join(agent).await } else { run.leave(agent).await }
                    }
                    // Only members can begin a round; scripts of others would be skipped by each order differently.
                    let scripts: Vec<Script> = (0..AGENTS)
                        .map(|agent| if run.members.contains_key(&agent) { scripts[agent].clone() } else { vec![] })
                        .collect();
                    let order = interleave(&scripts, &mut seed);
                    answers.push(run.round(round as u64, &order).await);
                    assert!(run.coordinator.audit());
                    let whole = sum(run.latest.values());
                    let seen = &run.coordinator.pools()[0];
                    assert_eq!(seen.mean_field, whole.auxiliary().into());
                }
                answers
            });
            let expected = expected.get_or_insert_with(|| answers.clone());
            prop_assert_eq!(&answers, expected);
        }
    }
}

#[tokio::test]
async fn a_round_that_is_over_is_refused() {
    let coordinator = in_memory();
    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    let first = coordinator.heartbeat(a.agent, &in_round(3, beat(a.epoch, 1, 50))).unwrap();
    assert_eq!((first.auxiliary.others, first.team_reward), (0, None), "nothing before the first round");
    coordinator.heartbeat(b.agent, &in_round(4, beat(b.epoch, 1, 50))).unwrap();
    let before = coordinator.pools();
    for late in [in_round(3, beat(a.epoch, 2, 60)), in_round(3, beat(a.epoch, 1, 50))] {
        let refused = coordinator.heartbeat(a.agent, &late);
        assert!(matches!(refused, Err(Error::StaleRound { given: 3, current: 4 })));
    }
    assert_eq!(coordinator.pools(), before);
    // The refused sequence number was not used up.
    let now = coordinator.heartbeat(a.agent, &in_round(4, beat(a.epoch, 2, 60))).unwrap();
    assert_eq!((now.auxiliary.others, now.team_reward), (0, Some(20.0)), "round 3 held a's own report only");
}

#[tokio::test]
async fn once_all_have_left_a_new_run_may_begin_at_any_round() {
    let coordinator = in_memory();
    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    coordinator.heartbeat(b.agent, &beat(b.epoch, 1, 20)).unwrap();
    coordinator.heartbeat(a.agent, &in_round(u64::MAX, beat(a.epoch, 1, 50))).unwrap();
    coordinator.leave(a.agent, Leave { epoch: a.epoch }).await.unwrap();
    let refused = coordinator.heartbeat(b.agent, &in_round(0, beat(b.epoch, 2, 50)));
    assert!(matches!(refused, Err(Error::StaleRound { .. })), "b is still there");
    coordinator.remove(b.agent).await.unwrap();

    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    let first = in_round(0, beat(a.epoch, 1, 50));
    let answer = coordinator.heartbeat(a.agent, &first).unwrap();
    assert_eq!((answer.auxiliary.others, answer.team_reward), (0, None), "nothing is left of the earlier run");
    assert_eq!(coordinator.heartbeat(a.agent, &first).unwrap(), answer);
    coordinator.heartbeat(b.agent, &in_round(1, beat(b.epoch, 1, 50))).unwrap();
    let refused = coordinator.heartbeat(a.agent, &in_round(0, beat(a.epoch, 2, 50)));
    assert!(matches!(refused, Err(Error::StaleRound { given: 0, current: 1 })));
    assert!(coordinator.audit());
}

#[tokio::test]
async fn all_may_leave_and_come_back_within_a_round() {
    let coordinator = in_memory();
    let (a, b) = (member(&coordinator, "a").await, member(&coordinator, "b").await);
    coordinator.heartbeat(b.agent, &in_round(0, beat(b.epoch, 1, 50))).unwrap();
    let before = coordinator.heartbeat(a.agent, &in_round(1, beat(a.epoch, 1, 50))).unwrap();
    assert_eq!((before.auxiliary.others, before.team_reward), (1, Some(20.0)));
    coordinator.leave(b.agent, Leave { epoch: b.epoch }).await.unwrap();
    coordinator.leave(a.agent, Leave { epoch: a.epoch }).await.unwrap();

    let a = member(&coordinator, "a").await;
    assert_eq!(coordinator.heartbeat(a.agent, &in_round(1, beat(a.epoch, 1, 50))).unwrap(), before);
    assert!(coordinator.audit());
}

/// Who asks gets the details of the others in the round before, whatever the order; who does not gets none.
#[tokio::test]
async fn details_are_those_of_the_others_and_only_for_who_asks() {
    use meanfield_common::{
        identity::Category,
        mean_field::{Aspects, Details},
    };
    let levels = [10, 40, 70, 100];
    let category = |agent: usize| Category::ALL[agent % 3];
    let mut answers = Vec::new();
    for order in [[0, 1, 2, 3], [3, 1, 0, 2]] {
        let coordinator = in_memory();
        let mut members = BTreeMap::new();
        for agent in order {
            let register =
                meanfield_common::wire::Register { category: category(agent), ..register(&format!("agent-{agent}")) };
            members.insert(agent, coordinator.register(register).await.unwrap());
        }
        let mut last = BTreeMap::new();
        for round in 0..3_u64 {
            for agent in order {
                let member = members[&agent];
                let level = levels[agent] - u8::try_from(round).unwrap();
                let beat = in_round(round, beat(member.epoch, round + 1, level));
                let beat = meanfield_common::wire::Heartbeat { detail: agent != 1, ..beat };
                let answer = coordinator.heartbeat(member.agent, &beat).unwrap();
                assert_eq!(coordinator.heartbeat(member.agent, &beat).unwrap(), answer, "a retry");
                last.insert(agent, answer.auxiliary.detail);
            }
        }
        assert!(coordinator.audit());
        answers.push(last);
    }
    assert_eq!(answers[0], answers[1]);
    assert_eq!(answers[0][&1], None);
    for asking in [0, 2, 3] {
        // Round 2 is answered from round 1, where everybody was one below.
        let mut others = Details::default();
        for other in (0..4).filter(|other| *other != asking) {
            others.add(&contribution(&beat(Epoch::FIRST, 1, levels[other] - 1)).of(category(other)));
        }
        assert_eq!(answers[0][&asking], others.detail(None, Aspects::ALL));
    }
    // By hand: the CPU limits of agents 1, 2 and 3 in round 1 are 0.312, 0.552 and 0.792.
    let [limits, ..] = answers[0][&0].as_deref().unwrap().percentiles.unwrap();
    assert_eq!(limits, [10.0 / 32.0, 18.0 / 32.0, 25.0 / 32.0]);
    let kinds = answers[0][&0].as_deref().unwrap().categories.unwrap().map(|kind| kind.others);
    assert_eq!(kinds, [1, 1, 1], "agents 3, 1 and 2");
}
