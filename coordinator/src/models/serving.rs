//! Which version an agent gets.

use std::collections::BTreeMap;

use meanfield_common::{digest::Digest, invalid::Invalid};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// An operator's word on what agents get.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Serving {
    /// The version for everybody.
    pub version: u64,
    /// Whether it stays when a new average is made.
    #[serde(default)]
    pub pinned: bool,
    /// Another version for some.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary: Option<Canary>,
}

/// A version that is tried out on a share of the agents.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct Canary {
    /// Which version.
    pub version: u64,
    /// How many of the agents get it, above 0 and at most 1. Who, is drawn from the agent's name: the same ones each
    /// time, and with a larger share the same and others.
    pub share: f64,
}

impl Serving {
    pub(super) fn of(version: u64) -> Self {
        Self { version, pinned: false, canary: None }
    }

    pub(super) fn check<V>(&self, versions: &BTreeMap<u64, V>) -> Result<(), Invalid> {
        if !versions.contains_key(&self.version) {
            return Err(no_version("version", self.version, versions));
        }
        let Some(Canary { version, share }) = self.canary else { return Ok(()) };
        if !versions.contains_key(&version) {
            return Err(no_version("canary.version", version, versions));
        }
        if !(share > 0.0 && share <= 1.0) {
            return Err(Invalid::new("canary.share", share, "above 0 and at most 1"));
        }
        Ok(())
    }

    pub(super) fn uses(&self, version: u64) -> bool {
        self.version == version || self.canary.is_some_and(|canary| canary.version == version)
    }

    /// The version for an agent; who does not say who it is, is no canary.
    pub(super) fn choose(&self, agent: Option<&str>) -> u64 {
        let drawn = |canary: &Canary| agent.is_some_and(|agent| draw(agent) < canary.share);
        self.canary.filter(drawn).map_or(self.version, |canary| canary.version)
    }
}

/// A number of `[0, 1)` that follows from the name alone.
fn draw(agent: &str) -> f64 {
    let [a, b, c, d, ..] = *Digest::of(agent.as_bytes()).bytes();
    f64::from(u32::from_be_bytes([a, b, c, d])) / 2_f64.powi(32)
}

pub(super) fn no_version<V>(field: &str, version: u64, versions: &BTreeMap<u64, V>) -> Invalid {
    let known: Vec<String> = versions.keys().map(u64::to_string).collect();
    Invalid::new(field, version, format!("one of {}", known.join(", ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_canary_gets_its_share_and_keeps_it_when_that_grows() {
        let names: Vec<String> = (0..10_000).map(|agent| format!("default/agent-{agent}")).collect();
        let serving = |share| Serving { canary: Some(Canary { version: 2, share }), ..Serving::of(1) };
        let mut before = vec![];
        for share in [0.05, 0.2, 0.5, 1.0] {
            let chosen: Vec<&String> = names.iter().filter(|name| serving(share).choose(Some(name)) == 2).collect();
            // Five standard deviations of a binomial count.
            let (mean, most) = (10_000.0 * share, 5.0 * (10_000.0 * share * (1.0 - share)).sqrt() + 1e-9);
            assert!((chosen.len() as f64 - mean).abs() <= most, "{} of {mean}", chosen.len());
            assert!(before.iter().all(|name| chosen.contains(name)), "nobody falls out");
            before = chosen;
        }
        assert_eq!(serving(1.0).choose(None), 1);
        assert_eq!(Serving::of(1).choose(Some("anybody")), 1);
    }

    #[test]
    fn versions_and_shares_are_checked() {
        let versions = BTreeMap::from([(1, ()), (4, ())]);
        let canary = |version, share| Serving { canary: Some(Canary { version, share }), ..Serving::of(1) };
        canary(4, 0.1).check(&versions).unwrap();
        let refused = |serving: Serving| serving.check(&versions).unwrap_err();
        assert_eq!(refused(Serving::of(2)).to_string(), "version: 2 is not one of 1, 4");
        assert_eq!(refused(canary(2, 0.1)).field, "canary.version");
        for share in [0.0, -0.1, 1.1, f64::NAN, f64::INFINITY] {
            assert_eq!(refused(canary(4, share)).field, "canary.share");
        }
    }
}
