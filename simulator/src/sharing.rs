//! CPU on one node, max-min fair under quotas.
//!
//! Each pod wants some CPU, at most its quota. When the node cannot give everybody what they want, nobody gets more
//! than a common level, and what the modest do not want is shared among the others: the kernel's fair scheduler with
//! equal weights, seen over a step.

/// The level up to which wants are met: `sum(min(want, level)) = capacity`, or infinity when all wants fit.
///
/// `wants` is used as scratch space and left sorted.
pub fn fair_level(wants: &mut [f64], capacity: f64) -> f64 {
    if wants.iter().sum::<f64>() <= capacity {
        return f64::INFINITY;
    }
    wants.sort_unstable_by(f64::total_cmp);
    let mut left = capacity.max(0.0);
    let mut sharers = wants.len() as f64;
    for &want in wants.iter() {
        let level = left / sharers;
        if want > level {
            return level;
        }
        left -= want;
        sharers -= 1.0;
    }
    f64::INFINITY
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_modest_are_served_first() {
        assert_eq!(fair_level(&mut [1.0, 2.0], 4.0), f64::INFINITY);
        assert_eq!(fair_level(&mut [4.0, 1.0, 4.0], 5.0), 2.0);
        assert_eq!(fair_level(&mut [3.0, 3.0], 0.0), 0.0);
        assert_eq!(fair_level(&mut [], 1.0), f64::INFINITY);
    }

    proptest! {
        /// Max-min fairness by its definition: the capacity is used up, and only those at the level go short.
        #[test]
        fn uses_everything_and_favours_nobody(wants in prop::collection::vec(0.0..8.0_f64, 1..40), capacity in 0.1..32.0_f64) {
            let level = fair_level(&mut wants.clone(), capacity);
            let given: f64 = wants.iter().map(|want| want.min(level)).sum();
            let total: f64 = wants.iter().sum();
            prop_assert!((given - total.min(capacity)).abs() < 1e-9, "{given} of {total} at {capacity}");
        }
    }
}
