//! A pool's change budget: how much of its capacity may be moved within a minute, and how much of that an agent asks for.
//!
//! Amounts are whole milli-cores and mebibytes, so that what was granted adds up exactly.

use serde::{Deserialize, Serialize};

use crate::{
    invalid::{Invalid, within},
    scarcity::Capacity,
};

/// The most milli-cores or mebibytes that a message may speak of: a little more than a million cores or gibibytes.
pub const MOST: u32 = 1 << 30;

/// How much of a pool's capacity may be moved within any minute, in percent.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = f64, minimum = 0.01, maximum = 100.0))]
#[serde(try_from = "f64", into = "f64")]
pub struct Percent(f64);

impl TryFrom<f64> for Percent {
    type Error = Invalid;
    fn try_from(value: f64) -> Result<Self, Invalid> {
        within("percent", value, 0.01, 100.0).map(Self)
    }
}

impl From<Percent> for f64 {
    fn from(percent: Percent) -> Self {
        percent.0
    }
}

/// A pool's change budget.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Budget {
    /// How much of the capacity may be moved within any minute; hundredths of a percent count, finer parts do not.
    pub percent: Percent,
}

impl Budget {
    /// So many percent a minute.
    pub fn new(percent: f64) -> Result<Self, Invalid> {
        Ok(Self { percent: percent.try_into()? })
    }

    /// What may be moved of this capacity within any minute, rounded down.
    #[must_use]
    pub fn limit(&self, capacity: &Capacity) -> Moving {
        let hundredths = (self.percent.0 * 100.0).round() as u64;
        // A number with three decimals is not exact as a float: what is as good as the next whole one is that.
        let part = |whole: f64| Moving::bounded((whole + 1e-6).floor() as u64 * hundredths / 10_000);
        Moving { millicores: part(capacity.cores.get() * 1000.0), mebibytes: part(capacity.memory_gib.get() * 1024.0) }
    }
}

/// How much of a pool's capacity is moved, or may be: up and down count alike.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(try_from = "Unchecked")]
pub struct Moving {
    /// CPU by requests.
    #[cfg_attr(feature = "openapi", schema(maximum = 1_073_741_824))]
    pub millicores: u32,
    /// Memory.
    #[cfg_attr(feature = "openapi", schema(maximum = 1_073_741_824))]
    pub mebibytes: u32,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Unchecked {
    millicores: u64,
    mebibytes: u64,
}

impl TryFrom<Unchecked> for Moving {
    type Error = Invalid;
    fn try_from(given: Unchecked) -> Result<Self, Invalid> {
        Self::new(given.millicores, given.mebibytes)
    }
}

impl Moving {
    /// So much.
    ///
    /// # Errors
    /// If a message may not speak of so much.
    pub fn new(millicores: u64, mebibytes: u64) -> Result<Self, Invalid> {
        let checked = |field: &str, value: u64| {
            let fitting = u32::try_from(value).ok().filter(|value| *value <= MOST);
            fitting.ok_or_else(|| Invalid::new(field, value, format!("within [0, {MOST}]")))
        };
        Ok(Self { millicores: checked("millicores", millicores)?, mebibytes: checked("mebibytes", mebibytes)? })
    }

    /// So much, or as much as a message may speak of.
    #[must_use]
    pub fn clamped(millicores: u64, mebibytes: u64) -> Self {
        Self { millicores: Self::bounded(millicores), mebibytes: Self::bounded(mebibytes) }
    }

    fn bounded(value: u64) -> u32 {
        u32::try_from(value).unwrap_or(MOST).min(MOST)
    }

    /// The smaller of both, part by part.
    #[must_use]
    pub fn min(self, other: Self) -> Self {
        Self { millicores: self.millicores.min(other.millicores), mebibytes: self.mebibytes.min(other.mebibytes) }
    }

    /// Whether this is no more than the other, in both parts.
    #[must_use]
    pub fn fits(&self, other: &Self) -> bool {
        self.millicores <= other.millicores && self.mebibytes <= other.mebibytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_limit_is_a_whole_part_of_the_capacity() {
        let limit = |percent: f64, cores: f64, gib: f64| {
            let Moving { millicores, mebibytes } =
                Budget::new(percent).unwrap().limit(&Capacity::new(cores, gib).unwrap());
            (millicores, mebibytes)
        };
        assert_eq!(limit(10.0, 40.0, 160.0), (4000, 16_384));
        assert_eq!(limit(0.01, 1e6, 1e6), (100_000, 102_400));
        assert_eq!(limit(33.33, 0.001, 0.001), (0, 0), "less than one is none");
        assert_eq!(limit(100.0, 0.1 + 0.2, 1.0), (300, 1024));
        assert_eq!(limit(100.0, 1e6, 1e6), (1_000_000_000, 1_024_000_000));
    }

    #[test]
    fn what_is_out_of_bounds_is_named() {
        for (text, field) in [
            (r#"{"millicores":1073741825,"mebibytes":0}"#, "millicores"),
            (r#"{"millicores":0,"mebibytes":99999999999}"#, "mebibytes"),
            (r#"{"millicores":-1,"mebibytes":0}"#, "integer"),
            (r#"{"millicores":1,"mebibytes":0,"cores":1}"#, "cores"),
        ] {
            let error = serde_json::from_str::<Moving>(text).unwrap_err().to_string();
            assert!(error.contains(field), "{error}");
        }
        for bad in [0.0, 0.001, 100.1, f64::NAN, -1.0] {
            assert_eq!(Budget::new(bad).unwrap_err().field, "percent");
        }
    }
}
