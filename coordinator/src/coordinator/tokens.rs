//! Tokens: making, listing, revoking, and knowing whose one is.

use meanfield_common::secret::Secret;

use super::Coordinator;
use crate::{
    access::{Caller, Credential, Denied, NewToken, TokenId, TokenRecord, TokenView},
    error::Error,
    ledger::Change,
};

impl Coordinator {
    /// Makes a token, and returns when it is durable. Its text is nowhere but in the answer.
    ///
    /// # Errors
    /// If what is asked for makes no sense, there are too many tokens, or the store fails.
    pub async fn issue(&self, new: NewToken, by: &str) -> Result<(Secret, TokenView), Error> {
        if let Some(pool) = &new.pool {
            self.0.membership.check_pool(pool)?;
        }
        let now = self.0.clock.unix();
        let grant = new.grant(now, by)?;
        let (text, Credential { id, digest }) = Credential::generate()?;
        let view = grant.view(id, now);
        self.0.writer.submit(Change::Issue(id, TokenRecord { digest, grant })).await?;
        tracing::info!(token = %id, name = %view.name, role = view.role.name(), by, "made a token");
        Ok((text, view))
    }

    /// Revokes a token, and returns when that is durable: no request with it is taken any more.
    ///
    /// # Errors
    /// If there is no such token or the store fails.
    pub async fn revoke(&self, id: TokenId, by: &str) -> Result<(), Error> {
        self.0.writer.submit(Change::Revoke(id)).await?;
        tracing::info!(token = %id, by, "revoked a token");
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
