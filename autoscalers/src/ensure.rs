//! ENSURE: as many containers as the load occupies, and a multiple of its square root to spare.
//!
//! The baseline that SIMPPO is compared with. Fixed by the papers: for a load that occupies `R` containers there are
//! `R + c sqrt(R)` of them, and a latency that is worse by 15 % than it is without contention counts as degraded; the
//! variant called ENSURE-Util tolerates 25 % and runs fuller. The rest had to be chosen, and is set in [`Options`]:
//!
//! - the load is the arrival rate times the latency without contention, divided by what a container serves at once;
//! - `c` follows the degradation: it grows by a step when latency is degraded and shrinks by a smaller one otherwise,
//!   so that it settles where degradation is rare;
//! - latency is the 99th percentile, with and without contention;
//! - dropped requests count as degraded.
//!
//! Left out is the part of ENSURE that packs containers onto servers and shares out their CPU: placing pods is the
//! cluster's business here.

use std::ops::RangeInclusive;

use meanfield_common::{
    invalid::{Invalid, within},
    observation::Observation,
};

/// Degradation that ENSURE tolerates.
pub const ENSURE: f64 = 0.15;
/// Degradation that ENSURE-Util tolerates.
pub const ENSURE_UTIL: f64 = 0.25;

/// How the containers are counted.
#[derive(Debug, Clone, PartialEq)]
pub struct Options {
    /// The 99th percentile of latency without contention, in milliseconds.
    pub baseline: f64,
    /// By which share latency may be worse than that.
    pub threshold: f64,
    /// How many requests a container serves at once.
    pub concurrency: f64,
    /// What `c` may be; it begins at the lower end.
    pub spare: RangeInclusive<f64>,
    /// What is added to `c` when latency is degraded.
    pub spare_increase: f64,
    /// What is taken from `c` when it is not.
    pub spare_decrease: f64,
    /// How many containers there may be.
    pub replicas: RangeInclusive<u32>,
}

impl Options {
    /// ENSURE for containers that serve one request at a time.
    #[must_use]
    pub fn new(baseline: f64, replicas: RangeInclusive<u32>) -> Self {
        Self {
            baseline,
            threshold: ENSURE,
            concurrency: 1.0,
            spare: 1.0..=10.0,
            spare_increase: 0.5,
            spare_decrease: 0.05,
            replicas,
        }
    }
}

/// The controller of one workload.
#[derive(Debug, Clone, PartialEq)]
pub struct Ensure {
    options: Options,
    /// The `c` of the formula.
    spare: f64,
}

impl Ensure {
    /// A controller, unless the options make no sense.
    pub fn new(options: Options) -> Result<Self, Invalid> {
        within("baseline", options.baseline, 1e-3, 1e9)?;
        within("threshold", options.threshold, 0.0, 100.0)?;
        within("concurrency", options.concurrency, 1e-3, 1e6)?;
        within("spare.min", *options.spare.start(), 0.0, 1000.0)?;
        within("spare.max", *options.spare.end(), *options.spare.start(), 1000.0)?;
        within("spare_increase", options.spare_increase, 0.0, 1000.0)?;
        within("spare_decrease", options.spare_decrease, 0.0, 1000.0)?;
        let (min, max) = (*options.replicas.start(), *options.replicas.end());
        if min < 1 {
            return Err(Invalid::new("replicas.min", min, "at least 1"));
        }
        if max < min {
            return Err(Invalid::new("replicas.max", max, format!("at least the minimum {min}")));
        }
        Ok(Self { spare: *options.spare.start(), options })
    }

