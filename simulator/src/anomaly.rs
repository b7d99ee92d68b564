//! Disturbances from outside the tenants: something else uses a node's resources for a while.

/// What a disturbance takes hold of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Kind {
    /// More requests than the arrivals say.
    Workload,
    /// A slower way to every pod of the node.
    NetworkDelay,
    /// Cores of the node.
    Cpu,
    /// The last-level cache: everything on the node computes more slowly.
    Cache,
    /// The memory bus.
    MemoryBandwidth,
    /// The disk.
    Disk,
    /// The network.
    NetworkBandwidth,
}

/// One disturbance of one node.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Anomaly {
    /// The node; for [`Kind::Workload`] the tenants' index.
    pub target: usize,
    /// Simulated seconds at which it begins.
    pub from: f64,
    /// Simulated seconds at which it is over.
    pub to: f64,
    /// What it takes hold of.
    pub kind: Kind,
    /// How much, within [0, 1].
    pub intensity: f64,
}

/// How much of a node is taken away, each within [0, 1]; the delay in seconds.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Pressure {
    /// Of its cores.
    pub cpu: f64,
    /// Of its last-level cache.
    pub cache: f64,
    /// Of its memory bandwidth.
    pub memory_bandwidth: f64,
    /// Of its disk.
    pub disk: f64,
    /// Of its network.
    pub network: f64,
    /// Added to every request's way.
    pub delay: f64,
}

/// The longest delay that a disturbance of the network adds, in seconds.
const LONGEST_DELAY: f64 = 0.1;

/// No disturbance takes more than this of anything, or nothing would ever end.
const MOST: f64 = 0.95;

/// The pressure on a node between two moments, each disturbance counting for the part of the time that it lasts.
#[must_use]
pub fn pressure(anomalies: &[Anomaly], node: usize, from: f64, to: f64) -> Pressure {
    let mut sum = Pressure::default();
    for anomaly in anomalies.iter().filter(|anomaly| anomaly.target == node) {
        let part = anomaly.part_of(from, to);
        match anomaly.kind {
            Kind::Workload => {}
            Kind::NetworkDelay => sum.delay += part * LONGEST_DELAY,
            Kind::Cpu => sum.cpu += part,
            Kind::Cache => sum.cache += part,
            Kind::MemoryBandwidth => sum.memory_bandwidth += part,
            Kind::Disk => sum.disk += part,
            Kind::NetworkBandwidth => sum.network += part,
        }
    }
    for share in [&mut sum.cpu, &mut sum.cache, &mut sum.memory_bandwidth, &mut sum.disk, &mut sum.network] {
        *share = share.min(MOST);
    }
    sum
}

/// By how much disturbances multiply a tenant's arrivals between two moments: 1 to 1 + the sum of their intensities.
#[must_use]
pub fn surge(anomalies: &[Anomaly], tenant: usize, from: f64, to: f64) -> f64 {
    let surges = anomalies.iter().filter(|anomaly| anomaly.kind == Kind::Workload && anomaly.target == tenant);
    1.0 + surges.map(|anomaly| anomaly.part_of(from, to)).sum::<f64>()
}

impl Anomaly {
    fn part_of(&self, from: f64, to: f64) -> f64 {
        let overlap = (self.to.min(to) - self.from.max(from)).max(0.0);
        if to > from { self.intensity.clamp(0.0, 1.0) * overlap / (to - from) } else { 0.0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_disturbance_counts_for_the_time_that_it_lasts_on_its_node_only() {
        let cpu = Anomaly { target: 1, from: 5.0, to: 20.0, kind: Kind::Cpu, intensity: 0.6 };
        let surging = Anomaly { kind: Kind::Workload, intensity: 1.0, ..cpu };
        let all = [cpu, surging];
        assert_eq!(pressure(&all, 0, 0.0, 15.0), Pressure::default());
        assert!((pressure(&all, 1, 0.0, 15.0).cpu - 0.4).abs() < 1e-12);
        assert_eq!(pressure(&all, 1, 20.0, 35.0), Pressure::default());
        assert!((surge(&all, 1, 15.0, 25.0) - 1.5).abs() < 1e-12);
        assert!((pressure(&[cpu; 9], 1, 5.0, 10.0).cpu - MOST).abs() < 1e-12, "something is always left");
    }
}
