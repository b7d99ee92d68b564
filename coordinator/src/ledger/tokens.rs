//! Tokens, decided on the ledger: each one that is made or revoked is in the audit log.

use serde_json::{Value, json};

use super::{Dirty, Effect, Ledger};
use crate::{
    access::{Grant, TokenId, TokenRecord},
    audit::Note,
    error::Error,
    orders::{Ordered, Terms},
};

/// How many tokens there may be, each of which takes memory.
const MOST_TOKENS: usize = 100_000;

/// What the audit log has where there is nothing.
const NOTHING: &str = "null";

impl Ledger {
    pub(super) fn issue(
        &mut self,
        id: TokenId,
        record: TokenRecord,
        terms: &Terms,
        dirty: &mut Dirty,
    ) -> Result<(Effect, Option<Note>), Error> {
        terms.check(&"tokens", None)?;
        if self.tokens.len() >= MOST_TOKENS {
            return Err(Error::TooManyTokens(self.tokens.len()));
        }
        if terms.dry_run {
            // It would have an id that nobody knows yet.
            let tried = ordered("token.create", "tokens".to_owned(), [Value::Null, json!(record.grant)], true);
            return Ok((Effect::Tried(Box::new(tried)), None));
        }
        self.tokens.insert(id);
        dirty.tokens.insert(id, Some(record.clone()));
        let note = note(terms, "token.create", id, [NOTHING.to_owned(), text(&record.grant)]);
        Ok((Effect::Issued(id, record), note))
    }

    pub(super) fn revoke(
        &mut self,
        id: TokenId,
        grant: &Grant,
        terms: &Terms,
        dirty: &mut Dirty,
    ) -> Result<(Effect, Option<Note>), Error> {
        if !self.tokens.contains(&id) {
            return Err(Error::UnknownToken(id));
        }
        terms.check(&target(id), Some(grant.tag(id)))?;
        let ordered = Box::new(ordered("token.revoke", target(id), [json!(grant), Value::Null], terms.dry_run));
        if terms.dry_run {
            return Ok((Effect::Tried(ordered), None));
        }
        self.tokens.remove(&id);
        dirty.tokens.insert(id, None);
        let note = note(terms, "token.revoke", id, [text(grant), NOTHING.to_owned()]);
        Ok((Effect::Revoked(id, ordered), note))
    }
}

fn target(id: TokenId) -> String {
    format!("tokens/{id}")
}

/// What a token stands for, and nothing of its secret.
fn text(grant: &Grant) -> String {
    // Names and numbers always serialise.
    serde_json::to_string(grant).unwrap_or_default()
}

fn ordered(action: &str, target: String, [before, after]: [Value; 2], dry_run: bool) -> Ordered {
    Ordered { action: action.to_owned(), target, before, after, changed: true, dry_run, etag: None }
}

fn note(terms: &Terms, action: &'static str, id: TokenId, [before, after]: [String; 2]) -> Option<Note> {
    terms.actor.clone().map(|actor| Note { actor, action, target: target(id), before, after })
}
