//! Where a scenario's arrivals come from, and how much they ask for.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::sync::Arc;

use meanfield_simulator::scenario::{DAY_STEPS, Scenario, Start, TALLEST};
use meanfield_traces::{synth::Preset, trace::Trace};

fn minutes(name: &str, counts: impl Fn(usize) -> f64) -> Trace {
    Trace::new(name, None, 60.0, (0..1440).map(counts).collect()).unwrap()
}

#[test]
fn recorded_arrivals_keep_their_shape_and_get_the_mean_of_their_function() {
    // A day that is three times as busy in its second half.
    let halves: Arc<[Trace]> = [minutes("halves", |minute| if minute < 720 { 50.0 } else { 150.0 })].into();
    let day = 24 * 240;
    let scenario = Scenario::new(12, day).unwrap().with_recorded(halves).unwrap();
    let mut begins = Vec::new();
    for place in 0..12 {
        let tenant = scenario.tenant(place, 7, Start::Sized).unwrap();
        let mean = tenant.arrivals.iter().sum::<f64>() / day as f64;
        assert!((mean / tenant.workload.mean_rate() - 1.0).abs() < 0.02, "{mean}");
        let busy = tenant.arrivals.iter().filter(|rate| **rate > mean).count();
        assert!((busy as f64 / day as f64 - 0.5).abs() < 0.02, "{busy} of {day}");
        begins.push(tenant.arrivals[0] > mean);
    }
    assert!(begins.contains(&true) && begins.contains(&false), "each begins at a moment of its own");
}

#[test]
fn a_shorter_recording_begins_again_and_an_empty_one_is_refused() {
    let flat: Arc<[Trace]> = [minutes("flat", |_| 600.0)].into();
    let scenario = Scenario::new(1, 10_000).unwrap().with_recorded(flat).unwrap();
    let tenant = scenario.tenant(0, 1, Start::Sized).unwrap();
    assert_eq!(tenant.arrivals.len(), 10_000);
    assert_eq!(tenant.arrivals[..4240], tenant.arrivals[5760..]);

    let refused = |traces: Arc<[Trace]>| Scenario::new(1, 10).unwrap().with_recorded(traces).unwrap_err().to_string();
    assert!(refused(Arc::from([])).contains("traces"));
    assert!(refused([minutes("silent", |_| 0.0)].into()).contains("mean rate: 0"));
}

#[test]
fn the_highest_demand_is_what_was_asked_for() {
    for load in [Preset::Diurnal, Preset::AzureFunctions] {
        let scenario = Scenario::new(12, 2 * DAY_STEPS).unwrap().with_load(load);
        let scenario = scenario.with_peak(0.7, 5).unwrap();
        let tenants: Vec<_> = (0..12).map(|place| scenario.tenant(place, 5, Start::Sized).unwrap()).collect();
        let cores = |step: usize| {
            tenants.iter().map(|tenant| tenant.arrivals[step] * tenant.workload.cpu_seconds()).sum::<f64>()
        };
        let highest = (0..2 * DAY_STEPS).map(cores).fold(0.0, f64::max);
        assert!((highest - 0.7 * 5.0 * 8.0).abs() < 1e-9, "{highest}");
    }
}

#[test]
fn nobody_draws_arrivals_that_no_cluster_could_serve() {
    let scenario = Scenario::new(12, 2000).unwrap().with_load(Preset::AzureFunctions);
    for place in 0..12 {
        let tenant = scenario.tenant(place, 3, Start::Sized).unwrap();
        let highest = tenant.arrivals.iter().copied().fold(0.0, f64::max);
        assert!(highest <= TALLEST * tenant.workload.mean_rate(), "{highest}");
    }
}

#[test]
fn limits_are_so_many_times_the_requests() {
    let scenario = Scenario::new(12, 10).unwrap();
    assert!((scenario.clone().with_overcommit(2.0).unwrap().cluster().overcommit - 2.0).abs() < 1e-12);
    for wrong in [0.9, f64::NAN, 101.0] {
        assert!(scenario.clone().with_overcommit(wrong).unwrap_err().to_string().contains("overcommit"));
    }
}
