//! The same seed gives the same bytes, in both models, however many threads run clusters beside each other.

#![allow(clippy::unwrap_used)]

use std::{
    fmt::Write,
    sync::{
        Mutex,
        atomic::{AtomicUsize, Ordering},
    },
    thread,
};

use meanfield_simulator::{
    cluster::{Cluster, Model, TenantId},
    scenario::{Scenario, Start},
};

const CLUSTERS: usize = 4;

/// Everything that a cluster of this seed says over some steps, with its tenants rescaled on the way. `{:?}` writes a
/// number with as many digits as tell it from every other, so equal text is equal bits.
fn told(model: Model, seed: u64) -> String {
    let (mut cluster, tenants) = Scenario::new(12, 40).unwrap().build(seed, Start::Random).unwrap();
    cluster.switch(model).unwrap();
    let tenants: Vec<_> = tenants.into_iter().map(|(id, _)| id).collect();
    let mut text = String::new();
    for step in 0..steps(model) {
        rescale(&mut cluster, step, &tenants);
        cluster.advance();
        for id in &tenants {
            writeln!(text, "{:?} {:?}", cluster.observe(*id).unwrap(), cluster.outcome(*id).unwrap()).unwrap();
        }
    }
    text
}

fn steps(model: Model) -> usize {
    match model {
        Model::Fluid => 200,
        Model::Events => 12,
    }
}

/// One tenant at a time gets a pod more or fewer, so that pods come and go.
fn rescale(cluster: &mut Cluster, step: usize, tenants: &[TenantId]) {
    let id = tenants[step % tenants.len()];
    let mut scale = cluster.observe(id).unwrap().scale;
    scale.replicas = if step.is_multiple_of(2) { scale.replicas + 1 } else { scale.replicas - 1 }.clamp(1, 16);
    cluster.set_scale(id, scale).unwrap();
}

/// The clusters of the first seeds, by so many threads that each take the next one.
fn all_told(model: Model, threads: usize) -> Vec<String> {
    let next = AtomicUsize::new(0);
    let texts = Mutex::new(vec![String::new(); CLUSTERS]);
    thread::scope(|scope| {
        for _ in 0..threads {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= CLUSTERS {
                        break;
                    }
                    let text = told(model, index as u64);
                    texts.lock().unwrap()[index] = text;
                }
            });
        }
    });
    texts.into_inner().unwrap()
}

fn the_same_whatever_the_threads(model: Model) {
    let alone = all_told(model, 1);
    let beside = all_told(model, CLUSTERS);
    for (seed, (alone, beside)) in alone.iter().zip(&beside).enumerate() {
        assert_eq!(alone.lines().count(), steps(model) * 12);
        let different = alone.lines().zip(beside.lines()).find(|(alone, beside)| alone != beside);
        assert_eq!(different, None, "seed {seed}");
    }
    assert_ne!(alone[0], alone[1], "seeds matter");
}

#[test]
fn the_fluid_model_says_the_same_on_one_thread_and_on_four() {
    the_same_whatever_the_threads(Model::Fluid);
}

#[test]
fn the_event_model_says_the_same_on_one_thread_and_on_four() {
    the_same_whatever_the_threads(Model::Events);
}
