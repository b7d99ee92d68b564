//! What holds whatever is claimed and given: all together fit, a minimum is never cut, claiming more than the work bears
//! out gains nothing, the order of slots does not matter, and with ageing nobody yields for ever.

#![allow(clippy::unwrap_used)] // helpers of tests may fail as tests do

use meanfield_common::scarcity::{
    Amount, Capacity, Claim, Cores, Entitlement, Gibibytes, Pods, Reason, Share, Weight,
    allocation::{
        AGE_HALVES, BARE, BARE_FLOOR, EVIDENCE, EVIDENCE_FLOOR, EVIDENCE_MEMORY, FLOOR, Need, Outcome, STAY,
        STEPS_A_MINUTE, Slot, allocate, margin,
    },
};
use proptest::prelude::*;

fn amount(cores: f64, memory: f64) -> Amount {
    Amount { cores: Cores::clamped(cores), memory_gib: Gibibytes::clamped(memory) }
}

fn parts(amount: &Amount) -> [f64; 2] {
    [amount.cores.get(), amount.memory_gib.get()]
}

fn claim(wanted: Amount, held: Amount, offered: f64, weight: f64) -> Claim {
    Claim {
        wanted,
        held,
        offered: Cores::clamped(offered),
        weight: Weight::clamped(weight),
        pending: Pods::clamped(0),
        node_utilisation: Share::clamped(0.5),
        node: None,
    }
}

/// A claim of CPU that its work bears out.
fn cpu(cores: f64, weight: f64) -> Claim {
    claim(amount(cores, 0.1), amount(cores, 0.1), 0.75 * cores, weight)
}

fn minimum(cores: f64, memory: f64) -> Entitlement {
    Entitlement { weight: None, minimum: Some(amount(cores, memory)) }
}

fn slots(claims: &[Claim]) -> Vec<Slot> {
    let slot = |(index, claim): (usize, &Claim)| {
        let mut slot = Slot::new(format!("agent-{index:03}").parse().unwrap());
        slot.need = Some(Need::from(claim));
        slot
    };
    claims.iter().enumerate().map(slot).collect()
}

fn run(size: [f64; 2], slots: &mut [Slot], order: &mut Vec<usize>, before: Outcome, ageing: f64) -> Outcome {
    allocate(&Capacity::new(size[0], size[1]).unwrap(), slots, order, before, 1.0, ageing)
}

fn caps(slot: &Slot) -> [Option<f64>; 2] {
    let grant = slot.grant;
    [grant.and_then(|grant| grant.cores).map(Cores::get), grant.and_then(|grant| grant.memory_gib).map(Gibibytes::get)]
}

fn cores(slots: &[Slot]) -> Vec<Option<f64>> {
    slots.iter().map(|slot| caps(slot)[0]).collect()
}

#[test]
fn a_minimum_is_served_before_worth_and_what_is_not_asked_for_is_lent() {
    // Seven and a half cores. The largest would yield all but 1.5; with a minimum of 5 it keeps that, and another one makes room.
    let mut pool = slots(&[cpu(2.0, 1.0), cpu(6.0, 1.0), cpu(4.0, 1.0)]);
    let mut order = Vec::new();
    run([7.5, 100.0], &mut pool, &mut order, Outcome::default(), 0.0);
    assert_eq!(cores(&pool), [None, Some(1.5), None]);
    pool.iter_mut().for_each(Slot::relieve);
    pool[1].entitle(&minimum(5.0, 0.0));
    run([7.5, 100.0], &mut pool, &mut order, Outcome::default(), 0.0);
    assert_eq!(cores(&pool), [None, Some(5.0), Some(0.5)]);
    assert_eq!((pool[1].reason(), pool[2].reason()), (Some(Reason::Need), Some(Reason::Need)));
    // It asks for one core: the rest of its minimum is the others', and it has no cap at all.
    pool[1].need = Some(Need::from(&cpu(1.0, 1.0)));
    run([7.5, 100.0], &mut pool, &mut order, Outcome::default(), 0.0);
    assert_eq!(cores(&pool), [None, None, None]);
    // Taken back, it is like everybody.
    pool[1].entitle(&Entitlement::default());
    pool[1].need = Some(Need::from(&cpu(6.0, 1.0)));
    pool.iter_mut().for_each(Slot::relieve);
    run([7.5, 100.0], &mut pool, &mut order, Outcome::default(), 0.0);
    assert_eq!(cores(&pool), [None, Some(1.5), None]);
}

