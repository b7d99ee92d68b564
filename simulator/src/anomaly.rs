//! Disturbances from outside the tenants: something else uses a node's resources for a while.
//!
//! There are seven kinds, those of FIRM's injector, and [`inject`] draws them as FIRM's evaluation does.

use meanfield_common::invalid::{Invalid, within};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use serde::Deserialize;

/// What a disturbance takes hold of.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Deserialize)]
#[serde(rename_all = "kebab-case")]
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

impl Kind {
    /// All kinds.
    pub const ALL: [Self; 7] = [
        Self::Workload,
        Self::NetworkDelay,
        Self::Cpu,
        Self::Cache,
        Self::MemoryBandwidth,
        Self::Disk,
        Self::NetworkBandwidth,
    ];
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

/// How disturbances are drawn.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Injection {
    /// Mean disturbances per second; the times between them are exponential.
    pub per_second: f64,
    /// Seconds that each of them lasts.
    pub duration: f64,
    /// The lowest and the highest intensity; any between them is as likely.
    pub intensity: (f64, f64),
    /// No more than so many.
    pub most: usize,
}

impl Default for Injection {
    /// As in FIRM's evaluation: 0.33 a second, of any intensity. Durations are configurable there and their
    /// distribution is not printed; its experiment with several disturbances at once holds each for a window of 10 s.
    fn default() -> Self {
        Self { per_second: 0.33, duration: 10.0, intensity: (0.0, 1.0), most: Self::MOST }
    }
}

impl Injection {
    /// More than this are never drawn: every step looks at all of them.
    pub const MOST: usize = 100_000;

    /// Whether it can be drawn from. Fields are called as in a file.
    pub fn check(&self) -> Result<(), Invalid> {
        within("per_second", self.per_second, 0.0, 1e3)?;
        within("duration_seconds", self.duration, 0.0, 1e9)?;
        within("intensity.min", self.intensity.0, 0.0, 1.0)?;
        within("intensity.max", self.intensity.1, self.intensity.0, 1.0)?;
        if self.most > Self::MOST {
            return Err(Invalid::new("most", self.most, format!("at most {}", Self::MOST)));
        }
        Ok(())
    }
}

/// Draws the disturbances of so many seconds, in the order of their beginnings. Kind and target are uniform: any node,
/// or any tenant when there are to be more requests. The same seed gives the same ones.
pub fn inject(
    injection: &Injection,
    (nodes, tenants): (usize, usize),
    seconds: f64,
    seed: u64,
) -> Result<Vec<Anomaly>, Invalid> {
    injection.check()?;
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    // Tenants' arrivals take the first streams of the same seed.
    rng.set_stream(u64::MAX);
    let mut anomalies = Vec::new();
    let mut from = 0.0;
    while injection.per_second > 0.0 && anomalies.len() < injection.most {
        // 1 - u is never 0, so the logarithm is finite.
        from -= (1.0 - rng.random::<f64>()).ln() / injection.per_second;
        let kind = Kind::ALL[rng.random_range(0..Kind::ALL.len())];
        let targets = if kind == Kind::Workload { tenants } else { nodes };
        let (low, high) = injection.intensity;
        let intensity = low + (high - low) * rng.random::<f64>();
        if from >= seconds || seconds.is_nan() {
            break;
        }
        if targets > 0 {
            let target = rng.random_range(0..targets);
            anomalies.push(Anomaly { target, from, to: from + injection.duration, kind, intensity });
        }
    }
    Ok(anomalies)
}

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

    #[test]
    fn injected_disturbances_are_drawn_as_the_injector_says() {
        let all = inject(&Injection::default(), (5, 12), 30_000.0, 7).unwrap();
        assert_eq!(all, inject(&Injection::default(), (5, 12), 30_000.0, 7).unwrap());
        assert_ne!(all, inject(&Injection::default(), (5, 12), 30_000.0, 8).unwrap());
        let count = all.len() as f64;
        // Exponential intervals have a deviation equal to their mean: 1 / 0.33 s. Four standard errors either side.
        let intervals: Vec<_> = all.windows(2).map(|pair| pair[1].from - pair[0].from).collect();
        let mean = intervals.iter().sum::<f64>() / intervals.len() as f64;
        let spread = intervals.iter().map(|interval| (interval - mean).powi(2)).sum::<f64>() / intervals.len() as f64;
        assert!((mean * 0.33 - 1.0).abs() < 4.0 / count.sqrt(), "{mean}");
        // The deviation over the mean of n exponential numbers has a standard error of about 1 / sqrt(n).
        assert!((spread.sqrt() / mean - 1.0).abs() < 4.0 / count.sqrt(), "{spread}");
        let intensity = all.iter().map(|anomaly| anomaly.intensity).sum::<f64>() / count;
        assert!((intensity - 0.5).abs() < 4.0 * (1.0 / 12.0 / count).sqrt(), "{intensity}");
        for kind in Kind::ALL {
            let share = all.iter().filter(|anomaly| anomaly.kind == kind).count() as f64 / count;
            assert!((share - 1.0 / 7.0).abs() < 4.0 * (6.0 / 49.0 / count).sqrt(), "{kind:?}: {share}");
        }
        for node in 0..5 {
            let share =
                all.iter().filter(|one| one.kind != Kind::Workload && one.target == node).count() as f64 / count;
            assert!((share - 6.0 / 35.0).abs() < 4.0 * (6.0 * 29.0 / 1225.0 / count).sqrt(), "{node}: {share}");
        }
        assert!(all.iter().all(|one| one.target < if one.kind == Kind::Workload { 12 } else { 5 }));
        assert!(all.iter().all(|one| (one.to - one.from - 10.0).abs() < 1e-9 && one.from < 30_000.0));
    }

    #[test]
    fn injections_are_bounded_and_checked() {
        let usual = Injection::default();
        let bounded = Injection { most: 10, ..usual };
        assert_eq!(inject(&bounded, (5, 12), f64::INFINITY, 1).unwrap().len(), 10);
        assert_eq!(inject(&usual, (5, 12), f64::NAN, 1).unwrap(), []);
        assert_eq!(inject(&Injection { per_second: 0.0, ..usual }, (5, 12), 1e6, 1).unwrap(), []);
        assert!(inject(&usual, (5, 0), 1e4, 1).unwrap().iter().all(|one| one.kind != Kind::Workload));
        let field = |injection: Injection| inject(&injection, (1, 1), 1.0, 1).unwrap_err().field;
        assert_eq!(field(Injection { per_second: f64::NAN, ..usual }), "per_second");
        assert_eq!(field(Injection { duration: -1.0, ..usual }), "duration_seconds");
        assert_eq!(field(Injection { intensity: (0.5, 0.4), ..usual }), "intensity.max");
        assert_eq!(field(Injection { most: usize::MAX, ..usual }), "most");
    }
}
