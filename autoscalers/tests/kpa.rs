//! Knative's autoscaler beyond what the oracle asks: plain examples, refused settings, impossible input.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use meanfield_autoscalers::kpa::{Decision, Kpa, Options, activation};
use proptest::{collection::vec, prelude::*};

fn second(count: u64) -> Duration {
    Duration::from_secs(count)
}

/// A revision whose pods are ready at the next round.
struct Revision {
    kpa: Kpa,
    now: u64,
    ready: u32,
}

impl Revision {
    fn new(options: Options) -> Self {
        Self { kpa: Kpa::new(options).unwrap(), now: 0, ready: 0 }
    }

    /// The decision after so many seconds of this load.
    fn under(&mut self, load: f64, seconds: u64) -> Decision {
        let mut latest = None;
        for _ in 0..seconds / 2 {
            for _ in 0..2 {
                self.now += 1;
                self.kpa.record(second(self.now), load);
            }
            let decision = self.kpa.decide(second(self.now), self.ready);
            self.ready = decision.replicas;
            latest = Some(decision);
        }
        latest.unwrap()
    }
}

fn calm(replicas: u32) -> Decision {
    Decision { replicas, panicking: false }
}

#[test]
fn a_steady_load_gets_its_replicas() {
    let mut revision = Revision::new(Options::default());
    // 70 requests at once to a pod.
    assert_eq!(revision.under(70.0, 120), calm(1));
    assert_eq!(revision.under(71.0, 120), calm(2));
    assert_eq!(revision.under(700.0, 240), calm(10));
}

#[test]
fn a_surge_panics_and_nothing_shrinks_until_it_has_been_over_for_a_window() {
    let mut revision = Revision::new(Options::default());
    revision.under(70.0, 120);
    assert_eq!(revision.under(700.0, 8), Decision { replicas: 10, panicking: true });
    assert_eq!(revision.under(70.0, 50), Decision { replicas: 10, panicking: true });
    assert_eq!(revision.under(70.0, 120), calm(1));
}

#[test]
fn an_idle_revision_goes_to_zero_after_the_window() {
    let mut revision = Revision::new(Options::default());
    assert_eq!(revision.under(70.0, 120), calm(1));
    // With little capacity the proxy is in the path all along: no grace period.
    assert_eq!(revision.under(0.0, 58), calm(1));
    assert_eq!(revision.under(0.0, 6), calm(0));
    // With capacity to spare it first has to get there.
    let options = Options { target_burst_capacity: Some(0.0), ..Options::default() };
    let mut revision = Revision::new(options);
    revision.under(70.0, 120);
    assert_eq!(revision.under(0.0, 88), calm(1));
    assert_eq!(revision.under(0.0, 6), calm(0));
    assert_eq!(revision.under(1.0, 2).replicas, 1);
}

#[test]
fn a_restarted_autoscaler_keeps_what_runs_until_it_knows_better() {
    let mut revision = Revision { kpa: Kpa::resume(Options::default(), second(0), 8).unwrap(), now: 0, ready: 8 };
    assert_eq!(revision.under(70.0, 60), Decision { replicas: 8, panicking: true });
    assert_eq!(revision.under(70.0, 20), calm(1));
}

#[test]
fn senseless_settings_are_refused_by_field_value_and_bound() {
    let refused = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        Kpa::new(options).unwrap_err().to_string()
    };
    assert_eq!(refused(|o| o.total_value = 0.0), "total_value: 0 is not within [0.01, 1000000000]");
    assert_eq!(refused(|o| o.utilisation = 1.1), "utilisation: 1.1 is not within [0.01, 1]");
    assert_eq!(refused(|o| o.max_scale_up_rate = 1.0), "max_scale_up_rate: 1 is not more than 1");
    assert_eq!(refused(|o| o.max_scale_down_rate = f64::NAN), "max_scale_down_rate: NaN is not within [1, 1000000]");
    assert_eq!(refused(|o| o.panic_window_percentage = 0.5), "panic_window_percentage: 0.5 is not within [1, 100]");
    assert_eq!(
        refused(|o| o.panic_threshold_percentage = 100.0),
        "panic_threshold_percentage: 100 is not within [110, 1000]"
    );
    assert_eq!(
        refused(|o| o.target_burst_capacity = Some(-2.0)),
        "target_burst_capacity: -2 is not within [0, 1000000000]"
    );
    assert_eq!(
        refused(|o| o.stable_window = Duration::from_millis(6500)),
        "stable_window: 6.5s is not whole seconds within [6 s, 1 h]"
    );
    assert_eq!(
        refused(|o| o.scale_down_delay = Duration::from_secs(3601)),
        "scale_down_delay: 3601s is not whole seconds within [0 s, 1 h]"
    );
    assert_eq!(refused(|o| o.activation.grace = Duration::ZERO), "grace: 0ns is not within [1ns, 366 days]");
    assert_eq!(refused(|o| o.activation.min_scale = 2_000_000), "min_scale: 2000000 is not within [0, 1000000]");
    assert_eq!(
        refused(|o| o.activation = activation::Options { min_scale: 3, max_scale: 2, ..o.activation.clone() }),
        "max_scale: 2 is not 0 or at least the minimum 3"
    );
}

proptest! {
    #[test]
    fn no_input_breaks_it_and_the_bounds_hold(
        steps in vec((any::<u64>(), any::<f64>(), any::<u32>()), 0..60),
        anywhere: bool,
        delay in 0..100_u64,
    ) {
        let bounds = activation::Options { min_scale: 2, max_scale: 50, ..activation::Options::default() };
        let options = Options { activation: bounds, scale_down_delay: second(delay), ..Options::default() };
        let mut kpa = Kpa::new(options).unwrap();
        kpa.decide(Duration::MAX, u32::MAX);
        for (at, load, ready) in steps {
            let now = if anywhere { second(at) } else { Duration::from_millis(at % 1_000_000) };
            kpa.record(now, load);
            let decision = kpa.decide(now, ready);
            prop_assert!((2..=50).contains(&decision.replicas), "{decision:?}");
        }
    }
}