#[test]
fn an_operators_weight_counts_more_than_the_claimed_one() {
    let mut pool = slots(&[cpu(4.0, 1000.0), cpu(4.0, 1.0)]);
    pool[0].entitle(&Entitlement { weight: Some(Weight::clamped(0.5)), minimum: None });
    let mut order = Vec::new();
    run([6.0, 100.0], &mut pool, &mut order, Outcome::default(), 0.0);
    assert_eq!(cores(&pool), [Some(2.0), None]);
    // For whom: the one that is served although it is worth least.
    let names: Vec<_> = margin(&pool, &order).map(|slot| slot.name.to_string()).collect();
    assert_eq!(names, ["agent-001"]);
    assert!(pool[0].worth() < pool[1].worth());
}

#[test]
fn who_is_cut_for_memory_alone_has_no_cap_on_cores_that_are_lent() {
    // Both are scarce. The first one wants half a core of its minimum of 6, and more memory than there is.
    let large = claim(amount(0.5, 9.0), amount(0.5, 9.0), 0.4, 1.0);
    let mut pool = slots(&[large, cpu(6.0, 1.0), cpu(6.0, 1.0)]);
    pool[0].entitle(&minimum(6.0, 0.0));
    run([8.0, 4.0], &mut pool, &mut Vec::new(), Outcome::default(), 0.0);
    assert_eq!((caps(&pool[0])[0], pool[0].reason()), (None, Some(Reason::Memory)));
    assert!(caps(&pool[0])[1].is_some_and(|memory| memory < 4.0));
    let others: f64 = cores(&pool).into_iter().flatten().sum();
    assert!(others > 1.0 && others <= 7.5, "what it does not ask for is the others': {:?}", cores(&pool));
}

#[test]
fn the_worth_of_one_who_needs_nothing_is_a_number() {
    let idle = claim(amount(0.0, 0.0), amount(4.0, 0.0), 0.0, 10.0);
    let mut pool = slots(&[idle, cpu(6.0, 1.0)]);
    run([8.0, 100.0], &mut pool, &mut Vec::new(), Outcome::default(), 0.0);
    assert_eq!(pool[0].reason(), Some(Reason::Comfort), "it holds more than it gets");
    assert!(pool[0].worth().is_finite() && pool[0].worth() > pool[1].worth(), "{}", pool[0].worth());
}

#[test]
fn minimums_that_no_longer_fit_shrink_in_proportion() {
    let mut pool = slots(&[cpu(8.0, 1.0), cpu(8.0, 1.0), cpu(8.0, 100.0)]);
    pool[0].entitle(&minimum(6.0, 0.0));
    pool[1].entitle(&minimum(3.0, 0.0));
    run([6.0, 100.0], &mut pool, &mut Vec::new(), Outcome::default(), 0.0);
    let told: Vec<_> = cores(&pool).iter().map(|cap| (cap.unwrap() * 1e6).round() / 1e6).collect();
    assert_eq!(told, [4.0, 2.0, 0.0], "whoever has no minimum has nothing left, whatever its weight");
}

#[test]
fn floors_are_smaller_where_there_are_too_many_for_them() {
    let mut pool = slots(&vec![cpu(2.0, 1.0); 100]);
    run([10.0, 1000.0], &mut pool, &mut Vec::new(), Outcome::default(), 0.0);
    let told: Vec<_> = cores(&pool).into_iter().flatten().collect();
    let sum: f64 = told.iter().sum();
    assert!(told.len() == 100 && sum <= 10.0 && sum > 9.999, "{sum}");
    assert!(told.iter().all(|cap| *cap > 0.0999 && *cap < 0.101), "a hundred of {} would be 25: {told:?}", FLOOR[0]);
}

