//! Rewards find the decisions that earned them.

use std::sync::Arc;

use meanfield_agent::{
    agent::Agent,
    link::{self, Link},
    policy::{Policy, ppo::Ppo},
};
use meanfield_common::{
    action::Action,
    identity::{AgentId, Epoch},
    mean_field::{AuxiliaryState, Moments},
    observation::Observation,
    reward::Shape,
    state::LocalState,
    wire::{Answer, Directives, Heartbeat, Leave, Register, Registered},
};
use meanfield_learner::{ActScratch, ActorCritic, Batch, Config};

use crate::support::{Log, Scripted, now, pinned, pool, preserving, target, unreachable};

/// The reward that is reported in step `t`; it belongs to the decision of the step before.
fn own(t: usize) -> f64 {
    1.0 / (t + 1) as f64
}

/// What the coordinator answers in step `t` as the team's reward; in step 4 it does not answer.
fn team(t: usize) -> Option<f64> {
    (t != 4).then(|| -10.0 - t as f64)
}

/// g as answered in step `t`.
fn auxiliary(t: usize) -> AuxiliaryState {
    let cpu_limit = Moments { sum: t as f64, mean: 0.1 * t as f64, std: 0.0 };
    AuxiliaryState { others: 1, cpu_limit, ..AuxiliaryState::default() }
}

struct Script(usize);

impl Link for Script {
    async fn register(&mut self, _: &Register) -> Result<Registered, link::Error> {
        let agent = "00000000-0000-0000-0000-000000000001".parse().unwrap();
        Ok(Registered { agent, epoch: Epoch::FIRST, heartbeat_within_ms: 1000, agreed: Default::default() })
    }

    async fn heartbeat(&mut self, _: AgentId, heartbeat: &Heartbeat) -> Result<Answer, link::Error> {
        let step = self.0;
        self.0 += 1;
        let team_reward = Some(team(step).ok_or_else(unreachable)?);
        let (sequence, auxiliary, directives) = (heartbeat.sequence, auxiliary(step), Directives::default());
        Ok(Answer {
            sequence,
            auxiliary,
            team_reward,
            directives,
            scarcity: None,
            forecast: None,
            allowance: None,
            models: None,
        })
    }

    async fn leave(&mut self, _: AgentId, _: &Leave) -> Result<(), link::Error> {
        Ok(())
    }
}

struct Run {
    agent: Agent<Scripted, Script, Ppo>,
    network: Arc<ActorCritic>,
    lock_step: bool,
    step: u64,
}

impl Run {
    /// No lever can move and masks are on, so no penalty ever joins the reward.
    fn new(team_share: f32, gamma: f32, lock_step: bool) -> Self {
        Self::of(Config { team_share, gamma, ..Config::paper() }, lock_step)
    }

    fn of(config: Config, lock_step: bool) -> Self {
        let config = Config { mask_actions: true, ..config };
        let network = Arc::new(ActorCritic::new(config, 7).unwrap());
        let policy = Ppo::exploring(network.clone(), 7);
        let agent = Agent::new(pinned(), environment(), Script(0), pool(), policy, Shape::Paper { alpha: 1.0 });
        Self { agent, network, lock_step, step: 0 }
    }

    fn steps(&mut self, count: u64) {
        for _ in 0..count {
            now(self.agent.step(self.lock_step.then_some(self.step))).unwrap();
            self.step += 1;
        }
    }

    /// The episode so far, as a batch, and the critic's value of the state in which it was cut off.
    fn take(&mut self) -> Option<(Batch, f32)> {
        let episode = self.agent.policy_mut().take_episode().unwrap()?;
        let mut batch = Batch::new(self.network.config(), 0);
        batch.push_segment(&episode.segment, episode.bootstrap).unwrap();
        Some((batch, episode.bootstrap))
    }

    /// The critic's value of the state of step `t`, worked out from the script alone.
    fn value(&self, t: usize) -> f32 {
        let (target, seen) = (pinned(), preserving(own(t)));
        let state = LocalState::new(&seen, seen.arrival_rate, &target.slo, &target.bounds);
        let heard = if team(t).is_some() { t } else { t - 1 };
        let g = auxiliary(heard).inputs(&self.network.config().auxiliary_layout());
        self.network.value(&state.features(), &g, &mut ActScratch::default()).unwrap()
    }
}

fn environment() -> Scripted {
    Scripted::new(&Log::default(), |step| -> Observation { preserving(own(step)) })
}

/// The reward of the decision of step `t`, by hand.
fn earned(t: usize, share: f64, lock_step: bool) -> f64 {
    let own = own(t + 1);
    // In lock-step an answer describes the round before.
    let team = team(if lock_step { t + 2 } else { t + 1 }).unwrap_or(own);
    (1.0 - share) * own + share * team
}

fn close(got: &[f32], expected: impl Iterator<Item = f64>) {
    for (index, (got, expected)) in got.iter().zip(expected).enumerate() {
        assert!((f64::from(*got) - expected).abs() < 1e-5, "decision {index}: {got} instead of {expected}");
    }
}

