//! An agent that serves a base model goes over to the version that the coordinator serves, and never stops over it.

use std::sync::Arc;

use meanfield_agent::{
    agent::Agent,
    following::{Follower, Following, Wanted},
    link,
    policy::{Policy, ppo::Ppo},
    sharing::RETRY_AFTER,
};
use meanfield_common::{identity::Category, resources::Scale};
use meanfield_learner::{ActorCritic, Config};

use crate::support::*;

fn network(seed: u64) -> Arc<ActorCritic> {
    Arc::new(ActorCritic::new(Config::preset_default(), seed).unwrap())
}

fn file(seed: u64) -> Vec<u8> {
    network(seed).save().unwrap()
}

fn served(version: u64) -> Result<(u64, Vec<u8>), link::Error> {
    Ok((version, file(version)))
}

fn of(category: Category) -> Wanted {
    Wanted { category: Some(category), ..Wanted::default() }
}

type Tested = Agent<Scripted, Coordinator, Follower>;

fn agent(coordinator: &Coordinator, wanted: Wanted) -> Tested {
    let target = target();
    let found = now(wanted.find(&mut coordinator.clone(), &pool(), &target.name, None)).unwrap().unwrap();
    let (policy, shape, following) = Following::begin(wanted, &found).unwrap();
    let environment = Scripted::new(&Log::default(), |_| preserving(0.9));
    let mut agent = Agent::new(target, environment, coordinator.clone(), pool(), policy, shape);
    agent.keep_up(following);
    agent
}

/// The same without a base model, with a coordinator of its own.
fn served_by(seed: u64) -> Agent<Scripted, Coordinator, Ppo> {
    let environment = Scripted::new(&Log::default(), |_| preserving(0.9));
    let (network, coordinator) = (network(seed), Coordinator::default());
    let shape = network.config().reward;
    Agent::new(target(), environment, coordinator, pool(), Ppo::serving(network), shape)
}

/// What was decided in the steps before each of some steps, which tells networks apart.
fn scales<P: Policy>(agent: &mut Agent<Scripted, Coordinator, P>, steps: usize) -> Vec<Scale> {
    (0..steps).map(|_| now(agent.step(None)).unwrap().seen.scale).collect()
}

#[test]
fn another_version_decides_from_the_next_step_on() {
    let coordinator = Coordinator::default();
    coordinator.serves([("cpu", served(1))]);
    let mut agent = agent(&coordinator, of(Category::Cpu));
    scales(&mut agent, 3);
    // Once at the start, and once to see that it is the same that the first answer speaks of.
    assert_eq!(coordinator.downloads(), 2);
    scales(&mut agent, 50);
    assert_eq!(coordinator.downloads(), 2, "nobody asks while the number is the same");

    // One that is given the other network by hand, and one that stays.
    let (mut by_hand, mut stays) = (served_by(1), served_by(1));
    for twin in [&mut by_hand, &mut stays] {
        scales(twin, 53);
    }
    coordinator.serves([("cpu", served(2))]);
    let first = scales(&mut agent, 1);
    assert_eq!(coordinator.downloads(), 3);
    assert_eq!(scales(&mut by_hand, 1), first, "this step was decided before");
    scales(&mut stays, 1);
    by_hand.policy_mut().set_network(network(2));
    let after = scales(&mut agent, 20);
    assert_eq!(scales(&mut by_hand, 20), after);
    assert_ne!(scales(&mut stays, 20), after);

    coordinator.serves([("cpu", served(2))]);
    scales(&mut agent, 2);
    assert_eq!(coordinator.downloads(), 4, "the number changed, the file did not");
}

#[test]
fn a_class_has_its_own_model_where_there_is_one_and_else_its_categorys() {
    let coordinator = Coordinator::default();
    coordinator.serves([("io", served(1))]);
    let wanted = Wanted { name: Some("storage".parse().unwrap()), ..of(Category::Io) };
    let find = |wanted: &Wanted| {
        let found = now(wanted.find(&mut coordinator.clone(), &pool(), &target().name, None));
        found.map(|found| found.map(|found| (found.model.to_string(), found.version)))
    };
    assert_eq!(find(&wanted).unwrap(), Some(("io".to_owned(), Some(1))));
    coordinator.serves([("io", served(1)), ("storage", served(5))]);
    assert_eq!(find(&wanted).unwrap(), Some(("storage".to_owned(), Some(5))));
    let exact = Wanted { category: None, name: Some("nothing".parse().unwrap()), version: None };
    assert!(matches!(find(&exact), Err(link::Error::Refused(_))));
    coordinator.fails_with(Some(unreachable()));
    assert_eq!(find(&wanted), Err(unreachable()), "away is not the same as missing");
}

#[test]
fn what_cannot_be_had_or_served_changes_nothing_and_is_tried_again_later() {
    let coordinator = Coordinator::default();
    coordinator.serves([("cpu", served(1))]);
    let mut agent = agent(&coordinator, of(Category::Cpu));
    scales(&mut agent, 2);
    let asked = coordinator.downloads();
    let small = Config { observation: 3, embedding: 0, ..Config::default() };
    let useless = ActorCritic::new(small, 1).unwrap().save().unwrap();
    for bad in [Err(unreachable()), Ok((2, b"nothing".to_vec())), Ok((3, useless))] {
        coordinator.serves([("cpu", bad)]);
    }
    scales(&mut agent, 1);
    assert_eq!(coordinator.downloads(), asked + 1);
    scales(&mut agent, RETRY_AFTER - 1);
    assert_eq!(coordinator.downloads(), asked + 1, "not with every step");
    scales(&mut agent, 1);
    assert_eq!(coordinator.downloads(), asked + 2);
    coordinator.serves([("cpu", served(4))]);
    scales(&mut agent, RETRY_AFTER);
    assert_eq!(coordinator.downloads(), asked + 3);
    scales(&mut agent, 2 * RETRY_AFTER);
    assert_eq!(coordinator.downloads(), asked + 3, "it has it now");
}
