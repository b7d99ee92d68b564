//! Yardsticks for every table: what could be reached by somebody who knows the arrivals.
//!
//! Both know the workload's true demand and each step's true arrival rate, though not the luck of a window, and not the
//! neighbours, for whom it leaves some room. [`clairvoyant`] finds the cheapest allocation step by step that is predicted to keep the objective, by
//! dynamic programming over the replicas; a pod that starts is paid for before it serves. [`best_static`] finds the
//! cheapest allocation that never changes.

use meanfield_common::{
    queue::{Station, pooled, sampling_error},
    resources::{MilliCores, Resources, Scale},
    slo::{Percentile, Slo},
};
use meanfield_simulator::cluster::{Spec, TenantSpec};

/// What a gibibyte costs, in cores: about what clouds ask.
pub const GIB_IN_CORES: f64 = 0.125;

/// The part of the objective that is planned for: a step's rate is a mean, and neighbours take some of the rest.
const PLANNED: f64 = 0.7;
/// How much of every disk, network and memory bus the neighbours are taken to use.
const NEIGHBOURS: f64 = 0.4;
/// How unlucky a window's percentile may be within the plan, in standard deviations.
const LUCK: f64 = 2.5;
/// The highest utilisation that is planned.
const HOTTEST: f64 = 0.85;
/// CPU limits are planned in steps of so many milli-cores.
const STEP: u64 = 50;
/// The part of the steps that a static allocation may miss.
const MISSED: f64 = 0.01;
/// What is hardly more than the least that can be reached.
const HARDLY: f64 = 1.02;
/// What a step that misses the objective costs, in cores, for every multiple of the plan: more than anything else.
const MISS: f64 = 1e4;
/// Replicas beyond this are not considered, or the search would not end.
const MOST_REPLICAS: u32 = 64;

