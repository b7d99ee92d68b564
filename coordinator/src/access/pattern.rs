//! Patterns over agents' names: `shop/*` is everything in the namespace `shop`.

use std::{fmt, str::FromStr};

use meanfield_common::invalid::Invalid;
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

const LONGEST: usize = 128;

/// A pattern over names; `*` stands for any run of characters, also for none.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[schema(value_type = String, min_length = 1, max_length = 128, pattern = "^[a-z0-9./*-]+$")]
#[serde(try_from = "String", into = "String")]
pub struct Pattern(Box<str>);

impl Pattern {
    /// The pattern that every name matches.
    #[must_use]
    pub fn any() -> Self {
        Self("*".into())
    }

    /// Whether a name matches. Nothing is allocated, and the time is bounded by the product of both lengths.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        let (pattern, name) = (self.0.as_bytes(), name.as_bytes());
        let (mut at, mut seen) = (0, 0);
        // The last star, and how much of the name it stands for so far: where to go on when the rest does not fit.
        let mut star: Option<(usize, usize)> = None;
        while seen < name.len() {
            if pattern.get(at) == Some(&b'*') {
                star = Some((at, seen));
                at += 1;
            } else if pattern.get(at) == Some(&name[seen]) {
                (at, seen) = (at + 1, seen + 1);
            } else if let Some((place, taken)) = star {
                star = Some((place, taken + 1));
                (at, seen) = (place + 1, taken + 1);
            } else {
                return false;
            }
        }
        pattern[at..].iter().all(|&byte| byte == b'*')
    }
}

impl FromStr for Pattern {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let good =
            |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || matches!(byte, b'-' | b'.' | b'/' | b'*');
        if (1..=LONGEST).contains(&text.len()) && text.bytes().all(good) {
            return Ok(Self(text.into()));
        }
        Err(Invalid::new("agents", format!("{text:?}"), format!("1 to {LONGEST} of a-z, 0-9, '-', '.', '/' and '*'")))
    }
}

impl TryFrom<String> for Pattern {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Pattern> for String {
    fn from(pattern: Pattern) -> Self {
        pattern.0.into()
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// By definition: a star is nothing, or one character and a star.
    fn plain(pattern: &[u8], name: &[u8]) -> bool {
        match (pattern, name) {
            ([], []) => true,
            ([b'*', rest @ ..], _) => plain(rest, name) || (!name.is_empty() && plain(pattern, &name[1..])),
            ([one, rest @ ..], [first, others @ ..]) => one == first && plain(rest, others),
            _ => false,
        }
    }

    proptest! {
        #[test]
        fn matches_as_defined(pattern in "[ab*]{1,6}", name in "[ab]{0,8}") {
            let parsed: Pattern = pattern.parse().unwrap();
            prop_assert_eq!(parsed.matches(&name), plain(pattern.as_bytes(), name.as_bytes()));
        }
    }

    #[test]
    fn namespaces_and_single_names() {
        let matches = |pattern: &str, name: &str| pattern.parse::<Pattern>().unwrap().matches(name);
        assert!(matches("shop/*", "shop/cart") && !matches("shop/*", "shopping/cart"));
        assert!(matches("shop/cart", "shop/cart") && !matches("shop/cart", "shop/cart-2"));
        assert!(matches("*", "anything") && matches("*/cart", "a/b/cart"));
        for bad in ["", "A", "a b", "ä", "a?", &"a".repeat(129)] {
            assert_eq!(bad.parse::<Pattern>().unwrap_err().field, "agents", "{bad:?}");
        }
    }
}
