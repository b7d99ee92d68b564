//! A network that corrects a plan: by one step at most, learning where the plan is wrong, and acting only where that pays.

use std::{num::NonZero, sync::Arc};

use meanfield_agent::{
    Error,
    fleet::Fleet,
    link::Nobody,
    policy::{
        Decision, Feedback, Policy, View,
        outlook::PeakHold,
        plan::{Options, Plan},
        ppo::Ppo,
        residual::{self, Base, KNOWN, Residual, untrained},
    },
    training::{Bases, Progress, Trainer},
};
use meanfield_common::resources::{MilliCores, Scale};
use meanfield_learner::{ActorCritic, Config};
use meanfield_simulator::scenario::{DAY_STEPS, Scenario, Start};
use meanfield_traces::synth::Preset;

use crate::support::{now, pool};

fn plan() -> Plan<PeakHold> {
    Plan::new(Options::default(), PeakHold::default()).unwrap()
}

/// A plan that asks for so many times the CPU that it has found to be right.
#[derive(Debug)]
struct Mistaken(Plan<PeakHold>, f64);

impl Policy for Mistaken {
    fn name(&self) -> &'static str {
        "mistaken"
    }
    fn decide(&mut self, view: &View<'_>) -> Result<Decision, Error> {
        let mut decision = self.0.decide(view)?;
        decision.scale.limit.cpu = MilliCores((decision.scale.limit.cpu.0 as f64 * self.1) as u64);
        Ok(Decision::wish(view.target.bounds.clamp(&decision.scale)))
    }
    fn reset(&mut self) {
        self.0.reset();
    }
}

impl Base for Mistaken {
    fn known(&self, view: &View<'_>, wish: &Scale) -> [f32; KNOWN] {
        self.0.known(view, wish)
    }
    fn cost(&self, view: &View<'_>, scale: &Scale, serving: u32, rate: f64) -> f64 {
        self.0.cost(view, scale, serving, rate)
    }
    fn miss(&self, view: &View<'_>, scale: &Scale, serving: u32, rate: f64) -> f64 {
        self.0.miss(view, scale, serving, rate)
    }
}

/// A plan whose model expects a miss in this part of the steps with the most CPU, and in a fifth more of them with each
/// step less of it, whatever happens.
#[derive(Debug)]
struct Anxious(Mistaken, f64);

impl Policy for Anxious {
    fn name(&self) -> &'static str {
        "anxious"
    }
    fn decide(&mut self, view: &View<'_>) -> Result<Decision, Error> {
        self.0.decide(view)
    }
    fn reset(&mut self) {
        self.0.reset();
    }
}

impl Base for Anxious {
    fn known(&self, view: &View<'_>, wish: &Scale) -> [f32; KNOWN] {
        self.0.known(view, wish)
    }
    fn cost(&self, view: &View<'_>, scale: &Scale, serving: u32, rate: f64) -> f64 {
        let reserved = f64::from(scale.replicas) * scale.limit.cpu.cores();
        reserved + Options::default().price * self.miss(view, scale, serving, rate)
    }
    fn miss(&self, view: &View<'_>, scale: &Scale, _: u32, rate: f64) -> f64 {
        let more = view.target.bounds.cpu().end().cores() / scale.limit.cpu.cores();
        if rate > 0.0 { self.1 * more.powf(0.8) } else { 0.0 }
    }
}

/// A network that always prefers the same action of each head: down, stay or up. Where that one is closed, at a bound or
/// while replicas wait for a node, it stays.
fn stubborn(actions: [usize; 3]) -> Arc<ActorCritic> {
    let mut network = untrained(Config::residual(), 1).unwrap();
    let (mut actor, critic) = (network.parameters().0.to_vec(), network.parameters().1.to_vec());
    let biases = actor.len() - 9;
    actor[biases..].fill(0.0);
    (0..3).for_each(|head| actor[biases + 3 * head + 1] = 5.0);
    actions.iter().enumerate().for_each(|(head, action)| actor[biases + 3 * head + action] = 9.0);
    network.set_parameters(&actor, &critic).unwrap();
    Arc::new(network)
}

/// Looks at every decision of a PPO on a plan.
struct Watched<W> {
    ppo: Ppo,
    watch: W,
}

