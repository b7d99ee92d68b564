//! Tokens, decided on the ledger: each one that is made or revoked is in the audit log.

use super::{Dirty, Effect, Ledger};
use crate::{
    access::{TokenId, TokenRecord},
    audit::Note,
    error::Error,
    orders::Terms,
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
        if self.tokens.len() >= MOST_TOKENS {
            return Err(Error::TooManyTokens(self.tokens.len()));
        }
        self.tokens.insert(id);
        dirty.tokens.insert(id, Some(record.clone()));
        // What it stands for, and nothing of its secret. Names and numbers always serialise.
        let after = serde_json::to_string(&record.grant).unwrap_or_default();
        let note = note(terms, "token.create", id, NOTHING.to_owned(), after);
        Ok((Effect::Issued(id, record), note))
    }

    pub(super) fn revoke(
        &mut self,
        id: TokenId,
        before: String,
        terms: &Terms,
        dirty: &mut Dirty,
    ) -> Result<(Effect, Option<Note>), Error> {
        if !self.tokens.remove(&id) {
            return Err(Error::UnknownToken(id));
        }
        dirty.tokens.insert(id, None);
        Ok((Effect::Revoked(id), note(terms, "token.revoke", id, before, NOTHING.to_owned())))
    }
}

fn note(terms: &Terms, action: &'static str, id: TokenId, before: String, after: String) -> Option<Note> {
    terms.actor.clone().map(|actor| Note { actor, action, target: format!("tokens/{id}"), before, after })
}
