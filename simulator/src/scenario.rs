//! The standard clusters: who shares which nodes.

use std::sync::Arc;

use meanfield_common::{
    invalid::{Invalid, within},
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
    scarcity::Weight,
    slo::Slo,
};
use meanfield_traces::{synth::Preset, trace::Trace};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;

use crate::{
    cluster::{Cluster, Model, Sharing, Spec, TenantId, TenantSpec},
    placement::Node,
    workload::{Workload, functions},
};

/// Seconds of a step.
pub const STEP_SECONDS: f64 = 15.0;

/// Seconds of a simulated day: two hours, so that an evaluation sees a whole one.
pub const DAY_SECONDS: f64 = DAY_STEPS as f64 * STEP_SECONDS;

/// Steps in a simulated day.
pub const DAY_STEPS: usize = 480;

/// The most tenants that a scenario takes.
pub const MOST_TENANTS: usize = 10_000;

/// The place of the stream of common bursts: beyond any tenant's.
const COMMON: usize = 1 << 32;

/// The part of its mean rate that a batch job has to complete.
const BATCH: f64 = 0.8;

/// The usual limits over requests.
pub const OVERCOMMIT: f64 = 1.5;

/// Arrivals whose highest step is more than so many times their mean are drawn again: a workload for which no node is
/// large enough says nothing about who scales it.
pub const TALLEST: f64 = 10.0;

/// How often they are.
const DRAWS: usize = 100;

/// Nodes for so many tenants.
const NODES_PER_TENANTS: (usize, usize) = (5, 12);

/// The twelve functions, or any number of tenants running them or other workloads in turn, on a matching number of
/// nodes: five nodes of 8 cores and 32 GiB for twelve tenants. With the twelve functions the mean demand, bursts
/// included, is then 44 % of the cores.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    workloads: Vec<Arc<Workload>>,
    tenants: usize,
    steps: usize,
    load: Load,
    model: Model,
    sharing: Sharing,
    /// Limits over requests.
    overcommit: f64,
    /// How many times the usual arrivals come.
    demand: f64,
    /// Weights of the tenants in turn.
    weights: Vec<Weight>,
    /// Every so manieth tenant is a batch job.
    batch: Option<usize>,
    /// How many times higher everybody's arrivals are in a common burst.
    bursts: Option<f64>,
}

/// Where arrivals come from.
#[derive(Debug, Clone, PartialEq)]
enum Load {
    Made(Preset),
    /// Each tenant gets one of these, from a moment of its own on.
    Recorded(Arc<[Trace]>),
}

/// How tenants are sized when an episode starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// As a careful operator would: twice the mean demand.
    Sized,
    /// Anywhere within reach, so that a learner sees every situation.
    Random,
}

impl Scenario {
    /// So many tenants that run the twelve functions in turn, with arrivals for so many steps.
    pub fn new(tenants: usize, steps: usize) -> Result<Self, Invalid> {
        Self::of(functions(), tenants, steps)
    }

    /// So many tenants that run the given workloads in turn, with arrivals for so many steps.
    pub fn of(workloads: &[Arc<Workload>], tenants: usize, steps: usize) -> Result<Self, Invalid> {
        if workloads.is_empty() {
            return Err(Invalid::new("workloads", 0, "at least 1"));
        }
        workloads.iter().try_for_each(|workload| workload.check())?;
        if !(1..=MOST_TENANTS).contains(&tenants) {
            return Err(Invalid::new("agents", tenants, format!("within [1, {MOST_TENANTS}]")));
        }
        let scenario = Self {
            workloads: workloads.to_vec(),
            tenants,
            steps,
            load: Load::Made(Preset::Diurnal),
            model: Model::Fluid,
            sharing: Sharing::default(),
            overcommit: OVERCOMMIT,
            demand: 1.0,
            weights: vec![Weight::default()],
            batch: None,
            bursts: None,
        };
        scenario.with_steps(steps)
    }

    /// The same under another shape of load.
    #[must_use]
    pub fn with_load(self, load: Preset) -> Self {
        Self { load: Load::Made(load), ..self }
    }

    /// The same with recorded arrivals: each tenant gets one of them, scaled to its own mean rate, from a moment of its
    /// own on, and over again when it ends.
    pub fn with_recorded(self, traces: Arc<[Trace]>) -> Result<Self, Invalid> {
        if traces.is_empty() {
            return Err(Invalid::new("traces", 0, "at least 1"));
        }
        for trace in traces.iter() {
            let (rate, seconds) = (trace.mean_rate(), trace.seconds());
            if !(rate.is_finite() && rate > 0.0) {
                return Err(Invalid::new(format!("{}: mean rate", trace.name), rate, "above 0"));
            }
            if !(seconds.is_finite() && seconds >= STEP_SECONDS) {
                return Err(Invalid::new(
                    format!("{}: seconds", trace.name),
                    seconds,
                    format!("at least {STEP_SECONDS}"),
                ));
            }
        }
        Ok(Self { load: Load::Recorded(traces), ..self })
    }