impl<W: FnMut(&View<'_>, &Ppo, &Decision) + Send> Policy for Watched<W> {
    fn name(&self) -> &'static str {
        "watched"
    }
    fn decide(&mut self, view: &View<'_>) -> Result<Decision, Error> {
        let decision = self.ppo.decide(view)?;
        (self.watch)(view, &self.ppo, &decision);
        Ok(decision)
    }
    fn feedback(&mut self, feedback: Feedback) -> Result<(), Error> {
        self.ppo.feedback(feedback)
    }
    fn reset(&mut self) {
        self.ppo.reset();
    }
}

fn fleet<P: Policy>(tenants: usize, load: Preset, seed: u64, mut policy: impl FnMut(usize) -> P) -> Fleet<Nobody, P> {
    let scenario = Scenario::new(tenants, DAY_STEPS).unwrap().with_load(load);
    let shape = Config::residual().reward;
    Fleet::new(&scenario, seed, Start::Sized, pool(), shape, |place, _| Ok((Nobody, policy(place)))).unwrap()
}

fn run<P: Policy>(fleet: &mut Fleet<Nobody, P>, rounds: usize) {
    (0..rounds).for_each(|_| drop(now(fleet.round_in_turn()).unwrap()));
}

#[test]
fn the_untrained_network_decides_as_the_plan_does_all_day() {
    let network = Arc::new(untrained(Config::residual(), 3).unwrap());
    let mut steps = 0;
    let mut corrected = fleet(3, Preset::Diurnal, 5, |_| {
        // A plan of its own that sees the same: not the one whose wish is corrected.
        let mut alone = plan();
        let watch = move |view: &View<'_>, ppo: &Ppo, decision: &Decision| {
            let wish = alone.decide(view).unwrap();
            assert_eq!((*decision, ppo.unmoved()), (wish, Some(wish)));
        };
        Watched { ppo: Ppo::serving(network.clone()).on(Box::new(plan())), watch }
    });
    let mut moved = false;
    for _ in 0..DAY_STEPS {
        let round = now(corrected.round_in_turn()).unwrap();
        steps += round.len();
        moved |= round.iter().any(|step| step.report.action != meanfield_common::action::Action::HOLD);
    }
    assert_eq!(steps, 3 * DAY_STEPS);
    assert!(moved, "the plan did something");
}

#[test]
fn no_correction_is_more_than_a_step_or_out_of_bounds() {
    // Fresh heads that prefer nothing: every action is sampled everywhere.
    let network = Arc::new(ActorCritic::new(Config::residual(), 3).unwrap());
    let mut fleet = fleet(4, Preset::Bursty, 7, |place| {
        let watch = |view: &View<'_>, ppo: &Ppo, decision: &Decision| {
            let (to, from) = (decision.scale, ppo.unmoved().unwrap().scale);
            assert!(view.target.bounds.contains(&to), "{to:?}");
            let within = |to: u64, from: u64, factor: f64, unit: u64| {
                let (low, high) = (from as f64 / factor, from as f64 * factor);
                (low - unit as f64..=high + unit as f64).contains(&(to as f64))
            };
            assert!(within(to.limit.cpu.0, from.limit.cpu.0, 1.25, 10), "{from:?} became {to:?}");
            assert!(within(to.limit.memory.0, from.limit.memory.0, 1.2, 1 << 20), "{from:?} became {to:?}");
            let step = (f64::from(from.replicas) * 0.2).round().max(1.0) as u32;
            assert!(to.replicas.abs_diff(from.replicas) <= step, "{from:?} became {to:?}");
        };
        Watched { ppo: Ppo::exploring(network.clone(), place as u64).on(Box::new(plan())), watch }
    });
    run(&mut fleet, 240);
}

/// How many of four agents' networks act in the second half of so many rounds, and the scores at the end.
fn acting(network: &Arc<ActorCritic>, times: f64) -> (usize, Vec<[f64; 2]>) {
    let policy = |_| Residual::new(network.clone(), Box::new(Mistaken(plan(), times))).unwrap();
    let mut fleet = fleet(4, Preset::Diurnal, 11, policy);
    run(&mut fleet, 80);
    let mut acted = [false; 4];
    for _ in 0..80 {
        run(&mut fleet, 1);
        for (place, agent) in fleet.agents_mut() {
            acted[place] |= agent.policy_mut().shadow().acts();
        }
    }
    let scores = fleet.agents_mut().map(|(_, agent)| agent.policy_mut().shadow().scores()).collect();
    (acted.iter().filter(|acted| **acted).count(), scores)
}

