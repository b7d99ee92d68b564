//! The category that a workload is seen to be of.

use meanfield_agent::{
    agent::Agent,
    environment::Alone,
    policy::{
        Policy,
        hpa::Follow,
        outlook::PeakHold,
        plan::{self, Plan},
        reactive::Reactive,
        rules::Rules,
    },
    profile::{FIRST, Profile},
};
use meanfield_common::{
    identity::Category,
    observation::Observation,
    resources::{Bytes, MilliCores},
    reward::Shape,
};
use meanfield_simulator::{scenario::DAY_STEPS, workload::functions};

use crate::support::*;

/// A step of a workload on one core, of which so much is in use, with so many requests in flight and so much memory held.
fn step(cores: f64, concurrency: f64, mebibytes: u64) -> Observation {
    let cpu_used = MilliCores((cores * 1000.0) as u64);
    Observation { cpu_used, concurrency, memory_used: Bytes::mebi(mebibytes), ..Observation::default() }
}

/// All categories that are named while the same step comes so many times.
fn named(profile: &mut Profile, seen: &Observation, times: u32) -> Vec<Category> {
    (0..times).filter_map(|_| profile.observe(seen)).collect()
}

#[test]
fn the_rule_has_a_category_for_each_profile() {
    for (seen, category) in [
        (step(0.4, 0.5, 50), Category::Cpu),
        (step(0.4, 0.5, 200), Category::Memory),
        (step(0.4, 2.0, 50), Category::Io),
        (step(0.4, 2.0, 200), Category::Io),
    ] {
        let mut profile = Profile::default();
        assert_eq!(named(&mut profile, &seen, FIRST - 1), []);
        assert_eq!(named(&mut profile, &seen, 1000), [category], "once");
    }
    // Half a core computes half as fast, and so for twice as long.
    let limit = MilliCores(500);
    let mut slow = step(0.2, 0.5, 20);
    slow.scale.limit.cpu = limit;
    assert_eq!(named(&mut Profile::default(), &slow, FIRST), [Category::Cpu]);
}

#[test]
fn busy_idle_and_killed_steps_say_nothing() {
    let mut profile = Profile::default();
    let killed = Observation { oom_kills: 1, ..step(0.4, 2.0, 50) };
    for silent in [step(0.7, 9.0, 50), step(0.0, 0.0, 50), step(0.4, 0.0, 50), killed] {
        assert_eq!(named(&mut profile, &silent, 1000), []);
    }
    assert_eq!(named(&mut profile, &step(0.4, 0.5, 50), FIRST), [Category::Cpu]);
}

#[test]
fn a_workload_between_two_stays_what_it_is_and_one_that_changes_does_not() {
    let (cpu, io) = (step(0.4, 0.5, 50), step(0.4, 2.0, 50));
    for (first, other) in [(cpu, io), (io, cpu)] {
        let mut profile = Profile::default();
        let category = named(&mut profile, &first, FIRST)[0];
        let alternating = (0..10_000).filter_map(|turn| profile.observe(if turn % 2 == 0 { &other } else { &first }));
        assert_eq!(alternating.collect::<Vec<_>>(), [], "half and half");
        let changed = named(&mut profile, &other, 10_000);
        assert_eq!(changed.len(), 1);
        assert_ne!(changed[0], category);
    }
}

#[test]
fn an_agent_registers_again_as_what_it_was_seen_to_be() {
    let coordinator = Coordinator::default();
    let environment = Scripted::new(&Log::default(), |_| step(0.4, 2.0, 50));
    let mut agent = Agent::new(pinned(), environment, coordinator.clone(), pool(), Wishes::hold(), Shape::BALANCED);
    agent.infer(Profile::default());
    for _ in 0..3 * FIRST {
        now(agent.step(None)).unwrap();
    }
    assert_eq!(coordinator.categories(), [Category::Cpu, Category::Io]);
    assert_eq!((coordinator.members(), agent.target().category), (1, Category::Io));
}

fn policies() -> [(&'static str, Box<dyn Policy>); 3] {
    [
        ("plan", Box::new(Plan::new(plan::Options { price: plan::PRICE }, PeakHold::default()).unwrap())),
        ("reactive", Box::new(Reactive::default())),
        ("hpa-vpa", Box::new(Rules::hpa_vpa(Follow::Cpu(0.8)).unwrap())),
    ]
}

/// What docs/models.md says, on days that the bounds were not chosen by: how many of the twelve functions are named as they are declared after six hours, and how often
/// that changed after the first time.
#[test]
fn most_functions_are_named_as_they_are_declared() {
    const STEPS: usize = 1440;
    let (mut agree, mut changes) = ([0; 3], [0; 3]);
    for seed in [4, 5, 6] {
        for (place, function) in functions().iter().enumerate() {
            for (at, (policy, decides)) in policies().into_iter().enumerate() {
                let (environment, target) = Alone::new("a".parse().unwrap(), place, DAY_STEPS, seed).unwrap();
                let coordinator = Coordinator::default();
                let mut agent = Agent::new(target, environment, coordinator, pool(), decides, Shape::BALANCED);
                let mut profile = Profile::default();
                let named: Vec<_> =
                    (0..STEPS).filter_map(|_| profile.observe(&now(agent.step(None)).unwrap().seen)).collect();
                let last = *named.last().unwrap();
                agree[at] += usize::from(last == function.category);
                changes[at] += named.len() - 1;
                if last != function.category || named.len() > 1 {
                    println!(
                        "{policy}, seed {seed}: {} is declared {:?}, named {named:?}",
                        function.name, function.category
                    );
                }
            }
        }
    }
    println!("of 36 each: {agree:?} agree, {changes:?} changes");
    // Bounds, since the last bits of what is simulated are not the same on every machine.
    assert!(agree.iter().all(|&count| count >= 33), "{agree:?}");
    assert!(changes.iter().all(|&count| count <= 9), "{changes:?}");
}