#[test]
fn returns_without_a_future_are_the_rewards_by_hand() {
    for lock_step in [false, true] {
        for share in [0.0, 0.5, 1.0] {
            let mut run = Run::new(share as f32, 0.0, lock_step);
            run.steps(10);
            // The last decision has no reward yet; in lock-step the one before lacks the team's.
            let settled = if lock_step && share > 0.0 { 8 } else { 9 };
            assert_eq!(run.agent.policy_mut().settled(), settled);
            let returns = run.take().unwrap().0.returns().to_vec();
            assert_eq!(returns.len(), settled);
            close(&returns, (0..settled).map(|t| earned(t, share, lock_step)));
        }
    }
}

#[test]
fn a_team_s_reward_by_priority_is_what_was_said_and_not_what_the_coordinator_answers() {
    for lock_step in [false, true] {
        let mut run =
            Run::of(Config { team_share: 0.25, team_weighted: true, gamma: 0.0, ..Config::paper() }, lock_step);
        for step in 0..10 {
            run.steps(1);
            run.agent.policy_mut().credit(f64::from(step));
        }
        let returns = run.take().unwrap().0.returns().to_vec();
        // The reward of decision t comes in step t + 1; nothing is waited for.
        assert_eq!(returns.len(), 9);
        close(&returns, (0..9).map(|t| 0.75 * own(t + 1) + 0.25 * (t + 1) as f64));
    }
}

#[test]
fn unsettled_decisions_stay_for_the_next_episode() {
    for lock_step in [false, true] {
        let mut run = Run::new(0.5, 0.0, lock_step);
        run.steps(7);
        let mut returns = run.take().unwrap().0.returns().to_vec();
        assert!(run.take().is_none(), "nothing is given twice");
        run.steps(5);
        returns.extend(run.take().unwrap().0.returns());
        assert_eq!(returns.len(), if lock_step { 10 } else { 11 });
        close(&returns, (0..returns.len()).map(|t| earned(t, 0.5, lock_step)));
    }
}

#[test]
fn a_new_episode_begins_with_nothing() {
    let mut run = Run::new(0.5, 0.0, true);
    run.steps(6);
    Policy::reset(run.agent.policy_mut());
    run.agent.move_to(environment());
    assert!(run.take().is_none());
    run.steps(1);
    assert_eq!(run.agent.policy_mut().settled(), 0, "the first reward belongs to no decision of this episode");
    run.steps(3);
    let returns = run.take().unwrap().0.returns().to_vec();
    // The environment starts over, the coordinator's script goes on: answers 8 and 9 describe rounds 7 and 8.
    close(&returns, (0..2).map(|t| 0.5 * own(t + 1) + 0.5 * team(t + 8).unwrap()));
    assert_eq!(returns.len(), 2);
}

#[test]
fn the_cut_off_is_bootstrapped_with_the_value_of_the_state_after_the_last_settled_decision() {
    for (share, lock_step) in [(0.0, false), (0.0, true), (1.0, false), (1.0, true)] {
        let mut run = Run::new(share as f32, 0.9, lock_step);
        run.steps(8);
        let (batch, bootstrap) = run.take().unwrap();
        let values = batch.values();
        let settled = values.len();
        assert_eq!(bootstrap, run.value(settled));
        let expected: Vec<f32> = (0..settled).map(|t| run.value(t)).collect();
        assert_eq!(values, expected);
        let last = earned(settled - 1, share, lock_step) + 0.9 * f64::from(bootstrap) - f64::from(values[settled - 1]);
        close(&batch.advantages()[settled - 1..], std::iter::once(last));
    }
}

#[test]
fn who_waits_for_its_turn_holds_and_is_paid_the_mean_of_the_wait() {
    let config = Config { gamma: 0.0, mask_actions: true, ..Config::preset("paper-cpq-rl").unwrap() };
    let network = Arc::new(ActorCritic::new(config.clone(), 7).unwrap());
    let policy = Ppo::exploring(network, 7);
    let mut agent = Agent::new(target(), environment(), Script(0), pool(), policy, Shape::Paper { alpha: 1.0 });
    let mut rewards = Vec::new();
    for t in 0..7_u64 {
        let waits = t % 3 != 0;
        agent.policy_mut().hold(waits);
        let report = now(agent.step(Some(t))).unwrap();
        assert!(!waits || report.action == Action::HOLD);
        rewards.push(report.reward as f32);
    }
    let episode = agent.policy_mut().take_episode().unwrap().unwrap();
    let mut batch = Batch::new(&config, 0);
    batch.push_segment(&episode.segment, episode.bootstrap).unwrap();
    let mean = |part: &[f32]| part.iter().sum::<f32>() / part.len() as f32;
    let earned = [mean(&rewards[1..4]), mean(&rewards[4..7])];
    for (seen, earned) in batch.returns().iter().zip(earned) {
        assert!((seen - earned).abs() < 1e-6, "{seen} for {earned}");
    }
    assert_eq!(batch.len(), 2, "what the third decision brings is not known");
    agent.policy_mut().reset();
    assert!(agent.policy_mut().take_episode().unwrap().is_none());
}