/// Knows nothing and does anything.
fn random(seed: u64) -> Arc<ActorCritic> {
    Arc::new(ActorCritic::new(Config::residual(), seed).unwrap())
}

#[test]
fn who_makes_a_plan_dearer_never_acts() {
    for seed in [1, 2] {
        let (count, scores) = acting(&random(seed), 1.0);
        assert_eq!(count, 0, "{scores:?}");
        assert!(scores.iter().all(|[plan, corrected]| *plan > 0.0 && corrected > plan), "{scores:?}");
    }
}

#[test]
fn who_makes_a_wasteful_plan_cheaper_acts() {
    let (count, scores) = acting(&stubborn([0, 1, 1]), 2.0);
    assert_eq!(count, 4, "{scores:?}");
    assert!(scores.iter().all(|[plan, corrected]| corrected < plan), "{scores:?}");
}

#[test]
fn who_only_adds_to_a_plan_that_asks_for_too_much_never_acts() {
    for times in [1.5, 3.0] {
        let (count, scores) = acting(&stubborn([2, 1, 1]), times);
        assert_eq!(count, 0, "{times} times: {scores:?}");
        // At the largest limit that the bounds allow there is nothing to add.
        assert!(scores.iter().all(|[plan, corrected]| corrected >= plan), "{times} times: {scores:?}");
    }
}

#[test]
fn a_model_that_expects_misses_that_never_come_is_believed_less() {
    let network = stubborn([0, 1, 1]);
    let policy = |_| Residual::new(network.clone(), Box::new(Anxious(Mistaken(plan(), 3.0), 0.3))).unwrap();
    let mut fleet = fleet(2, Preset::Diurnal, 11, policy);
    run(&mut fleet, 240);
    // By its word a step down costs a fifth of three tenths of the price, six cores, and saves at most two or three.
    let shadows: Vec<_> = fleet.agents_mut().map(|(_, agent)| agent.policy_mut().shadow().clone()).collect();
    assert!(shadows.iter().all(|shadow| shadow.acts() && shadow.borne_out() < 0.2), "{shadows:?}");
}

#[test]
fn where_nobody_acts_everything_is_as_with_the_plan_alone() {
    let days = |gated: bool| {
        let mut fleet = fleet::<Box<dyn Policy>>(2, Preset::Diurnal, 13, |_| match gated {
            true => Box::new(Residual::new(random(1), Box::new(plan())).unwrap()),
            false => Box::new(plan()),
        });
        let rounds: Vec<_> = (0..120).map(|_| format!("{:?}", now(fleet.round_in_turn()).unwrap())).collect();
        rounds
    };
    assert!(days(true) == days(false));
}

fn trainer(config: &Config, bases: Bases, tenants: usize, seed: u64) -> Trainer<Nobody> {
    let pools: Vec<_> = (0..config.environments).map(|pool| format!("pool-{pool}").parse().unwrap()).collect();
    let scenario = Scenario::new(tenants, 1).unwrap();
    let trainer = Trainer::on(bases, config.clone(), &scenario, seed, &pools, |_| Nobody).unwrap();
    trainer.with_loads(vec![Preset::Steady]).with_demands(vec![0.9, 1.0]).unwrap()
}

fn train(trainer: &mut Trainer<Nobody>, iterations: usize) -> Vec<Progress> {
    (0..iterations).map(|iteration| trainer.iterate(iteration as f32 / iterations as f32).unwrap()).collect()
}

/// Small, so that a test can train it.
fn small() -> Config {
    Config { horizon: 60, gamma: 0.5, minibatch: 60, learning_rate: 4e-3, ..Config::residual() }
}

#[test]
fn the_same_seed_gives_the_same_network_whatever_the_number_of_threads() {
    let outcome = |seed: u64, threads: usize| {
        let bases: Bases = Arc::new(|_| Ok(Box::new(plan())));
        let mut trainer = trainer(&small(), bases, 3, seed).with_threads(NonZero::new(threads).unwrap());
        (train(&mut trainer, 2), trainer.network(0).clone())
    };
    let one = outcome(1, 1);
    assert!(outcome(1, 2) == one);
    assert!(outcome(2, 1) != one);
}

