//! Tokens: making, listing, revoking, and knowing whose one is.

use meanfield_common::secret::Secret;

use super::Coordinator;
use crate::{
    access::{Caller, Credential, Denied, NewToken, TokenId, TokenRecord, TokenView},
    audit::Actor,
    error::Error,
    ledger::Change,
    orders::Terms,
};

impl Coordinator {
    /// Makes a token, and returns when it is durable. Its text is nowhere but in the answer.
    ///
    /// # Errors
    /// If what is asked for makes no sense, there are too many tokens, or the store fails.
    pub async fn issue(&self, new: NewToken, by: &Actor) -> Result<(Secret, TokenView), Error> {
        if let Some(pool) = &new.pool {
            self.0.membership.check_pool(pool)?;
        }
        let now = self.0.clock.wall() / 1000;
        let grant = new.grant(now, by.name())?;
        let (text, Credential { id, digest }) = Credential::generate()?;
        let view = grant.view(id, now);
        let change = Change::Issue(id, TokenRecord { digest, grant });
        self.0.writer.submit_on(change, Terms { actor: Some(by.clone()), ..Terms::default() }).await?;
        tracing::info!(token = %id, name = %view.name, role = view.role.name(), by = by.name(), "made a token");
        Ok((text, view))
    }

    /// Revokes a token, and returns when that is durable: no request with it is taken any more.
    ///
    /// # Errors
    /// If there is no such token or the store fails.
    pub async fn revoke(&self, id: TokenId, by: &Actor) -> Result<(), Error> {
        // A token never changes, so it still stood for this when it was revoked.
        let grant = self.0.registry.grant(id).ok_or(Error::UnknownToken(id))?;
        // Names and numbers always serialise.
        let change = Change::Revoke(id, serde_json::to_string(&grant).unwrap_or_default());
        self.0.writer.submit_on(change, Terms { actor: Some(by.clone()), ..Terms::default() }).await?;
        tracing::info!(token = %id, by = by.name(), "revoked a token");
        Ok(())
    }

    /// The first `limit` tokens after an id, in order of their ids.
    #[must_use]
    pub fn tokens(&self, after: Option<TokenId>, limit: usize) -> Vec<TokenView> {
        self.0.registry.page(after, limit)
    }

    pub(crate) fn admit(&self, token: &[u8]) -> Result<Caller, Denied> {
        self.0.registry.admit(token)
    }
}