/// Scales for the steps from the second one on, one a step of the tenant's arrivals.
#[must_use]
pub fn clairvoyant(tenant: &TenantSpec, cluster: &Spec) -> Vec<Scale> {
    let planner = Planner::new(tenant, cluster);
    let steps = tenant.arrivals.len();
    // A resize takes part of a step to come into force, so each step is sized for the next one too.
    let rate = |step: usize| tenant.arrivals[step % steps].max(tenant.arrivals[(step + 1) % steps]);
    let choices = planner.replicas();
    let options: Vec<Vec<Choice>> = (0..steps)
        .map(|step| choices.iter().map(|replicas| planner.cheapest(*replicas, rate(step))).collect())
        .collect();

    // Cheapest way to each number of replicas, step by step.
    let lead = ((tenant.workload.startup + tenant.workload.warmup) / cluster.seconds).ceil();
    let mut costs = vec![0.0; choices.len()];
    let mut came_from = Vec::with_capacity(steps);
    for options in &options {
        let mut best = Vec::with_capacity(choices.len());
        for (to, choice) in options.iter().enumerate() {
            let one = planner.price(&choice.scale) / f64::from(choice.scale.replicas);
            let way = |from: usize| {
                let more = f64::from(choices[to].saturating_sub(choices[from]));
                costs[from] + lead * one * more
            };
            let from = (0..choices.len()).min_by(|a, b| way(*a).total_cmp(&way(*b))).unwrap_or(to);
            best.push((from, way(from) + choice.price));
        }
        costs = best.iter().map(|(_, cost)| *cost).collect();
        came_from.push(best);
    }
    let mut at = (0..choices.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap_or(0);
    let mut plan = vec![tenant.scale; steps];
    for step in (0..steps).rev() {
        plan[step] = options[step][at].scale;
        at = came_from[step][at].0;
    }
    start_in_time(&mut plan, lead as usize);
    // The first decision is for the second step.
    plan.rotate_left(1.min(steps));
    plan
}

/// As many replicas of one size as each step needs, for the steps from the second one on: for those who plan for a whole
/// cluster, where small pods of one size fit in everywhere.
#[must_use]
pub fn replicas_of(tenant: &TenantSpec, cluster: &Spec, cpu: MilliCores) -> Vec<Scale> {
    let planner = Planner::new(tenant, cluster);
    let steps = tenant.arrivals.len();
    let limit = Resources { cpu, memory: tenant.workload.full_memory() };
    let needed = |step: usize| {
        let rate = tenant.arrivals[step % steps].max(tenant.arrivals[(step + 1) % steps]);
        let choices = planner.replicas();
        let enough = choices.iter().find(|replicas| planner.excess(**replicas, cpu, rate) <= 1.0);
        let replicas = enough.or(choices.last()).copied().unwrap_or(tenant.scale.replicas);
        tenant.bounds.clamp(&Scale { replicas, limit })
    };
    let mut plan: Vec<_> = (0..steps).map(needed).collect();
    start_in_time(&mut plan, ((tenant.workload.startup + tenant.workload.warmup) / cluster.seconds).ceil() as usize);
    plan.rotate_left(1.min(steps));
    plan
}

/// The cheapest allocation that never changes and misses no more than one step in a hundred.
#[must_use]
pub fn best_static(tenant: &TenantSpec, cluster: &Spec) -> Scale {
    let planner = Planner::new(tenant, cluster);
    let mut rates: Vec<f64> = tenant.arrivals.to_vec();
    rates.sort_unstable_by(f64::total_cmp);
    let last = rates.len().saturating_sub(1);
    let rate = rates[last - (last as f64 * MISSED) as usize];
    let options = planner.replicas().into_iter().map(|replicas| planner.cheapest(replicas, rate));
    options.min_by(|a, b| a.price.total_cmp(&b.price)).map_or(tenant.scale, |choice| choice.scale)
}

/// Whoever is needed in a step is started so many steps before.
fn start_in_time(plan: &mut [Scale], lead: usize) {
    for step in 0..plan.len() {
        let ahead = plan[step..].iter().take(lead + 1).map(|scale| scale.replicas).max();
        plan[step].replicas = ahead.unwrap_or(plan[step].replicas);
    }
}

/// A scale for a step, and what it costs in cores, a miss included.
#[derive(Clone, Copy)]
struct Choice {
    scale: Scale,
    price: f64,
}

struct Planner<'a> {
    tenant: &'a TenantSpec,
    cluster: &'a Spec,
    /// The objective in seconds, and which percentile it is about; none for a throughput.
    objective: Option<(usize, f64)>,
}

impl<'a> Planner<'a> {
    fn new(tenant: &'a TenantSpec, cluster: &'a Spec) -> Self {
        let objective = match tenant.slo {
            Slo::Latency { percentile: Percentile::P50, milliseconds } => Some((0, milliseconds / 1000.0)),
            Slo::Latency { percentile: Percentile::P99, milliseconds } => Some((1, milliseconds / 1000.0)),
            Slo::Throughput { .. } => None,
        };
        Self { tenant, cluster, objective }
    }

    fn replicas(&self) -> Vec<u32> {
        let range = self.tenant.bounds.replicas();
        (*range.start()..=(*range.end()).min(MOST_REPLICAS).max(*range.start())).collect()
    }

    /// What a step with this scale costs, in cores.
    fn price(&self, scale: &Scale) -> f64 {
        let replicas = f64::from(scale.replicas);
        let memory = scale.limit.memory.as_mebi() / 1024.0;
        replicas * (scale.limit.cpu.cores() / self.cluster.overcommit + GIB_IN_CORES * memory)
    }

