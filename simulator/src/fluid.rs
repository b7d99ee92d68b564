//! The fluid engine: a step in closed form, from rates.
//!
//! A tenant is slowed down by its neighbours in five ways, all of which follow from sharing: CPU above the fair level,
//! bursts that collide on a node's cores, a busy disk or network, a busy memory bus, and nodes too full to place its
//! pods.

use meanfield_common::{
    queue::{Balancing, Latency, Shape, Station, backlog_delay, contention, pooled, sampling_error},
    slo::Slo,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use rand_distr::StandardNormal;

use crate::{
    anomaly::{Pressure, pressure, surge},
    cluster::{Doubt, Measured, Sharing, Spec},
    sharing::{Want, fair_level},
    tenant::{Pod, Tenant},
    workload::Workload,
};

/// The utilisation of a disk, network or bus beyond which its slow-down is no longer computed; a fuller one limits
/// throughput instead.
const FULLEST: f64 = 0.95;

/// Beyond these, latencies are in doubt: work over capacity, and a node's cores and bandwidths in use.
const BUSY: f64 = 0.85;
const CROWDED_CORES: f64 = 0.8;
const CROWDED_BANDWIDTH: f64 = 0.6;

/// How many times more a request moves over the memory bus when the whole last-level cache is taken from it.
pub(crate) const CACHE_MISSES: f64 = 3.0;

/// Scratch space of a step.
#[derive(Debug, Clone)]
pub(crate) struct Fluid {
    nodes: Vec<Load>,
    parts: Vec<(f64, Latency)>,
    paces: Vec<Pace>,
    /// What so many pods come to once they are pooled: a power, and mostly of a small whole number.
    pools: [f64; 17],
    collisions: Collisions,
    rng: ChaCha8Rng,
}

/// What a node is asked for during a step.
#[derive(Debug, Clone, Default)]
struct Load {
    wants: Vec<Want>,
    wanted: f64,
    /// Cores that are left by disturbances, and how many of them are used.
    cores: f64,
    granted: f64,
    /// Cores per unit of weight beyond which nobody gets more.
    level: f64,
    /// Utilisation of the disk, the network and the memory bus.
    disk: f64,
    network: f64,
    bus: f64,
    /// How busy its cores are, and seconds of a megabyte on the disk and on the network as busy as they are.
    utilisation: f64,
    disk_seconds: f64,
    network_seconds: f64,
    pressure: Pressure,
}

/// [`contention`] on nodes of the usual size, from a table: a power for every pod would be a sixth of a step.
#[derive(Debug, Clone)]
struct Collisions {
    cores: f64,
    table: Vec<f64>,
}

impl Collisions {
    const POINTS: usize = 1024;

    fn new(cores: f64) -> Self {
        let point = |index: usize| contention(cores, index as f64 / Self::POINTS as f64);
        Self { cores, table: (0..=Self::POINTS + 1).map(point).collect() }
    }

    /// Between two points of the table in a straight line; computed where a node is of another size or nearly full.
    #[inline]
    fn get(&self, cores: f64, utilisation: f64) -> f64 {
        if cores != self.cores || !(0.0..0.9).contains(&utilisation) {
            return contention(cores, utilisation);
        }
        let place = utilisation * Self::POINTS as f64;
        let (below, part) = (place as usize, place.fract());
        self.table[below] + part * (self.table[below + 1] - self.table[below])
    }
}

/// How one pod runs during a step.
#[derive(Debug, Clone, Copy, Default)]
struct Pace {
    /// CPU seconds of a request, stalls included; seconds that it takes on this pod's cores when alone; seconds elsewhere.
    work: f64,
    cpu: f64,
    elsewhere: f64,
    /// Requests per second at most.
    capacity: f64,
}

impl Fluid {
    pub(crate) fn new(spec: &Spec) -> Self {
        let mut rng = ChaCha8Rng::seed_from_u64(spec.seed);
        // Arrival rates were drawn from the first streams of the same seed.
        rng.set_stream(1 << 61);
        let pools = std::array::from_fn(|pods| pooled(spec.balancing, 1.0, pods as f64));
        let collisions = Collisions::new(spec.nodes.first().map_or(1.0, |node| node.cores));
        let nodes = vec![Load::default(); spec.nodes.len()];
        Self { nodes, parts: Vec::new(), paces: Vec::new(), pools, collisions, rng }
    }

    pub(crate) fn step(&mut self, spec: &Spec, tenants: &mut [Option<Tenant>], step: usize) {
        let (from, to) = (step as f64 * spec.seconds, (step + 1) as f64 * spec.seconds);
        for (index, (load, node)) in self.nodes.iter_mut().zip(&spec.nodes).enumerate() {
            load.pressure = pressure(&spec.anomalies, index, from, to);
            load.cores = node.cores * (1.0 - load.pressure.cpu);
            load.wants.clear();
            load.wanted = 0.0;
            (load.disk, load.network, load.bus) =
                (load.pressure.disk, load.pressure.network, load.pressure.memory_bandwidth);
        }
        // CPU is shared max-min fair by weight under quotas; how busy the rest of a node is follows from that. As few
        // passes as that allows: with a thousand tenants, each one fetches them all anew.
        for (index, tenant) in tenants.iter_mut().enumerate() {
            let Some(tenant) = tenant else { continue };
            tenant.change(step);
            tenant.measured.requests = tenant.rate(step) * surge(&spec.anomalies, index, from, to) * spec.seconds;
            self.ask(spec, tenant);
        }
        for load in &mut self.nodes {
            load.granted = load.wanted.min(load.cores);
            load.level =
                if load.wanted <= load.cores { f64::INFINITY } else { fair_level(&mut load.wants, load.cores) };
        }
        for tenant in tenants.iter_mut().flatten() {
            self.grant(spec, tenant);
        }
        for (load, node) in self.nodes.iter_mut().zip(&spec.nodes) {
            load.utilisation = load.granted / node.cores;
            load.disk_seconds = 1.0 / (node.disk * slack(load.disk));
            load.network_seconds = 1.0 / (node.network * slack(load.network));
        }
        for tenant in tenants.iter_mut().flatten() {
            self.serve(spec, tenant);
        }
    }

    /// How much CPU each pod of a tenant wants of its node.
    fn ask(&mut self, spec: &Spec, tenant: &mut Tenant) {
        let seconds = spec.seconds;
        let mut able = 0.0;
        for pod in &mut tenant.pods {
            pod.ready = match pod.node {
                Some(_) if pod.stays() && pod.starting <= 0.0 => 1.0,
                Some(_) if pod.stays() => (1.0 - pod.starting / seconds).clamp(0.0, 1.0),
                _ => 0.0,
            };
            pod.cores = match pod.node {
                Some(node) if spec.sharing == Sharing::Weights => self.nodes[node].cores,
                _ => pod.cpu_limit(seconds),
            };
            able += pod.cores * pod.ready;
        }
        let offered = (tenant.measured.requests + tenant.backlog) / seconds * tenant.spec.workload.cpu_seconds();
        let each = if able > 0.0 { (offered / able).min(1.0) } else { 0.0 };
        for pod in &mut tenant.pods {
            let Some(node) = pod.node else { continue };
            pod.want = pod.cores * pod.ready * each;
            let load = &mut self.nodes[node];
            load.wanted += pod.want;
            load.wants.push(Want { cores: pod.want, weight: pod.weight() });
        }
    }

    /// The cores that each pod of a tenant can have, and what it then asks of the disk, the network and the memory bus.
    fn grant(&mut self, spec: &Spec, tenant: &mut Tenant) {
        let workload = &*tenant.spec.workload;
        let each = 1.0 / workload.cpu_seconds();
        for pod in &mut tenant.pods {
            let Some(index) = pod.node else { continue };
            let (load, node) = (&mut self.nodes[index], &spec.nodes[index]);
            let most =
                if load.level.is_finite() { load.level * pod.weight() } else { pod.want + load.cores - load.granted };
            pod.cores = pod.cores.min(most);
            let rate = pod.want.min(pod.cores) * each;
            load.disk += rate * workload.io_mb * pod.squeeze() / node.disk;
            load.network += rate * workload.network_mb / node.network;
            load.bus += rate * traffic(workload, load) / node.bus;
        }
    }

    /// One tenant's requests, latency and memory.
    fn serve(&mut self, spec: &Spec, tenant: &mut Tenant) {
        let seconds = spec.seconds;
        let workload = &*tenant.spec.workload;
        let rate = tenant.measured.requests / seconds;

        // How each pod runs: seconds on the CPU, seconds elsewhere, and requests per second at most.
        let mut paces = std::mem::take(&mut self.paces);
        paces.clear();
        paces.extend(tenant.pods.iter().map(|pod| self.pace(spec, pod, workload)));
        let capacity: f64 = paces.iter().map(|pace| pace.capacity).sum();
        let work = paces.iter().map(|pace| pace.capacity * pace.work).sum::<f64>() / capacity.max(f64::MIN_POSITIVE);
        let line = Line::new(tenant.backlog, rate, capacity, seconds, workload.timeout);

        // Traffic follows capacity, so all pods are equally loaded.
        let (latency, most) = self.latency(spec, workload, &tenant.pods, &paces, rate);
        let running = if capacity > 0.0 { rate.min(capacity) * latency.mean() } else { 0.0 };
        let mut memory = Memory::default();
        for (pod, pace) in tenant.pods.iter_mut().zip(&paces) {
            let share = if capacity > 0.0 { pace.capacity / capacity } else { 0.0 };
            // This step has passed; a kill at its end starts the clock anew.
            pod.pass(seconds);
            let slots = f64::from(workload.slots);
            let mean = ((running + line.after) * share).min(slots);
            // Crowds spread over the pods, but not quite evenly.
            let peak = if share > 0.0 { (most * share + 1.0).max(mean).min(slots) } else { 0.0 };
            memory.take(pod, workload, if line.unserved > 0.0 && share > 0.0 { [mean, slots] } else { [mean, peak] });
        }
        self.paces = paces;
        // What a killed pod held had waited, or else would have been served.
        let waiting = memory.lost.min(line.after);
        let served = (line.served - (memory.lost - waiting)).max(0.0);
        tenant.backlog = line.after - waiting;

        let requests = rate * seconds;
        let objective = match tenant.spec.slo {
            Slo::Latency { milliseconds, .. } => milliseconds / 1000.0,
            Slo::Throughput { .. } => f64::INFINITY,
        };
        let shape = latency.shape();
        let slow = requests * line.beyond(&shape, objective);
        let utilisation = if capacity > 0.0 { rate / capacity } else { 0.0 };
        let doubt = self.doubt(spec, workload, &tenant.pods, &line, utilisation);
        tenant.measured = Measured {
            requests,
            served,
            dropped: line.dropped + memory.lost,
            backlog: tenant.backlog,
            violating: (slow + line.dropped + memory.lost).min(requests),
            percentiles: (requests > 0.0 || served > 0.0).then(|| {
                let [median, mut high] = shape.percentiles();
                if spec.noise {
                    high = (high
                        * (shape.spread() * sampling_error(served) * self.rng.sample::<f64, _>(StandardNormal)).exp())
                    .max(median);
                }
                [(median + line.delay[0]).min(workload.timeout), (high + line.delay[1]).min(workload.timeout)]
            }),
            concurrency: running + (line.before + line.after) / 2.0,
            cores: served / seconds * work,
            memory: memory.used,
            memory_peak: memory.peak,
            oom_kills: memory.kills,
            node_utilisation: self.node_utilisation(&tenant.pods),
            doubt,
        };
    }

    /// Why the formulas are not to be trusted here, if so (docs/simulator.md has the figures).
    fn doubt(&self, spec: &Spec, workload: &Workload, pods: &[Pod], line: &Line, utilisation: f64) -> Option<Doubt> {
        let crowded = || pods.iter().filter_map(|pod| pod.node).any(|node| self.nodes[node].crowded(workload));
        if matches!(spec.sharing, Sharing::Throttled { .. }) {
            Some(Doubt::Sharing)
        } else if line.unserved > 0.0 {
            Some(Doubt::Saturated)
        } else if utilisation > BUSY {
            Some(Doubt::Busy)
        } else if crowded() {
            Some(Doubt::Crowded)
        } else {
            None
        }
    }

    /// Latency over all pods, the backlog left out, and how many requests are inside at the worst moment.
    fn latency(&mut self, spec: &Spec, workload: &Workload, pods: &[Pod], paces: &[Pace], rate: f64) -> (Latency, f64) {
        let able = || pods.iter().zip(paces).filter(|(_, pace)| pace.capacity > 0.0);
        let (mut count, mut cores, mut capacity, mut cpu, mut elsewhere) = (0.0, 0.0, 0.0, 0.0, 0.0);
        for (pod, pace) in able() {
            count += pod.ready;
            cores += pod.cores * pod.ready;
            capacity += pace.capacity;
            cpu += pace.capacity * pace.cpu;
            elsewhere += pace.capacity * pace.elsewhere;
        }
        if capacity <= 0.0 {
            return (Latency::constant(workload.timeout), 0.0);
        }
        let (cpu, elsewhere) = (cpu / capacity, elsewhere / capacity);
        let whole = Station {
            cores: (cores / count).max(1.0) * self.pool(spec.balancing, count),
            slots: f64::from(workload.slots) * count.max(1.0),
            seconds: cpu,
            variation: workload.distribution.variation(),
            elsewhere,
        };
        let (latency, most) = whole.measure(rate / capacity, rate * spec.seconds);
        self.parts.clear();
        self.parts.extend(
            able().map(|(_, pace)| (pace.capacity, latency.slower(pace.cpu / cpu).later(pace.elsewhere - elsewhere))),
        );
        (Latency::mixture(&self.parts), most)
    }

    /// The cores of so many pods of one core each, once they are pooled.
    fn pool(&self, balancing: Balancing, count: f64) -> f64 {
        let whole = count as usize;
        let known = self.pools.get(whole).filter(|_| whole as f64 == count);
        known.copied().unwrap_or_else(|| pooled(balancing, 1.0, count))
    }

    // Handed back through memory, its halves would be read before they are written: that costs more than the call.
    #[inline(always)]
    fn pace(&self, spec: &Spec, pod: &Pod, workload: &Workload) -> Pace {
        let Some(node) = pod.node.filter(|_| pod.ready > 0.0 && pod.cores > 0.0) else { return Pace::default() };
        let (load, node) = (&self.nodes[node], &spec.nodes[node]);
        // Waiting for memory is part of the time on the CPU; a busy bus makes it longer.
        let stalls = (traffic(workload, load) / slack(load.bus) - workload.traffic_mb) / node.bus;
        let work = workload.cpu_seconds() * pod.coldness(workload, spec.seconds) + stalls;
        // The pod's own waiting is in its own queue, so only what the neighbours use collides with it here.
        let neighbours = (load.granted - pod.want.min(pod.cores)) / load.cores;
        let cpu = work * (1.0 + self.collisions.get(load.cores, neighbours)) / pod.cores.min(1.0);
        let elsewhere = workload.io_mb * pod.squeeze() * load.disk_seconds
            + workload.network_mb * load.network_seconds
            + load.pressure.delay;
        let station = Station {
            cores: pod.cores.max(1.0),
            slots: f64::from(workload.slots),
            seconds: work / pod.cores.min(1.0),
            variation: 0.0,
            elsewhere,
        };
        let fullest =
            [(load.disk, workload.io_mb), (load.network, workload.network_mb), (load.bus, workload.traffic_mb)];
        let fullest = fullest.iter().filter(|(_, part)| *part > 0.0).fold(1.0_f64, |most, (load, _)| most.max(*load));
        Pace { work, cpu, elsewhere, capacity: station.capacity() / fullest * pod.ready }
    }

    fn node_utilisation(&self, pods: &[Pod]) -> f64 {
        let placed = pods.iter().filter_map(|pod| pod.node);
        let (sum, count) =
            placed.fold((0.0, 0.0_f64), |(sum, count), node| (sum + self.nodes[node].utilisation, count + 1.0));
        if count > 0.0 { sum / count } else { 0.0 }
    }
}

impl Load {
    /// Utilisation of what the workload uses most of: disk, network or memory bus.
    fn fullest(&self, workload: &Workload) -> f64 {
        let parts = [(self.disk, workload.io_mb), (self.network, workload.network_mb), (self.bus, workload.traffic_mb)];
        parts.iter().filter(|(_, part)| *part > 0.0).fold(0.0, |most, (load, _)| most.max(*load))
    }

    fn crowded(&self, workload: &Workload) -> bool {
        self.granted > CROWDED_CORES * self.cores || self.fullest(workload) > CROWDED_BANDWIDTH
    }
}

/// What is left of something that is used so much already.
pub(crate) fn slack(utilisation: f64) -> f64 {
    1.0 - utilisation.min(FULLEST)
}

/// Megabytes that a request moves over the memory bus, more when the cache is taken from it.
fn traffic(workload: &Workload, load: &Load) -> f64 {
    workload.traffic_mb * (1.0 + CACHE_MISSES * load.pressure.cache)
}

/// A tenant's backlog over a step: it moves in a straight line, and what would wait too long is given up on.
struct Line {
    before: f64,
    after: f64,
    /// What was left before anything was given up on.
    unserved: f64,
    served: f64,
    dropped: f64,
    /// The part of the step during which there is a backlog, and its length at both ends in seconds.
    busy: f64,
    ends: [f64; 2],
    /// Median and 99th percentile of the delay.
    delay: [f64; 2],
}

impl Line {
    fn new(before: f64, rate: f64, capacity: f64, seconds: f64, timeout: f64) -> Self {
        let unserved = (before + (rate - capacity) * seconds).max(0.0);
        // Nobody waits for a service that has no pod: it is refused at once.
        let after = unserved.min(capacity * timeout);
        let served = before + rate * seconds - unserved;
        if before <= 0.0 && unserved <= 0.0 && capacity > 0.0 {
            return Self { before, after, unserved, served, dropped: 0.0, busy: 0.0, ends: [0.0; 2], delay: [0.0; 2] };
        }
        let busy = if unserved > 0.0 { 1.0 } else { (before / (capacity - rate).max(1e-9) / seconds).min(1.0) };
        let ends = if capacity > 0.0 { [before / capacity, after / capacity] } else { [timeout; 2] };
        let delay = backlog_delay(ends[0], ends[1], busy);
        Self { before, after, unserved, served, dropped: unserved - after, busy, ends, delay }
    }

    /// The share of the step's requests that take longer than `seconds`.
    fn beyond(&self, latency: &Shape, seconds: f64) -> f64 {
        let free = latency.beyond(seconds);
        if self.busy <= 0.0 || self.ends == [0.0; 2] {
            return free;
        }
        // The delay is evenly spread between its ends; four points of it stand for all.
        let at = |point: f64| self.ends[0] + (self.ends[1] - self.ends[0]) * point;
        let held = [0.125, 0.375, 0.625, 0.875].map(|point| latency.beyond(seconds - at(point)));
        self.busy * held.iter().sum::<f64>() / 4.0 + (1.0 - self.busy) * free
    }
}

/// The memory of a tenant's pods in one step.
#[derive(Default)]
struct Memory {
    used: f64,
    peak: f64,
    kills: u32,
    /// Requests in flight in killed pods.
    lost: f64,
}

impl Memory {
    /// Takes memory for the requests in flight, on average and at the worst moment; a pod above its limit is killed,
    /// starts again, and counts as unused.
    fn take(&mut self, pod: &mut Pod, workload: &Workload, [mean, most]: [f64; 2]) {
        if pod.ready <= 0.0 {
            pod.fullness = 0.0;
            return;
        }
        let limit = pod.limit.memory.0 as f64;
        let appetite = pod.appetite();
        let bytes =
            |in_flight: f64| (workload.memory_idle.0 as f64 + workload.memory_request.0 as f64 * in_flight) * appetite;
        let (bytes, peak) = (bytes(mean), bytes(most));
        self.peak = self.peak.max(peak.min(limit));
        if peak > limit {
            self.kills += 1;
            self.lost += mean;
            pod.restart(workload);
            return;
        }
        self.used += bytes;
        pod.fullness = bytes / limit;
    }
}

impl Pod {
    /// A step has passed: it is nearer to ready, older, and what it had to finish is finished.
    fn pass(&mut self, seconds: f64) {
        if self.node.is_none() {
            return;
        }
        self.age += (seconds - self.starting).max(0.0);
        self.starting = (self.starting - seconds).max(0.0);
        self.settling = (self.settling - seconds).max(0.0);
        if self.leaving.is_some() {
            self.leaving = Some(0.0);
        }
    }

    /// How many times longer requests compute in this step because the pod has only just started.
    fn coldness(&self, workload: &Workload, seconds: f64) -> f64 {
        if workload.cold <= 1.0 || self.age >= workload.warmup {
            return 1.0;
        }
        // The mean of a straight line from `cold` to 1 over the part of the warm-up that falls into the step.
        let (from, to) = (self.age, (self.age + seconds).min(workload.warmup));
        let extra = |age: f64| (workload.cold - 1.0) * (1.0 - age / workload.warmup);
        1.0 + (extra(from) + extra(to)) / 2.0 * ((to - from) / seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_of_collisions_is_the_formula() {
        let table = Collisions::new(8.0);
        for utilisation in [-1.0, 0.0, 0.013, 0.2, 0.5, 0.77, 0.8999, 0.95, 2.0, f64::NAN] {
            for cores in [8.0, 3.0] {
                let (exact, ours) = (contention(cores, utilisation), table.get(cores, utilisation));
                assert!((ours - exact).abs() < 1e-4 * (1.0 + exact) || exact.is_nan(), "{utilisation}: {ours} {exact}");
            }
        }
    }
}