#[test]
fn who_is_silent_wants_no_more_than_it_holds() {
    let wants_more = claim(amount(8.0, 0.1), amount(2.0, 0.1), 6.0, 1.0);
    let mut pool = slots(&[wants_more, cpu(5.0, 1.0)]);
    run([8.0, 100.0], &mut pool, &mut Vec::new(), Outcome::default(), 0.0);
    assert!(pool[0].grant.is_some());
    pool[0].silent = true;
    run([8.0, 100.0], &mut pool, &mut Vec::new(), Outcome::default(), 0.0);
    assert_eq!(cores(&pool), [None, None], "2 and 5 fit");
}

#[test]
fn equals_take_turns_of_minutes_when_yielding_ages() {
    // A bonus of a quarter keeps roles: at 5 % a minute that is made up for in five minutes, 20 steps.
    let mut pool = slots(&[cpu(6.0, 1.0), cpu(6.0, 1.0)]);
    let (mut order, mut outcome) = (Vec::new(), Outcome::default());
    let mut turns = Vec::new();
    for _ in 0..400 {
        outcome = run([8.0, 100.0], &mut pool, &mut order, outcome, 0.05);
        turns.push(pool[0].grant.is_some());
        assert_ne!(pool[0].grant.is_some(), pool[1].grant.is_some());
    }
    let changes: Vec<_> = (1..turns.len()).filter(|&at| turns[at] != turns[at - 1]).collect();
    let lengths: Vec<_> = changes.windows(2).map(|pair| pair[1] - pair[0]).collect();
    assert!(lengths.len() > 8 && lengths.iter().all(|length| (8..=25).contains(length)), "{lengths:?}");
    let share = turns.iter().filter(|yields| **yields).count();
    assert!((150..=250).contains(&share), "{share} of 400");
}

/// What comes in at random: a claim, and what an operator gave.
fn any_one() -> impl Strategy<Value = (Claim, Entitlement)> {
    let pair = || (0.0..12.0_f64, 0.0..12.0_f64);
    let wild = || (0.0..1e6_f64, 0.0..1e6_f64);
    let either = || prop_oneof![6 => pair(), 1 => wild()];
    let given = (prop::option::of(0.1..20.0_f64), prop::option::weighted(0.4, (0.0..4.0_f64, 0.0..4.0_f64)));
    (either(), either(), 0.0..8.0_f64, prop::sample::select(vec![0.1, 1.0, 1.0, 10.0]), given).prop_map(
        |(wanted, held, offered, weight, (given, least))| {
            let entitlement = Entitlement {
                weight: given.map(Weight::clamped),
                minimum: least.map(|(cores, memory)| amount(cores, memory)),
            };
            (claim(amount(wanted.0, wanted.1), amount(held.0, held.1), offered, weight), entitlement)
        },
    )
}

fn any_size() -> impl Strategy<Value = [f64; 2]> {
    [0.5..100.0_f64, 0.5..100.0_f64]
}

