//! What one heartbeat costs in process, for few and for many agents: it should be the same.

// A bench that cannot start has nothing to measure.
#![allow(clippy::expect_used)]

use std::hint::black_box;

use criterion::{BenchmarkId, Criterion, criterion_group, criterion_main};
use meanfield_common::{
    action::Action,
    identity::{Category, Sequence},
    mean_field::Aspects,
    reward::Reward,
    state::{LocalState, Unit},
    wire::{Heartbeat, Register, Registered},
};
use meanfield_coordinator::{Clock, Coordinator, Options};

fn members(coordinator: &Coordinator, count: usize) -> Vec<Registered> {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    let register = |agent: usize| Register {
        name: format!("agent-{agent}").parse().expect("a name"),
        pool: coordinator.options().pools[0].clone(),
        category: Category::Cpu,
        wants: Aspects::NONE,
    };
    runtime
        .block_on(futures_util::future::join_all((0..count).map(|agent| coordinator.register(register(agent)))))
        .into_iter()
        .collect::<Result<_, _>>()
        .expect("members")
}

fn heartbeat(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("heartbeat");
    for count in [1, 1000, 100_000] {
        let coordinator = Coordinator::open(Options::default(), Clock::system()).expect("a coordinator");
        let members = members(&coordinator, count);
        let mut turn = 0_usize;
        let mut next = |round: bool| {
            let member = &members[turn % count];
            let sequence = Sequence((turn / count) as u64);
            let level = (turn % 97) as f64 / 97.0;
            let state = LocalState { cpu_limit: Unit::clamped(level), ..LocalState::default() };
            let reward = Reward::try_from(level).expect("a reward");
            turn += 1;
            let round = round.then_some(sequence.0);
            let beat = Heartbeat {
                epoch: member.epoch,
                sequence,
                round,
                state,
                action: Action::HOLD,
                reward,
                claim: None,
                detail: false,
                moving: None,
            };
            coordinator.heartbeat(member.agent, &beat).expect("an answer")
        };
        group.bench_function(BenchmarkId::new("real-time", count), |bencher| bencher.iter(|| black_box(next(false))));
        group.bench_function(BenchmarkId::new("lock-step", count), |bencher| bencher.iter(|| black_box(next(true))));
    }
    group.finish();
}

criterion_group!(benches, heartbeat);
criterion_main!(benches);
