//! All tokens that count now, and who the bearer of one is.
//!
//! Tokens arrive here from the writer thread only, once they are durable. Every request asks [`Registry::admit`]: at
//! most one hash, one short read lock, no allocation.

use std::{
    collections::{BTreeMap, HashMap},
    fmt,
    sync::Arc,
    time::Duration,
};

use meanfield_common::{
    digest::Digest,
    identity::{AgentName, PoolName},
    secret::Secret,
};
use parking_lot::RwLock;
use subtle::ConstantTimeEq;

use super::{Credential, Grant, Role, TokenFilter, TokenId, TokenRecord, TokenView, bucket::Bucket};
use crate::{clock::Clock, options::Rates};

/// The name under which the coordinator's own token acts.
pub(crate) const OWN: &str = "coordinator";

/// The bearer of a token that counts. Cheap to clone.
#[derive(Clone)]
pub struct Caller(Arc<Holder>);

struct Holder {
    /// None of the coordinator's own token.
    id: Option<TokenId>,
    bearer: Bearer,
    bucket: Bucket,
}

enum Bearer {
    Own,
    Granted(Digest, Grant),
}

impl Caller {
    /// Who or what the token is for.
    #[must_use]
    pub fn name(&self) -> &str {
        match &self.0.bearer {
            Bearer::Own => OWN,
            Bearer::Granted(_, grant) => grant.name.as_str(),
        }
    }

    /// What it allows.
    #[must_use]
    pub fn role(&self) -> Role {
        match &self.0.bearer {
            Bearer::Own => Role::Admin,
            Bearer::Granted(_, grant) => grant.role,
        }
    }

    /// The token's public part; the coordinator's own token has none.
    #[must_use]
    pub fn token(&self) -> Option<TokenId> {
        self.0.id
    }

    /// Whether the token may be used for something of this pool.
    #[must_use]
    pub fn covers_pool(&self, pool: &PoolName) -> bool {
        match &self.0.bearer {
            Bearer::Granted(_, Grant { scope: Some(scope), .. }) => scope.pool == *pool,
            _ => true,
        }
    }

    /// Whether the token may be used for this agent.
    #[must_use]
    pub fn covers(&self, pool: &PoolName, agent: &AgentName) -> bool {
        match &self.0.bearer {
            Bearer::Granted(_, Grant { scope: Some(scope), .. }) => {
                scope.pool == *pool && scope.agents.matches(agent.as_str())
            }
            _ => true,
        }
    }

    /// Which agents the token may be used for, in words.
    #[must_use]
    pub fn scope(&self) -> String {
        match &self.0.bearer {
            Bearer::Granted(_, Grant { scope: Some(scope), .. }) => {
                format!("\"{}\" in the pool \"{}\"", scope.agents, scope.pool)
            }
            _ => "every name in every pool".to_owned(),
        }
    }
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Caller").field("name", &self.name()).field("role", &self.role()).finish()
    }
}

/// Why a token does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Denied {
    /// There is none like it, or no more.
    Unknown,
    /// Its time is over.
    Expired,
    /// It was used too often; there is a permit again after so long.
    TooOften(Duration),
}

pub(crate) struct Registry {
    own: Secret,
    owner: Caller,
    rates: Rates,
    clock: Clock,
    granted: RwLock<HashMap<TokenId, Caller>>,
}

impl Registry {
    pub(crate) fn new(own: Secret, rates: Rates, clock: Clock) -> Self {
        // Agents use the coordinator's own token when nobody made one for them, so it has their rate.
        let owner = Holder { id: None, bearer: Bearer::Own, bucket: Bucket::new(rates.agents) };
        Self { own, owner: Caller(Arc::new(owner)), rates, clock, granted: RwLock::default() }
    }

    /// The coordinator's own token.
    pub(crate) fn own(&self) -> &Secret {
        &self.own
    }

    pub(crate) fn insert(&self, id: TokenId, record: TokenRecord) {
        let TokenRecord { digest, grant } = record;
        let usual = if grant.role == Role::Agent { self.rates.agents } else { self.rates.others };
        let bucket = Bucket::new(grant.rate.unwrap_or(usual));
        let holder = Holder { id: Some(id), bearer: Bearer::Granted(digest, grant), bucket };
        self.granted.write().insert(id, Caller(Arc::new(holder)));
    }

    pub(crate) fn remove(&self, id: TokenId) {
        self.granted.write().remove(&id);
    }

    /// What a token stands for.
    pub(crate) fn grant(&self, id: TokenId) -> Option<Grant> {
        let granted = self.granted.read();
        match &granted.get(&id)?.0.bearer {
            Bearer::Granted(_, grant) => Some(grant.clone()),
            Bearer::Own => None,
        }
    }

    /// Whose token this is, if it counts; takes one of its permits.
    pub(crate) fn admit(&self, token: &[u8]) -> Result<Caller, Denied> {
        let caller = self.bearer(token)?;
        caller.0.bucket.take(self.clock.now()).map_err(Denied::TooOften)?;
        Ok(caller)
    }

