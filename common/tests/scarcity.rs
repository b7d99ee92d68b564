//! Who yields: within capacity, by worth, the same in any order, and hardly ever in turns.

#![allow(clippy::unwrap_used)] // helpers of tests may fail as tests do

use meanfield_common::scarcity::{
    Amount, Capacity, Claim, Cores, Gibibytes, Pods, Share, Weight,
    allocation::{
        BARE, BARE_FLOOR, EVIDENCE, EVIDENCE_FLOOR, EVIDENCE_MEMORY, FLOOR, Need, Outcome, STAY, Slot, allocate,
    },
};
use proptest::prelude::*;

fn claim(cores: f64, memory: f64, offered: f64, weight: f64) -> Claim {
    let amount = Amount { cores: Cores::clamped(cores), memory_gib: Gibibytes::clamped(memory) };
    Claim {
        wanted: amount,
        held: amount,
        offered: Cores::clamped(offered),
        weight: Weight::clamped(weight),
        pending: Pods::clamped(0),
        node_utilisation: Share::clamped(0.5),
        node: None,
    }
}

/// A claim of CPU that its work bears out.
fn cpu(cores: f64, weight: f64) -> Claim {
    claim(cores, 0.1, 0.75 * cores, weight)
}

fn slots(claims: &[Claim]) -> Vec<Slot> {
    let slot = |(index, claim): (usize, &Claim)| {
        let mut slot = Slot::new(format!("agent-{index:03}").parse().unwrap());
        slot.need = Some(Need::from(claim));
        slot
    };
    claims.iter().enumerate().map(slot).collect()
}

fn run(capacity: (f64, f64), slots: &mut [Slot], before: Outcome) -> Outcome {
    allocate(&Capacity::new(capacity.0, capacity.1).unwrap(), slots, &mut Vec::new(), before, 1.0, 0.0)
}

/// What each may have in cores: its grant, or what it asked for.
fn caps(slots: &[Slot]) -> Vec<Option<f64>> {
    slots.iter().map(|slot| slot.grant.and_then(|grant| grant.cores).map(Cores::get)).collect()
}

#[test]
fn the_least_valuable_need_yields_whole() {
    // 12 cores asked, 10 there: the largest of equal weight yields, and keeps what the others leave.
    let mut pool = slots(&[cpu(2.0, 1.0), cpu(6.0, 1.0), cpu(4.0, 1.0)]);
    let outcome = run((10.0, 100.0), &mut pool, Outcome::default());
    assert_eq!(caps(&pool), [None, Some(4.0), None]);
    assert_eq!((outcome.grants, outcome.capped), (1, 0));
    // Weight turns it round: now two others make room.
    let mut pool = slots(&[cpu(2.0, 1.0), cpu(6.0, 10.0), cpu(4.0, 1.0)]);
    assert!(run((7.0, 100.0), &mut pool, Outcome::default()).grants == 2);
    assert_eq!(caps(&pool), [Some(0.75), None, Some(FLOOR[0])]);
}

#[test]
fn comfort_shrinks_before_anybody_yields() {
    // Works of 3 and 6 need 3.9 and 7.5 at least; they claim 5.5 and 10 of 12 cores.
    let mut pool = slots(&[claim(5.5, 0.1, 3.0, 1.0), claim(10.0, 0.1, 6.0, 1.0)]);
    run((12.0, 100.0), &mut pool, Outcome::default());
    let caps: Vec<_> = caps(&pool).into_iter().flatten().collect();
    let part = (12.0 - 3.9 - 7.5) / (1.6 + 2.5);
    assert!((caps[0] - (3.9 + 1.6 * part)).abs() < 1e-6 && (caps[1] - (7.5 + 2.5 * part)).abs() < 1e-6, "{caps:?}");
    // One that claims no more than it needs hears nothing.
    let mut pool = slots(&[claim(3.5, 0.1, 3.0, 1.0), claim(10.0, 0.1, 6.0, 1.0)]);
    run((12.0, 100.0), &mut pool, Outcome::default());
    assert!(pool[0].grant.is_none() && pool[1].grant.is_some());
}