proptest! {
    /// Whatever was claimed, given and ordered before: all caps, and what those without one may take, fit; and a minimum is
    /// never cut while all minimums fit.
    #[test]
    fn all_together_fit_and_no_minimum_is_cut(
        rounds in prop::collection::vec((prop::collection::vec(any_one(), 1..40), any_size(), 0.0..2.0_f64), 1..5),
        silent in 0..40_usize,
    ) {
        let mut pool: Vec<Slot> = Vec::new();
        let (mut order, mut outcome) = (Vec::new(), Outcome::default());
        for (ones, size, ageing) in &rounds {
            let claims: Vec<_> = ones.iter().map(|(claim, _)| *claim).collect();
            let fresh = slots(&claims);
            pool.truncate(fresh.len());
            pool.extend_from_slice(&fresh[pool.len()..]);
            for (slot, (claim, given)) in pool.iter_mut().zip(ones) {
                slot.need = Some(claim.into());
                slot.entitle(given);
                slot.silent = false;
            }
            if let Some(slot) = pool.get_mut(silent) {
                slot.silent = true;
            }
            outcome = run(*size, &mut pool, &mut order, outcome, *ageing);
            for which in 0..2 {
                let mut used = 0.0;
                let mut minimums = 0.0;
                for (slot, (claim, given)) in pool.iter().zip(ones) {
                    let wanted = if slot.silent { 0.0 } else { parts(&claim.wanted)[which] };
                    // What nobody bears out is not counted while there is room for it, so it is not promised either.
                    let offered = claim.offered.get();
                    let most = [EVIDENCE * offered + EVIDENCE_FLOOR[0], EVIDENCE_MEMORY * offered + EVIDENCE_FLOOR[1]];
                    let least = given.minimum.map_or(0.0, |least| parts(&least)[which]);
                    let counted = wanted.min(most[which].max(least)).max(parts(&claim.held)[which]);
                    used += caps(slot)[which].unwrap_or(counted);
                    minimums += least;
                }
                let dust = 1e-6 * used.max(1.0);
                prop_assert!(used <= size[which] + dust, "{used} of {}", size[which]);
                for (slot, (_, given)) in pool.iter().zip(ones) {
                    let least = given.minimum.map_or(0.0, |least| parts(&least)[which]);
                    let kept = caps(slot)[which].is_none_or(|cap| cap >= least - 1e-6);
                    prop_assert!(kept || minimums > size[which], "{:?} below {least}", caps(slot)[which]);
                }
            }
        }
    }

    /// Claiming beyond what the work bears out is the same as claiming just that, for everybody; and one who yields does
    /// so all the more when it claims more. What an operator guaranteed is its own, whatever the work.
    #[test]
    fn raising_a_claim_without_evidence_gains_nothing(
        ones in prop::collection::vec(any_one(), 1..20), size in any_size(), times in 1.0..100.0_f64, which in 0..2_usize,
    ) {
        let play = |wanted: [f64; 2]| {
            let mut claims: Vec<_> = ones.iter().map(|(claim, _)| *claim).collect();
            claims[0].wanted = amount(wanted[0], wanted[1]);
            let mut pool = slots(&claims);
            pool.iter_mut().zip(&ones).for_each(|(slot, (_, given))| slot.entitle(given));
            run(size, &mut pool, &mut Vec::new(), Outcome::default(), 0.0);
            pool
        };
        let (honest, given) = &ones[0];
        let (mut wanted, mut borne) = (parts(&honest.wanted), parts(&honest.wanted));
        wanted[which] = times * wanted[which].max(0.1);
        let offered = honest.offered.get();
        let most = [EVIDENCE * offered + EVIDENCE_FLOOR[0], EVIDENCE_MEMORY * offered + EVIDENCE_FLOOR[1]][which];
        let least = given.minimum.map_or(0.0, |least| parts(&least)[which]);
        borne[which] = most.max(least);
        let loud = play(wanted);
        if wanted[which] > borne[which] {
            let bounded = play(borne);
            for (loud, bounded) in loud.iter().zip(&bounded).skip(1) {
                prop_assert_eq!(loud.grant, bounded.grant);
            }
            let (with, without) = (caps(&loud[0])[which], caps(&bounded[0])[which]);
            prop_assert!(with.is_none_or(|cap| cap <= borne[which] + 1e-6), "{with:?}");
            // Claiming no more than is borne out it may have needed no cap; with one, both are the same.
            prop_assert!(without.is_none() || with == without, "{with:?} {without:?}");
        }
        // Below its bare need it yields, and with a larger one all the more.
        let before = play(parts(&honest.wanted));
        let counted = [parts(&honest.wanted)[0].max(offered), parts(&honest.wanted)[1]][which].min(most.max(offered));
        let bare = [counted.min(BARE * offered + BARE_FLOOR), counted][which];
        if let Some(cap) = caps(&before[0])[which].filter(|cap| *cap < bare - 1e-6) {
            let after = caps(&loud[0])[which];
            prop_assert!(after.is_some_and(|after| after <= cap.max(least) + 1e-6), "{cap} and {after:?}");
        }
    }

    /// With everything that can be given and ordered.
    #[test]
    fn the_order_of_slots_does_not_matter_with_entitlements(
        rounds in prop::collection::vec(prop::collection::vec(any_one(), 12), 1..5), size in any_size(),
        turn in 0..12_usize, ageing in 0.0..5.0_f64,
    ) {
        let claims: Vec<_> = rounds[0].iter().map(|(claim, _)| *claim).collect();
        let (mut one, mut two) = (slots(&claims), slots(&claims));
        two.rotate_left(turn);
        let (mut first, mut second) = (Outcome::default(), Outcome::default());
        for round in &rounds {
            for pool in [&mut one, &mut two] {
                for slot in pool.iter_mut() {
                    let index: usize = slot.name.as_str().trim_start_matches("agent-").parse().unwrap();
                    slot.need = Some(Need::from(&round[index].0));
                    slot.entitle(&round[index].1);
                }
            }
            first = run(size, &mut one, &mut Vec::new(), first, ageing);
            second = run(size, &mut two, &mut Vec::new(), second, ageing);
            prop_assert_eq!(first, second);
            two.rotate_right(turn);
            for (slot, twin) in one.iter().zip(&two) {
                prop_assert_eq!((slot.grant, slot.reason()), (twin.grant, twin.reason()));
            }
            two.rotate_left(turn);
        }
    }

    /// Nobody whose need fits beside the floors of the others yields for ever. Whoever is served instead was worth at least
    /// as much, so it has aged, and being served takes a part of its age away, while the others grow older by one step:
    /// once everybody who is worth more would have to be older than `2 n / part` steps, all of them together grow younger.
    #[test]
    fn with_ageing_nobody_yields_for_ever(
        needs in prop::collection::vec((0.4..6.0_f64, prop::sample::select(vec![0.2, 1.0, 5.0])), 2..8),
        ageing in 0.1..3.0_f64,
    ) {
        let count = needs.len() as f64;
        // The largest fits beside the floors of the others, and there is less than all want.
        let largest = needs.iter().map(|(need, _)| *need).fold(0.0, f64::max);
        let size = [largest + FLOOR[0] * count, 1e6];
        let claims: Vec<_> = needs.iter().map(|(need, weight)| cpu(*need, *weight)).collect();
        let mut pool = slots(&claims);
        let worth = |(need, weight): &(f64, f64)| weight / need;
        let best = needs.iter().map(worth).fold(0.0, f64::max);
        let part = 1.0 - 0.5_f64.powf(1.0 / AGE_HALVES);
        let a_step = ageing / STEPS_A_MINUTE;
        let bound = |own: f64| 2.0 * (STAY * best / own * (2.0 * count / part + 1.0 / a_step) + 1.0);
        let (mut order, mut outcome) = (Vec::new(), Outcome::default());
        let mut waits = vec![0.0; needs.len()];
        let longest = needs.iter().map(|need| bound(worth(need))).fold(0.0, f64::max);
        for _ in 0..(2.0 * longest).min(20_000.0) as usize {
            outcome = run(size, &mut pool, &mut order, outcome, ageing);
            for ((slot, wait), need) in pool.iter().zip(&mut waits).zip(&needs) {
                let yields = slot.reason().is_some_and(|reason| reason != Reason::Comfort);
                *wait = if yields { *wait + 1.0 } else { 0.0 };
                prop_assert!(*wait <= bound(worth(need)), "{} after {wait} of {}", slot.name, bound(worth(need)));
            }
        }
    }
}
