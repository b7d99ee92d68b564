//! What a token stands for: as an admin asks for it, as it is written down, and as it is shown.

use meanfield_common::{
    digest::Digest,
    identity::{AgentName, PoolName},
    invalid::Invalid,
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

use super::{Pattern, Role, TokenId};

const LONGEST_LIFE: u64 = 10 * 366 * 24 * 3600;
const LARGEST_RATE: u32 = 10_000_000;

/// What an admin asks for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct NewToken {
    /// Who or what it is for, in the form of agents' names. Several tokens may share a name, so that one can follow
    /// another.
    pub name: AgentName,
    /// What it allows.
    pub role: Role,
    /// The pool of an agent's token: needed there, and not allowed for other roles.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// The names that an agent's token may be used for, such as `shop/*`; without it, every name in the pool.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Pattern>,
    /// Seconds until it expires; without it, never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 316_224_000)]
    pub expires_in_s: Option<u64>,
    /// Requests a second; without it, as configured for its role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schema(minimum = 1, maximum = 10_000_000)]
    pub rate: Option<u32>,
}

/// Which agents a token may be used for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scope {
    /// Their pool.
    pub pool: PoolName,
    /// Their names.
    pub agents: Pattern,
}

/// What a token stands for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Grant {
    /// Who or what it is for.
    pub name: AgentName,
    /// What it allows.
    pub role: Role,
    /// For agents, which.
    pub scope: Option<Scope>,
    /// Requests a second, if not as configured.
    pub rate: Option<u32>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Who made it.
    pub created_by: String,
    /// When it expires, in seconds since 1970.
    pub expires: Option<u64>,
}

/// What is kept of a token.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TokenRecord {
    /// The SHA-256 of its secret.
    pub digest: Digest,
    /// What it stands for.
    pub grant: Grant,
}

/// A token as it is listed: everything but its secret.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct TokenView {
    /// Its public part.
    pub id: TokenId,
    /// Who or what it is for.
    pub name: AgentName,
    /// What it allows.
    pub role: Role,
    /// The pool of an agent's token.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pool: Option<PoolName>,
    /// The names that an agent's token may be used for.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub agents: Option<Pattern>,
    /// Requests a second, if not as configured for its role.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rate: Option<u32>,
    /// When it was made, in seconds since 1970.
    pub created: u64,
    /// Who made it.
    pub created_by: String,
    /// When it expires, in seconds since 1970; absent if never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<u64>,
    /// Whether it has expired.
    pub expired: bool,
}

/// Which tokens to list.
#[derive(Debug, Clone, Default)]
pub struct TokenFilter {
    /// Only of this role.
    pub role: Option<Role>,
    /// Only those of agents of this pool.
    pub pool: Option<PoolName>,
    /// Only those whose names begin so.
    pub prefix: Option<String>,
}

impl TokenFilter {
    pub(crate) fn admits(&self, grant: &Grant) -> bool {
        let pool = grant.scope.as_ref().map(|scope| &scope.pool);
        self.role.is_none_or(|role| role == grant.role)
            && self.pool.as_ref().is_none_or(|wanted| pool == Some(wanted))
            && self.prefix.as_ref().is_none_or(|prefix| grant.name.as_str().starts_with(prefix))
    }
}

impl NewToken {
    /// The grant that is asked for, if it makes sense.
    pub(crate) fn grant(self, now: u64, created_by: &str) -> Result<Grant, Invalid> {
        let Self { name, role, pool, agents, expires_in_s, rate } = self;
        let scope = match (role, pool) {
            (Role::Agent, Some(pool)) => Some(Scope { pool, agents: agents.unwrap_or_else(Pattern::any) }),
            (Role::Agent, None) => return Err(Invalid::new("pool", "none", "the pool that an agent's token is for")),
            (_, Some(pool)) => return Err(Invalid::new("pool", pool, "for this role: only agents' tokens have one")),
            (_, None) => {
                let refused = |agents| Invalid::new("agents", agents, "for this role: only agents' tokens have them");
                agents.map_or(Ok(None), |agents| Err(refused(agents)))?
            }
        };
        if let Some(life) = expires_in_s.filter(|life| !(1..=LONGEST_LIFE).contains(life)) {
            return Err(Invalid::new("expires_in_s", life, format!("within [1, {LONGEST_LIFE}]")));
        }
        if let Some(rate) = rate.filter(|rate| !(1..=LARGEST_RATE).contains(rate)) {
            return Err(Invalid::new("rate", rate, format!("within [1, {LARGEST_RATE}]")));
        }
        let expires = expires_in_s.map(|life| now.saturating_add(life));
        Ok(Grant { name, role, scope, rate, created: now, created_by: created_by.to_owned(), expires })
    }
}

impl Grant {
    pub(crate) fn expired(&self, now: u64) -> bool {
        self.expires.is_some_and(|expires| now >= expires)
    }

    /// By what the token of this id is known, which never changes.
    pub(crate) fn tag(&self, id: TokenId) -> Digest {
        // Names and numbers always serialise.
        Digest::of(format!("tokens/{id}\n{}", serde_json::to_string(self).unwrap_or_default()).as_bytes())
    }

    pub(crate) fn view(&self, id: TokenId, now: u64) -> TokenView {
        let (pool, agents) = self.scope.clone().map(|scope| (scope.pool, scope.agents)).unzip();
        TokenView {
            id,
            name: self.name.clone(),
            role: self.role,
            pool,
            agents,
            rate: self.rate,
            created: self.created,
            created_by: self.created_by.clone(),
            expires: self.expires,
            expired: self.expired(now),
        }
    }
}
