//! Who may call: each handler says so by the extractor that comes first in its arguments.
//!
//! | extractor | lets in |
//! |---|---|
//! | [`Admin`] | admins |
//! | [`Operator`] | operators and admins |
//! | [`Reader`] | readers, operators and admins |
//! | [`Member`] | agents and admins; the handler asks whether the token covers the agent |
//! | [`Anyone`] | every token that counts; the handler asks whether it covers the pool |
//!
//! Each holds the [`Caller`], for whoever must know who did something.

use axum::{
    extract::FromRequestParts,
    http::{HeaderMap, header, request::Parts},
    response::Response,
};
use meanfield_common::{
    identity::{AgentId, PoolName},
    wire::Register,
};

use super::problem::{Kind, Refusal};
use crate::{
    access::{Caller, Denied, Role},
    coordinator::Coordinator,
};

macro_rules! extractors {
    ($($(#[$doc:meta])* $name:ident: $needed:expr;)*) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone)]
            pub struct $name(pub Caller);

            impl $name {
                pub(crate) fn admit(headers: &HeaderMap, coordinator: &Coordinator) -> Result<Self, Refusal> {
                    admit(headers, coordinator, $needed).map(Self)
                }
            }

            impl FromRequestParts<Coordinator> for $name {
                type Rejection = Response;

                async fn from_request_parts(parts: &mut Parts, coordinator: &Coordinator) -> Result<Self, Response> {
                    Self::admit(&parts.headers, coordinator).map_err(|refusal| refusal.respond(coordinator))
                }
            }
        )*
    };
}

extractors! {
    /// A token that may do everything.
    Admin: Some(Role::Admin);
    /// A token that may change what agents do.
    Operator: Some(Role::Operator);
    /// A token that may look.
    Reader: Some(Role::Reader);
    /// A token that may be an agent.
    Member: Some(Role::Agent);
    /// A token that counts.
    Anyone: None;
}

fn admit(headers: &HeaderMap, coordinator: &Coordinator, needed: Option<Role>) -> Result<Caller, Refusal> {
    let unauthorised = |detail| Refusal::new(Kind::Unauthorised, detail);
    let given = headers.get(header::AUTHORIZATION).and_then(|value| bearer(value.as_bytes()));
    let given = given.ok_or_else(|| unauthorised("there is no `Authorization: Bearer TOKEN` header"))?;
    let caller = coordinator.admit(given).map_err(|denied| match denied {
        Denied::Unknown => unauthorised("the token is not this coordinator's"),
        Denied::Expired => unauthorised("the token has expired"),
        Denied::TooOften(wait) => Refusal::too_often(wait),
    })?;
    match needed {
        Some(needed) if !caller.role().includes(needed) => {
            let (name, role) = (caller.name(), caller.role().name());
            let detail = format!("this needs the role {}; the token \"{name}\" has the role {role}", needed.name());
            Err(Refusal::new(Kind::Forbidden, detail).blame("role").bound(needed.holders()))
        }
        _ => Ok(caller),
    }
}

impl Member {
    /// Whether the token may be used to register this agent.
    pub(crate) fn check(&self, register: &Register) -> Result<(), Refusal> {
        if self.0.covers(&register.pool, &register.name) {
            return Ok(());
        }
        let detail = format!("the token may not be used for \"{}\" in the pool \"{}\"", register.name, register.pool);
        Err(out_of_scope(&self.0, detail))
    }

    /// Whether the token may be used for this member. Who is no member is refused further on.
    pub(crate) fn check_agent(&self, coordinator: &Coordinator, agent: AgentId) -> Result<(), Refusal> {
        if self.0.role() != Role::Agent || coordinator.covered(&self.0, agent) {
            return Ok(());
        }
        Err(out_of_scope(&self.0, format!("the token may not be used for agent {agent}")))
    }
}

impl Anyone {
    /// Whether the token may be used for something of this pool.
    pub(crate) fn check_pool(&self, pool: &PoolName) -> Result<(), Refusal> {
        if self.0.covers_pool(pool) {
            return Ok(());
        }
        Err(out_of_scope(&self.0, format!("the token may not be used for the pool \"{pool}\"")))
    }
}

fn out_of_scope(caller: &Caller, detail: String) -> Refusal {
    Refusal::new(Kind::Forbidden, detail).blame("token").bound(format!("for {}", caller.scope()))
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
