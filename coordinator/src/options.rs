//! How a coordinator is configured.

use std::{path::PathBuf, time::Duration};

use meanfield_common::{identity::PoolName, invalid::Invalid, scarcity::Capacity};

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
    /// The pools that agents may join: at least one, each once.
    pub pools: Vec<PoolName>,
    /// What the members of a pool may reserve together; pools that are not named are never scarce. An operator's word
    /// by the API counts more, and outlasts a restart.
    pub capacities: Vec<(PoolName, Capacity)>,
    /// The bearer token of the HTTP API. `None` takes the one in the data directory, made at the first start; without
    /// a data directory, a new one.
    pub token: Option<String>,
    /// The largest request body in bytes.
    pub max_body: usize,
    /// How long requests that are under way may take to finish after shutdown began.
    pub grace: Duration,
    /// How many entries of the audit log are kept, at least; a tenth more before the oldest go.
    pub audit_keep: usize,
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
            capacities: Vec::new(),
            token: None,
            max_body: 16 * 1024,
            grace: Duration::from_secs(10),
            audit_keep: 100_000,
        }
    }
}

impl Options {
    /// Checks every field.
    ///
    /// # Errors
    /// Names the first field that is out of its bounds.
    pub fn validate(&self) -> Result<(), Invalid> {
        const LEAST_BODY: usize = 1024;
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
        for (at, pool) in self.pools.iter().enumerate() {
            if self.pools[..at].contains(pool) {
                return Err(Invalid::new("pools", pool, "named once only"));
            }
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
            crate::token::check(token)?;
        }
        if self.max_body < LEAST_BODY {
            return Err(Invalid::new("max_body", self.max_body, format!("at least {LEAST_BODY} bytes")));
        }
        if self.audit_keep < 1 {
            return Err(Invalid::new("audit_keep", self.audit_keep, "at least 1 entry"));
        }
        Ok(())
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
    fn each_field_is_named_when_it_is_wrong() {
        assert_eq!(refused(|o| o.suspect_after = Duration::ZERO).field, "suspect_after");
        assert_eq!(refused(|o| o.gone_after = o.suspect_after).field, "gone_after");
        assert_eq!(refused(|o| o.pools.clear()).field, "pools");
        let twice = refused(|o| o.pools.push("default".parse().unwrap()));
        assert_eq!((twice.field.as_str(), twice.value.as_str()), ("pools", "default"));
        assert_eq!(refused(|o| o.max_body = 10).field, "max_body");
        assert_eq!(refused(|o| o.audit_keep = 0).field, "audit_keep");
        let capacity = |name: &str| (name.parse().unwrap(), Capacity::new(4.0, 16.0).unwrap());
        assert_eq!(refused(|o| o.capacities = vec![capacity("elsewhere")]).field, "capacity");
        assert_eq!(refused(|o| o.capacities = vec![capacity("default"); 2]).field, "capacity");
        for bad in ["short", "with a space in it", "tab\tin-the-middle-of-it", "umlaut-äöü-umlaut"] {
            let error = refused(|o| o.token = Some(bad.to_owned()));
            assert_eq!(error.field, "token");
            assert!(!error.to_string().contains(bad), "a secret must not be repeated: {error}");
        }
    }
}
