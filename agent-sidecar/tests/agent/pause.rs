//! A paused agent observes and reports, changes nothing, learns nothing, and goes on when it is told to.

use std::sync::Arc;

use meanfield_agent::{
    agent::Agent,
    guard::Clip,
    metrics::Metrics,
    policy::{Decision, ppo::Ppo},
};
use meanfield_common::{action::Action, resources::Scale, reward::Shape};
use meanfield_learner::{ActorCritic, Config};

use crate::support::{Coordinator, Event, Log, Scripted, Wishes, now, out, pool, preserving, target};

#[test]
fn a_paused_agent_reports_but_changes_nothing_until_it_is_resumed() {
    let coordinator = Coordinator::default();
    let log = Log::default();
    let environment = Scripted::new(&log, |_| preserving(1.0));
    let policy = Wishes::new(&Log::default(), |view| {
        let mut scale = view.seen.scale;
        scale.replicas += 1;
        Decision { illegal: view.paused, ..Decision::wish(scale) }
    });
    let shape = Shape::Paper { alpha: 1.0 };
    let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), policy, shape);
    let mut step = || now(agent.step(None)).unwrap();
    assert_eq!(step().action, out());
    coordinator.pauses(true);
    for _ in 0..3 {
        let report = step();
        assert_eq!((report.action, report.seen.scale.replicas), (Action::HOLD, 2));
        assert_eq!(report.reward, 1.0, "what is not carried out costs nothing");
    }
    assert_eq!(coordinator.heard().len(), 4);
    assert_eq!(coordinator.heard()[3].action, Action::HOLD);
    // The word of a coordinator that is away still holds.
    coordinator.fails_with(Some(crate::support::unreachable()));
    assert_eq!(step().action, Action::HOLD);
    coordinator.fails_with(None);
    coordinator.pauses(false);
    assert_eq!(step().action, out());
    let actuations = log.lock().iter().filter(|event| matches!(event, Event::Actuated(_))).count();
    assert_eq!(actuations, 2);
}

#[test]
fn a_wish_that_is_not_carried_out_is_not_counted_as_cut() {
    let coordinator = Coordinator::default();
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let policy = Wishes::new(&Log::default(), |view| {
        let Scale { limit, .. } = view.seen.scale;
        Decision::wish(Scale { replicas: 100, limit })
    });
    let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), policy, Shape::BALANCED);
    let metrics = Arc::new(Metrics::new(Arc::default()));
    agent.measure(Arc::clone(&metrics));
    let clips = [false, true, true, false].map(|paused| {
        coordinator.pauses(paused);
        now(agent.step(None)).unwrap().clip
    });
    assert_eq!(clips, [Some(Clip::Rate), None, None, Some(Clip::Rate)]);
    let text = metrics.render().unwrap();
    assert!(text.contains("meanfield_agent_clips_total{reason=\"rate\"} 2\n"), "{text}");
}

#[test]
fn decisions_that_were_not_carried_out_are_no_experience() {
    let coordinator = Coordinator::default();
    let network = ActorCritic::new(Config::preset_default(), 1).unwrap();
    let policy = Ppo::exploring(Arc::new(network), 1);
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), policy, Shape::BALANCED);
    for step in 0..20 {
        coordinator.pauses((5..15).contains(&step));
        now(agent.step(None)).unwrap();
    }
    // Five decisions were carried out since the pause, and the last of them has no reward yet. Those before it are not
    // joined to them: what happened in between was nobody's doing.
    assert_eq!(agent.policy_mut().settled(), 4);
    assert_eq!(agent.policy_mut().take_episode().unwrap().unwrap().segment.len(), 4);
}
