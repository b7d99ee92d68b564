//! Heartbeats allocate nothing.

use crate::support::*;

#[test]
fn a_heartbeat_allocates_nothing() {
    let coordinator = in_memory();
    let agents: Vec<_> = (0..100).map(|agent| block_on(member(&coordinator, &format!("a{agent}")))).collect();
    let round = |sequence: u64, lockstep: bool| {
        for agent in &agents {
            let message = beat(agent.epoch, sequence, 50);
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
        round(2, false);
        round(3, true);
        round(4, true);
    });
    assert_eq!(counted.count_total, 0);
}
