//! Yardsticks for every table: what could be reached by somebody who knows the arrivals.
//!
//! Both know the workload's true demand and each step's true arrival rate, though not the luck of a window, and not the
//! neighbours. [`clairvoyant`] finds the cheapest allocation step by step that is predicted to keep the objective, by
//! dynamic programming over the replicas; a pod that starts is paid for before it serves. [`best_static`] finds the
//! cheapest allocation that never changes.

use meanfield_common::{
    queue::{Balancing, Station, pooled, sampling_error},
    resources::{Bytes, MilliCores, Resources, Scale},
    slo::{Percentile, Slo},
};
use meanfield_simulator::cluster::{Spec, TenantSpec};

/// What a gibibyte costs, in cores: about what clouds ask.
pub const GIB_IN_CORES: f64 = 0.125;

/// The part of the objective that is planned for; neighbours take some of the rest.
const PLANNED: f64 = 0.9;
/// How unlucky a window's percentile may be within the plan, in standard deviations.
const LUCK: f64 = 2.5;
/// The highest utilisation that is planned.
const HOTTEST: f64 = 0.92;
/// CPU limits are planned in steps of so many milli-cores.
const STEP: u64 = 50;
/// The part of the steps that a static allocation may miss.
const MISSED: f64 = 0.01;
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
    let options: Vec<Vec<Scale>> = (0..steps)
        .map(|step| choices.iter().map(|replicas| planner.cheapest(*replicas, rate(step))).collect())
        .collect();

    // Cheapest way to each number of replicas, step by step.
    let lead = (tenant.workload.startup / cluster.seconds).ceil();
    let mut costs = vec![0.0; choices.len()];
    let mut came_from = Vec::with_capacity(steps);
    for options in &options {
        let mut best = Vec::with_capacity(choices.len());
        for (to, scale) in options.iter().enumerate() {
            let one = planner.price(scale) / f64::from(scale.replicas);
            let way = |from: usize| {
                let more = f64::from(choices[to].saturating_sub(choices[from]));
                costs[from] + lead * one * more
            };
            let from = (0..choices.len()).min_by(|a, b| way(*a).total_cmp(&way(*b))).unwrap_or(to);
            best.push((from, way(from) + planner.price(scale)));
        }
        costs = best.iter().map(|(_, cost)| *cost).collect();
        came_from.push(best);
    }
    let mut at = (0..choices.len()).min_by(|a, b| costs[*a].total_cmp(&costs[*b])).unwrap_or(0);
    let mut plan = vec![tenant.scale; steps];
    for step in (0..steps).rev() {
        plan[step] = options[step][at];
        at = came_from[step][at].0;
    }
    start_in_time(&mut plan, lead as usize);
    // The first decision is for the second step.
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
    options.min_by(|a, b| planner.price(a).total_cmp(&planner.price(b))).unwrap_or(tenant.scale)
}

/// Whoever is needed in a step is started so many steps before.
fn start_in_time(plan: &mut [Scale], lead: usize) {
    for step in 0..plan.len() {
        let ahead = plan[step..].iter().take(lead + 1).map(|scale| scale.replicas).max();
        plan[step].replicas = ahead.unwrap_or(plan[step].replicas);
    }
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

    /// What a step with this scale costs, in cores; the objective missed for certain costs more than anything.
    fn price(&self, scale: &Scale) -> f64 {
        let replicas = f64::from(scale.replicas);
        let memory = scale.limit.memory.as_mebi() / 1024.0;
        replicas * (scale.limit.cpu.cores() / self.cluster.overcommit + GIB_IN_CORES * memory)
    }

    /// So many replicas, as small as the rate allows; as large as possible where no size is enough.
    fn cheapest(&self, replicas: u32, rate: f64) -> Scale {
        let cpu = self.tenant.bounds.cpu();
        let (mut low, mut high) = (cpu.start().0.div_ceil(STEP), cpu.end().0 / STEP);
        while low < high {
            let middle = low + (high - low) / 2;
            if self.keeps(replicas, MilliCores(middle * STEP), rate) { high = middle } else { low = middle + 1 }
        }
        let cpu = MilliCores(low * STEP);
        let limit = Resources { cpu, memory: self.memory(replicas, cpu, rate) };
        self.tenant.bounds.clamp(&Scale { replicas, limit })
    }

    fn utilisation(&self, replicas: u32, cpu: MilliCores, rate: f64) -> f64 {
        rate * self.tenant.workload.cpu_seconds() / (cpu.cores() * f64::from(replicas))
    }

    fn station(&self, replicas: u32, cpu: MilliCores) -> Station {
        let workload = &self.tenant.workload;
        let node = self.cluster.nodes.first();
        let elsewhere = node.map_or(0.0, |node| workload.io_mb / node.disk + workload.network_mb / node.network);
        Station {
            cores: pooled(Balancing::default(), cpu.cores(), replicas.into()),
            slots: f64::from(workload.slots) * f64::from(replicas),
            seconds: workload.cpu_seconds() / cpu.cores().min(1.0),
            variation: workload.distribution.variation(),
            elsewhere,
        }
    }

    fn keeps(&self, replicas: u32, cpu: MilliCores, rate: f64) -> bool {
        let utilisation = self.utilisation(replicas, cpu, rate);
        if utilisation > HOTTEST {
            return false;
        }
        let Some((which, objective)) = self.objective else { return true };
        let latency = self.station(replicas, cpu).latency(utilisation);
        let stray = [0.0, LUCK * latency.spread() * sampling_error(rate * self.cluster.seconds)][which].exp();
        latency.percentiles()[which] * stray <= PLANNED * objective
    }

    /// Room for the requests that are in flight at once at the worst moment of a step.
    fn memory(&self, replicas: u32, cpu: MilliCores, rate: f64) -> Bytes {
        let workload = &self.tenant.workload;
        let mean = self.station(replicas, cpu).latency(self.utilisation(replicas, cpu, rate)).mean();
        let in_flight = rate * mean / f64::from(replicas);
        let most = (in_flight + 5.0 * in_flight.sqrt() + 2.0).min(f64::from(workload.slots));
        // Pods differ in their appetite by a twentieth.
        Bytes((1.06 * (workload.memory_idle.0 as f64 + workload.memory_request.0 as f64 * most)) as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
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
            let [low, high] = [0.5, 2.0].map(|times| planner.cheapest(2, times * tenant.workload.mean_rate()));
            assert!(low.limit.cpu <= high.limit.cpu && low.limit.memory <= high.limit.memory);
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