/// A plan that does not know of queues: it runs everything at nine tenths, where a step up would keep the objective.
#[derive(Debug, Default)]
struct Hot {
    replicas: Option<u32>,
    demand: f64,
}

impl Policy for Hot {
    fn name(&self) -> &'static str {
        "hot"
    }
    fn decide(&mut self, view: &View<'_>) -> Result<Decision, Error> {
        let mut scale = view.seen.scale;
        scale.replicas = *self.replicas.get_or_insert(scale.replicas);
        if let Some(cpu) = view.seen.cpu_seconds_per_request() {
            self.demand = (view.seen.arrival_rate * cpu).max(0.9 * self.demand);
        }
        scale.limit.cpu = MilliCores((1000.0 * self.demand / 0.9 / f64::from(scale.replicas)) as u64);
        Ok(Decision::wish(view.target.bounds.clamp(&scale)))
    }
    fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Base for Hot {
    fn known(&self, _: &View<'_>, _: &Scale) -> [f32; KNOWN] {
        [0.0; KNOWN]
    }
    fn cost(&self, _: &View<'_>, _: &Scale, _: u32, _: f64) -> f64 {
        0.0
    }
    fn miss(&self, _: &View<'_>, _: &Scale, _: u32, _: f64) -> f64 {
        0.0
    }
}

/// Share of the steps of an hour in which a network, served, asks for more CPU than the plan.
fn adds(network: &ActorCritic) -> f64 {
    let count = Arc::new(parking_lot::Mutex::new((0.0, 0.0)));
    let network = Arc::new(network.clone());
    let mut fleet = fleet(6, Preset::Steady, 17, |_| {
        let count = count.clone();
        let watch = move |_: &View<'_>, ppo: &Ppo, decision: &Decision| {
            let more = decision.scale.limit.cpu > ppo.unmoved().unwrap().scale.limit.cpu;
            let mut count = count.lock();
            *count = (count.0 + f64::from(u8::from(more)), count.1 + 1.0);
        };
        Watched { ppo: Ppo::serving(network.clone()).on(Box::new(Hot::default())), watch }
    });
    run(&mut fleet, 240);
    let (more, all) = *count.lock();
    more / all
}

#[test]
fn it_learns_to_add_what_a_mistaken_plan_leaves_out() {
    let idle = Config { learning_rate: 1e-12, learning_rate_final: 0.0, ..small() };
    let after = |config: &Config, seed: u64| {
        let mut trainer = trainer(config, Arc::new(|_| Ok(Box::new(Hot::default()))), 6, seed);
        train(&mut trainer, 60);
        adds(trainer.network(0))
    };
    let shares = [1, 2].map(|seed| after(&small(), seed));
    assert!(shares.iter().all(|share| *share > 0.5), "more CPU in {shares:?} of the steps");
    assert_eq!(after(&idle, 1), 0.0, "without learning it stays with the plan");
}

#[test]
fn networks_and_bases_must_be_made_for_each_other() {
    let plain = Arc::new(ActorCritic::new(Config::default(), 1).unwrap());
    assert_eq!(Residual::new(plain.clone(), Box::new(plan())).unwrap_err().field, "observation");
    assert!(matches!(untrained(Config::default(), 1), Err(Error::Invalid(invalid)) if invalid.field == "observation"));
    let pools: Vec<_> = (0..4).map(|pool| format!("pool-{pool}").parse().unwrap()).collect();
    let scenario = Scenario::new(1, 1).unwrap();
    let without = Trainer::new(Config::residual(), &scenario, 1, &pools, |_| Nobody);
    assert!(matches!(without.map(drop), Err(Error::Invalid(invalid)) if invalid.field == "observation"));
    // At work it is refused too, before anything is decided.
    let mut fleet = fleet(1, Preset::Diurnal, 1, |_| Ppo::serving(plain.clone()).on(Box::new(plan())));
    assert!(now(fleet.round_in_turn()).is_err());
    assert_eq!(Config::residual().observation, 21 + residual::KNOWN);
}
