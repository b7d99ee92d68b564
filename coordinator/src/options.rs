//! How a coordinator is configured.

mod limits;

use std::{net::SocketAddr, path::PathBuf, sync::Arc, time::Duration};

use meanfield_common::{identity::PoolName, invalid::Invalid, scarcity::Capacity, secret::Secret, trace::Exports};

use crate::{models, tls, trajectories::Retention};

pub use limits::{Limits, Rates};

/// A coordinator's configuration. [`Options::default`] keeps everything in memory.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where membership, pauses and the token are kept; `None` keeps them in memory, for simulations.
    pub data_dir: Option<PathBuf>,
    /// After how long without a heartbeat an agent is suspect. Suspects still count in the mean field.
    pub suspect_after: Duration,
    /// After how long without a heartbeat an agent is gone: no member, and not in the mean field, until it registers
    /// again.
    pub gone_after: Duration,
    /// The pools that are there from the start: at least one, each once. Operators may make more by the API.
    pub pools: Vec<PoolName>,
    /// How many pools there may be; those that are there already are never too many.
    pub max_pools: usize,
    /// How many agents may ever register, under names of their own: none is forgotten, since epochs must keep growing.
    pub max_agents: usize,
    /// What the members of a pool may reserve together; pools that are not named are never scarce. An operator's word
    /// by the API counts more, and outlasts a restart.
    pub capacities: Vec<(PoolName, Capacity)>,
    /// The coordinator's own token, which may do everything. `None` takes the one in the data directory, made at the first start; without
    /// a data directory, a new one.
    pub token: Option<Secret>,
    /// How often tokens may be used.
    pub rates: Rates,
    /// What a connection may take, and how many there may be.
    pub limits: Limits,
    /// Certificate and key to serve https with; without them, http.
    pub tls: Option<tls::Files>,
    /// Whether addresses that others than this machine reach may be listened on without TLS.
    pub insecure_listen: bool,
    /// How many trajectories are kept, and for how long.
    pub trajectories: Retention,
    /// How long requests that are under way may take to finish after shutdown began.
    pub grace: Duration,
    /// How base models follow their agents.
    pub models: models::Options,
    /// How many entries of the audit log are kept, at least; a tenth more before the oldest go.
    pub audit_keep: usize,
    /// What became of the traces that whoever started this exports, for the metrics.
    pub exports: Arc<Exports>,
}

/// The pool that exists when none is configured.
const DEFAULT_POOL: &str = "default";

impl Default for Options {
    fn default() -> Self {
        Self {
            data_dir: None,
            suspect_after: Duration::from_secs(45),
            gone_after: Duration::from_secs(120),
            pools: DEFAULT_POOL.parse().into_iter().collect(),
            max_pools: 1000,
            max_agents: 2_000_000,
            capacities: Vec::new(),
            token: None,
            rates: Rates::default(),
            limits: Limits::default(),
            tls: None,
            insecure_listen: false,
            trajectories: Retention::default(),
            grace: Duration::from_secs(10),
            models: models::Options::default(),
            audit_keep: 100_000,
            exports: Arc::default(),
        }
    }
}