    /// How many replicas there should be in the next step, after one that was observed.
    pub fn decide(&mut self, observed: &Observation) -> u32 {
        let tolerated = self.options.baseline * (1.0 + self.options.threshold);
        let degraded = observed.latency_p99.is_some_and(|latency| latency > tolerated) || observed.dropped > 0.0;
        let change = if degraded { self.options.spare_increase } else { -self.options.spare_decrease };
        self.spare = (self.spare + change).clamp(*self.options.spare.start(), *self.options.spare.end());

        // NaN and negative rates count as no load.
        let load = (observed.arrival_rate.max(0.0) * self.options.baseline / 1000.0) / self.options.concurrency;
        let containers = (load + self.spare * load.sqrt()).ceil() as u32;
        containers.clamp(*self.options.replicas.start(), *self.options.replicas.end())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ensure(threshold: f64) -> Ensure {
        Ensure::new(Options { threshold, ..Options::new(100.0, 1..=1000) }).unwrap()
    }

    fn observed(arrival_rate: f64, latency: f64) -> Observation {
        Observation { arrival_rate, latency_p99: Some(latency), ..Observation::default() }
    }

    #[test]
    fn spares_the_square_root_of_the_load() {
        // 1000 requests a second of 100 ms occupy 100 containers.
        assert_eq!(ensure(ENSURE).decide(&observed(1000.0, 100.0)), 110);
        assert_eq!(ensure(ENSURE).decide(&observed(40.0, 100.0)), 6);
        assert_eq!(ensure(ENSURE).decide(&observed(0.0, 100.0)), 1);
        let mut fuller = Ensure::new(Options { concurrency: 4.0, ..Options::new(100.0, 1..=1000) }).unwrap();
        assert_eq!(fuller.decide(&observed(1000.0, 100.0)), 30);
    }

    #[test]
    fn spares_more_when_latency_is_degraded_and_less_when_it_is_not() {
        let mut ensure = ensure(ENSURE);
        assert_eq!(ensure.decide(&observed(1000.0, 116.0)), 115);
        assert_eq!(ensure.decide(&observed(1000.0, 116.0)), 120);
        let mut fewer = 120;
        for _ in 0..20 {
            let next = ensure.decide(&observed(1000.0, 114.0));
            assert!(next <= fewer);
            fewer = next;
        }
        assert_eq!(fewer, 110);
        assert_eq!(ensure.decide(&Observation { dropped: 1.0, ..observed(1000.0, 1.0) }), 115);
    }

    #[test]
    fn the_variant_for_utilisation_tolerates_more() {
        assert_eq!(ensure(ENSURE).decide(&observed(1000.0, 120.0)), 115);
        assert_eq!(ensure(ENSURE_UTIL).decide(&observed(1000.0, 120.0)), 110);
        assert_eq!(ensure(ENSURE_UTIL).decide(&observed(1000.0, 126.0)), 115);
    }

    #[test]
    fn senseless_options_are_refused() {
        let field = |change: fn(&mut Options)| {
            let mut options = Options::new(100.0, 1..=10);
            change(&mut options);
            Ensure::new(options).unwrap_err().field
        };
        assert_eq!(field(|options| options.baseline = 0.0), "baseline");
        assert_eq!(field(|options| options.threshold = -0.1), "threshold");
        assert_eq!(field(|options| options.concurrency = f64::INFINITY), "concurrency");
        assert_eq!(field(|options| options.spare = f64::NAN..=1.0), "spare.min");
        assert_eq!(field(|options| options.spare = 2.0..=1.0), "spare.max");
        assert_eq!(field(|options| options.spare_increase = f64::NAN), "spare_increase");
        assert_eq!(field(|options| options.replicas = 0..=3), "replicas.min");
        #[allow(clippy::reversed_empty_ranges)] // what the test is about
        let reversed = |options: &mut Options| options.replicas = 4..=3;
        assert_eq!(field(reversed), "replicas.max");
    }

    proptest! {
        #[test]
        fn stays_within_the_bounds(rates: Vec<(f64, Option<f64>, f64)>) {
            let mut ensure = Ensure::new(Options::new(100.0, 2..=50)).unwrap();
            for (arrival_rate, latency_p99, dropped) in rates {
                let observed = Observation { arrival_rate, latency_p99, dropped, ..Observation::default() };
                prop_assert!((2..=50).contains(&ensure.decide(&observed)));
            }
        }
    }
}
