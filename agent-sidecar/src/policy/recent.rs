//! What was seen lately: bounded windows, and the memory that a replica was seen to need.

use std::collections::VecDeque;

use meanfield_common::observation::Observation;

/// Appends to a window of the last `longest` values.
pub(super) fn push<T>(window: &mut VecDeque<T>, value: T, longest: usize) {
    if window.len() >= longest {
        window.pop_front();
    }
    window.push_back(value);
}

/// The memory that a replica was seen to need: more than its limit after a kill; unknown while none runs.
pub(super) fn memory_peak(seen: &Observation, bump: f64) -> Option<u64> {
    if seen.oom_kills > 0 {
        Some((seen.scale.limit.memory.0 as f64 * bump) as u64)
    } else {
        (seen.ready > 0).then_some(seen.memory_peak.0)
    }
}
