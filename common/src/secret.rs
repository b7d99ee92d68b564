//! A text that must not be seen: whatever prints a structure that holds one prints that it is there, and no more.

use std::{convert::Infallible, fmt, str::FromStr};

/// A token or another secret. It has no `Display`, and its `Debug` hides it; [`Secret::expose`] is easy to search for.
#[derive(Clone)]
pub struct Secret(Box<str>);

impl Secret {
    /// The text itself, for whoever must send or check it.
    #[must_use]
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("(hidden)")
    }
}

impl From<String> for Secret {
    fn from(text: String) -> Self {
        Self(text.into())
    }
}

impl From<&str> for Secret {
    fn from(text: &str) -> Self {
        Self(text.into())
    }
}

impl FromStr for Secret {
    type Err = Infallible;
    fn from_str(text: &str) -> Result<Self, Infallible> {
        Ok(text.into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_shown_to_nobody_who_does_not_ask() {
        let secret = Secret::from("open sesame");
        assert_eq!(format!("{:?}", Some(&secret)), "Some((hidden))");
        assert_eq!(secret.expose(), "open sesame");
    }
}