    /// So many replicas, as small as the rate allows; as large as possible, and dear, where no size is enough.
    fn cheapest(&self, replicas: u32, rate: f64) -> Choice {
        let cpu = self.tenant.bounds.cpu();
        let (mut low, mut high) = (cpu.start().0.div_ceil(STEP), cpu.end().0 / STEP);
        // Where even the largest is not enough, what is hardly worse than that is as good.
        let bound = (HARDLY * self.excess(replicas, MilliCores(high * STEP), rate)).max(1.0);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.excess(replicas, MilliCores(middle * STEP), rate) <= bound {
                high = middle;
            } else {
                low = middle + 1;
            }
        }
        let cpu = MilliCores(low * STEP);
        let limit = Resources { cpu, memory: self.tenant.workload.full_memory() };
        let scale = self.tenant.bounds.clamp(&Scale { replicas, limit });
        let excess = self.excess(replicas, cpu, rate).min(1e6);
        Choice { scale, price: self.price(&scale) + if excess <= 1.0 { 0.0 } else { MISS * excess } }
    }

    fn station(&self, replicas: u32, cpu: MilliCores) -> Station {
        let workload = &self.tenant.workload;
        let (mut seconds, mut elsewhere) = (workload.cpu_seconds(), 0.0);
        if let Some(node) = self.cluster.nodes.first() {
            let slack = 1.0 - NEIGHBOURS;
            seconds += workload.traffic_mb / node.bus * (1.0 / slack - 1.0);
            elsewhere = (workload.io_mb / node.disk + workload.network_mb / node.network) / slack;
        }
        Station {
            cores: pooled(self.cluster.balancing, cpu.cores(), replicas.into()),
            slots: f64::from(workload.slots) * f64::from(replicas),
            seconds: seconds / cpu.cores().min(1.0),
            variation: workload.distribution.variation(),
            elsewhere,
        }
    }

    /// The predicted percentile over what is planned for; above 1 the objective is taken to be missed.
    fn excess(&self, replicas: u32, cpu: MilliCores, rate: f64) -> f64 {
        if rate <= 0.0 {
            return 0.0;
        }
        let station = self.station(replicas, cpu);
        // What the pooled station can do is what the replicas can do together, their cores being the same.
        let alone = Station { cores: cpu.cores().max(1.0), slots: f64::from(self.tenant.workload.slots), ..station };
        let utilisation = rate / (alone.capacity() * f64::from(replicas));
        if utilisation > HOTTEST {
            return 1e6 * utilisation;
        }
        let Some((which, objective)) = self.objective else { return 0.0 };
        let latency = station.latency(utilisation);
        let stray = [0.0, LUCK * latency.spread() * sampling_error(rate * self.cluster.seconds)][which].exp();
        latency.percentiles()[which] * stray / (PLANNED * objective)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::resources::Bytes;
    use meanfield_simulator::scenario::{Scenario, Start};

    fn scenario() -> (Scenario, Spec) {
        let scenario = Scenario::new(12, 240).unwrap();
        (scenario.clone(), scenario.cluster())
    }

    #[test]
    fn a_higher_rate_needs_more_and_a_plan_costs_less_than_standing_still() {
        let (scenario, cluster) = scenario();
        for place in 0..12 {
            let tenant = scenario.tenant(place, 3, Start::Sized).unwrap();
            let planner = Planner::new(&tenant, &cluster);
            let at = |times: f64| planner.cheapest(8, times * tenant.workload.mean_rate()).scale.limit.cpu.0;
            let sizes = [0.0, 0.5, 1.0, 2.0, 4.0].map(at);
            // Windows of few requests have unlucky percentiles, which costs a little more.
            let fallen = sizes.windows(2).any(|pair| pair[1] < pair[0] * 7 / 10);
            assert!(!fallen, "{}: {sizes:?}", tenant.workload.name);
            let plan = clairvoyant(&tenant, &cluster);
            assert_eq!(plan.len(), 240);
            assert!(plan.iter().all(|scale| tenant.bounds.contains(scale)));
            let mean = plan.iter().map(|scale| planner.price(scale)).sum::<f64>() / 240.0;
            let still = best_static(&tenant, &cluster);
            assert!(mean < planner.price(&still), "{}", tenant.workload.name);
        }
    }

    #[test]
    fn whoever_is_needed_is_started_before() {
        let limit = Resources { cpu: MilliCores(1000), memory: Bytes::mebi(100) };
        let mut plan: Vec<_> = [1, 1, 1, 4, 1].map(|replicas| Scale { replicas, limit }).to_vec();
        start_in_time(&mut plan, 2);
        assert_eq!(plan.iter().map(|scale| scale.replicas).collect::<Vec<_>>(), [1, 4, 4, 4, 1]);
    }
}