    /// The same with limits of so many times the requests.
    pub fn with_overcommit(self, times: f64) -> Result<Self, Invalid> {
        Ok(Self { overcommit: within("overcommit", times, 1.0, 100.0)?, ..self })
    }

    /// The same with arrivals for so many steps.
    pub fn with_steps(self, steps: usize) -> Result<Self, Invalid> {
        if steps == 0 {
            return Err(Invalid::new("steps", steps, "at least 1"));
        }
        Ok(Self { steps, ..self })
    }

    /// The same, computed in another way.
    #[must_use]
    pub fn with_model(self, model: Model) -> Self {
        Self { model, ..self }
    }

    /// The same with pods that share cores in another way.
    #[must_use]
    pub fn with_sharing(self, sharing: Sharing) -> Self {
        Self { sharing, ..self }
    }

    /// The same with so many times the usual arrivals, on the same nodes.
    pub fn with_demand(self, times: f64) -> Result<Self, Invalid> {
        Ok(Self { demand: within("demand", times, 1e-3, 1e3)?, ..self })
    }

    /// The same with so many arrivals that the highest demand under a seed, over all cores, is this: somebody chose the
    /// nodes for the load.
    pub fn with_peak(self, peak: f64, seed: u64) -> Result<Self, Invalid> {
        let plain = self.with_demand(1.0)?;
        let usual = plain.pressure(seed)?.0;
        plain.with_demand(peak / usual)
    }

    /// The same with these weights, given to the tenants in turn.
    pub fn with_weights(self, weights: &[Weight]) -> Result<Self, Invalid> {
        if weights.is_empty() {
            return Err(Invalid::new("weights", 0, "at least 1"));
        }
        Ok(Self { weights: weights.to_vec(), ..self })
    }

    /// The same with every so manieth tenant a batch job: its objective is no latency but to complete four fifths of its
    /// mean rate while there is so much to do.
    pub fn with_batch(self, every: usize) -> Result<Self, Invalid> {
        if every == 0 {
            return Err(Invalid::new("batch", every, "at least 1"));
        }
        Ok(Self { batch: Some(every), ..self })
    }

    /// The same with bursts that come to all tenants at once and multiply their arrivals: one in three quarters of an
    /// hour, for two to five minutes.
    pub fn with_bursts(self, times: f64) -> Result<Self, Invalid> {
        Ok(Self { bursts: Some(within("bursts", times, 1.0, 100.0)?), ..self })
    }

    /// The highest demand of all tenants together, and the mean one, over the cores of the cluster.
    pub fn pressure(&self, seed: u64) -> Result<(f64, f64), Invalid> {
        let mut total = vec![0.0; self.steps];
        for place in 0..self.tenants {
            let tenant = self.tenant(place, seed, Start::Sized)?;
            let one = tenant.workload.cpu_seconds();
            total.iter_mut().zip(tenant.arrivals.iter()).for_each(|(sum, rate)| *sum += rate * one);
        }
        let cores: f64 = self.cluster().nodes.iter().map(|node| node.cores).sum();
        let highest = total.iter().copied().fold(0.0, f64::max);
        Ok((highest / cores, total.iter().sum::<f64>() / (self.steps as f64 * cores)))
    }

    /// How many times higher everybody's arrivals are, step by step.
    fn common(&self, seed: u64) -> Vec<f64> {
        let mut times = vec![1.0; self.steps];
        if let Some(height) = self.bursts {
            let mut rng = stream(seed, COMMON);
            let mut step = 0;
            while step < times.len() {
                let (wait, hold) = (rng.random_range(90..270), rng.random_range(8..20));
                step += wait;
                times.iter_mut().skip(step).take(hold).for_each(|times| *times = height);
                step += hold;
            }
        }
        times
    }

    /// How many tenants it starts with.
    #[must_use]
    pub fn tenants(&self) -> usize {
        self.tenants
    }

    /// How many steps of arrivals it has.
    #[must_use]
    pub fn steps(&self) -> usize {
        self.steps
    }

    /// What the objective of the tenant at a place is worth beside those of others.
    #[must_use]
    pub fn weight(&self, place: usize) -> Weight {
        self.weights[place % self.weights.len()]
    }

