//! Many threads at once: the sums stay exactly what the members add up to.

use std::{sync::Barrier, thread, time::Duration};

use meanfield_common::wire::{Leave, Registered};
use meanfield_coordinator::{Clock, Coordinator, Options};
use parking_lot::Mutex;

use crate::support::*;

const THREADS: u64 = 8;
const NAMES: usize = 24;
const STEPS: u64 = 400;

/// A small generator of random numbers, one for each thread.
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % sides
    }
}

#[test]
fn joins_heartbeats_leaves_removals_and_sweeps_at_once_keep_the_sums_exact() {
    let clock = Clock::manual();
    let coordinator = Coordinator::open(Options::default(), clock.clone()).unwrap();
    let known: Vec<Mutex<Option<Registered>>> = (0..NAMES).map(|_| Mutex::default()).collect();
    let barrier = Barrier::new(THREADS as usize);
    thread::scope(|scope| {
        for thread in 0..THREADS {
            let (coordinator, clock, known, barrier) = (&coordinator, &clock, &known, &barrier);
            scope.spawn(move || {
                let mut dice = Dice(thread);
                for phase in 0..3 {
                    for step in 0..STEPS {
                        act(coordinator, clock, known, &mut dice, phase * STEPS + step);
                    }
                    // Nobody moves while the books are checked.
                    barrier.wait();
                    assert!(coordinator.audit(), "thread {thread}, phase {phase}");
                    barrier.wait();
                }
            });
        }
    });
}

fn act(coordinator: &Coordinator, clock: &Clock, known: &[Mutex<Option<Registered>>], dice: &mut Dice, step: u64) {
    let agent = dice.roll(known.len());
    let registered = *known[agent].lock();
    // What is refused here depends on the threads' luck; what matters is that the sums hold either way.
    match (dice.roll(40), registered) {
        (0 | 1, _) | (_, None) => {
            let registered = block_on(member(coordinator, &format!("agent-{agent}")));
            *known[agent].lock() = Some(registered);
        }
        (2, Some(old)) => drop(block_on(coordinator.leave(old.agent, Leave { epoch: old.epoch }))),
        (3, Some(old)) => drop(block_on(coordinator.remove(old.agent))),
        (4, _) => {
            clock.advance(Duration::from_secs(5));
            block_on(coordinator.sweep()).unwrap();
        }
        (kind, Some(old)) => {
            let message = beat(old.epoch, step, dice.roll(101) as u8);
            let message = if kind < 12 { in_round(step / 50, message) } else { message };
            drop(coordinator.heartbeat(old.agent, &message));
        }
    }
}
