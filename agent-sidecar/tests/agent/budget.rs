//! A pool's change budget: the agent asks once it is told of one, and moves no more than it was allowed.

use meanfield_agent::{agent::Agent, guard::Clip, link, policy::Decision};
use meanfield_common::{budget::Moving, resources::Scale, reward::Shape, wire::Problem};

use crate::support::{Coordinator, Log, Scripted, Wishes, now, pool, preserving, target, unreachable};

/// An agent that always wants eight replicas, and its coordinator.
fn wanting_eight() -> (Agent<Scripted, Coordinator, Wishes>, Coordinator) {
    let coordinator = Coordinator::default();
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let policy = Wishes::new(&Log::default(), |view| Decision::wish(Scale { replicas: 8, ..view.seen.scale }));
    let shape = Shape::Paper { alpha: 1.0 };
    let agent = Agent::new(target(), environment, coordinator.clone(), pool(), policy, shape);
    (agent, coordinator)
}

#[test]
fn moves_no_more_than_allowed_and_asks_for_the_rest() {
    let (mut agent, coordinator) = wanting_eight();
    let mut step = || now(agent.step(None)).unwrap();
    coordinator.allows(Some(Moving::default()));
    for _ in 0..3 {
        let report = step();
        assert_eq!((report.seen.scale.replicas, report.clip), (1, Some(Clip::Budget)));
    }
    let request = step().seen.request.cpu.0 as u32;
    let asked: Vec<_> = coordinator.heard().iter().map(|beat| beat.moving.map(|moving| moving.millicores)).collect();
    // The rate of change lets it go to five at once.
    assert_eq!(asked, [None, Some(4 * request), Some(4 * request), Some(4 * request)]);
    coordinator.allows(Some(Moving { millicores: 2 * request, mebibytes: 1 << 20 }));
    assert_eq!([step(), step()].map(|report| report.seen.scale.replicas), [1, 3]);
    coordinator.allows(None);
    assert_eq!(
        [step(), step()].map(|report| report.seen.scale.replicas),
        [5, 8],
        "without a budget nothing is in its way"
    );
    assert_eq!(coordinator.heard().last().unwrap().moving, None, "and it asks no more");
}

#[test]
fn without_the_coordinator_nothing_moves_for_a_while_and_then_all_may() {
    let (mut agent, coordinator) = wanting_eight();
    coordinator.allows(Some(Moving::default()));
    now(agent.step(None)).unwrap();
    coordinator.fails_with(Some(unreachable()));
    let seen: Vec<_> = (0..10).map(|_| now(agent.step(None)).unwrap().seen.scale.replicas).collect();
    assert_eq!(seen[..8], [1; 8]);
    assert!(seen[9] > 1, "{seen:?}");
}

#[test]
fn an_older_coordinator_is_asked_without() {
    let (mut agent, coordinator) = wanting_eight();
    coordinator.allows(Some(Moving::default()));
    now(agent.step(None)).unwrap();
    let unknown = Problem {
        kind: "/problems/unknown-field".to_owned(),
        title: String::new(),
        status: 422,
        detail: "unknown field".to_owned(),
        field: Some("moving".to_owned()),
        bound: None,
        trace_id: None,
    };
    coordinator.refuses_moves(Some(link::Error::Refused(Box::new(unknown))));
    let report = now(agent.step(None)).unwrap();
    assert!(report.connected);
    assert_eq!(coordinator.heard().last().unwrap().moving, None);
}