    fn bearer(&self, token: &[u8]) -> Result<Caller, Denied> {
        // The length of a token is no secret, its content takes the same time to compare wherever it differs.
        if is_same(token, self.own.expose().as_bytes()) {
            return Ok(self.owner.clone());
        }
        let given = Credential::read(token).ok_or(Denied::Unknown)?;
        let caller = self.granted.read().get(&given.id).cloned().ok_or(Denied::Unknown)?;
        let Bearer::Granted(digest, grant) = &caller.0.bearer else { return Err(Denied::Unknown) };
        if !bool::from(digest.bytes().ct_eq(given.digest.bytes())) {
            return Err(Denied::Unknown);
        }
        // Only who has the secret learns that it has expired.
        if grant.expires.is_some() && grant.expired(self.clock.wall() / 1000) {
            return Err(Denied::Expired);
        }
        Ok(caller)
    }

    /// The first `limit` tokens after an id, in order of their ids, of those that a filter admits.
    pub(crate) fn page(&self, filter: &TokenFilter, after: Option<TokenId>, limit: usize) -> Vec<TokenView> {
        let now = self.clock.wall() / 1000;
        let granted = self.granted.read();
        let mut page = BTreeMap::new();
        for (id, caller) in granted.iter().filter(|(id, _)| after.is_none_or(|after| after < **id)) {
            if let Bearer::Granted(_, grant) = &caller.0.bearer
                && filter.admits(grant)
            {
                page.insert(*id, grant);
            }
            if page.len() > limit {
                page.pop_last();
            }
        }
        page.into_iter().map(|(id, grant)| grant.view(id, now)).collect()
    }
}

/// Whether two texts are the same, in a time that depends on their lengths alone: word by word, which is several times as
/// fast as byte by byte, and every request pays it.
fn is_same(given: &[u8], own: &[u8]) -> bool {
    let word = |bytes: &[u8]| bytes.iter().fold(0_u64, |word, byte| (word << 8) | u64::from(*byte));
    let (given_words, own_words) = (given.chunks(8).map(word), own.chunks(8).map(word));
    let differs = given_words.zip(own_words).fold(0, |differs, (given, own)| differs | (given ^ own));
    given.len() == own.len() && bool::from(differs.ct_eq(&0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access::NewToken;

    fn record(new: &str, credential: &Credential, clock: &Clock) -> TokenRecord {
        let new: NewToken = serde_json::from_str(new).unwrap();
        TokenRecord { digest: credential.digest, grant: new.grant(clock.wall() / 1000, "me").unwrap() }
    }

    #[test]
    fn every_request_is_admitted_or_not_without_allocating() {
        let clock = Clock::manual();
        let registry = Registry::new("the-coordinators-own".into(), Rates { agents: 10, others: 10 }, clock.clone());
        let (text, credential) = Credential::generate().unwrap();
        let new = r#"{"name":"a","role":"agent","pool":"default","agents":"shop/*","expires_in_s":60}"#;
        registry.insert(credential.id, record(new, &credential, &clock));
        let (pool, name) = ("default".parse().unwrap(), "shop/cart".parse().unwrap());
        let wrong = text.expose().replace("mf_", "mf_0");
        let counted = allocation_counter::measure(|| {
            for token in [text.expose(), "the-coordinators-own"] {
                let caller = registry.admit(token.as_bytes()).unwrap();
                assert!(caller.covers(&pool, &name));
                assert!((0..20).any(|_| matches!(registry.admit(token.as_bytes()), Err(Denied::TooOften(_)))));
            }
            assert_eq!(registry.admit(wrong.as_bytes()).unwrap_err(), Denied::Unknown);
        });
        assert_eq!(counted.count_total, 0);
    }

    #[test]
    fn only_the_same_text_is_the_same() {
        let own = b"0123456789abcdefghij";
        assert!(is_same(own, own) && is_same(b"", b""));
        for place in 0..own.len() {
            let mut other = *own;
            other[place] ^= 0x80;
            assert!(!is_same(&other, own), "{place}");
            assert!(!is_same(&own[..place], own) && !is_same(own, &own[..place]), "{place}");
        }
        assert!(!is_same(b"\0\0", b"\0") && !is_same(b"\0", b""));
    }

    #[test]
    fn a_caller_shows_who_it_is_and_no_more() {
        let clock = Clock::manual();
        let registry = Registry::new("the-coordinators-own".into(), Rates::default(), clock.clone());
        let (text, credential) = Credential::generate().unwrap();
        registry.insert(credential.id, record(r#"{"name":"a","role":"reader"}"#, &credential, &clock));
        let caller = registry.admit(text.expose().as_bytes()).unwrap();
        assert_eq!(format!("{caller:?}"), "Caller { name: \"a\", role: Reader }");
        assert_eq!((caller.name(), caller.role(), caller.token()), ("a", Role::Reader, Some(credential.id)));
        let own = registry.admit(b"the-coordinators-own").unwrap();
        assert_eq!((own.name(), own.role(), own.token()), ("coordinator", Role::Admin, None));
    }
}
