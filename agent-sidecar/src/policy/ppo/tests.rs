//! The levers behind a choice.

use meanfield_common::action::Action;
use proptest::prelude::*;

use meanfield_learner::{Family, Variant};

use super::*;

fn bounds() -> Bounds {
    Bounds::new(1..=16, MilliCores(10)..=MilliCores(4000), Bytes::mebi(1)..=Bytes::mebi(2048)).unwrap()
}

fn scale(replicas: u32, cpu: u64, memory: u64) -> Scale {
    Scale { replicas, limit: Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(memory) } }
}

/// Every choice of both presets' heads, with the directions (CPU, memory, replicas) that its documentation promises.
fn choices() -> Vec<(Levers, Vec<u8>, [i32; 3])> {
    let seven = [[0, 0, 0], [1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]];
    let one = (0..7).map(|action| (Levers::One, vec![action], seven[usize::from(action)]));
    let three = (0..27_u8).map(|code| {
        let heads = [code / 9, code / 3 % 3, code % 3];
        (Levers::Three, heads.to_vec(), heads.map(|head| i32::from(head) - 1))
    });
    one.chain(three).collect()
}

/// Where each head's part of the mask begins.
fn legal(levers: Levers, mask: &[bool], actions: &[u8]) -> bool {
    let width = if levers == Levers::One { 7 } else { 3 };
    actions.iter().enumerate().all(|(head, &action)| mask[head * width + usize::from(action)])
}

fn signs(from: &Scale, to: &Scale) -> [i32; 3] {
    let action = Action::between(from, to);
    [action.cpu.sign(), action.memory.sign(), action.replicas.sign()]
}

proptest! {
    #[test]
    fn a_legal_choice_moves_exactly_its_levers_and_an_illegal_one_none(
        replicas in 1..=16_u32, cpu in 1..=400_u64, memory in 1..=2048_u64,
    ) {
        let (bounds, current) = (bounds(), scale(replicas, cpu * 10, memory));
        for (levers, actions, directions) in choices() {
            let decision = levers.apply(&bounds, &current, &actions);
            prop_assert!(bounds.contains(&decision.scale));
            let moves = signs(&current, &decision.scale);
            if legal(levers, &levers.legal(&bounds, &current), &actions) {
                prop_assert_eq!(moves, directions, "{:?} from {:?}", actions, current);
                prop_assert!(!decision.illegal);
            } else if levers == Levers::One {
                prop_assert_eq!(decision, Decision { illegal: true, ..Decision::wish(current) });
            }
        }
    }
}

#[test]
fn a_step_is_a_quarter_of_the_cpu_a_fifth_of_the_memory_and_a_fifth_of_the_replicas() {
    let up = moved(&bounds(), &scale(10, 1000, 100), [1, 1, 1]);
    assert_eq!(up, scale(12, 1250, 120));
    let down = moved(&bounds(), &scale(10, 1000, 120), [-1, -1, -1]);
    assert_eq!(down, scale(8, 800, 100));
    assert_eq!(moved(&bounds(), &scale(1, 1000, 100), [0, 0, 1]), scale(2, 1000, 100), "at least one");
}

#[test]
fn small_limits_still_move() {
    assert_eq!(moved(&bounds(), &scale(1, 10, 1), [1, 1, 0]), scale(1, 20, 2));
    assert_eq!(moved(&bounds(), &scale(1, 20, 2), [-1, -1, 0]), scale(1, 10, 1));
}

#[test]
fn at_the_bounds_only_the_ways_back_are_legal() {
    let (top, bottom) = (scale(16, 4000, 2048), scale(1, 10, 1));
    let (down, up) = ([true, true, false], [false, true, true]);
    assert_eq!(Levers::Three.legal(&bounds(), &top), [down, down, down].concat());
    assert_eq!(Levers::Three.legal(&bounds(), &bottom), [up, up, up].concat());
    assert_eq!(Levers::One.legal(&bounds(), &top), [true, false, true, false, true, false, true]);
    let pinned = Bounds::new(1..=1, MilliCores(10)..=MilliCores(10), Bytes::mebi(1)..=Bytes::mebi(1)).unwrap();
    assert_eq!(Levers::One.legal(&pinned, &bottom).iter().filter(|legal| **legal).count(), 1);
}

#[test]
fn only_configurations_that_fit_the_inputs_and_levers_pass() {
    for good in [Config::paper(), Config::preset_default()] {
        assert_eq!(check(&good), Ok(()));
    }
    for variant in Variant::ALL {
        assert_eq!(Family::ALL.map(|family| check(&variant.of(family))), [Ok(()), Ok(())], "{variant:?}");
    }
    let ours = Config::preset_default();
    let width = Config { auxiliary_categories: true, ..ours.clone() }.auxiliary_layout().width();
    assert_eq!(check(&Config { auxiliary_categories: true, auxiliary: width, ..ours.clone() }), Ok(()));
    let seen = Config { auxiliary_in_actor: true, auxiliary: 0, observation: 21 + 12 + 8, ..ours };
    assert_eq!(check(&seen), Ok(()));
    let field = |config: Config| check(&config).unwrap_err().field;
    assert_eq!(field(Config { observation: 8, ..Config::paper() }), "observation");
    assert_eq!(field(Config { auxiliary: 5, ..Config::paper() }), "auxiliary");
    assert_eq!(field(Config { heads: vec![3, 3], ..Config::paper() }), "heads");
}

#[test]
fn memory_goes_up_after_a_kill_and_never_below_what_was_used() {
    let mask = |oom_kills, share: f64| {
        let seen = Observation { oom_kills, ..Observation::default() };
        let mut mask = vec![true; 9];
        Levers::Three.close_hopeless(&mut mask, &seen, &seen.scale, share * seen.scale.limit.memory.0 as f64);
        assert!(mask[..3].iter().chain(&mask[6..]).all(|open| *open), "the other levers are free");
        [mask[3], mask[4], mask[5]]
    };
    assert_eq!(mask(0, 0.5), [true, true, true]);
    assert_eq!(mask(0, 0.8), [false, true, true]);
    assert_eq!(mask(1, 0.1), [false, false, true]);
    // At the upper bound there is no more to be had, and something must stay open.
    let seen = Observation { oom_kills: 1, ..Observation::default() };
    let mut top = [[true, true, true], [true, true, false], [true, true, true]].concat();
    Levers::Three.close_hopeless(&mut top, &seen, &seen.scale, 0.0);
    assert_eq!(top[3..6], [false, true, false]);
}

#[test]
fn what_finds_no_node_is_not_asked_for_again() {
    let mut mask = vec![true; 9];
    let waiting = Observation { pending: 1, ..Observation::default() };
    Levers::Three.close_hopeless(&mut mask, &waiting, &waiting.scale, 0.0);
    assert_eq!(mask, [[true, true, false], [true, true, true], [true, true, false]].concat());
}
