//! How a base model follows its agents: number by number, a trimmed mean of theirs, and a part of the way there.
//!
//! The trimmed mean leaves out the highest and the lowest of each number before it averages. So as long as no more
//! agents are wrong than are left out at one end, the mean lies between the lowest and the highest number of the others,
//! whatever the wrong ones say: a base model moves by no more than `rate` times the way to the furthest honest agent.
//!
//! What one agent of `n` can do is less still. Let `h` be what the other `n - 1` have of a number, in order and counted from
//! 1, and `k` how many are left out at each end. Whatever the one says, the new number lies within an interval of length
//! `rate * (h[n - k] - h[k]) / (n - 2 k)`, and with its most extreme words it reaches both ends.

use meanfield_learner::ActorCritic;

use super::Error;

/// How many are left out at each end of so many: at least one as soon as there are three.
#[must_use]
pub fn left_out(count: usize, trim: f64) -> usize {
    let most = count.saturating_sub(1) / 2;
    ((count as f64 * trim) as usize).max(usize::from(count >= 3 && trim > 0.0)).min(most)
}

/// The network that lies `rate` of the way from `base` to the trimmed mean of the others. All must have one shape.
pub(super) fn towards(base: &ActorCritic, others: &[&ActorCritic], rate: f64, trim: f64) -> Result<ActorCritic, Error> {
    let drop = left_out(others.len(), trim);
    let mut column = Vec::with_capacity(others.len());
    let mut move_all = |base: &[f32], of: &dyn Fn(usize, usize) -> f32| -> Vec<f32> {
        let moved = |(at, &start): (usize, &f32)| {
            column.clear();
            column.extend((0..others.len()).map(|other| of(other, at)));
            column.sort_unstable_by(f32::total_cmp);
            let kept = &column[drop..column.len() - drop];
            let mean = kept.iter().map(|&value| f64::from(value)).sum::<f64>() / kept.len().max(1) as f64;
            (f64::from(start) + rate * (mean - f64::from(start))) as f32
        };
        base.iter().enumerate().map(moved).collect()
    };
    let (actor, critic) = base.parameters();
    let actor = move_all(actor, &|other, at| others[other].parameters().0[at]);
    let critic = move_all(critic, &|other, at| others[other].parameters().1[at]);
    let mut moved = base.clone();
    moved.set_parameters(&actor, &critic).map_err(|error| super::version::refused(&error))?;
    Ok(moved)
}

/// The length of all parameters as one vector.
pub(super) fn norm(network: &ActorCritic) -> f64 {
    let (actor, critic) = network.parameters();
    actor.iter().chain(critic).map(|&value| f64::from(value).powi(2)).sum::<f64>().sqrt()
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_learner::Config;
    use proptest::prelude::*;

    fn network(seed: u64) -> ActorCritic {
        let config = Config { hidden: vec![8], ..Config::default() };
        ActorCritic::new(config, seed).unwrap()
    }

    fn filled(value: f32) -> ActorCritic {
        let mut network = network(1);
        let (actor, critic) = network.parameters();
        let (actor, critic) = (vec![value; actor.len()], vec![value; critic.len()]);
        network.set_parameters(&actor, &critic).unwrap();
        network
    }

    #[test]
    fn it_goes_part_of_the_way_to_the_mean_of_those_in_the_middle() {
        let others = [1.0, 2.0, 3.0, 4.0, 1000.0].map(filled);
        let moved = towards(&filled(1.0), &others.each_ref(), 0.5, 0.2).unwrap();
        // The middle three have a mean of 3.
        assert!(moved.parameters().0.iter().chain(moved.parameters().1).all(|&value| value == 2.0));
        let moved = towards(&filled(1.0), &others.each_ref(), 1.0, 0.0).unwrap();
        assert!(moved.parameters().0.iter().all(|&value| value == 202.0), "nothing is left out");
    }

    #[test]
    fn at_least_one_is_left_out_and_at_least_one_stays() {
        let counts = [(3, 0.2), (4, 0.2), (5, 0.2), (10, 0.2), (3, 0.49), (4, 0.49), (3, 0.0)];
        assert_eq!(counts.map(|(count, trim)| left_out(count, trim)), [1, 1, 1, 2, 1, 1, 0]);
    }

    proptest! {
        /// The bound that the module states: with no more liars than are left out at one end, every number of the new
        /// model lies between what the old one and the honest agents have.
        #[test]
        fn liars_move_a_model_no_further_than_the_honest(
            honest in 3usize..9, liars in 1usize..4, lie in prop::sample::select(vec![-1e30f32, -7.0, 7.0, 1e30]),
            rate in 0.01f64..1.0, seed in 0u64..1000,
        ) {
            let trim = 0.3;
            prop_assume!(liars <= left_out(honest + liars, trim));
            let base = network(seed);
            let mut all: Vec<ActorCritic> = (0..honest as u64).map(|one| network(seed + 1 + one)).collect();
            all.extend((0..liars).map(|_| filled(lie)));
            let others: Vec<&ActorCritic> = all.iter().collect();
            let moved = towards(&base, &others, rate, trim).unwrap();
            let all = |network: &ActorCritic| [network.parameters().0, network.parameters().1].concat();
            let (base, moved) = (all(&base), all(&moved));
            let honest: Vec<_> = others[..honest].iter().map(|one| all(one)).collect();
            for (at, &value) in moved.iter().enumerate() {
                let start = base[at];
                let low = honest.iter().map(|one| one[at]).fold(f32::INFINITY, f32::min);
                let high = honest.iter().map(|one| one[at]).fold(f32::NEG_INFINITY, f32::max);
                let part = |end: f32| f64::from(start) + rate * (f64::from(end) - f64::from(start));
                prop_assert!(f64::from(value) >= part(low) - 1e-6 && f64::from(value) <= part(high) + 1e-6);
            }
        }

        /// The other bound that the module states, as a formula: what one poisoned agent is worth, and not more.
        #[test]
        fn one_agent_is_worth_what_the_trim_leaves_it(
            mut others in prop::collection::vec(-5f32..5.0, 2..12), words in prop::collection::vec(-1e30f32..1e30, 1..5),
            base in -5f32..5.0, rate in 0.01f64..1.0, trim in 0.05f64..0.49,
        ) {
            let n = others.len() + 1;
            let k = left_out(n, trim);
            let moved = |word: f32| {
                let all: Vec<_> = others.iter().copied().chain([word]).map(filled).collect();
                let moved = towards(&filled(base), &all.iter().collect::<Vec<_>>(), rate, trim).unwrap();
                f64::from(moved.parameters().1[0])
            };
            let (lowest, highest) = (moved(-1e30), moved(1e30));
            let said: Vec<f64> = words.iter().map(|word| moved(*word)).collect();
            others.sort_unstable_by(f32::total_cmp);
            // Counted from 1, as the formula has it.
            let h = |place: usize| f64::from(others[place - 1]);
            let bound = rate * (h(n - k) - h(k)) / (n - 2 * k) as f64;
            prop_assert!((highest - lowest - bound).abs() < 1e-5, "{highest} - {lowest} is not {bound}");
            prop_assert!(said.iter().all(|said| (lowest - 1e-6..=highest + 1e-6).contains(said)));
        }
    }
}