    /// The nodes and rules.
    #[must_use]
    pub fn cluster(&self) -> Spec {
        let node = Node::new(8.0, Bytes::mebi(32 * 1024));
        let (nodes, tenants) = NODES_PER_TENANTS;
        let count = (self.tenants * nodes).div_ceil(tenants);
        let (model, sharing) = (self.model, self.sharing);
        Spec { model, sharing, ..Spec::new(vec![node; count], STEP_SECONDS, self.overcommit) }
    }

    /// The tenant at a place, with arrivals drawn from a seed.
    pub fn tenant(&self, place: usize, seed: u64, start: Start) -> Result<TenantSpec, Invalid> {
        let workload = self.workloads[place % self.workloads.len()].clone();
        let mut rng = stream(seed, place);
        let mut arrivals = self.arrivals(workload.mean_rate(), &mut rng)?;
        let bounds = bounds(&workload)?;
        let scale = bounds.clamp(&match start {
            Start::Sized => sized(&workload, 2.0, 1500),
            Start::Random => sized(&workload, 1.0 + 3.0 * rng.random::<f64>(), rng.random_range(500..=2000)),
        });
        let slo = if self.batch.is_some_and(|every| place.is_multiple_of(every)) {
            Slo::throughput(BATCH * self.demand * workload.mean_rate())?
        } else {
            workload.slo()?
        };
        if self.demand != 1.0 || self.bursts.is_some() {
            let common = self.common(seed);
            arrivals.iter_mut().zip(common).for_each(|(rate, times)| *rate *= self.demand * times);
        }
        Ok(TenantSpec { workload, changes: Vec::new(), slo, bounds, scale, arrivals: Arc::from(arrivals) })
    }

    /// Arrivals around a mean rate.
    fn arrivals(&self, mean: f64, rng: &mut ChaCha8Rng) -> Result<Vec<f64>, Invalid> {
        match &self.load {
            Load::Made(preset) => {
                let low = |rates: &Vec<f64>| rates.iter().all(|rate| *rate <= TALLEST * mean);
                let mut draw = || preset.generate_with_day(mean, self.steps, STEP_SECONDS, DAY_SECONDS, rng);
                let refused =
                    || Invalid::new("load", preset.name(), format!("below {TALLEST} times its mean in {DRAWS} draws"));
                (0..DRAWS).map(|_| draw()).find(low).ok_or_else(refused)
            }
            Load::Recorded(traces) => {
                let trace = &traces[rng.random_range(0..traces.len())];
                let rates = trace.scaled(mean / trace.mean_rate())?.rates(STEP_SECONDS, rng.random())?;
                let from = rng.random_range(0..rates.len());
                Ok(rates.iter().cycle().skip(from).take(self.steps).copied().collect())
            }
        }
    }

    /// A running cluster with all its tenants, after one step, so that there is something to observe.
    pub fn build(&self, seed: u64, start: Start) -> Result<(Cluster, Vec<(TenantId, TenantSpec)>), Invalid> {
        let mut cluster = Cluster::new(Spec { seed, ..self.cluster() })?;
        let mut tenants = Vec::with_capacity(self.tenants);
        for place in 0..self.tenants {
            let spec = self.tenant(place, seed, start)?;
            tenants.push((cluster.join(spec.clone())?, spec));
        }
        cluster.warm_up();
        cluster.advance();
        Ok((cluster, tenants))
    }
}

/// The random numbers of the tenant at a place: one stream each, so that adding one changes nobody else's arrivals.
pub(crate) fn stream(seed: u64, place: usize) -> ChaCha8Rng {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    rng.set_stream(place as u64);
    rng
}

/// Within which a function may be scaled, unless somebody says otherwise.
pub(crate) fn bounds(workload: &Workload) -> Result<Bounds, Invalid> {
    // Some pods use up to a twentieth more than others; none may be killed for being idle.
    let (idle, request) = (workload.memory_idle.0, workload.memory_request.0);
    let least = Bytes((idle + 2 * request).max(idle + idle / 16));
    let most = Bytes(2 * (idle + u64::from(workload.slots) * request));
    Bounds::new(1..=16, MilliCores(250)..=MilliCores(4000), least..=most)
}

/// So many times the mean demand, in pods of so many milli-cores, with memory for all their slots: whoever takes in more
/// requests than its memory holds is killed when it matters most.
pub(crate) fn sized(workload: &Workload, times: f64, cpu: u64) -> Scale {
    let cpu = MilliCores(cpu);
    // A pod whose slots fill first cannot use all of its cores.
    let inside = workload.cpu_seconds() + workload.elsewhere_seconds();
    let usable = cpu.cores().min(f64::from(workload.slots) * workload.cpu_seconds() / inside);
    let replicas = (workload.demand * times / usable).ceil() as u32;
    Scale { replicas, limit: Resources { cpu, memory: workload.full_memory() } }
}
