//! CPU on one node, max-min fair by weight under quotas.
//!
//! Each pod wants some CPU, at most its quota. When the node cannot give everybody what they want, nobody gets more
//! than a common level times its weight, and what the modest do not want is shared among the others: the kernel's fair
//! scheduler, seen over a step.

/// What somebody asks for, and how much it counts.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Want {
    /// Cores wanted.
    pub cores: f64,
    /// How much of a scarce node it may claim, relative to others.
    pub weight: f64,
}

/// The level up to which wants are met: `sum(min(cores, level * weight)) = capacity`, or infinity when all wants fit.
///
/// `wants` is used as scratch space and left sorted.
pub fn fair_level(wants: &mut [Want], capacity: f64) -> f64 {
    if wants.iter().map(|want| want.cores).sum::<f64>() <= capacity {
        return f64::INFINITY;
    }
    // One rounded number each: products of both sides would each be rounded their own way, which is no order.
    wants.sort_unstable_by(|a, b| (a.cores / a.weight).total_cmp(&(b.cores / b.weight)));
    let mut left = capacity.max(0.0);
    let mut sharers: f64 = wants.iter().map(|want| want.weight).sum();
    for want in wants.iter() {
        let level = left / sharers;
        if want.cores > level * want.weight {
            return level;
        }
        left -= want.cores;
        sharers -= want.weight;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn equal<const N: usize>(cores: [f64; N]) -> [Want; N] {
        cores.map(|cores| Want { cores, weight: 2.0 })
    }

    #[test]
    fn the_modest_are_served_first() {
        assert_eq!(fair_level(&mut equal([1.0, 2.0]), 4.0), f64::INFINITY);
        assert_eq!(2.0 * fair_level(&mut equal([4.0, 1.0, 4.0]), 5.0), 2.0);
        assert_eq!(fair_level(&mut equal([3.0, 3.0]), 0.0), 0.0);
        assert_eq!(fair_level(&mut [], 1.0), f64::INFINITY);
    }

    #[test]
    fn scarce_cores_are_shared_by_weight() {
        let mut wants = [Want { cores: 4.0, weight: 1.0 }, Want { cores: 4.0, weight: 3.0 }];
        assert_eq!(fair_level(&mut wants, 4.0), 1.0);
    }

    /// Ratios that differ by less than rounding, in every constellation: sorting must not find a circle among them.
    #[test]
    fn wants_that_are_nearly_alike_have_an_order() {
        let mut wants = Vec::new();
        for turn in 1..60_u32 {
            let weight = f64::from(turn) * 0.1 / 1.5;
            for nudge in [-2.0, -1.0, 0.0, 1.0, 2.0] {
                wants.push(Want { cores: weight * 1.5 * (1.0 + nudge * f64::EPSILON), weight });
            }
        }
        for start in 0..wants.len() {
            let mut turned = wants.clone();
            turned.rotate_left(start);
            assert!(fair_level(&mut turned, 10.0).is_finite());
        }
    }

    proptest! {
        /// Max-min fairness by its definition: the capacity is used up, and only those at the level go short.
        #[test]
        fn uses_everything_and_favours_nobody(
            wants in prop::collection::vec((0.0..8.0_f64, 0.1..4.0_f64), 1..40),
            capacity in 0.1..32.0_f64,
        ) {
            let mut wants: Vec<_> = wants.into_iter().map(|(cores, weight)| Want { cores, weight }).collect();
            let level = fair_level(&mut wants, capacity);
            let given: f64 = wants.iter().map(|want| want.cores.min(level * want.weight)).sum();
            let total: f64 = wants.iter().map(|want| want.cores).sum();
            prop_assert!((given - total.min(capacity)).abs() < 1e-9, "{given} of {total} at {capacity}");
        }
    }
}
