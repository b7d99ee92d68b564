//! The Vertical Pod Autoscaler beyond what the oracle asks: plain examples, refused settings, impossible input.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use meanfield_autoscalers::vpa::{
    Options, Percentiles, Recommendation, Recommender, limit,
    updater::{self, Container, Oom, Updater},
};
use meanfield_common::resources::{Bytes, MilliCores, Resources};
use proptest::{collection::vec, prelude::*};

const MINUTE: Duration = Duration::from_secs(60);
const HOUR: Duration = Duration::from_secs(3600);
const DAY: Duration = Duration::from_secs(24 * 3600);

fn resources(cpu: u64, mebi: u64) -> Resources {
    Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(mebi) }
}

/// A recommendation after so many minutes of steady use.
fn steady(minutes: u32, cpu: u64, mebi: u64) -> Recommendation {
    let mut recommender = Recommender::new(Options::default()).unwrap();
    let mut container = recommender.container(Duration::ZERO);
    for minute in 0..minutes {
        assert!(recommender.cpu_sample(&mut container, MINUTE * minute, MilliCores(cpu)));
        assert!(recommender.memory_sample(&mut container, MINUTE * minute, Bytes::mebi(mebi)));
    }
    recommender.recommend(MINUTE * minutes).unwrap()
}

#[test]
fn nothing_is_recommended_before_the_first_container_and_the_floor_before_the_first_sample() {
    let mut recommender = Recommender::new(Options::default()).unwrap();
    assert_eq!(recommender.recommend(DAY), None);
    recommender.container(DAY);
    let floor = resources(25, 250);
    assert_eq!(recommender.recommend(DAY), Some(Recommendation { lower: floor, target: floor, upper: floor }));
}

#[test]
fn the_target_is_the_use_and_a_margin_of_fifteen_percent() {
    let Recommendation { target, .. } = steady(600, 1000, 2000);
    let near = |of: f64, use_: f64| of > use_ * 1.15 && of < use_ * 1.15 * 1.06;
    assert!(near(target.cpu.0 as f64, 1000.0), "{target:?}");
    assert!(near(target.memory.as_mebi(), 2000.0), "{target:?}");
}

#[test]
fn the_bounds_narrow_as_the_history_grows() {
    let widths = [2, 60, 1440, 5 * 1440].map(|minutes| {
        let Recommendation { lower, upper, .. } = steady(minutes, 1000, 2000);
        (lower.cpu.0, upper.cpu.0)
    });
    for pair in widths.windows(2) {
        assert!(pair[1].0 >= pair[0].0 && pair[1].1 < pair[0].1, "{widths:?}");
    }
}

#[test]
fn a_kill_for_memory_raises_the_recommendation_once() {
    let mut recommender = Recommender::new(Options::default()).unwrap();
    let mut container = recommender.container(Duration::ZERO);
    recommender.memory_sample(&mut container, Duration::ZERO, Bytes::mebi(1000));
    let before = recommender.recommend(MINUTE).unwrap().target.memory;
    assert!(recommender.oom(&mut container, MINUTE, Bytes::mebi(1000)));
    let after = recommender.recommend(MINUTE).unwrap().target.memory;
    assert!(after.0 as f64 > before.0 as f64 * 1.15, "{before} {after}");
    // The second kill concludes from what was used, not from what the first one concluded.
    assert!(recommender.oom(&mut container, MINUTE * 2, Bytes::mebi(1000)));
    assert_eq!(recommender.recommend(MINUTE * 2).unwrap().target.memory, after);
}

#[test]
fn a_history_without_samples_is_forgotten_after_eight_days() {
    let mut recommender = Recommender::new(Options::default()).unwrap();
    let mut container = recommender.container(Duration::ZERO);
    recommender.cpu_sample(&mut container, HOUR, MilliCores(1000));
    assert!(recommender.recommend(HOUR + DAY * 8 - MINUTE).is_some());
    assert!(recommender.recommend(HOUR + DAY * 8).is_some());
    assert_eq!(recommender.recommend(HOUR + DAY * 8), None);
    assert!(recommender.cpu_sample(&mut container, HOUR + DAY * 9, MilliCores(1000)));
    assert!(recommender.recommend(HOUR + DAY * 9).is_some());
}

#[test]
fn the_policy_has_the_last_word() {
    let options = Options { min_allowed: resources(100, 300), max_allowed: resources(200, 400), ..Options::default() };
    let mut recommender = Recommender::new(options).unwrap();
    let mut container = recommender.container(Duration::ZERO);
    assert_eq!(recommender.recommend(MINUTE).unwrap().target, resources(100, 300));
    recommender.cpu_sample(&mut container, MINUTE, MilliCores(9000));
    recommender.memory_sample(&mut container, MINUTE, Bytes::mebi(9000));
    assert_eq!(recommender.recommend(MINUTE).unwrap().target, resources(200, 400));
}

