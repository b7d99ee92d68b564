//! A token's text: `mf_`, a public id of 16 digits, `_`, and a secret of 64, all hexadecimal.
//!
//! The id finds the token, so that nothing secret is searched for; the secret is 256 random bits, of which the SHA-256
//! is kept. A slow hash such as Argon2 makes guesses at passwords expensive, which people choose from few; nobody
//! guesses 256 random bits, and every heartbeat would pay for it.

use std::{fmt, str::FromStr};

use meanfield_common::{digest::Digest, invalid::Invalid, secret::Secret};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use crate::token;

const PREFIX: &[u8] = b"mf_";
const ID: usize = 16;
const SECRET: usize = 64;
const HIDDEN: &str = "(hidden)";

/// The public part of a token: what it is listed and revoked by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize, ToSchema)]
#[schema(value_type = String, pattern = "^[0-9a-f]{16}$")]
#[serde(try_from = "String", into = "String")]
pub struct TokenId(u64);

impl fmt::Display for TokenId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:016x}", self.0)
    }
}

impl FromStr for TokenId {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        // Whoever gives the whole token by mistake must not find it in an answer or a log.
        let refused = || Invalid::new("token", "that", "a token's id: 16 digits of 0-9 and a-f");
        hexadecimal::<8>(text.as_bytes()).map(|bytes| Self(u64::from_be_bytes(bytes))).ok_or_else(refused)
    }
}

impl TryFrom<String> for TokenId {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<TokenId> for String {
    fn from(id: TokenId) -> Self {
        id.to_string()
    }
}

/// A token as it was given: whose it claims to be, and the digest of its secret.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Credential {
    pub(crate) id: TokenId,
    pub(crate) digest: Digest,
}

impl Credential {
    /// Reads a token; nothing is allocated, and one block is hashed.
    pub(crate) fn read(text: &[u8]) -> Option<Self> {
        let (id, secret) = text.strip_prefix(PREFIX)?.split_at_checked(ID)?;
        let secret = hexadecimal::<{ SECRET / 2 }>(secret.strip_prefix(b"_")?)?;
        let id = TokenId(u64::from_be_bytes(hexadecimal(id)?));
        Some(Self { id, digest: Digest::of(&secret) })
    }

    /// A new token, and what is kept of it.
    pub(crate) fn generate() -> Result<(Secret, Self), token::Error> {
        let mut id = [0; ID / 2];
        let mut secret = [0; SECRET / 2];
        getrandom::fill(&mut id).and_then(|()| getrandom::fill(&mut secret)).map_err(token::Error::Random)?;
        let id = TokenId(u64::from_be_bytes(id));
        let text: String = secret.iter().map(|byte| format!("{byte:02x}")).collect();
        Ok((format!("mf_{id}_{text}").into(), Self { id, digest: Digest::of(&secret) }))
    }
}

/// A text without the tokens in it: the coordinator's own, and whatever looks like one that it made.
pub(crate) fn hide(text: String, own: &str) -> String {
    blank(if text.contains(own) { text.replace(own, HIDDEN) } else { text })
}

/// A text without the tokens in it that were made by the API.
#[must_use]
pub fn blank(mut text: String) -> String {
    let mut from = 0;
    while let Some(at) = text[from..].find("mf_").map(|at| from + at) {
        let end = text[at..].find(|c: char| !c.is_ascii_alphanumeric() && c != '_').map_or(text.len(), |end| at + end);
        // A part of a secret is one too.
        if end - at > 3 + ID {
            text.replace_range(at..end, HIDDEN);
            from = at + HIDDEN.len();
        } else {
            from = end;
        }
    }
    text
}

/// The bytes that lower-case digits stand for.
fn hexadecimal<const BYTES: usize>(text: &[u8]) -> Option<[u8; BYTES]> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' => Some(byte - b'0'),
        b'a'..=b'f' => Some(byte - b'a' + 10),
        _ => None,
    };
    if text.len() != 2 * BYTES {
        return None;
    }
    let mut bytes = [0; BYTES];
    for (byte, pair) in bytes.iter_mut().zip(text.chunks_exact(2)) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_back_what_it_made_and_nothing_else() {
        let (text, made) = Credential::generate().unwrap();
        let text = text.expose();
        let read = Credential::read(text.as_bytes()).unwrap();
        assert_eq!((read.id, read.digest), (made.id, made.digest));
        assert_eq!(made.id.to_string().parse(), Ok(made.id));
        assert!(text.contains(&made.id.to_string()));
        for bad in ["", "mf_", &text[1..], &text[..text.len() - 1], &format!("{text}0"), &text.to_uppercase()] {
            assert!(Credential::read(bad.as_bytes()).is_none(), "{bad:?}");
        }
        assert!(!text.parse::<TokenId>().unwrap_err().to_string().contains(text));
    }

    #[test]
    fn tokens_are_hidden_wherever_they_stand() {
        let (text, _) = Credential::generate().unwrap();
        let text = text.expose();
        let hidden = |given: &str| hide(given.to_owned(), "my-own-token-is-this");
        assert_eq!(hidden(&format!("at /v1/{text}/x and {text}")), "at /v1/(hidden)/x and (hidden)");
        assert_eq!(hidden(&format!("{}x", &text[..60])), "(hidden)");
        assert_eq!(hidden("name: \"my-own-token-is-this\" is"), "name: \"(hidden)\" is");
        assert_eq!(hidden("mf_ and mf_é stay"), "mf_ and mf_é stay");
    }

    #[test]
    fn another_secret_has_another_digest() {
        let (text, made) = Credential::generate().unwrap();
        let mut other = text.expose().to_owned();
        let last = if other.pop() == Some('0') { '1' } else { '0' };
        other.push(last);
        let read = Credential::read(other.as_bytes()).unwrap();
        assert!(read.id == made.id && read.digest != made.digest);
    }
}
