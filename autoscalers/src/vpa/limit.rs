//! What becomes of a container's limit when its request changes.

/// The limit that keeps the proportion of the original limit to the original request, rounded down; in millicores or
/// in bytes, where 0 is unset.
///
/// A limit that was not set stays unset. One without a request counts as a request of the same size.
#[must_use]
pub fn limit(original_limit: u64, original_request: u64, recommended: u64) -> Option<u64> {
    if original_limit == 0 || recommended == 0 {
        return None;
    }
    if original_request == 0 || original_request == original_limit {
        return Some(recommended);
    }
    let scaled = u128::from(original_limit) * u128::from(recommended) / u128::from(original_request);
    // Kubernetes holds quantities in 63 bits.
    Some(u64::try_from(scaled).unwrap_or(u64::MAX).min(i64::MAX as u64))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_proportion_stays() {
        assert_eq!(limit(0, 100, 200), None);
        assert_eq!(limit(100, 100, 0), None);
        assert_eq!(limit(100, 0, 200), Some(200));
        assert_eq!(limit(100, 100, 200), Some(200));
        assert_eq!(limit(300, 100, 200), Some(600));
        assert_eq!(limit(100, 300, 200), Some(66));
        assert_eq!(limit(u64::MAX, 1, u64::MAX), Some(i64::MAX as u64));
    }
}
