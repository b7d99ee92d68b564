//! The forecast network that the agents of a pool share: downloaded when the coordinator names another one than is used.
//!
//! Nothing here is a reason to stop, or to decide otherwise: what cannot be had or used changes nothing, is logged once,
//! and is tried again later.

use std::sync::Arc;

use meanfield_common::digest::Digest;
use meanfield_learner::forecast::Network;
use tracing::{info, warn};

use crate::{link::Link, membership::Membership, policy::forecast::Shared};

/// Heartbeats that are answered between two attempts to get the same file: five minutes of 15 s.
pub const RETRY_AFTER: usize = 20;

/// Keeps a [`Shared`] network at what the coordinator names.
#[derive(Debug)]
pub struct Sharing {
    shared: Shared,
    /// What to go back to when the pool has none.
    shipped: Arc<Network>,
    /// What the network in use is known by; none is the shipped one.
    used: Option<Digest>,
    failed: Option<Failed>,
}

/// A file that could not be had or used.
#[derive(Debug, Clone, Copy)]
struct Failed {
    digest: Digest,
    /// Answers since the last attempt.
    since: usize,
}

impl Sharing {
    /// Begins with the network that the agent ships with.
    #[must_use]
    pub fn new(shipped: Arc<Network>) -> Self {
        Self { shared: Shared::new(Arc::clone(&shipped)), shipped, used: None, failed: None }
    }

    /// The network, for those who forecast with it.
    #[must_use]
    pub fn shared(&self) -> Shared {
        self.shared.clone()
    }

    /// Hears what the coordinator names, and goes over to that.
    pub async fn hear<L: Link>(&mut self, named: Option<Digest>, membership: &mut Membership<L>) {
        if named.is_none() {
            self.failed = None;
        }
        if named == self.used {
            return;
        }
        let Some(digest) = named else {
            info!(agent = %membership.name(), "the pool shares no forecast network any more: using the shipped one");
            self.shared.replace(Arc::clone(&self.shipped));
            self.used = None;
            return;
        };
        let before = self.failed.as_mut().filter(|failed| failed.digest == digest);
        let again = before.is_some();
        if let Some(failed) = before {
            failed.since += 1;
            if failed.since < RETRY_AFTER {
                return;
            }
        }
        match download(digest, membership).await {
            Ok(network) => {
                info!(
                    agent = %membership.name(), %digest, provenance = network.provenance,
                    "using the forecast network of the pool"
                );
                self.shared.replace(Arc::new(network));
                (self.used, self.failed) = (named, None);
            }
            Err(reason) => {
                if !again {
                    warn!(
                        agent = %membership.name(), %digest, reason,
                        "cannot use the forecast network of the pool; going on with the one before"
                    );
                }
                self.failed = Some(Failed { digest, since: 0 });
            }
        }
    }
}

/// The named network, or why it cannot be used.
async fn download<L: Link>(digest: Digest, membership: &mut Membership<L>) -> Result<Network, String> {
    let file = membership.forecast().await.map_err(|error| error.to_string())?;
    let found = Digest::of(&file);
    if found != digest {
        // Replaced after the answer was sent, and the next answer will name the other; or damaged on the way.
        return Err(format!("the file's digest is {found}"));
    }
    Network::load(&file).map_err(|error| error.to_string())
}