impl Options {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that is out of its bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        let seconds = |duration: Duration| format!("{} s", duration.as_secs_f64());
        if self.suspect_after < Duration::from_millis(1) {
            return Err(Invalid::new("suspect_after", seconds(self.suspect_after), "at least 1 ms"));
        }
        if self.gone_after <= self.suspect_after {
            let bound = format!("more than suspect_after ({})", seconds(self.suspect_after));
            return Err(Invalid::new("gone_after", seconds(self.gone_after), bound));
        }
        if self.pools.is_empty() {
            return Err(Invalid::new("pools", "an empty list", "at least one pool"));
        }
        if self.audit_keep < 1 {
            return Err(Invalid::new("audit_keep", self.audit_keep, "at least 1 entry"));
        }
        for (at, pool) in self.pools.iter().enumerate() {
            if self.pools[..at].contains(pool) {
                return Err(Invalid::new("pools", pool, "named once only"));
            }
        }
        if self.pools.len() > self.max_pools {
            let bound = format!("at most max_pools ({})", self.max_pools);
            return Err(Invalid::new("pools", format!("a list of {}", self.pools.len()), bound));
        }
        for (at, (pool, _)) in self.capacities.iter().enumerate() {
            if !self.pools.contains(pool) {
                return Err(Invalid::new("capacity", pool, "of a pool that is configured"));
            }
            if self.capacities[..at].iter().any(|(other, _)| other == pool) {
                return Err(Invalid::new("capacity", pool, "named once only"));
            }
        }
        if let Some(token) = &self.token {
            crate::token::check(token.expose())?;
        }
        self.models.validate()?;
        self.trajectories.validate()?;
        self.limits.validate()
    }

    /// Whether an address may be listened on: tokens would cross the network for everybody to read, so without TLS only
    /// the loopback device may, unless it is said to be meant so.
    ///
    /// # Errors
    /// If it may not.
    pub fn check_listen(&self, address: SocketAddr) -> Result<(), Invalid> {
        if address.ip().to_canonical().is_loopback() || self.tls.is_some() || self.insecure_listen {
            return Ok(());
        }
        let bound = "a loopback address, which it has to be without --tls-cert and --tls-key or --insecure-listen";
        Err(Invalid::new("listen", address, bound))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(change: impl FnOnce(&mut Options)) -> Invalid {
        let mut options = Options::default();
        change(&mut options);
        options.validate().unwrap_err()
    }

    #[test]
    fn the_default_is_valid_and_has_one_pool() {
        let options = Options::default();
        options.validate().unwrap();
        assert_eq!(options.pools.iter().map(PoolName::as_str).collect::<Vec<_>>(), ["default"]);
    }

    #[test]
    fn beyond_loopback_needs_tls_or_a_word() {
        let plain = Options::default();
        for near in ["127.0.0.1:1", "127.8.9.1:1", "[::1]:1", "[::ffff:127.0.0.1]:1"] {
            plain.check_listen(near.parse().unwrap()).unwrap();
        }
        let files = tls::Files {
            certificate: "a".into(),
            key: "b".into(),
            client_authorities: None,
            clients: tls::Clients::default(),
        };
        let secure = Options { tls: Some(files), ..Options::default() };
        let meant = Options { insecure_listen: true, ..Options::default() };
        for far in ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "[::ffff:10.0.0.1]:1"] {
            let far = far.parse().unwrap();
            let error = plain.check_listen(far).unwrap_err();
            assert!(error.field == "listen" && error.bound.contains("--insecure-listen"), "{error}");
            secure.check_listen(far).unwrap();
            meant.check_listen(far).unwrap();
        }
    }

    #[test]
    fn each_field_is_named_when_it_is_wrong() {
        assert_eq!(refused(|o| o.suspect_after = Duration::ZERO).field, "suspect_after");
        assert_eq!(refused(|o| o.gone_after = o.suspect_after).field, "gone_after");
        assert_eq!(refused(|o| o.pools.clear()).field, "pools");
        assert_eq!(refused(|o| o.max_pools = 0).field, "pools");
        let twice = refused(|o| o.pools.push("default".parse().unwrap()));
        assert_eq!((twice.field.as_str(), twice.value.as_str()), ("pools", "default"));
        assert_eq!(refused(|o| o.models.every = Duration::ZERO).field, "average_every");
        assert_eq!(refused(|o| o.models.rate = 0.0).field, "average_rate");
        assert_eq!(refused(|o| o.models.trim = 0.5).field, "average_trim");
        assert_eq!(refused(|o| o.models.least = 2).field, "average_least");
        assert_eq!(refused(|o| o.models.kept = 0).field, "kept_versions");
        assert_eq!(refused(|o| o.limits.body = 10).field, "max_body");
        assert_eq!(refused(|o| o.limits.head = 10).field, "max_head");
        assert_eq!(refused(|o| o.limits.connections = 0).field, "max_connections");
        assert_eq!(refused(|o| o.limits.head_time = Duration::ZERO).field, "head_time");
        assert_eq!(refused(|o| o.limits.body_time = Duration::ZERO).field, "body_time");
        assert_eq!(refused(|o| o.limits.idle_time = Duration::ZERO).field, "idle_time");
        assert_eq!(refused(|o| o.limits.write_time = Duration::ZERO).field, "write_time");
        assert_eq!(refused(|o| o.trajectories.bytes = 10).field, "trajectory_bytes");
        assert_eq!(refused(|o| o.trajectories.age = Duration::ZERO).field, "trajectory_age");
        assert_eq!(refused(|o| o.audit_keep = 0).field, "audit_keep");
        let capacity = |name: &str| (name.parse().unwrap(), Capacity::new(4.0, 16.0).unwrap());
        assert_eq!(refused(|o| o.capacities = vec![capacity("elsewhere")]).field, "capacity");
        assert_eq!(refused(|o| o.capacities = vec![capacity("default"); 2]).field, "capacity");
        for bad in ["short", "with a space in it", "tab\tin-the-middle-of-it", "umlaut-äöü-umlaut"] {
            let error = refused(|o| o.token = Some(bad.into()));
            assert_eq!(error.field, "token");
            assert!(!error.to_string().contains(bad), "a secret must not be repeated: {error}");
        }
    }
}
