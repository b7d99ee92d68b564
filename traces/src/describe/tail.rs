//! How heavy the tail of the jumps is.

/// Hill's exponent of the largest twentieth of the increments, when there are enough of them.
pub fn hill(x: &[f64]) -> Option<f64> {
    const LEAST: usize = 10;
    let mut jumps: Vec<_> = x.windows(2).map(|pair| (pair[1] - pair[0]).abs()).filter(|jump| *jump > 0.0).collect();
    jumps.sort_unstable_by(|a, b| b.total_cmp(a));
    let k = jumps.len() / 20;
    if k < LEAST {
        return None;
    }
    let logs: f64 = jumps[..k].iter().map(|jump| (jump / jumps[k]).ln()).sum();
    // Jumps of one size only have no tail.
    (logs > 0.0).then(|| k as f64 / logs)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_exponent_of_a_power_law_is_found() {
        // Quantiles of a Pareto law with exponent 1.5, each a jump up from zero and down again.
        let jumps = (1..20_000).map(|rank| (f64::from(rank) / 20_000.0).powf(-1.0 / 1.5));
        let x: Vec<_> = jumps.flat_map(|jump| [0.0, jump]).collect();
        let found = hill(&x).unwrap();
        assert!((found - 1.5).abs() < 0.1, "{found}");
        assert_eq!(hill(&[0.0, 1.0, 0.0]), None);
    }
}
