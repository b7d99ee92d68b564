//! Reading TOML so that a refusal says where: the file, the line, the field, the value and the bound.

use std::{fmt, str::FromStr};

use meanfield_common::invalid::Invalid;
use serde::{Deserialize, Deserializer, de::DeserializeOwned};
use toml::{
    Spanned,
    de::{DeTable, DeValue},
};

/// The most bytes that a file may have.
pub const LARGEST: usize = 16 << 20;

/// Why a file was refused, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The file, as whoever gave it called it.
    pub origin: String,
    /// The line, when the reason stands on one.
    pub line: Option<usize>,
    /// What is wrong.
    pub reason: Reason,
}

/// What is wrong with a file.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// It cannot be read at all.
    #[error("{0}")]
    Unreadable(String),
    /// It is not TOML, or not of the expected form.
    #[error("{0}")]
    Form(String),
    /// A value is outside its bound.
    #[error(transparent)]
    Invalid(#[from] Invalid),
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.line {
            Some(line) => write!(f, "{}:{line}: {}", self.origin, self.reason),
            None => write!(f, "{}: {}", self.origin, self.reason),
        }
    }
}

impl Error {
    /// A file that could not be read.
    pub(crate) fn unreadable(origin: &str, why: impl fmt::Display) -> Self {
        Self { origin: origin.to_owned(), line: None, reason: Reason::Unreadable(why.to_string()) }
    }

    /// A refusal of a field, with the line on which that field, or the nearest table around it, stands.
    pub(crate) fn invalid(text: &str, origin: &str, invalid: Invalid) -> Self {
        Self { origin: origin.to_owned(), line: line_of(text, &invalid.field), reason: Reason::Invalid(invalid) }
    }
}

/// A value from TOML.
pub(crate) fn read<T: DeserializeOwned>(text: &str, origin: &str) -> Result<T, Error> {
    if text.len() > LARGEST {
        return Err(Error::unreadable(origin, format!("{} bytes, and at most {LARGEST} are read", text.len())));
    }
    let refuse = |field: &str, error: &toml::de::Error| {
        let line = error.span().map(|span| line_at(text, span.start));
        let message: String = error.message().trim().chars().take(300).collect();
        let message = if field.is_empty() || field == "." { message } else { format!("{field}: {message}") };
        Error { origin: origin.to_owned(), line, reason: Reason::Form(message) }
    };
    let deserializer = toml::Deserializer::parse(text).map_err(|error| refuse("", &error))?;
    serde_path_to_error::deserialize(deserializer).map_err(|error| refuse(&error.path().to_string(), error.inner()))
}

/// Deserialises a Kubernetes quantity such as `64Mi` or `250m`.
pub(crate) fn quantity<'de, D: Deserializer<'de>, T: FromStr<Err = Invalid>>(deserializer: D) -> Result<T, D::Error> {
    let text = String::deserialize(deserializer)?;
    // The path to the field is added by whoever reads the file.
    text.parse().map_err(|error: Invalid| serde::de::Error::custom(format!("{} is not {}", error.value, error.bound)))
}

/// A name that can be a label in Kubernetes and in metrics.
pub(crate) fn label(field: &str, text: &str) -> Result<(), Invalid> {
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if (1..=63).contains(&text.len()) && text.chars().all(plain) {
        return Ok(());
    }
    Err(Invalid::new(field, format!("{text:?}"), "1 to 63 lower-case letters, digits and hyphens"))
}

fn line_at(text: &str, offset: usize) -> usize {
    text.bytes().take(offset).filter(|byte| *byte == b'\n').count() + 1
}

/// The line of a field such as `tenants[2].bounds.cpu`, or of the nearest table around it that the file has.
fn line_of(text: &str, field: &str) -> Option<usize> {
    let table = DeTable::parse(text).ok()?;
    let mut found = None;
    let mut value: Option<&Spanned<DeValue<'_>>> = None;
    for part in field.split('.') {
        let (name, index) = match part.strip_suffix(']').and_then(|part| part.split_once('[')) {
            Some((name, index)) => (name, index.parse::<usize>().ok()),
            None => (part, None),
        };
        value = match value {
            None => table.get_ref().get(name),
            Some(outer) => outer.get_ref().as_table().and_then(|table| table.get(name)),
        };
        if let (Some(index), Some(list)) = (index, value) {
            value = list.get_ref().as_array().and_then(|list| list.get(index));
        }
        match value {
            Some(value) => found = Some(value.span().start),
            None => break,
        }
    }
    found.map(|offset| line_at(text, offset))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TEXT: &str = "top = 1\n\n[[list]]\na = 1\n\n[[list]]\na = 2\n[list.inner]\nb = [3, 4]\n";

    #[test]
    fn a_field_is_found_on_its_line_or_at_its_table() {
        assert_eq!(line_of(TEXT, "top"), Some(1));
        assert_eq!(line_of(TEXT, "list[1].a"), Some(7));
        assert_eq!(line_of(TEXT, "list[1].inner.b"), Some(9));
        assert_eq!(line_of(TEXT, "list[1].missing"), Some(6));
        assert_eq!(line_of(TEXT, "nothing"), None);
        assert_eq!(line_of(TEXT, "list[99999999999999999999].a"), Some(3));
        assert_eq!(line_of("= broken", "top"), None);
    }

    #[test]
    fn what_has_the_wrong_form_is_named_with_its_line() {
        #[derive(Debug, Deserialize)]
        #[serde(deny_unknown_fields)]
        struct File {
            #[allow(dead_code)] // only its form matters
            list: Vec<std::collections::BTreeMap<String, f64>>,
        }
        let error = read::<File>("[[list]]\na = 1\nb = \"x\"\n", "some.toml").unwrap_err().to_string();
        assert!(error.starts_with("some.toml:3: list[0].b: invalid type: string \"x\""), "{error}");
        let error = read::<File>("list = []\nlisd = 1\n", "some.toml").unwrap_err().to_string();
        assert!(error.starts_with("some.toml:2: lisd: unknown field `lisd`"), "{error}");
        let error = read::<File>("list = [", "some.toml").unwrap_err();
        assert!(matches!(error.reason, Reason::Form(_)) && error.line == Some(1), "{error}");
    }
}
