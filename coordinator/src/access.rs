//! Who may do what: tokens, the roles that they carry, and how often they may be used.
//!
//! | module | holds |
//! |---|---|
//! | `role` | the roles, and which includes which |
//! | `pattern` | which names an agent's token may be used for |
//! | `credential` | a token's text: a public id and a secret |
//! | `grant` | what a token stands for, as it is written down and as it is shown |
//! | `bucket` | how often it may be used |
//! | `registry` | all tokens that count now, and who a token's bearer is |
//!
//! The coordinator's own token, given or kept in the data directory, is the first admin: with it others are made.

mod bucket;
mod credential;
mod grant;
mod pattern;
mod registry;
mod role;

pub use credential::{TokenId, blank};
pub use grant::{Grant, NewToken, Scope, TokenFilter, TokenRecord, TokenView};
pub use pattern::Pattern;
pub use registry::Caller;
pub use role::Role;

pub(crate) use credential::{Credential, hide};
pub(crate) use registry::{Denied, OWN, Registry};
