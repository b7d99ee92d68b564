//! Bursts: intervals far above what is usual around them.

use super::quantile;

/// A burst is more than so many times the median around it.
const ABOVE: f64 = 2.0;

/// Bursts of a trace.
pub struct Bursts {
    pub share: f64,
    pub sizes: Option<[f64; 3]>,
}

pub fn measure(x: &[f64], interval: f64) -> Bursts {
    let half = ((1800.0 / interval).round() as usize).clamp(2, 5000);
    let medians = rolling_medians(x, half);
    let (mut inside, mut sizes, mut size) = (0_usize, Vec::new(), 0.0_f64);
    for (x, median) in x.iter().zip(medians) {
        // At least one request is usual, or else every request to a rare function would be a burst.
        let usual = median.max(1.0);
        if *x > ABOVE * usual {
            inside += 1;
            size = size.max(x / usual);
        } else if size > 0.0 {
            sizes.push(std::mem::take(&mut size));
        }
    }
    if size > 0.0 {
        sizes.push(size);
    }
    sizes.sort_unstable_by(f64::total_cmp);
    Bursts {
        share: inside as f64 / x.len().max(1) as f64,
        sizes: (!sizes.is_empty()).then(|| [0.5, 0.9, 0.99].map(|share| quantile(&sizes, share))),
    }
}

/// The median of `half` values on both sides and the one between, from a window that is kept sorted.
fn rolling_medians(x: &[f64], half: usize) -> Vec<f64> {
    let mut window: Vec<f64> = Vec::with_capacity(2 * half + 1);
    let place = |window: &[f64], value: f64| window.partition_point(|other| *other < value);
    for value in x.iter().take(half) {
        window.insert(place(&window, *value), *value);
    }
    (0..x.len())
        .map(|at| {
            if let Some(value) = x.get(at + half) {
                window.insert(place(&window, *value), *value);
            }
            if at > half {
                let gone = place(&window, x[at - half - 1]);
                window.remove(gone);
            }
            quantile(&window, 0.5)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn bursts_are_counted_once_each() {
        let mut x = vec![10.0; 200];
        (x[50], x[51], x[52], x[120], x[150]) = (30.0, 50.0, 30.0, 40.0, 20.0);
        let bursts = measure(&x, 60.0);
        assert_eq!((bursts.share, bursts.sizes), (4.0 / 200.0, Some([4.5, 4.9, 4.99])));
    }

    proptest! {
        #[test]
        fn medians_are_those_of_the_window(x in prop::collection::vec(0.0..9.0, 0..60), half in 1..8_usize) {
            for (at, median) in rolling_medians(&x, half).into_iter().enumerate() {
                let mut window = x[at.saturating_sub(half)..(at + half + 1).min(x.len())].to_vec();
                window.sort_unstable_by(f64::total_cmp);
                prop_assert_eq!(median, quantile(&window, 0.5));
            }
        }
    }
}
