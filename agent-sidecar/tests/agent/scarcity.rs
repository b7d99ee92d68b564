//! Scarce capacity: claims are sent, grants are kept, and neither an older coordinator nor a lost one does harm.

use meanfield_agent::{
    agent::{Agent, Report},
    environment::Target,
    guard::Clip,
    link,
    policy::{Decision, View},
};
use meanfield_common::{
    resources::{MilliCores, Scale},
    reward::Shape,
    scarcity::{Amount, Cores, Gibibytes, Grant, Headroom, Node, NodeId, Scarcity, Weight},
    wire::Problem,
};

use crate::support::{Coordinator, Log, Scripted, Wishes, now, pool, preserving, target, unreachable};

fn scarce(cores: Option<f64>) -> Option<Scarcity> {
    let grant = cores.map(|cores| Grant { cores: Some(Cores::clamped(cores)), memory_gib: None });
    Some(Scarcity { headroom: Headroom::default(), price: 0.5, grant, ..Scarcity::default() })
}

/// An agent that always wants six replicas of whatever size it finds, and its coordinator.
fn wanting_six() -> (Agent<Scripted, Coordinator, Wishes>, Coordinator) {
    wanting(|view| Scale { replicas: 6, ..view.seen.scale })
}

fn wanting(wish: fn(&View<'_>) -> Scale) -> (Agent<Scripted, Coordinator, Wishes>, Coordinator) {
    let coordinator = Coordinator::default();
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let policy = Wishes::new(&Log::default(), move |view| Decision::wish(wish(view)));
    let target = Target { weight: Weight::clamped(3.0), ..target() };
    let agent = Agent::new(target, environment, coordinator.clone(), pool(), policy, Shape::Paper { alpha: 1.0 });
    (agent, coordinator)
}

fn steps(agent: &mut Agent<Scripted, Coordinator, Wishes>, count: usize) -> Vec<Report> {
    (0..count).map(|_| now(agent.step(None)).unwrap()).collect()
}

#[test]
fn a_claim_is_the_wish_before_the_grant_cut_it() {
    let (mut agent, coordinator) = wanting_six();
    coordinator.grants(scarce(Some(2.0)));
    let reports = steps(&mut agent, 3);
    assert_eq!(reports[2].seen.scale.replicas, 2);
    assert_eq!(reports[2].clip, Some(Clip::Grant));
    let claims: Vec<_> = coordinator.heard().iter().map(|beat| beat.claim.unwrap()).collect();
    assert_eq!((claims[0].wanted, claims[0].weight.get()), (claims[0].held, 3.0), "at first it wants what it holds");
    assert_eq!((claims[2].wanted.cores.get(), claims[2].held.cores.get()), (6.0, 2.0));
    coordinator.grants(scarce(None));
    assert_eq!(steps(&mut agent, 2)[1].seen.scale.replicas, 6);
    coordinator.pauses(true);
    steps(&mut agent, 2);
    let claim = coordinator.heard().last().unwrap().claim.unwrap();
    assert_eq!(claim.wanted, claim.held, "a paused agent claims what it holds");
}

#[test]
fn a_size_that_a_grant_has_cut_comes_back_with_as_many_cores_in_all() {
    let (mut agent, coordinator) = wanting_six();
    coordinator.grants(scarce(Some(0.25)));
    let small = steps(&mut agent, 2)[1].seen.scale;
    assert_eq!((small.replicas, small.limit.cpu), (1, MilliCores(250)));
    coordinator.grants(scarce(None));
    // Six of a quarter of a core are two whole ones. What a grant took comes back at once, whatever may move in a step.
    let sizes: Vec<_> = steps(&mut agent, 4).iter().map(|report| report.seen.scale.limit.cpu.0).collect();
    assert_eq!(sizes, [250, 1000, 1000, 1000]);
    assert_eq!(steps(&mut agent, 1)[0].seen.scale.replicas, 6);
}

#[test]
fn one_that_moves_in_steps_has_all_of_its_scale_back_at_once() {
    let grown = |view: &View<'_>| Scale { replicas: (view.uncut.replicas + 1).min(6), ..view.uncut };
    let (mut agent, coordinator) = wanting(grown);
    let before = steps(&mut agent, 8)[7].seen.scale;
    assert_eq!(before.replicas, 6);
    coordinator.grants(scarce(Some(1.5)));
    let cut = steps(&mut agent, 4)[3].seen.scale;
    assert_eq!((cut.replicas, cut.limit.cpu), (2, MilliCores(750)));
    let claim = coordinator.heard().last().unwrap().claim.unwrap();
    assert_eq!(claim.wanted.cores.get(), 6.0, "it goes on claiming what it would have");
    coordinator.grants(scarce(None));
    assert_eq!(steps(&mut agent, 2)[1].seen.scale, before);
}

#[test]
fn without_the_coordinator_a_grant_ends_after_two_minutes() {
    let (mut agent, coordinator) = wanting_six();
    coordinator.grants(scarce(Some(2.0)));
    steps(&mut agent, 2);
    coordinator.fails_with(Some(unreachable()));
    let replicas: Vec<_> = steps(&mut agent, 10).iter().map(|report| report.seen.scale.replicas).collect();
    assert_eq!(replicas, [2, 2, 2, 2, 2, 2, 2, 2, 6, 6]);
}

#[test]
fn an_older_coordinator_hears_no_claims() {
    let (mut agent, coordinator) = wanting_six();
    coordinator.refuses_claims(Some(link::Error::Refused(Box::new(Problem {
        kind: "/problems/unknown-field".to_owned(),
        title: "A field does not exist".to_owned(),
        status: 422,
        detail: "unknown field `claim`".to_owned(),
        field: Some("claim".to_owned()),
        bound: None,
        trace_id: None,
    }))));
    let reports = steps(&mut agent, 3);
    assert!(reports.iter().all(|report| report.connected) && reports[2].seen.scale.replicas == 6);
    assert!(coordinator.heard().iter().all(|beat| beat.claim.is_none()) && coordinator.heard().len() == 3);
    // One that was upgraded does not know the agent, or at least will have it register again one day.
    coordinator.refuses_claims(None);
    coordinator.forgets_everybody();
    steps(&mut agent, 1);
    assert!(coordinator.heard().last().unwrap().claim.is_some());
}

#[test]
fn advice_is_heard_and_not_kept() {
    let (mut agent, coordinator) = wanting_six();
    let Scarcity { grant, .. } = scarce(Some(2.0)).unwrap();
    coordinator.grants(Some(Scarcity { advice: grant, ..Scarcity::default() }));
    let reports = steps(&mut agent, 4);
    assert_eq!((reports[3].seen.scale.replicas, reports[3].clip), (6, None));
}

#[test]
fn a_cap_ends_when_its_time_is_over_and_nobody_has_lifted_it() {
    let (mut agent, coordinator) = wanting_six();
    let seconds = steps(&mut agent, 1)[0].seen.seconds;
    let valid_ms = Some((3.0 * seconds * 1000.0) as u64);
    coordinator.grants(Some(Scarcity { valid_ms, ..scarce(Some(2.0)).unwrap() }));
    steps(&mut agent, 3);
    coordinator.fails_with(Some(unreachable()));
    let clips: Vec<_> = steps(&mut agent, 4).iter().map(|report| report.clip == Some(Clip::Grant)).collect();
    assert_eq!(clips, [true, true, false, false], "of steps of {seconds} s");
}

#[test]
fn nodes_are_named_in_turn_where_they_are_asked_for_and_not_to_an_older_coordinator() {
    let node = |name: &str| {
        let allocatable = Amount { cores: Cores::clamped(8.0), memory_gib: Gibibytes::clamped(32.0) };
        Node { id: NodeId::of(name), allocatable }
    };
    let coordinator = Coordinator::default();
    let mut environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    environment.nodes = vec![node("one"), node("two")];
    let (policy, shape) = (Wishes::hold(), Shape::Paper { alpha: 1.0 });
    let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), policy, shape);
    let named = || coordinator.heard().last().unwrap().claim.unwrap().node.map(|node| node.id);
    steps(&mut agent, 1);
    coordinator.grants(Some(Scarcity { nodes: true, ..Scarcity::default() }));
    steps(&mut agent, 1);
    assert_eq!(named(), None, "it has not heard of it yet");
    let turns: Vec<_> = (0..3).map(|_| steps(&mut agent, 1)).map(|_| named().unwrap()).collect();
    assert_eq!(turns, [node("one").id, node("two").id, node("one").id]);
    // Another coordinator in its place does not know them.
    coordinator.refuses_nodes(Some(link::Error::Refused(Box::new(Problem {
        kind: "/problems/unknown-field".to_owned(),
        title: "A field does not exist".to_owned(),
        status: 422,
        detail: "unknown field `node`".to_owned(),
        field: Some("claim.node".to_owned()),
        bound: None,
        trace_id: None,
    }))));
    assert!(steps(&mut agent, 1)[0].connected);
    assert_eq!(named(), None);
}
