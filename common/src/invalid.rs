//! The one validation error.
//!
//! Every refusal of outside input names the field, the value and the bound, so that whoever sent it can mend it
//! without reading code. Types validate on construction and on deserialisation, so a value that exists is valid.

use std::fmt::Display;

/// A value outside its bound.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{field}: {value} is not {bound}")]
pub struct Invalid {
    /// Which field, by its name on the wire or in the configuration.
    pub field: String,
    /// The offending value as it was given, shortened when long.
    pub value: String,
    /// What would have been accepted, as a phrase after "is not", for example `within [0, 1]`.
    pub bound: String,
}

impl Invalid {
    /// A refusal of `value` for `field`.
    pub fn new(field: impl Into<String>, value: impl Display, bound: impl Into<String>) -> Self {
        const LONGEST: usize = 80;
        let mut value = value.to_string();
        if value.chars().count() > LONGEST {
            value = value.chars().take(LONGEST).chain("…".chars()).collect();
        }
        Self { field: field.into(), value, bound: bound.into() }
    }
}

/// `value` when it is finite and within `[low, high]`.
pub fn within(field: &str, value: f64, low: f64, high: f64) -> Result<f64, Invalid> {
    // NaN fails both comparisons, so it is refused here too.
    if value >= low && value <= high {
        Ok(value)
    } else {
        Err(Invalid::new(field, value, format!("within [{low}, {high}]")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_everything_outside_and_says_so() {
        assert_eq!(within("x", 0.5, 0.0, 1.0), Ok(0.5));
        for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0000001, -0.1] {
            let error = within("x", bad, 0.0, 1.0).unwrap_err();
            assert_eq!(error.field, "x");
            assert_eq!(error.bound, "within [0, 1]");
        }
        assert_eq!(within("x", 7.0, 0.0, 1.0).unwrap_err().to_string(), "x: 7 is not within [0, 1]");
    }

    #[test]
    fn long_values_are_shortened() {
        assert_eq!(Invalid::new("name", "x".repeat(500), "short").value.chars().count(), 81);
    }
}
