//! Applications: programs put together from segments, as many as a meta-learner needs to see.
//!
//! As in AWARE's evaluation, an application is a random sample with replacement of the sixteen segments; there are a
//! thousand of them, 800 to learn from and 200 to be tested on. A request runs its segments one after the other and
//! holds their inputs and results until it is answered, so that demands add up. How many segments an application has
//! and how large their inputs are is not printed; here it is two to five, each with inputs of half, once or one and a
//! half times the usual size.

use std::{collections::BTreeSet, ops, sync::Arc};

use meanfield_common::{identity::Category, resources::Bytes};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    input::Sizes,
    instability::Instability,
    workload::{Distribution, Objective, Workload, segments},
};

/// How many applications there are.
pub const COUNT: usize = 1000;
/// How many of them are to learn from; the others are to be tested on.
pub const TRAINING: usize = 800;
/// How many segments an application has.
pub const PARTS: ops::RangeInclusive<usize> = 2..=5;

/// Sizes of a segment's inputs, over the usual size.
const INPUTS: [f64; 3] = [0.5, 1.0, 1.5];
/// Memory of the language's runtime, which the segments of an application share.
const RUNTIME: Bytes = Bytes::mebi(32);
/// Mean demand of an application in cores, unless its disk or network would be asked for too much.
const DEMAND: ops::Range<f64> = 0.4..2.4;
/// The most that an application asks for on average, in megabytes per second: a node holds two or three of them.
const MOST_DISK: f64 = 60.0;
const MOST_NETWORK: f64 = 200.0;

/// A program and what it is made of.
#[derive(Debug, Clone, PartialEq)]
pub struct Application {
    /// What its requests need.
    pub workload: Arc<Workload>,
    /// Its segments with the sizes of their inputs, which requests run one after the other.
    parts: Vec<Workload>,
}

impl Application {
    /// The segments' names, with repetitions.
    pub fn segments(&self) -> impl Iterator<Item = &str> {
        self.parts.iter().map(|part| part.name.as_str())
    }

    /// What its requests need once an instability has happened to all segments that it concerns; nothing when there
    /// are none.
    #[must_use]
    pub fn after(&self, instability: Instability) -> Option<Arc<Workload>> {
        let concerned = self.parts.iter().any(|part| instability.after(part).is_some());
        let parts = self.parts.iter().map(|part| instability.after(part).unwrap_or_else(|| part.clone()));
        concerned.then(|| {
            let changed = combine(&self.workload.name, self.workload.demand, &parts.collect::<Vec<_>>());
            // As many requests as before, each of which takes longer.
            let demand = self.workload.mean_rate() * changed.cpu_seconds();
            Arc::new(Workload { demand, ..changed })
        })
    }
}

/// The thousand applications of a seed, no two of the same segments and inputs.
#[must_use]
pub fn generate(seed: u64) -> Vec<Application> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut known = BTreeSet::new();
    let mut applications = Vec::with_capacity(COUNT);
    while applications.len() < COUNT {
        let count = rng.random_range(PARTS);
        // There are almost a thousand different ones of two segments and more of the others, so this ends.
        let chosen = loop {
            let draw = |_| {
                let (segment, input) = (rng.random_range(0..segments().len()), rng.random_range(0..INPUTS.len()));
                // Without an input there are no sizes to tell apart.
                (segment, segments()[segment].input.map_or(0, |_| input))
            };
            let mut chosen: Vec<_> = (0..count).map(draw).collect();
            chosen.sort_unstable();
            if known.insert(chosen.clone()) {
                break chosen;
            }
        };
        let part =
            |(segment, input): (usize, usize)| segments()[segment].resized(Sizes(&[1.0]), Sizes(&[INPUTS[input]]));
        let parts: Vec<_> = chosen.into_iter().map(part).collect();
        let name = format!("application-{:03}", applications.len());
        let mut workload = combine(&name, rng.random_range(DEMAND), &parts);
        let most = (MOST_DISK / workload.io_mb).min(MOST_NETWORK / workload.network_mb);
        workload.demand = workload.demand.min(most * workload.cpu_seconds());
        let workload = Arc::new(workload);
        applications.push(Application { workload, parts });
    }
    applications
}

/// What the requests of the thousand applications need.
#[must_use]
pub fn applications(seed: u64) -> Vec<Arc<Workload>> {
    generate(seed).into_iter().map(|application| application.workload).collect()
}

/// The applications to learn from, and those to be tested on.
#[must_use]
pub fn split(applications: &[Application]) -> (&[Application], &[Application]) {
    applications.split_at(TRAINING.min(applications.len()))
}

/// One program that runs all parts for each request.
fn combine(name: &str, demand: f64, parts: &[Workload]) -> Workload {
    let sum = |of: fn(&Workload) -> f64| parts.iter().map(of).sum::<f64>();
    let most = |of: fn(&Workload) -> f64| parts.iter().map(of).fold(0.0, f64::max);
    let cpu_ms = sum(|part| part.cpu_ms);
    // The parts vary independently of each other, so their variances add up.
    let variance = sum(|part| (part.cpu_ms * part.distribution.variation()).powi(2));
    let beyond_runtime = parts.iter().map(|part| part.memory_idle.0.saturating_sub(RUNTIME.0)).sum::<u64>();
    Workload {
        name: name.to_owned(),
        category: category(parts),
        input: None,
        cpu_ms,
        distribution: Distribution::Lognormal { variation: variance.sqrt() / cpu_ms },
        io_mb: sum(|part| part.io_mb),
        network_mb: sum(|part| part.network_mb),
        traffic_mb: sum(|part| part.traffic_mb),
        memory_idle: Bytes(RUNTIME.0 + beyond_runtime),
        memory_request: Bytes(parts.iter().map(|part| part.memory_request.0).sum()),
        // Whichever segment takes the fewest at once limits all.
        slots: parts.iter().map(|part| part.slots).min().unwrap_or(1),
        startup: most(|part| part.startup),
        warmup: most(|part| part.warmup),
        cold: sum(|part| part.cold * part.cpu_ms) / cpu_ms,
        timeout: most(|part| part.timeout),
        retries: parts.iter().map(|part| part.retries).min().unwrap_or(0),
        demand,
        objective: Objective::default(),
    }
}

/// That of the segments in which a request spends the most time.
fn category(parts: &[Workload]) -> Category {
    let seconds = |part: &Workload| part.cpu_seconds() + part.elsewhere_seconds();
    let of = |category| parts.iter().filter(|part| part.category == category).map(seconds).sum::<f64>();
    Category::ALL.into_iter().max_by(|a, b| of(*a).total_cmp(&of(*b))).unwrap_or(Category::Cpu)
}
