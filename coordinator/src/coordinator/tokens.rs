//! Tokens: making, listing, revoking, and knowing whose one is.

use meanfield_common::{digest::Digest, secret::Secret};

use super::Coordinator;
use crate::{
    access::{Caller, Credential, Denied, NewToken, TokenFilter, TokenId, TokenRecord, TokenView},
    audit::Actor,
    error::Error,
    ledger::Change,
    orders::{Ordered, Terms},
    writer::Outcome,
};

/// What came of the wish for a token.
#[derive(Debug)]
pub enum Made {
    /// A token: its text, which is nowhere else, what it stands for, and the tag by which it is known.
    Token(Secret, TokenView, Digest),
    /// Nothing: it was only tried.
    Tried(Box<Ordered>),
}

impl Coordinator {
    /// Makes a token, and returns when it is durable, or only says what would happen.
    ///
    /// # Errors
    /// If what is asked for makes no sense, there are too many tokens, or the store fails.
    pub async fn issue(&self, new: NewToken, terms: Terms) -> Result<Made, Error> {
        if let Some(pool) = &new.pool {
            self.0.membership.check_pool(pool)?;
        }
        let now = self.0.clock.wall() / 1000;
        let by = terms.actor.clone().unwrap_or_else(Actor::own);
        let grant = new.grant(now, by.name())?;
        let (text, Credential { id, digest }) = Credential::generate()?;
        let (view, tag) = (grant.view(id, now), grant.tag(id));
        let change = Change::Issue(id, TokenRecord { digest, grant });
        if let Outcome::Ordered(tried) = self.0.writer.submit_on(change, terms).await? {
            return Ok(Made::Tried(tried));
        }
        self.0.metrics.orders.inc();
        tracing::info!(token = %id, name = %view.name, role = view.role.name(), by = by.name(), "made a token");
        Ok(Made::Token(text, view, tag))
    }

    /// Revokes a token, and returns when that is durable: no request with it is taken any more. Or only says what would
    /// happen.
    ///
    /// # Errors
    /// If there is no such token, it has another tag than the terms name, or the store fails.
    pub async fn revoke(&self, id: TokenId, terms: Terms) -> Result<Ordered, Error> {
        // A token never changes, so it still stood for this when it was revoked.
        let grant = self.0.registry.grant(id).ok_or(Error::UnknownToken(id))?;
        let by = terms.actor.clone().unwrap_or_else(Actor::own);
        let outcome = self.0.writer.submit_on(Change::Revoke(id, grant), terms).await?;
        let Outcome::Ordered(ordered) = outcome else { return Err(Error::Closed) };
        if !ordered.dry_run {
            self.0.metrics.orders.inc();
            tracing::info!(token = %id, by = by.name(), "revoked a token");
        }
        Ok(*ordered)
    }

    /// One token, and the tag by which it is known.
    ///
    /// # Errors
    /// If there is none of this id.
    pub fn token_view(&self, id: TokenId) -> Result<(TokenView, Digest), Error> {
        let grant = self.0.registry.grant(id).ok_or(Error::UnknownToken(id))?;
        Ok((grant.view(id, self.0.clock.wall() / 1000), grant.tag(id)))
    }

    /// The first `limit` tokens after an id, in order of their ids, of those that a filter admits.
    #[must_use]
    pub fn tokens(&self, filter: &TokenFilter, after: Option<TokenId>, limit: usize) -> Vec<TokenView> {
        self.0.registry.page(filter, after, limit)
    }

    pub(crate) fn admit(&self, token: &[u8]) -> Result<Caller, Denied> {
        self.0.registry.admit(token)
    }
}
