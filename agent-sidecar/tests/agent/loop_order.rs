//! One step: its order, what it reports, and what the guard lets through.

use meanfield_agent::{
    agent::Agent,
    guard::Clip,
    policy::{Decision, Feedback},
};
use meanfield_common::{
    action::Action,
    observation::Observation,
    resources::{Bytes, MilliCores, Resources, Scale},
    reward::Shape,
};
use proptest::prelude::*;

use crate::support::{Coordinator, Event, Log, Scripted, Wishes, now, out, pool, preserving, target};

/// One replica more in every step.
fn outwards(log: &Log) -> Wishes {
    Wishes::new(log, |view| {
        let Scale { replicas, limit } = view.seen.scale;
        Decision::wish(Scale { replicas: replicas + 1, limit })
    })
}

#[test]
fn a_step_goes_observe_heartbeat_record_decide_actuate() {
    let coordinator = Coordinator::default();
    let log = coordinator.log.clone();
    let environment = Scripted::new(&log, |_| preserving(0.5));
    let shape = Shape::Paper { alpha: 1.0 };
    let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), outwards(&log), shape);
    now(agent.step(None)).unwrap();
    let beat = coordinator.heard()[0];
    let limit = Observation::default().scale.limit;
    let expected = [
        Event::Observed,
        Event::Registered,
        Event::Reported(beat),
        Event::Fed(Feedback { own: 0.5, team: Some(0.5), team_lag: 0 }),
        Event::Decided,
        Event::Actuated(Scale { replicas: 2, limit }),
    ];
    assert_eq!(*log.lock(), expected);
}

#[test]
fn a_heartbeat_carries_the_action_of_the_step_before_and_its_reward() {
    let coordinator = Coordinator::default();
    let preservation = [1.0, 0.5, 0.25];
    let environment = Scripted::new(&Log::default(), move |step| preserving(preservation[step]));
    let policy = outwards(&Log::default());
    let shape = Shape::Paper { alpha: 1.0 };
    let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), policy, shape);
    let reports: Vec<_> = (0..3).map(|round| now(agent.step(Some(round))).unwrap()).collect();
    let heard = coordinator.heard();
    assert_eq!(heard.iter().map(|beat| beat.action).collect::<Vec<_>>(), [Action::HOLD, out(), out()]);
    assert_eq!(heard.iter().map(|beat| beat.reward.get()).collect::<Vec<_>>(), preservation);
    assert_eq!(heard.iter().map(|beat| beat.round).collect::<Vec<_>>(), [Some(0), Some(1), Some(2)]);
    assert_eq!(heard.iter().map(|beat| beat.state.replicas.get()).collect::<Vec<_>>(), [1.0 / 16.0, 0.125, 3.0 / 16.0]);
    assert!(reports.iter().all(|report| report.connected && report.action == out() && report.clip.is_none()));
    assert_eq!(reports.iter().map(|report| report.violated).collect::<Vec<_>>(), [false, true, true]);
}

#[test]
fn moving_back_and_illegal_picks_cost_in_the_next_step() {
    let mut step = 0;
    let policy = Wishes::new(&Log::default(), move |view| {
        step += 1;
        let Scale { replicas, limit } = view.seen.scale;
        match step {
            1 => Decision::wish(Scale { replicas: replicas + 1, limit }),
            2 => Decision::wish(Scale { replicas: replicas - 1, limit }),
            3 => Decision { illegal: true, ..Decision::wish(view.seen.scale) },
            _ => Decision::wish(view.seen.scale),
        }
    });
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let shape = Shape::Paper { alpha: 1.0 };
    let mut agent = Agent::new(target(), environment, Coordinator::default(), pool(), policy, shape);
    let rewards: Vec<_> = (0..6).map(|_| now(agent.step(None)).unwrap().reward).collect();
    assert_eq!(rewards, [1.0, 1.0, 0.0, 0.0, 1.0, 1.0]);
}

#[test]
fn what_the_guard_cuts_is_reported_and_not_carried_out() {
    // The wish, what is made of it, and why.
    let script = [(2, 2, None), (9, 6, Some(Clip::Rate)), (8, 8, None), (40, 16, Some(Clip::Bounds))];
    let mut wishes = script.into_iter();
    let policy = Wishes::new(&Log::default(), move |view| {
        let (replicas, ..) = wishes.next().unwrap();
        Decision::wish(Scale { replicas, ..view.seen.scale })
    });
    let log = Log::default();
    let environment = Scripted::new(&log, |_| preserving(1.0));
    let mut agent = Agent::new(target(), environment, Coordinator::default(), pool(), policy, Shape::PAPER);
    for (wish, carried_out, clip) in script {
        assert_eq!(now(agent.step(None)).unwrap().clip, clip, "{wish}");
        let Some(Event::Actuated(scale)) = log.lock().last().cloned() else { panic!("nothing was carried out") };
        assert_eq!(scale.replicas, carried_out);
    }
}

proptest! {
    #[test]
    fn whatever_a_policy_wishes_the_bounds_hold_and_the_action_says_what_happened(
        wishes in prop::collection::vec((any::<u32>(), any::<u64>(), any::<u64>()), 1..20),
    ) {
        let steps = wishes.len();
        let mut wishes = wishes.into_iter();
        let policy = Wishes::new(&Log::default(), move |_| {
            let (replicas, cpu, memory) = wishes.next().unwrap();
            Decision::wish(Scale { replicas, limit: Resources { cpu: MilliCores(cpu), memory: Bytes(memory) } })
        });
        let log = Log::default();
        let environment = Scripted::new(&log, |_| preserving(1.0));
        let mut agent = Agent::new(target(), environment, Coordinator::default(), pool(), policy, Shape::PAPER);
        for _ in 0..steps {
            let logged = log.lock().len();
            let report = now(agent.step(None)).unwrap();
            prop_assert!(target().bounds.contains(&report.seen.scale));
            let actuated = log.lock()[logged..].iter().find_map(|event| match event {
                Event::Actuated(scale) => Some(*scale),
                _ => None,
            });
            let after = actuated.unwrap_or(report.seen.scale);
            prop_assert!(target().bounds.contains(&after));
            let before = report.seen.scale;
            let action = report.action;
            prop_assert_eq!(action.replicas.sign(), after.replicas.cmp(&before.replicas) as i32);
            prop_assert_eq!(action.cpu.sign(), after.limit.cpu.cmp(&before.limit.cpu) as i32);
            prop_assert_eq!(action.memory.sign(), after.limit.memory.cmp(&before.limit.memory) as i32);
        }
    }
}
