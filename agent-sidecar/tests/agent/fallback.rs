//! The kill switch: the fallback decides while it is on, and the policy again when it is lifted.

use meanfield_agent::{
    agent::Agent,
    policy::{Decision, Policy, hpa::Follow, reactive::Reactive, rules::Rules},
};
use meanfield_common::{
    observation::Observation,
    resources::{MilliCores, Scale},
    reward::Shape,
};
use parking_lot::Mutex;
use std::sync::Arc;

use crate::support::{Coordinator, Log, Scripted, Wishes, now, pool, preserving, target, unreachable};

/// A policy that always wants so many replicas, and says what it was shown.
fn wanting(replicas: u32, paused: &Arc<Mutex<Vec<bool>>>) -> Wishes {
    let paused = Arc::clone(paused);
    Wishes::new(&Log::default(), move |view| {
        paused.lock().push(view.paused);
        Decision::wish(Scale { replicas, ..view.seen.scale })
    })
}

#[test]
fn one_of_both_is_carried_out_and_the_other_only_looks() {
    let coordinator = Coordinator::default();
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let (first, second) = (Arc::default(), Arc::default());
    let shape = Shape::Paper { alpha: 1.0 };
    let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), wanting(4, &first), shape);
    agent.fall_back_to(Box::new(wanting(2, &second)));
    let mut replicas = || {
        now(agent.step(None)).unwrap();
        now(agent.step(None)).unwrap().seen.scale.replicas
    };
    assert_eq!(replicas(), 4);
    coordinator.falls_back(true);
    assert_eq!(replicas(), 2);
    // The word of a coordinator that is away still holds.
    coordinator.fails_with(Some(unreachable()));
    assert_eq!(replicas(), 2);
    coordinator.fails_with(None);
    coordinator.falls_back(false);
    assert_eq!(replicas(), 4);
    let on = [false, false, true, true, true, true, false, false];
    assert_eq!(*first.lock(), on, "nothing is learnt from what is not carried out");
    assert_eq!(*second.lock(), on.map(|on| !on));
}

#[test]
fn without_a_fallback_the_workload_is_left_as_it_is() {
    let coordinator = Coordinator::default();
    let environment = Scripted::new(&Log::default(), |_| preserving(1.0));
    let policy = Wishes::new(&Log::default(), |view| {
        Decision::wish(Scale { replicas: view.seen.scale.replicas + 1, ..view.seen.scale })
    });
    let shape = Shape::Paper { alpha: 1.0 };
    let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), policy, shape);
    now(agent.step(None)).unwrap();
    coordinator.falls_back(true);
    let seen: Vec<_> = (0..4).map(|_| now(agent.step(None)).unwrap().seen.scale.replicas).collect();
    assert_eq!(seen, [2, 2, 2, 2]);
}

/// A network gone mad holds one small replica under a load of ten busy cores; the fallbacks bring what is needed.
#[test]
fn the_queue_model_and_hpa_take_over_from_a_policy_gone_mad() {
    let fallbacks: [Box<dyn Policy>; 2] =
        [Box::new(Reactive::default()), Box::new(Rules::hpa_vpa(Follow::Cpu(0.8)).unwrap())];
    for fallback in fallbacks {
        let name = fallback.name();
        let coordinator = Coordinator::default();
        let overloaded = |_| Observation {
            seconds: 15.0,
            arrival_rate: 100.0,
            throughput: 10.0,
            cpu_used: MilliCores(990),
            ready: 1,
            backlog: 500.0,
            latency_p99: Some(5000.0),
            ..Observation::default()
        };
        let environment = Scripted::new(&Log::default(), overloaded);
        let mad = wanting(1, &Arc::default());
        let shape = Shape::Paper { alpha: 1.0 };
        let mut agent = Agent::new(target(), environment, coordinator.clone(), pool(), mad, shape);
        agent.fall_back_to(fallback);
        let mut replicas =
            |steps: usize| (0..steps).map(|_| now(agent.step(None)).unwrap().seen.scale.replicas).last().unwrap();
        assert_eq!(replicas(8), 1, "{name}");
        coordinator.falls_back(true);
        assert!(replicas(8) > 1, "{name}");
        coordinator.falls_back(false);
        assert_eq!(replicas(8), 1, "{name}");
    }
}
