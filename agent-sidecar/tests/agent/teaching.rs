//! What an agent has learnt reaches the base model that it started from, or the one that it would start from now.

use meanfield_agent::{
    agent::Agent,
    following::Wanted,
    link,
    profile::{FIRST, Profile},
    teaching::{Outbox, Teaching},
};
use meanfield_common::{
    identity::Category,
    observation::Observation,
    resources::{Bytes, MilliCores},
    reward::Shape,
};

use crate::support::*;

type Tested = Agent<Scripted, Coordinator, Wishes>;

/// An agent whose workload is seen to wait for others, and is therefore of the category io.
fn agent(coordinator: &Coordinator, teaching: Teaching) -> Tested {
    let environment = Scripted::new(&Log::default(), |_| Observation {
        cpu_used: MilliCores(400),
        concurrency: 2.0,
        memory_used: Bytes::mebi(50),
        ..Observation::default()
    });
    let mut agent = Agent::new(pinned(), environment, coordinator.clone(), pool(), Wishes::hold(), Shape::BALANCED);
    agent.teach(teaching);
    agent
}

/// Hands something in with the next step, and says for which models it was taken so far.
fn taught(agent: &mut Tested, outbox: &Outbox, coordinator: &Coordinator) -> Vec<String> {
    outbox.put(b"a network".to_vec());
    now(agent.step(None)).unwrap();
    coordinator.contributions()
}

fn served() -> Result<(u64, Vec<u8>), link::Error> {
    Ok((1, b"a network".to_vec()))
}

#[test]
fn a_class_without_a_model_teaches_that_of_its_category() {
    let (coordinator, outbox) = (Coordinator::default(), Outbox::default());
    coordinator.serves([("cpu", served())]);
    let wanted = Wanted { name: Some("checkout".parse().unwrap()), category: Some(Category::Cpu), version: None };
    let mut agent = agent(&coordinator, Teaching::new(wanted, outbox.clone()));
    assert_eq!(taught(&mut agent, &outbox, &coordinator), ["cpu"]);
    coordinator.serves([("cpu", served()), ("checkout", served())]);
    assert_eq!(taught(&mut agent, &outbox, &coordinator), ["cpu", "checkout"]);
    // Only a model that is missing has another in its place.
    coordinator.serves([("cpu", served()), ("checkout", Err(unreachable()))]);
    assert_eq!(taught(&mut agent, &outbox, &coordinator), ["cpu", "checkout"]);
}

#[test]
fn an_inferred_category_is_taught_unless_it_is_known_where_the_network_came_from() {
    let of_category = Wanted { category: Some(Category::Cpu), ..Wanted::default() };
    let outbox = Outbox::default();
    for (teaching, after) in [
        (Teaching::new(of_category, outbox.clone()), "io"),
        (Teaching::of("cpu".parse().unwrap(), outbox.clone()), "cpu"),
    ] {
        let coordinator = Coordinator::default();
        coordinator.serves([("cpu", served()), ("io", served())]);
        let mut agent = agent(&coordinator, teaching);
        agent.infer(Profile::default());
        assert_eq!(taught(&mut agent, &outbox, &coordinator), ["cpu"]);
        for _ in 0..FIRST {
            now(agent.step(None)).unwrap();
        }
        assert_eq!(agent.target().category, Category::Io);
        assert_eq!(taught(&mut agent, &outbox, &coordinator), ["cpu", after]);
    }
}
