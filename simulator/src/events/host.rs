//! One node: cores, disk, network and memory bus, as its pods find them within a quantum.

use crate::{
    anomaly::Pressure,
    cluster::Sharing,
    fluid::{CACHE_MISSES, slack},
    placement::Node,
    sharing::{Want, fair_level},
};

/// Seconds over which the use of a disk, network or bus is averaged.
const MEMORY: f64 = 1.0;

#[derive(Debug, Clone)]
pub(super) struct Host {
    /// Cores that disturbances leave, and core-seconds used beyond them; negative if some were left over.
    cores: f64,
    debt: f64,
    /// Whether its pods could ever want more cores than there are. If not, they do not feel each other.
    pub(super) contended: bool,
    /// While pods are counted: the cores that they could use, and their slots.
    expected: f64,
    slots: f64,
    wants: Vec<Want>,
    weights: f64,
    level: f64,
    free: f64,
    available: f64,
    pub(super) disk: Channel,
    pub(super) network: Channel,
    bus: Channel,
    cache: f64,
    pub(super) delay: f64,
    /// Core-seconds used in this quantum and in this step.
    used: f64,
    pub(super) total: f64,
}

impl Host {
    pub(super) fn new(node: &Node) -> Self {
        Self {
            cores: node.cores,
            debt: 0.0,
            contended: false,
            expected: 0.0,
            slots: 0.0,
            wants: Vec::new(),
            weights: 0.0,
            level: f64::INFINITY,
            free: 0.0,
            available: 0.0,
            disk: Channel::new(node.disk),
            network: Channel::new(node.network),
            bus: Channel::new(node.bus),
            cache: 0.0,
            delay: 0.0,
            used: 0.0,
            total: 0.0,
        }
    }

    /// The disturbances change.
    pub(super) fn press(&mut self, node: &Node, pressure: Pressure) {
        self.cores = node.cores * (1.0 - pressure.cpu);
        self.disk.pressure = pressure.disk;
        self.network.pressure = pressure.network;
        self.bus.pressure = pressure.memory_bandwidth;
        self.cache = pressure.cache;
        self.delay = pressure.delay;
    }

    /// The most that a pod can ever use.
    pub(super) fn most(&self, sharing: Sharing, limit: f64) -> f64 {
        match sharing {
            Sharing::Quotas => limit.min(self.cores),
            // A throttled pod may run as wide as the node until its period's budget is spent.
            Sharing::Throttled { .. } | Sharing::Weights => self.cores,
        }
    }

    /// A pod that could use so many cores for so many requests at once is here.
    pub(super) fn expect(&mut self, cores: f64, slots: f64) {
        self.expected += cores.min(slots);
        self.slots += slots;
    }

    /// Whether all pods together could ever collide.
    pub(super) fn crowd(&mut self) {
        let slots = std::mem::take(&mut self.slots).max(1.0);
        for channel in [&mut self.disk, &mut self.network, &mut self.bus] {
            channel.sharers = slots;
            channel.look();
        }
        self.contended = std::mem::take(&mut self.expected) > self.cores * (1.0 + 1e-12);
        if !self.contended {
            self.debt = 0.0;
        }
    }

    pub(super) fn open_quantum(&mut self) {
        self.wants.clear();
        self.weights = 0.0;
    }

    /// What a pod wants: a core for each of its threads, as far as it may have them.
    pub(super) fn want(&mut self, cores: f64, weight: f64) {
        self.wants.push(Want { cores, weight });
        self.weights += weight;
    }

    /// Shares a quantum of so many seconds.
    pub(super) fn share(&mut self, seconds: f64) {
        self.available = (self.cores - self.debt / seconds).max(0.0);
        let wanted: f64 = self.wants.iter().map(|want| want.cores).sum();
        self.free = (self.available - wanted).max(0.0);
        self.level = fair_level(&mut self.wants, self.available);
    }

    /// The cores that a pod can have in this quantum: its fair share of what is scarce, or what it wants and all that is
    /// idle. Whoever wakes up in between may claim its share at once; [`Host::settle`] makes up for it.
    pub(super) fn grant(&self, want: f64, weight: f64) -> f64 {
        let claim = if self.level.is_finite() { self.level * weight } else { want + self.free };
        claim.max(self.available * weight / self.weights)
    }

    pub(super) fn use_cores(&mut self, seconds: f64) {
        self.used += seconds;
    }

    /// Ends a quantum. What was used beyond the node's cores is owed to the next ones, so that over time the node never
    /// gives more than it has; what was left over while somebody went short comes on top of the next one.
    pub(super) fn settle(&mut self, seconds: f64) {
        if self.contended {
            let whole = self.cores * seconds;
            let least = if self.level.is_finite() { -whole } else { 0.0 };
            self.debt = (self.debt + self.used - whole).max(least);
        }
        self.total += std::mem::take(&mut self.used);
        let weight = -(-seconds / MEMORY).exp_m1();
        for channel in [&mut self.disk, &mut self.network, &mut self.bus] {
            channel.settle(seconds, weight);
        }
    }

    /// CPU seconds that a request waits for memory, beyond what it does on an idle bus.
    pub(super) fn stall(&mut self, megabytes: f64) -> f64 {
        if megabytes <= 0.0 {
            return 0.0;
        }
        let moved = megabytes * (1.0 + CACHE_MISSES * self.cache);
        self.bus.seconds(moved) - megabytes / self.bus.bandwidth
    }
}

/// Something with a bandwidth, shared evenly by those who use it.
///
/// Alone a transfer takes size / bandwidth; with a share u in use by all, 1 / (1 - u) times as long, the mean of
/// processor sharing. The use is measured over the last second. One that is asked for more than it has slows down until
/// what is begun fits, and never by more than the number of those who could share it.
#[derive(Debug, Clone)]
pub(super) struct Channel {
    bandwidth: f64,
    pressure: f64,
    /// Seconds of work begun in this quantum, and the mean per second of late.
    begun: f64,
    usage: f64,
    excess: f64,
    sharers: f64,
    slowdown: f64,
}

impl Channel {
    fn new(bandwidth: f64) -> Self {
        Self { bandwidth, pressure: 0.0, begun: 0.0, usage: 0.0, excess: 1.0, sharers: 1.0, slowdown: 1.0 }
    }

    /// Begins a transfer; how long it takes.
    pub(super) fn seconds(&mut self, megabytes: f64) -> f64 {
        let alone = megabytes / self.bandwidth;
        self.begun += alone;
        alone * self.slowdown
    }

    fn look(&mut self) {
        let most = self.sharers / (1.0 - self.pressure);
        self.slowdown = (self.excess / slack(self.usage + self.pressure)).min(most);
    }

    fn settle(&mut self, seconds: f64, weight: f64) {
        self.usage += (self.begun / seconds - self.usage) * weight;
        self.begun = 0.0;
        let beyond = self.usage + self.pressure - 1.0;
        self.excess = (self.excess * (1.0 + (beyond * weight).clamp(-0.5, 1.0))).clamp(1.0, self.sharers);
        self.look();
    }
}
