//! When a learning curve has settled, and whether two samples look alike.

/// Episodes over which rewards are smoothed.
pub const WINDOW: usize = 20;

/// The level at which a curve ends: the mean of its last tenth, at least a window.
pub fn level(curve: &[f64]) -> f64 {
    let tail = &curve[curve.len().saturating_sub((curve.len() / 10).max(WINDOW))..];
    mean(tail)
}

/// The first episode after which the smoothed reward stays near its final level: within `share` of it, plus twice what
/// chance alone moves a smoothed value by. None if it has not settled for the last fifth of the curve.
pub fn settled(curve: &[f64], share: f64) -> Option<usize> {
    if curve.len() < 2 * WINDOW {
        return None;
    }
    let last = level(curve);
    let tail = &curve[curve.len() - (curve.len() / 10).max(WINDOW)..];
    let centre = mean(tail);
    let variance = tail.iter().map(|value| (value - centre).powi(2)).sum::<f64>() / (tail.len() - 1) as f64;
    let near = share * last.abs() + 2.0 * (variance / WINDOW as f64).sqrt();
    // The value at an episode is the mean of the window that begins there: a curve that starts at its level has settled
    // at once.
    let smooth: Vec<f64> = curve.windows(WINDOW).map(mean).collect();
    let first = smooth.iter().rposition(|value| (value - last).abs() > near).map_or(0, |at| at + 1);
    (first <= curve.len() * 4 / 5).then_some(first)
}

pub fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

/// The middle one.
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_unstable_by(f64::total_cmp);
    let (low, high) = (values.len().saturating_sub(1) / 2, values.len() / 2);
    values.get(low).zip(values.get(high)).map_or(0.0, |(low, high)| (low + high) / 2.0)
}

/// Kolmogorov and Smirnov's distance of two samples, and the probability of one so large if both came from one
/// distribution (asymptotic, with Stephens' correction).
pub fn kolmogorov_smirnov(one: &[f64], other: &[f64]) -> (f64, f64) {
    let sorted = |values: &[f64]| {
        let mut values = values.to_vec();
        values.sort_unstable_by(f64::total_cmp);
        values
    };
    let (a, b) = (sorted(one), sorted(other));
    let (m, n) = (a.len() as f64, b.len() as f64);
    let (mut i, mut j, mut distance) = (0, 0, 0.0_f64);
    while i < a.len() && j < b.len() {
        let at = a[i].min(b[j]);
        while i < a.len() && a[i] <= at {
            i += 1;
        }
        while j < b.len() && b[j] <= at {
            j += 1;
        }
        distance = distance.max((i as f64 / m - j as f64 / n).abs());
    }
    let root = (m * n / (m + n)).sqrt();
    let scaled = (root + 0.12 + 0.11 / root) * distance;
    let term = |k: i32| {
        let k = f64::from(k);
        2.0 * if k as i64 % 2 == 1 { 1.0 } else { -1.0 } * (-2.0 * k * k * scaled * scaled).exp()
    };
    // Near 0 the series alternates without end, and the answer is 1.
    let probability = if scaled < 0.3 { 1.0 } else { (1..=100).map(term).sum::<f64>().clamp(0.0, 1.0) };
    (distance, probability)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_settles_where_it_reaches_its_level() {
        // Straight up for 100 episodes, then level, with a ripple that has no mean.
        let ripple = |episode: usize| if episode.is_multiple_of(2) { 0.01 } else { -0.01 };
        let curve: Vec<f64> = (0..400).map(|at| (at as f64 / 100.0).min(1.0) + ripple(at)).collect();
        let at = settled(&curve, 0.03).unwrap();
        assert!((80..=100).contains(&at), "{at}");
        let rising: Vec<f64> = (0..400).map(|at| at as f64).collect();
        assert_eq!(settled(&rising, 0.03), None);
        assert_eq!(settled(&[1.0; 100], 0.03), Some(0));
        assert_eq!(settled(&[1.0; 10], 0.03), None, "too short to say");
    }

    #[test]
    fn the_two_sample_test_agrees_with_tables() {
        let even: Vec<f64> = (0..100).map(f64::from).collect();
        let shifted: Vec<f64> = even.iter().map(|value| value + 0.25).collect();
        assert!(kolmogorov_smirnov(&even, &shifted).1 > 0.99);
        let far: Vec<f64> = even.iter().map(|value| value + 20.0).collect();
        // D = 0.2 with 100 and 100: p is 0.0366 asymptotically, a little less with the correction.
        let (distance, probability) = kolmogorov_smirnov(&even, &far);
        assert!((distance - 0.2).abs() < 1e-12 && (0.025..0.037).contains(&probability), "{distance} {probability}");
        assert!(kolmogorov_smirnov(&even, &[1000.0; 50]).1 < 1e-6);
    }
}
