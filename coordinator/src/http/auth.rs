//! The bearer token.

use axum::{
    extract::FromRequestParts,
    http::{header, request::Parts},
    response::Response,
};
use subtle::ConstantTimeEq;

use super::problem::{Kind, Refusal};
use crate::{audit::Actor, coordinator::Coordinator};

/// Proof that the request carried the token.
#[derive(Debug)]
pub struct Bearer(());

impl FromRequestParts<Coordinator> for Bearer {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
        let given = parts.headers.get(header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
        let detail = match given {
            // The length of a token is no secret, its content takes the same time to compare wherever it differs.
            Some(given) if bool::from(given.ct_eq(coordinator.token().as_bytes())) => return Ok(Self(())),
            Some(_) => "the token is not this coordinator's",
            None => "there is no `Authorization: Bearer TOKEN` header",
        };
        Err(Refusal::new(Kind::Unauthorised, detail).respond(coordinator))
    }
}

/// Who sends a request, as the audit log has it: there is one token, so whoever holds it.
pub(super) fn actor(_: &Parts) -> Actor {
    Actor::token()
}

/// The token in the value of an `Authorization` header; the scheme's case does not matter.
fn bearer(value: &[u8]) -> Option<&[u8]> {
    let (scheme, rest) = value.split_at_checked(b"bearer".len())?;
    let token = rest.strip_prefix(b" ")?.trim_ascii();
    scheme.eq_ignore_ascii_case(b"bearer").then_some(token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_bearer_scheme_counts() {
        assert_eq!(bearer(b"Bearer abc"), Some(&b"abc"[..]));
        assert_eq!(bearer(b"bearer  abc "), Some(&b"abc"[..]));
        for bad in [&b""[..], b"Bearer", b"Basic abc", b"Bearerabc", b"abc"] {
            assert_eq!(bearer(bad), None, "{bad:?}");
        }
    }
}
