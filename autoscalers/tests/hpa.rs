//! What the oracle cannot express of the Horizontal Pod Autoscaler: refused specs, impossible input, other clocks.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use meanfield_autoscalers::hpa::{
    Basis, Behavior, Change, Counts, Flags, Hpa, Limit, Metric, Millis, PerPod, Phase, Pod, Policy, Proposal, Reading,
    Ready, Reason, Resource, Rules, Sample, Seen, Select, Spec, Status, Target,
};
use proptest::{collection::vec, option, prelude::*};

fn rules(change: impl FnOnce(&mut Rules)) -> Spec {
    let mut behavior = Behavior::default();
    change(&mut behavior.down);
    Spec { behavior: Some(behavior), ..Spec::cpu(1, 10, 80) }
}

fn metric(metric: Metric) -> Spec {
    Spec { metrics: vec![metric], ..Spec::cpu(1, 10, 80) }
}

#[test]
fn a_spec_that_the_api_server_would_refuse_is_refused_by_field_value_and_bound() {
    let policy = |value, period| Policy { change: Change::Pods(value), period };
    for (spec, message) in [
        (Spec::cpu(0, 10, 80), "min: 0 is not at least 1, since scaling to zero is off"),
        (Spec::cpu(1, 0, 80), "max: 0 is not at least 1"),
        (Spec::cpu(5, 4, 80), "max: 4 is not at least 5"),
        (Spec::cpu(1, 1 << 31, 80), "max: 2147483648 is not at most 2147483647"),
        (Spec { metrics: vec![], ..Spec::cpu(1, 10, 80) }, "metrics: an empty list is not at least one metric"),
        (Spec::cpu(1, 10, 0), "metrics[0].percent: 0 is not at least 1"),
        (Spec::cpu(1, 10, u32::MAX), "metrics[0].percent: 4294967295 is not at most 2147483647"),
        (metric(Metric::Use { resource: Resource::Other, average: 0 }), "metrics[0].average: 0 is not at least 1"),
        (metric(Metric::Pods { average: -5 }), "metrics[0].average: -5 is not at least 1"),
        (metric(Metric::Object(Target::Value(0))), "metrics[0].value: 0 is not at least 1"),
        (metric(Metric::External(Target::AverageValue(0))), "metrics[0].average: 0 is not at least 1"),
        (rules(|down| down.window = Some(3601)), "behavior.down.window: 3601 is not at most 3600"),
        (rules(|down| down.policies = vec![]), "behavior.down.policies: an empty list is not at least one policy"),
        (rules(|down| down.policies = vec![policy(0, 1)]), "behavior.down.policies[0].value: 0 is not at least 1"),
        (rules(|down| down.policies = vec![policy(1, 0)]), "behavior.down.policies[0].period: 0 is not at least 1"),
        (
            rules(|down| down.policies = vec![policy(1, 1801)]),
            "behavior.down.policies[0].period: 1801 is not at most 1800",
        ),
    ] {
        assert_eq!(Hpa::new(spec).unwrap_err().to_string(), message);
    }
    for bad in [f64::NAN, -0.1, f64::INFINITY] {
        let refused = Hpa::new(rules(|down| down.tolerance = Some(bad))).unwrap_err();
        assert_eq!(refused.field, "behavior.down.tolerance");
        let refused = Hpa::with_flags(Spec::cpu(1, 10, 80), Flags { tolerance: bad, ..Flags::default() }).unwrap_err();
        assert_eq!(refused.field, "tolerance");
    }
    let flags = Flags { cpu_initialisation: -1, ..Flags::default() };
    assert_eq!(Hpa::with_flags(Spec::cpu(1, 10, 80), flags).unwrap_err().field, "cpu_initialisation");
}

#[test]
fn zero_replicas_need_the_gate_and_a_metric_without_pods() {
    let gate = Flags { scale_to_zero: true, ..Flags::default() };
    let outside = |min| Spec { min, ..metric(Metric::External(Target::AverageValue(1000))) };
    assert!(Hpa::with_flags(outside(0), gate).is_ok());
    assert_eq!(Hpa::new(outside(0)).unwrap_err().field, "min");
    assert_eq!(Hpa::with_flags(Spec::cpu(0, 10, 80), gate).unwrap_err().field, "min");
}

#[test]
fn a_refused_edit_changes_nothing() {
    let mut hpa = Hpa::new(Spec::cpu(2, 10, 80)).unwrap();
    assert!(hpa.respecify(Spec::cpu(2, 10, 0)).is_err());
    assert_eq!(hpa.spec(), &Spec::cpu(2, 10, 80));
}