#[test]
fn one_large_victim_spares_the_small_ones() {
    // The smallest worth is that of the light one; but the large one must yield anyway, and then it fits.
    let mut pool = slots(&[cpu(1.0, 0.05), cpu(10.0, 1.0), cpu(3.0, 1.0)]);
    run((9.0, 100.0), &mut pool, Outcome::default());
    assert_eq!(caps(&pool), [None, Some(5.0), None]);
}

#[test]
fn memory_can_be_what_is_scarce() {
    let mut pool = slots(&[claim(1.0, 30.0, 2.0, 1.0), claim(1.0, 8.0, 1.0, 1.0)]);
    run((100.0, 32.0), &mut pool, Outcome::default());
    let grant = pool[0].grant.unwrap();
    assert_eq!((grant.cores, grant.memory_gib.unwrap().get()), (None, 24.0));
    assert_eq!(pool[1].grant, None);
}

#[test]
fn claims_count_as_far_as_the_work_bears_them_out() {
    let mut pool = slots(&[Claim { held: cpu(4.0, 1.0).held, ..claim(100.0, 0.1, 2.0, 1.0) }, cpu(4.0, 1.0)]);
    let outcome = run((8.0, 100.0), &mut pool, Outcome::default());
    assert_eq!((outcome.capped, outcome.grants), (1, 0), "4 and 4 fit");
    assert!(pool[0].need.unwrap().capped && !pool[1].need.unwrap().capped);
    // Nor is one that holds much served for little: it keeps what it claims.
    let modest = Claim { wanted: cpu(0.5, 1.0).wanted, offered: Cores::clamped(0.3), ..cpu(6.0, 1.0) };
    let mut pool = slots(&[modest, cpu(2.0, 1.0)]);
    run((4.0, 100.0), &mut pool, Outcome::default());
    assert_eq!(caps(&pool), [Some(0.5), None]);
    assert_eq!(EVIDENCE.mul_add(2.0, EVIDENCE_FLOOR[0]), 4.0);
}

#[test]
fn whoever_yields_goes_on_yielding_while_it_is_close() {
    let mut pool = slots(&[cpu(6.0, 1.0), cpu(5.8, 1.0)]);
    run((8.0, 100.0), &mut pool, Outcome::default());
    assert_eq!(caps(&pool).map_or_first(), 0);
    // The needs change places, within the bonus: no change of roles.
    for round in 0..10 {
        let claims = if round % 2 == 0 { [cpu(5.8, 1.0), cpu(6.0, 1.0)] } else { [cpu(6.0, 1.0), cpu(5.8, 1.0)] };
        pool.iter_mut().zip(&claims).for_each(|(slot, claim)| slot.need = Some(claim.into()));
        run((8.0, 100.0), &mut pool, Outcome::default());
        assert_eq!(caps(&pool).map_or_first(), 0, "round {round}");
    }
    // Beyond it they do change.
    pool[0].need = Some(Need::from(&cpu(4.0, 1.0)));
    pool[1].need = Some(Need::from(&cpu(4.1 * STAY, 1.0)));
    run((8.0, 100.0), &mut pool, Outcome::default());
    assert_eq!(caps(&pool).map_or_first(), 1);
}

trait First {
    /// The place of the only one who yields.
    fn map_or_first(&self) -> usize;
}

impl First for Vec<Option<f64>> {
    fn map_or_first(&self) -> usize {
        let yielding: Vec<_> = self.iter().enumerate().filter(|(_, cap)| cap.is_some()).collect();
        assert_eq!(yielding.len(), 1, "{self:?}");
        yielding[0].0
    }
}

