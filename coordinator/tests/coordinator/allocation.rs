//! Heartbeats allocate nothing, also where somebody has to yield, asks for a part of the change budget, or makes an event.

use std::time::Duration;

use meanfield_common::{
    budget::{Budget, Moving},
    scarcity::{Amount, Capacity, Claim, Cores, Gibibytes, Pods, Share, Weight},
    wire::Heartbeat,
};
use meanfield_coordinator::{
    Clock, Coordinator, Options,
    orders::{Order, Scope, Terms},
};

use crate::support::*;

/// What each agent claims: more than there is, so that every round has somebody to cut.
fn claim() -> Claim {
    let amount = Amount { cores: Cores::clamped(2.0), memory_gib: Gibibytes::clamped(2.0) };
    Claim {
        wanted: amount,
        held: amount,
        offered: Cores::clamped(1.0),
        weight: Weight::default(),
        pending: Pods::default(),
        node_utilisation: Share::clamped(0.5),
    }
}

#[test]
fn a_heartbeat_allocates_nothing() {
    let clock = Clock::manual();
    let capacities = vec![(pool("default"), Capacity::new(100.0, 400.0).unwrap())];
    let coordinator = Coordinator::open(Options { capacities, ..Options::default() }, clock.clone()).unwrap();
    let budget = Order::Budget(pool("default"), Some(Budget::new(10.0).unwrap()));
    block_on(coordinator.order(budget, Terms::default())).unwrap();
    let agents: Vec<_> = (0..100).map(|agent| block_on(member(&coordinator, &format!("a{agent}")))).collect();
    // One that is looked up, so that others are too.
    let fallback = Order::Fallback(Scope::Agent(agents[0].agent), true);
    block_on(coordinator.order(fallback, Terms::default())).unwrap();
    let round = |sequence: u64, lockstep: bool| {
        for agent in &agents {
            let moving = Some(Moving { millicores: 100, mebibytes: 100 });
            let message = Heartbeat { claim: Some(claim()), moving, ..beat(agent.epoch, sequence, 50) };
            let message = if lockstep { in_round(sequence, message) } else { message };
            coordinator.heartbeat(agent.agent, &message).unwrap();
            // A retry, and refusals.
            coordinator.heartbeat(agent.agent, &message).unwrap();
            coordinator.heartbeat(agent.agent, &beat(agent.epoch, 0, 50)).unwrap_err();
            coordinator.heartbeat(agent.agent, &beat(agent.epoch.next(), 0, 50)).unwrap_err();
        }
    };
    round(1, false);
    let counted = allocation_counter::measure(|| {
        clock.advance(Duration::from_secs(1));
        round(2, false);
        round(3, true);
        round(4, true);
    });
    assert_eq!(counted.count_total, 0);
    assert!(coordinator.pools()[0].scarcity.as_ref().is_some_and(|scarcity| scarcity.grants > 10));
}
