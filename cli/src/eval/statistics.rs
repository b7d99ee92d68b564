//! Means with their 95 % intervals.

use serde::Serialize;

/// A mean, and half the width of its interval (Student's t); none from a single value.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Mean {
    pub mean: f64,
    pub half_width: Option<f64>,
}

/// The 97.5 % quantile of Student's t by degrees of freedom, from 1 on.
const T: [f64; 30] = [
    12.706, 4.303, 3.182, 2.776, 2.571, 2.447, 2.365, 2.306, 2.262, 2.228, 2.201, 2.179, 2.160, 2.145, 2.131, 2.120,
    2.110, 2.101, 2.093, 2.086, 2.080, 2.074, 2.069, 2.064, 2.060, 2.056, 2.052, 2.048, 2.045, 2.042,
];

impl Mean {
    pub fn of(values: &[f64]) -> Self {
        let count = values.len() as f64;
        let mean = values.iter().sum::<f64>() / count.max(1.0);
        let half_width = (values.len() >= 2).then(|| {
            let variance = values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (count - 1.0);
            T.get(values.len() - 2).copied().unwrap_or(1.96) * (variance / count).sqrt()
        });
        Self { mean, half_width }
    }

    /// With so many decimals, times a factor.
    pub fn text(&self, factor: f64, decimals: usize) -> String {
        match self.half_width {
            Some(half) => format!("{:.decimals$} ± {:.decimals$}", factor * self.mean, factor * half),
            None => format!("{:.decimals$}", factor * self.mean),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_is_students() {
        let mean = Mean::of(&[1.0, 2.0, 3.0, 4.0, 5.0]);
        // Deviation sqrt(2.5), over sqrt(5), times 2.776.
        assert!((mean.mean - 3.0).abs() < 1e-12 && (mean.half_width.unwrap() - 1.9629).abs() < 1e-3);
        assert_eq!(Mean::of(&[7.0]).text(1.0, 1), "7.0");
        assert_eq!(Mean::of(&[]).mean, 0.0);
    }
}