#[test]
fn one_that_claims_less_because_it_is_cut_stays_cut() {
    // As a learner does, which moves in steps from where it is.
    let mut pool = slots(&[cpu(6.0, 1.0), cpu(4.0, 1.0)]);
    run((8.0, 100.0), &mut pool, Outcome::default());
    pool[0].need = Some(Need::from(&claim(3.3, 0.1, 4.5, 1.0)));
    run((8.0, 100.0), &mut pool, Outcome::default());
    assert_eq!(caps(&pool), [Some(4.0), None]);
    // One that claims more because it is cut gains nothing by that.
    pool[0].need = Some(Need::from(&claim(7.7, 0.1, 4.5, 1.0)));
    pool[1].need = Some(Need::from(&cpu(5.0, 1.0)));
    run((8.0, 100.0), &mut pool, Outcome::default());
    assert_eq!(caps(&pool), [Some(3.0), None]);
    pool[1].need = Some(Need::from(&cpu(4.0, 1.0)));
    // With the work gone so is the need.
    pool[0].need = Some(Need::from(&claim(3.3, 0.1, 2.25, 1.0)));
    run((8.0, 100.0), &mut pool, Outcome::default());
    assert_eq!(caps(&pool), [None, None]);
}

#[test]
fn the_price_rises_until_enough_would_yield_and_falls_again() {
    let mut pool = slots(&[cpu(6.0, 1.0), cpu(4.0, 1.0), cpu(2.0, 1.0)]);
    let mut outcome = Outcome::default();
    let mut prices = Vec::new();
    for _ in 0..60 {
        outcome = run((8.0, 100.0), &mut pool, outcome);
        prices.push(outcome.price);
    }
    // The first yields above a price of 1/6, the second above 1/4.
    let late = &prices[30..];
    assert!(late.iter().all(|price| (0.1..0.25).contains(price)), "{late:?}");
    pool[0].need = Some(Need::from(&cpu(1.0, 1.0)));
    for _ in 0..30 {
        outcome = run((8.0, 100.0), &mut pool, outcome);
    }
    assert!(outcome.price < 1e-9, "{}", outcome.price);
}

#[test]
fn headroom_is_of_the_whole_pool_and_within_its_ranges() {
    let mut pool = slots(&[cpu(2.0, 1.0), cpu(4.0, 1.0)]);
    let headroom = run((8.0, 1.0), &mut pool, Outcome::default()).headroom;
    assert_eq!((headroom.free, headroom.load, headroom.saturation, headroom.unscheduled), (0.25, 0.5625, 0.5, 0.0));
    assert!((headroom.memory - 0.2).abs() < 1e-9);
    let mut empty = Vec::new();
    let nobody = run((8.0, 1.0), &mut empty, Outcome::default());
    assert_eq!((nobody.headroom.free, nobody.grants, nobody.price), (1.0, 0, 0.0));
}

fn any_claim() -> impl Strategy<Value = Claim> {
    let numbers = (0.0..1e6_f64, 0.0..1e6_f64, 0.0..1e6_f64, 0.001..1000.0_f64);
    let small = (0.0..12.0_f64, 0.0..12.0_f64, 0.0..8.0_f64, prop::sample::select(vec![1.0, 1.0, 10.0]));
    prop_oneof![1 => numbers, 4 => small]
        .prop_map(|(cores, memory, offered, weight)| claim(cores, memory, offered, weight))
}

/// What a claim counts for, in cores and gibibytes, computed on its own.
fn counted(claim: &Claim) -> [f64; 2] {
    let offered = claim.offered.get();
    let cores = claim.wanted.cores.get().min(EVIDENCE * offered + EVIDENCE_FLOOR[0]).max(offered);
    [cores, claim.wanted.memory_gib.get().min(EVIDENCE_MEMORY * offered + EVIDENCE_FLOOR[1])]
}

fn held(claim: &Claim) -> [f64; 2] {
    [claim.held.cores.get(), claim.held.memory_gib.get()]
}

