//! Random joins, updates and leaves leave exactly what a recomputation from scratch gives, in any order.

#![allow(clippy::unwrap_used)] // helpers of tests may fail as tests do

use std::collections::BTreeMap;

use meanfield_common::{
    action::{Action, Step},
    identity::Category,
    mean_field::{Aspects, Contribution, Details, Form, Layout, Sums},
    reward::Reward,
    scarcity::Weight,
    state::{LocalState, Unit},
};
use proptest::prelude::*;

fn contribution() -> impl Strategy<Value = Contribution> {
    let unit = || (-1.0..=1.0_f64).prop_map(Unit::clamped);
    let step = || (-1..=1_i64).prop_map(|sign| Step::try_from(sign).unwrap());
    let state = (unit(), unit(), unit(), unit(), unit(), unit(), unit());
    (state, (step(), step(), step()), -1e6..=1e6_f64, 0.001..=1000.0_f64).prop_map(|(s, a, reward, weight)| {
        let state = LocalState {
            slo_preservation: s.0,
            cpu_utilisation: s.1,
            memory_utilisation: s.2,
            arrival_change: s.3,
            cpu_limit: s.4,
            memory_limit: s.5,
            replicas: s.6,
        };
        let action = Action { cpu: a.0, memory: a.1, replicas: a.2 };
        let category = Category::ALL[(3.0 * (reward / 1e6).abs()).min(2.0) as usize];
        let weight = Weight::clamped(weight);
        Contribution::new(&state, &action, Reward::try_from(reward).unwrap()).of(category).weighing(weight)
    })
}

/// What happens to the pool: agent `0` reports (joining if need be) or leaves.
#[derive(Debug, Clone)]
enum Event {
    Report(u8, Contribution),
    Leave(u8),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        3 => (0..20_u8, contribution()).prop_map(|(agent, one)| Event::Report(agent, one)),
        1 => (0..20_u8).prop_map(Event::Leave),
    ];
    prop::collection::vec(event, 0..200)
}

fn from_scratch<'a>(members: impl Iterator<Item = &'a Contribution>) -> Sums {
    let mut sums = Sums::default();
    members.for_each(|one| sums.add(one));
    sums
}

proptest! {
    #[test]
    fn incremental_equals_from_scratch_in_any_order(events in events()) {
        let mut members = BTreeMap::new();
        let (mut pool, mut details) = (Sums::default(), Details::default());
        for event in events {
            let (agent, now) = match event {
                Event::Report(agent, one) => (agent, Some(one)),
                Event::Leave(agent) => (agent, None),
            };
            match (members.remove(&agent), now) {
                (Some(before), Some(now)) => {
                    pool.replace(&before, &now);
                    details.replace(&before, &now);
                }
                (Some(before), None) => {
                    pool.remove(&before);
                    details.remove(&before);
                }
                (None, Some(now)) => {
                    pool.add(&now);
                    details.add(&now);
                }
                (None, None) => {}
            }
            members.extend(now.map(|now| (agent, now)));
            prop_assert_eq!(pool, from_scratch(members.values()));
        }
        prop_assert_eq!(pool, from_scratch(members.values().rev()));

        let detailed = |members: &mut dyn Iterator<Item = &Contribution>| {
            let mut details = Details::default();
            members.for_each(|one| details.add(one));
            details
        };
        prop_assert_eq!(&details, &detailed(&mut members.values().rev()));

        // Leave-one-out equals the pool of all the others, and its statistics those of plain floating point.
        for (agent, own) in &members {
            let others = || members.iter().filter(|(other, _)| *other != agent).map(|(_, one)| one);
            prop_assert_eq!(pool.without(own), from_scratch(others()));
            for parts in 0..8 {
                let parts = Aspects::from_bits(parts);
                prop_assert_eq!(details.detail(Some(own), parts), detailed(&mut others()).detail(None, parts));
            }
        }
    }

    #[test]
    fn statistics_agree_with_floating_point(limits in prop::collection::vec(-1.0..=1.0_f64, 1..50)) {
        let mut pool = Sums::default();
        for &limit in &limits {
            let state = LocalState { cpu_limit: Unit::clamped(limit), ..LocalState::default() };
            pool.add(&Contribution::new(&state, &Action::HOLD, Reward::default()));
        }
        let count = limits.len() as f64;
        let mean = limits.iter().sum::<f64>() / count;
        let std = (limits.iter().map(|limit| (limit - mean).powi(2)).sum::<f64>() / count).sqrt();
        let seen = pool.auxiliary().cpu_limit;
        prop_assert!((seen.mean - mean).abs() < 1e-8, "{} {mean}", seen.mean);
        prop_assert!((seen.std - std).abs() < 1e-6, "{} {std}", seen.std);
    }

    #[test]
    fn details_agree_with_floating_point(limits in prop::collection::vec((-1.0..=1.0_f64, 0..3_usize), 1..50)) {
        let (mut pool, mut details) = (Sums::default(), Details::default());
        for &(limit, category) in &limits {
            let limit = Unit::clamped(limit);
            let state = LocalState { cpu_limit: limit, replicas: limit, ..LocalState::default() };
            let one = Contribution::new(&state, &Action::HOLD, Reward::default()).of(Category::ALL[category]);
            pool.add(&one);
            details.add(&one);
        }
        let detail = details.detail(None, Aspects::ALL).unwrap();
        let (states, categories, percentiles) =
            (detail.states.unwrap(), detail.categories.unwrap(), detail.percentiles.unwrap());
        let mean = |values: &[f64]| values.iter().sum::<f64>() / values.len().max(1) as f64;
        let all: Vec<f64> = limits.iter().map(|(limit, _)| *limit).collect();
        prop_assert!((states[6] - mean(&all)).abs() < 1e-8 && states[0] == 0.0);
        for (index, kind) in categories.iter().enumerate() {
            let own: Vec<f64> = limits.iter().filter(|(_, of)| *of == index).map(|(limit, _)| *limit).collect();
            prop_assert_eq!(kind.others, own.len() as u64);
            prop_assert!((kind.fields[0].mean - mean(&own)).abs() < 1e-8);
        }
        let mut sorted = all;
        sorted.sort_unstable_by(f64::total_cmp);
        for (place, percent) in [10, 50, 90].into_iter().enumerate() {
            let rank = (sorted.len() * percent).div_ceil(100).max(1);
            let (seen, exact) = (percentiles[0][place], sorted[rank - 1]);
            prop_assert!((seen - exact).abs() <= 1.0 / 64.0 + 1e-9, "{percent}: {seen} for {exact}");
        }
        let g = meanfield_common::mean_field::AuxiliaryState { detail: Some(detail), ..pool.auxiliary() };
        for form in [Form::Sums, Form::Means, Form::States] {
            for (categories, percentiles) in [(false, false), (true, false), (false, true), (true, true)] {
                let layout = Layout { form, categories, percentiles };
                prop_assert_eq!(g.inputs(&layout).len(), layout.width());
            }
        }
    }
}