#[test]
fn senseless_settings_are_refused_by_field_value_and_bound() {
    let refused = |change: fn(&mut Options)| {
        let mut options = Options::default();
        change(&mut options);
        Recommender::new(options).unwrap_err().to_string()
    };
    let percentiles = Percentiles { lower: 0.5, target: 1.5, upper: f64::NAN };
    assert_eq!(refused(|o| o.cpu_half_life = Duration::ZERO), "cpu_half_life: 0ns is not within [1 s, 366 days]");
    assert!(refused(|o| o.memory_interval = Duration::MAX).starts_with("memory_interval: "));
    assert_eq!(refused(|o| o.memory_intervals = 0), "memory_intervals: 0 is not within [1, 1000]");
    assert_eq!(refused(|o| o.oom_bump_ratio = 0.9), "oom_bump_ratio: 0.9 is not within [1, 100]");
    assert_eq!(refused(|o| o.margin = f64::NAN), "margin: NaN is not within [0, 100]");
    assert_eq!(refused(|o| o.containers = 0), "containers: 0 is not within [1, 1000]");
    assert_eq!(refused(|o| o.round_cpu = MilliCores(0)), "round_cpu: 0 is not within [1, 1000000000]");
    assert_eq!(
        Recommender::new(Options { memory_percentiles: percentiles, ..Options::default() }).unwrap_err().field,
        "memory_percentiles.target"
    );
    let reversed = Options { min_allowed: resources(3, 3), max_allowed: resources(2, 4), ..Options::default() };
    let error = Recommender::new(reversed).unwrap_err();
    assert_eq!(error.to_string(), "max_allowed.cpu: 2 is not 0 or at least the minimum 3");

    let updater = |change: fn(&mut updater::Options)| {
        let mut options = updater::Options::default();
        change(&mut options);
        Updater::new(options).unwrap_err().field
    };
    assert_eq!(updater(|o| o.min_change = f64::NAN), "min_change");
    assert_eq!(updater(|o| o.tolerance = 1.01), "tolerance");
}

#[test]
fn a_pod_is_updated_outside_the_bounds_after_a_quick_kill_or_when_it_is_old_and_should_change() {
    let updater = Updater::new(updater::Options::default()).unwrap();
    let recommendation =
        Some(Recommendation { lower: resources(100, 100), target: resources(200, 200), upper: resources(400, 400) });
    let pod = |cpu, mebi, last_oom| {
        [Container { cpu: Some(MilliCores(cpu)), memory: Some(Bytes::mebi(mebi)), recommendation, last_oom }]
    };
    let (now, young, old) = (DAY * 3, Some(DAY * 3 - HOUR), Some(DAY * 2));
    let killed = Some(Oom { started: now - MINUTE * 5, finished: now - MINUTE });

    assert!(updater.wants(now, young, &pod(99, 200, None)).unwrap().grow);
    assert!(!updater.wants(now, young, &pod(200, 401, None)).unwrap().grow);
    assert_eq!(updater.wants(now, young, &pod(100, 400, None)), None);
    assert!(updater.wants(now, old, &pod(100, 400, None)).is_some());
    assert_eq!(updater.wants(now, old, &pod(195, 205, None)), None);
    assert_eq!(updater.wants(now, None, &pod(100, 400, None)), None);
    assert!(updater.wants(now, young, &pod(195, 205, killed)).is_some());
    assert_eq!(updater.wants(now, young, &pod(200, 200, killed)), None);
    assert_eq!(updater.wants(now, old, &[]), None);
}

proptest! {
    #[test]
    fn no_input_breaks_the_recommender_and_its_bounds_stay_in_order(
        steps in vec((0..4_u8, any::<u64>(), any::<u64>(), 0..2_usize), 0..60),
        late in any::<bool>(),
    ) {
        let mut recommender = Recommender::new(Options::default()).unwrap();
        let mut containers = [recommender.container(Duration::ZERO), recommender.container(Duration::MAX)];
        for (what, at, value, replica) in steps {
            // Either anywhere in time, to its very end, or within some weeks.
            let now = if late { Duration::from_secs(at) } else { Duration::from_millis(at % (1 << 32)) };
            let container = &mut containers[replica];
            match what {
                0 => { recommender.cpu_sample(container, now, MilliCores(value)); }
                1 => { recommender.memory_sample(container, now, Bytes(value)); }
                2 => { recommender.oom(container, now, Bytes(value)); }
                _ => {
                    if let Some(Recommendation { lower, target, upper }) = recommender.recommend(now) {
                        prop_assert!(lower.cpu <= target.cpu && target.cpu <= upper.cpu);
                        prop_assert!(lower.memory <= target.memory && target.memory <= upper.memory);
                        prop_assert!(lower.cpu.0 >= 25 && lower.memory >= Bytes::mebi(250));
                    }
                }
            }
        }
    }

    #[test]
    fn no_input_breaks_the_updater(
        requests in vec(any::<(Option<u64>, Option<u64>, [u64; 6], Option<[u64; 2]>)>(), 0..4),
        times in any::<[u64; 2]>(),
        counts in any::<[u32; 3]>(),
        numbers in any::<[u64; 3]>(),
    ) {
        let updater = Updater::new(updater::Options::default()).unwrap();
        let containers: Vec<_> = requests.into_iter().map(|(cpu, memory, [a, b, c, d, e, f], oom)| {
            let of = |cpu, memory| Resources { cpu: MilliCores(cpu), memory: Bytes(memory) };
            Container {
                cpu: cpu.map(MilliCores),
                memory: memory.map(Bytes),
                recommendation: Some(Recommendation { lower: of(a, b), target: of(c, d), upper: of(e, f) }),
                last_oom: oom.map(|times| {
                    let [started, finished] = times.map(Duration::from_secs);
                    Oom { started, finished }
                }),
            }
        }).collect();
        let [now, started] = times.map(Duration::from_secs);
        if let Some(priority) = updater.wants(now, Some(started), &containers) {
            prop_assert!(priority.change.is_finite() && priority.change >= 0.0);
        }
        let [configured, running, pending] = counts;
        prop_assert!(updater.budget(configured, running, pending) <= running);
        let [original, request, recommended] = numbers;
        let scaled = limit(original, request, recommended);
        prop_assert!(scaled.is_none_or(|limit| limit <= i64::MAX as u64 || limit == recommended));
    }
}
