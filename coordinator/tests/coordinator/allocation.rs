//! Heartbeats allocate nothing, also where somebody has to yield and that is written down, reports a node, asks for a part of
//! the change budget, or makes an event.

use std::time::Duration;

use meanfield_common::{
    budget::{Budget, Moving},
    mean_field::Aspects,
    scarcity::{
        self, Ageing, Amount, Capacity, Claim, Cores, Entitlement, Gibibytes, Mode, Node, NodeId, Pods, Share, Source,
        Weight,
    },
    wire::{Heartbeat, Register},
};
use meanfield_coordinator::{
    Clock, Coordinator, Options,
    orders::{Order, Scope, Terms},
    settings::{Settings, TeamReward},
    view::CutFilter,
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
        node: None,
    }
}

#[test]
fn a_heartbeat_allocates_nothing_but_the_details_that_it_tells() {
    let clock = Clock::manual();
    let capacities = vec![(pool("default"), Capacity::new(100.0, 400.0).unwrap())];
    let coordinator = Coordinator::open(Options { capacities, ..Options::default() }, clock.clone()).unwrap();
    let budget = Order::Budget(pool("default"), Some(Budget::new(10.0).unwrap()));
    block_on(coordinator.order(budget, Terms::default())).unwrap();
    // Answers speak of base models too.
    crate::models::add(&coordinator, &"cpu".parse().unwrap(), crate::models::file(1));
    let weighted = Settings { team_reward: TeamReward::Weighted, ..Settings::default() };
    block_on(coordinator.set_pool(&pool("default"), Some(weighted))).unwrap();
    // Each of them is told some details of g or none.
    let joining = |agent: u8| Register { wants: Aspects::from_bits(agent), ..register(&format!("a{agent}")) };
    let agents: Vec<_> = (0..100).map(|agent| block_on(coordinator.register(joining(agent))).unwrap()).collect();
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
    // One box an answer with details, in three rounds with a retry each.
    let detailed = agents.iter().filter(|agent| !agent.agreed.is_none()).count() as u64;
    assert_eq!((counted.count_total, detailed), (3 * 2 * detailed, 87));
    assert!(coordinator.pools()[0].scarcity.as_ref().is_some_and(|scarcity| scarcity.grants > 10));
}

#[test]
fn nor_does_it_while_cuts_come_and_go_and_nodes_are_reported() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(Options::default(), clock.clone()).unwrap();
    let agents: Vec<_> = (0..100).map(|agent| block_on(member(&coordinator, &format!("a{agent}")))).collect();
    let ageing = Ageing::try_from(1.0).unwrap();
    let settings = scarcity::Settings { mode: Mode::Enforce, ageing, capacity: Source::Reported };
    let weight = Some(Weight::clamped(2.0));
    let minimum = Some(Amount { cores: Cores::clamped(1.0), memory_gib: Gibibytes::clamped(1.0) });
    for order in [
        Order::Scarcity(pool("default"), Some(settings)),
        Order::Entitlement(agents[0].agent, Some(Entitlement { weight, minimum })),
    ] {
        block_on(coordinator.order(order, Terms::default())).unwrap();
    }
    let has = Amount { cores: Cores::clamped(2.0), memory_gib: Gibibytes::clamped(400.0) };
    let round = |sequence: u64, cores: f64| {
        clock.advance(Duration::from_secs(1));
        for (place, agent) in agents.iter().enumerate() {
            let node = Some(Node { id: NodeId((place as u64 + sequence) % 50), allocatable: has });
            let wanted = Amount { cores: Cores::clamped(cores), ..claim().wanted };
            let claim = Claim { node, wanted, held: wanted, ..claim() };
            let message = Heartbeat { claim: Some(claim), ..beat(agent.epoch, sequence, 50) };
            coordinator.heartbeat(agent.agent, &message).unwrap();
        }
    };
    // Until it is known what the nodes have.
    for sequence in 1..4 {
        round(sequence, 2.0);
        clock.advance(Duration::from_secs(150));
    }
    let counted = allocation_counter::measure(|| {
        for sequence in 4..62 {
            round(sequence, if sequence % 3 == 0 { 0.5 } else { 2.0 });
        }
    });
    assert_eq!(counted.count_total, 0);
    let seen = coordinator.cuts(&pool("default"), &CutFilter::default(), 0, usize::MAX).unwrap();
    assert_eq!(seen.cuts.len(), 1024, "as many as are kept");
    assert_eq!(coordinator.capacity(&pool("default")).unwrap().effective.unwrap().cores.get(), 100.0);
}