/// The caps of one agent, in cores and gibibytes.
fn caps_of(slot: &Slot) -> [Option<f64>; 2] {
    let grant = slot.grant;
    [grant.and_then(|grant| grant.cores).map(Cores::get), grant.and_then(|grant| grant.memory_gib).map(Gibibytes::get)]
}

fn sum(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, |sum, value| sum + value)
}

/// A claim of somebody who holds something else than it wants.
fn any_claim_and_held() -> impl Strategy<Value = Claim> {
    (any_claim(), any_claim()).prop_map(|(claim, other)| Claim { held: other.held, ..claim })
}

proptest! {
    #[test]
    fn grants_fit_and_floors_shrink_only_where_they_do_not(claims in prop::collection::vec(any_claim(), 1..40), cores in 1.0..100.0_f64) {
        let mut pool = slots(&claims);
        let outcome = run((cores, 1e6), &mut pool, Outcome::default());
        let taken = sum(claims.iter().map(|claim| counted(claim)[0].max(held(claim)[0])));
        let asked = sum(claims.iter().map(|claim| counted(claim)[0]));
        let dust = 1e-6 * taken.max(1.0);
        if taken <= cores {
            prop_assert_eq!(outcome.grants, 0);
            return Ok(());
        }
        let mine = |(claim, cap): (&Claim, Option<f64>)| cap.unwrap_or_else(|| counted(claim)[0]);
        let allowed = sum(claims.iter().zip(caps(&pool)).map(mine));
        let floors = sum(claims.iter().map(|claim| counted(claim)[0].min(FLOOR[0])));
        prop_assert!(allowed <= cores + dust, "{allowed} of {cores}");
        prop_assert!(allowed >= cores.min(asked) - dust, "{allowed}: what is there is given away");
        for (claim, cap) in claims.iter().zip(caps(&pool)) {
            let most = counted(claim)[0];
            let floor = most.min(FLOOR[0]) * (cores / floors).min(1.0);
            prop_assert!(cap.is_none_or(|cap| cap >= floor - dust && cap <= most + dust), "{cap:?} of {most}");
        }
    }

    /// Whatever was claimed and held before: caps and the claims of those without one fit, and so do caps and what
    /// those without one hold.
    #[test]
    fn nothing_is_promised_twice(
        rounds in prop::collection::vec(prop::collection::vec(any_claim_and_held(), 12), 1..6),
        cores in 1.0..100.0_f64, memory in 1.0..100.0_f64,
    ) {
        let mut pool = slots(&rounds[0]);
        let mut outcome = Outcome::default();
        for claims in &rounds {
            pool.iter_mut().zip(claims).for_each(|(slot, claim)| slot.need = Some(claim.into()));
            outcome = run((cores, memory), &mut pool, outcome);
            for (which, size) in [cores, memory].into_iter().enumerate() {
                let wanted = |claim: &Claim| [claim.wanted.cores.get(), claim.wanted.memory_gib.get()][which];
                let caps: Vec<_> = pool.iter().map(|slot| caps_of(slot)[which]).collect();
                let claimed = claims.iter().zip(&caps).map(|(claim, cap)| cap.unwrap_or(wanted(claim).min(counted(claim)[which])));
                let claimed = sum(claimed);
                let kept = sum(claims.iter().zip(&caps).map(|(claim, cap)| cap.unwrap_or(held(claim)[which])));
                let dust = 1e-6 * claimed.max(kept).max(1.0);
                prop_assert!(claimed <= size + dust && kept <= size + dust, "{claimed} and {kept} of {size}: {caps:?}");
            }
        }
    }

    /// One that would have to yield does so whatever it claims, and nobody gets more than its work bears out.
    #[test]
    fn claiming_more_gains_nothing_that_the_work_does_not_bear_out(
        claims in prop::collection::vec(any_claim(), 1..20), cores in 1.0..60.0_f64, times in 1.0..100.0_f64,
    ) {
        let mut honest = slots(&claims);
        run((cores, 1e6), &mut honest, Outcome::default());
        let more = Amount { cores: Cores::clamped(times * claims[0].wanted.cores.get()), ..claims[0].wanted };
        let loud = Claim { wanted: more, ..claims[0] };
        let mut pool = slots(&[&[loud], &claims[1..]].concat());
        run((cores, 1e6), &mut pool, Outcome::default());
        let offered = loud.offered.get();
        let dust = 1e-6 * offered.max(1.0);
        if let Some(cap) = caps(&pool)[0] {
            prop_assert!(cap <= EVIDENCE * offered + EVIDENCE_FLOOR[0] + dust);
        }
        // Below its bare need it yields: then it yields all the more when it claims more.
        let bare = counted(&claims[0])[0].min(BARE * offered + BARE_FLOOR);
        if let Some(cap) = caps(&honest)[0].filter(|cap| *cap < bare - dust) {
            prop_assert!(caps(&pool)[0].is_some_and(|loud| loud <= cap + dust), "{cap} and {:?}", caps(&pool)[0]);
        }
    }

    /// In a crowded pool one that claims next to nothing keeps next to nothing, however much it holds.
    #[test]
    fn claiming_less_gains_nothing(
        claims in prop::collection::vec(any_claim(), 1..20), cores in 1.0..60.0_f64, part in 0.0..0.5_f64,
    ) {
        let quiet = Claim {
            wanted: Amount { cores: Cores::clamped(part * claims[0].held.cores.get()), ..claims[0].wanted },
            offered: Cores::clamped(part * claims[0].offered.get()),
            ..claims[0]
        };
        let mut pool = slots(&[&[quiet], &claims[1..]].concat());
        run((cores, 1e6), &mut pool, Outcome::default());
        let taken = sum(claims[1..].iter().map(|claim| counted(claim)[0])) + quiet.held.cores.get();
        let most = counted(&quiet)[0];
        if taken > cores && most < quiet.held.cores.get() {
            prop_assert!(caps(&pool)[0].is_some_and(|cap| cap <= most + 1e-6), "{:?} of {most}", caps(&pool)[0]);
        }
    }

    #[test]
    fn the_order_of_slots_does_not_matter(
        claims in prop::collection::vec(any_claim(), 2..30),
        later in prop::collection::vec(any_claim(), 2..30),
        turn in 0..30_usize,
        cores in 1.0..60.0_f64,
    ) {
        let mut one = slots(&claims);
        let mut two = slots(&claims);
        let turn = turn % two.len();
        two.rotate_left(turn);
        let (mut first, mut second) = (Outcome::default(), Outcome::default());
        for round in 0..3 {
            first = run((cores, 50.0), &mut one, first);
            second = run((cores, 50.0), &mut two, second);
            prop_assert_eq!(first.headroom, second.headroom);
            prop_assert_eq!(first.price.to_bits(), second.price.to_bits());
            for slot in &mut one {
                let twin = two.iter_mut().find(|twin| twin.name == slot.name).unwrap();
                prop_assert_eq!(slot.grant, twin.grant);
                let index: usize = slot.name.as_str().trim_start_matches("agent-").parse().unwrap();
                let next = later.get((index + round) % later.len()).map(Need::from);
                (slot.need, twin.need) = (next, next);
            }
        }
    }

    #[test]
    fn heavier_never_yields_before_lighter_with_the_same_need(
        claims in prop::collection::vec(any_claim(), 0..20),
        cores in 1.0..60.0_f64, need in 0.5..12.0_f64, weight in 1.0..10.0_f64,
    ) {
        let pair = [cpu(need, weight), cpu(need, weight * 1.5)];
        let mut pool = slots(&[pair.to_vec(), claims].concat());
        run((cores, 1e6), &mut pool, Outcome::default());
        let caps = caps(&pool);
        prop_assert!(caps[1].is_none_or(|heavy| caps[0].is_some_and(|light| light <= heavy)), "{caps:?}");
    }
}
