//! How much memory a replica needs, learnt from what replicas were seen to use.
//!
//! A replica holds something while it does nothing, and more for each request in it. The first part is the least that
//! one was seen to use, and needs little room above it; the second grows when a crowd comes that is larger than any
//! before, and needs more.

use meanfield_common::{observation::Observation, resources::Bytes};

use super::super::recent::memory_peak;

/// What is left of a peak after a step: half of it after a day of 15 s.
const FADE: f64 = 0.999_88;
/// Room above what is held at rest and by a crowd, and what a killed replica would have needed.
const REST_MARGIN: f64 = 1.1;
const CROWD_MARGIN: f64 = 1.5;
const OOM_BUMP: f64 = 1.4;
/// The part of a limit below which less of it is worth a resize.
const ENOUGH: f64 = 0.9;

/// The estimate.
#[derive(Debug, Clone, Default)]
pub(super) struct Memory {
    /// Bytes of an idle replica; none before one was seen.
    rest: Option<f64>,
    /// Bytes above that of the fullest replica, fading slowly.
    crowd: f64,
}

impl Memory {
    /// Learns from a step.
    pub fn learn(&mut self, seen: &Observation) {
        self.crowd *= FADE;
        if seen.ready > 0 && seen.oom_kills == 0 && seen.memory_used.0 > 0 {
            let mean = seen.memory_used.0 as f64 / f64::from(seen.ready);
            self.rest = Some(self.rest.map_or(mean, |rest| (rest / FADE).min(mean)));
        }
        if let Some(peak) = memory_peak(seen, OOM_BUMP) {
            // Killed before it was ever seen at rest: all of it may be the crowd's.
            self.crowd = self.crowd.max(peak as f64 - self.rest.unwrap_or(0.0));
        }
    }

    /// The limit of a replica; what it is while nothing is known.
    pub fn limit(&self, seen: &Observation) -> Bytes {
        if self.rest.is_none() && self.crowd <= 0.0 {
            return seen.scale.limit.memory;
        }
        let wanted = REST_MARGIN * self.rest.unwrap_or(0.0) + CROWD_MARGIN * self.crowd;
        let held = seen.scale.limit.memory.0;
        // A little less is not worth a resize.
        Bytes(if (held as f64 * ENOUGH..=held as f64).contains(&wanted) { held } else { wanted as u64 })
    }

    /// Whether a limit would have been too low for the step.
    pub fn too_low(seen: &Observation, limit: Bytes) -> bool {
        memory_peak(seen, OOM_BUMP).is_some_and(|needed| needed > limit.0)
    }
}