#[test]
fn counts_are_enough_for_utilisation() {
    let mut hpa = Hpa::new(Spec::cpu(1, 100, 50)).unwrap();
    // 4 pods of 500m use 1500m: 75 % where 50 % is wanted, so 1.5 * 4.
    let seen = Seen::counted(4, Counts { ready: 4, used: 1500, request: 500, unready: 0, missing: 0 });
    let decision = hpa.decide(0, &seen);
    assert_eq!(decision.proposals, [Ok(Proposal { replicas: 6, basis: Basis::Ratio })]);
    assert_eq!(decision.replicas, 6);
    // The two that start count as idle: 1500m of 3000m is what is wanted.
    let seen = Seen::counted(6, Counts { ready: 4, used: 1500, request: 500, unready: 2, missing: 0 });
    let decision = hpa.decide(15_000, &seen);
    assert_eq!(decision.proposals, [Ok(Proposal { replicas: 6, basis: Basis::FilledWithinTolerance })]);
    assert_eq!(decision.replicas, 6);
}

#[test]
fn what_the_original_overflows_on_saturates() {
    let most = i64::from(i32::MAX);
    let wanted = |spec: Spec, seen: &Seen| Hpa::new(spec).unwrap().recommend(0, seen).proposals[0].unwrap().replicas;
    let object = |value| Seen { replicas: 5, observed: 5, readings: vec![Reading::Object(value)], ..Seen::default() };
    let spec = metric(Metric::Object(Target::AverageValue(1)));
    assert_eq!(wanted(spec.clone(), &object(most + 1)), i32::MAX);
    assert_eq!(wanted(spec, &object(i64::MIN)), i32::MIN);
    // A hundred pods with a tebibyte each: a hundred times their use in milli-bytes does not fit into 64 bits.
    let tebibyte = 1000 << 40;
    let counts = Counts { ready: 100, used: 60 * tebibyte, request: tebibyte, unready: 0, missing: 0 };
    let spec = metric(Metric::Utilisation { resource: Resource::Other, percent: 30 });
    assert_eq!(wanted(spec, &Seen::counted(10, counts)), 200);
}

#[test]
fn a_change_that_did_not_happen_does_not_count_against_the_rate() {
    let one = Rules { policies: vec![Policy { change: Change::Pods(1), period: 60 }], ..Rules::up() };
    let spec = Spec { behavior: Some(Behavior { up: one, down: Rules::down() }), ..Spec::cpu(1, 10, 50) };
    let seen = |replicas| Seen::counted(replicas, Counts { ready: 2, used: 2000, request: 500, ..Counts::default() });
    let mut hpa = Hpa::new(spec).unwrap();
    assert_eq!(hpa.recommend(0, &seen(2)).replicas, 3);
    assert_eq!(hpa.decide(15_000, &seen(2)).replicas, 3);
    let held = hpa.decide(30_000, &seen(3));
    assert_eq!(held.replicas, 3);
    assert!(matches!(held.reason, Reason::Followed { limit: Limit::ScaleUp, .. }));
    assert_eq!(hpa.decide(75_000, &seen(3)).replicas, 4);
}

/// Values at the ends of a type as often as in between.
fn whole() -> impl Strategy<Value = i64> {
    prop_oneof![Just(i64::MIN), Just(i64::MAX), Just(0), Just(-1), any::<i64>(), 0..1_000_000_i64]
}

fn count() -> impl Strategy<Value = u32> {
    prop_oneof![Just(0), Just(1), Just(i32::MAX as u32), Just(u32::MAX), any::<u32>(), 1..20_u32]
}

/// What a target may be, and what a limit may be.
fn target() -> impl Strategy<Value = i64> {
    prop_oneof![Just(1), Just(i64::MAX), 1..=i64::MAX, 1..1_000_000_i64]
}

fn limit() -> impl Strategy<Value = u32> {
    prop_oneof![Just(1), Just(i32::MAX as u32), 1..=i32::MAX as u32, 1..20_u32]
}

fn any_metric() -> impl Strategy<Value = Metric> {
    let resource = || prop_oneof![Just(Resource::Cpu), Just(Resource::Other)];
    let outside = || prop_oneof![target().prop_map(Target::Value), target().prop_map(Target::AverageValue)];
    prop_oneof![
        (resource(), limit()).prop_map(|(resource, percent)| Metric::Utilisation { resource, percent }),
        (resource(), target()).prop_map(|(resource, average)| Metric::Use { resource, average }),
        target().prop_map(|average| Metric::Pods { average }),
        outside().prop_map(Metric::Object),
        outside().prop_map(Metric::External),
    ]
}

fn any_rules() -> impl Strategy<Value = Rules> {
    let change = prop_oneof![limit().prop_map(Change::Pods), limit().prop_map(Change::Percent)];
    let policy = (change, 1..=1800_u32).prop_map(|(change, period)| Policy { change, period });
    let select = prop_oneof![Just(Select::Max), Just(Select::Min), Just(Select::Disabled)];
    let tolerance = option::of(prop_oneof![Just(0.0), Just(f64::MAX), 0.0..2.0]);
    (option::of(0..=3600_u32), select, vec(policy, 1..3), tolerance)
        .prop_map(|(window, select, policies, tolerance)| Rules { window, select, policies, tolerance })
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let behavior = (any_rules(), any_rules()).prop_map(|(up, down)| Behavior { up, down });
    (limit(), limit(), vec(any_metric(), 1..4), option::of(behavior)).prop_map(|(one, other, metrics, behavior)| Spec {
        min: one.min(other),
        max: one.max(other),
        metrics,
        behavior,
    })
}

