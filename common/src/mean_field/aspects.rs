//! Which parts of [`Detail`](super::Detail) an agent is told with every answer.
//!
//! On the wire it is a list of words. Whoever reads one passes over words that it does not know: an agent may ask for
//! what only a newer coordinator has, and is told what was agreed.

use std::ops::BitOr;

use serde::{Deserialize, Serialize};

/// A set of parts. A coordinator keeps one for each of a million agents, so it is a byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(from = "Vec<String>", into = "Vec<&'static str>")]
pub struct Aspects(u8);

impl Aspects {
    /// Nothing beyond the sums.
    pub const NONE: Self = Self(0);
    /// One virtual agent a category.
    pub const CATEGORIES: Self = Self(1);
    /// Percentiles of each field.
    pub const PERCENTILES: Self = Self(2);
    /// Means of all of l.
    pub const STATES: Self = Self(4);
    /// Everything.
    pub const ALL: Self = Self(7);

    const NAMES: [(Self, &'static str); 3] =
        [(Self::CATEGORIES, "categories"), (Self::PERCENTILES, "percentiles"), (Self::STATES, "states")];

    /// Whether all of these are in.
    #[must_use]
    pub fn has(self, others: Self) -> bool {
        self.0 & others.0 == others.0
    }

    /// Whether there is nothing.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == Self::NONE
    }

    /// As a number below 8, for a store.
    #[must_use]
    pub fn bits(self) -> u8 {
        self.0
    }

    /// What [`Aspects::bits`] gave; higher bits are passed over.
    #[must_use]
    pub fn from_bits(bits: u8) -> Self {
        Self(bits & Self::ALL.0)
    }
}

impl BitOr for Aspects {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

impl From<Vec<String>> for Aspects {
    fn from(words: Vec<String>) -> Self {
        let named = Self::NAMES.into_iter().filter(|(_, name)| words.iter().any(|word| word == name));
        named.fold(Self::NONE, |all, (one, _)| all | one)
    }
}

impl From<Aspects> for Vec<&'static str> {
    fn from(aspects: Aspects) -> Self {
        Aspects::NAMES.into_iter().filter(|(one, _)| aspects.has(*one)).map(|(_, name)| name).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_read_back_and_unknown_ones_are_passed_over() {
        for bits in 0..8 {
            let aspects = Aspects::from_bits(bits);
            assert_eq!(aspects.bits(), bits);
            let text = serde_json::to_string(&aspects).unwrap();
            assert_eq!(serde_json::from_str::<Aspects>(&text).unwrap(), aspects, "{text}");
        }
        let newer: Aspects = serde_json::from_str(r#"["states","of-tomorrow","states"]"#).unwrap();
        assert_eq!(newer, Aspects::STATES);
        assert_eq!(Aspects::from_bits(255), Aspects::ALL);
        assert!(serde_json::from_str::<Aspects>(r#"{"states":true}"#).is_err());
        assert!(Aspects::ALL.has(newer) && !newer.has(Aspects::ALL) && newer.has(Aspects::NONE));
    }
}