fn any_flags() -> impl Strategy<Value = Flags> {
    let span = || prop_oneof![Just(Millis::MAX), Just(0), 0..1_000_000_i64];
    (0.0..2.0, span(), span(), span(), any::<bool>()).prop_map(|(tolerance, down, cpu, delay, scale_to_zero)| Flags {
        tolerance,
        downscale_stabilisation: down,
        cpu_initialisation: cpu,
        initial_readiness_delay: delay,
        scale_to_zero,
    })
}

fn any_seen() -> impl Strategy<Value = Seen> {
    let status = prop_oneof![Just(Status::True), Just(Status::False), Just(Status::Unknown)];
    let phase = prop_oneof![
        Just(Phase::Pending),
        Just(Phase::Running),
        Just(Phase::Succeeded),
        Just(Phase::Failed),
        Just(Phase::Unknown)
    ];
    let ready = (status, whole()).prop_map(|(status, since)| Ready { status, since });
    let pod = (phase, any::<bool>(), option::of(ready), option::of(whole()))
        .prop_map(|(phase, deleted, ready, started)| Pod { phase, deleted, ready, started });
    let sample = (whole(), whole(), whole()).prop_map(|(value, at, window)| Sample { value, at, window });
    let per_pod = (vec(option::of(sample), 0..5), vec(option::of(whole()), 0..5), vec(whole(), 0..3))
        .prop_map(|(samples, requests, strays)| PerPod { samples, requests, strays });
    let reading = prop_oneof![
        Just(Reading::Unavailable),
        per_pod.prop_map(Reading::Pods),
        whole().prop_map(Reading::Object),
        vec(whole(), 0..4).prop_map(Reading::External)
    ];
    (count(), count(), vec(pod, 0..5), vec(reading, 0..4)).prop_map(|(replicas, observed, pods, readings)| Seen {
        replicas,
        observed,
        pods,
        readings,
    })
}

/// The same moment on a clock that runs ahead.
fn shifted(mut seen: Seen, by: Millis) -> Seen {
    for pod in &mut seen.pods {
        pod.started = pod.started.map(|started| started + by);
        pod.ready = pod.ready.map(|ready| Ready { since: ready.since + by, ..ready });
    }
    for reading in &mut seen.readings {
        if let Reading::Pods(reading) = reading {
            for sample in reading.samples.iter_mut().flatten() {
                sample.at += by;
            }
        }
    }
    seen
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2000))]

    #[test]
    fn nothing_makes_it_panic_or_leave_its_bounds(
        mut spec in any_spec(),
        flags in any_flags(),
        rounds in vec((whole(), any_seen()), 1..6),
    ) {
        if flags.scale_to_zero {
            spec.min = 0;
            spec.metrics.push(Metric::External(Target::Value(1)));
        }
        let (min, max) = (spec.min, spec.max);
        let mut hpa = Hpa::with_flags(spec, flags).unwrap();
        for (now, seen) in rounds {
            let decision = hpa.decide(now, &seen);
            match decision.reason {
                Reason::Disabled | Reason::Failed { .. } => prop_assert_eq!(decision.replicas, seen.replicas),
                _ => prop_assert!((min..=max).contains(&decision.replicas), "{:?}", decision),
            }
        }
    }

    #[test]
    fn any_clock_will_do(
        spec in any_spec(),
        rounds in vec((0..100_000_i64, any_seen()), 1..6),
        by in -1_000_000_000_000..1_000_000_000_000_i64,
    ) {
        let hpa = Hpa::new(spec).unwrap();
        let (mut here, mut there, mut now) = (hpa.clone(), hpa, 0);
        for (wait, seen) in rounds {
            now += wait;
            // Only times that a shift cannot push over an end.
            let near = |time: Millis| time.rem_euclid(600_000) - 300_000;
            let mut seen = seen;
            for pod in &mut seen.pods {
                pod.started = pod.started.map(near);
                pod.ready = pod.ready.map(|ready| Ready { since: near(ready.since), ..ready });
            }
            for reading in &mut seen.readings {
                if let Reading::Pods(reading) = reading {
                    for sample in reading.samples.iter_mut().flatten() {
                        (sample.at, sample.window) = (near(sample.at), near(sample.window));
                    }
                }
            }
            prop_assert_eq!(here.decide(now, &seen), there.decide(now + by, &shifted(seen, by)));
        }
    }
}
