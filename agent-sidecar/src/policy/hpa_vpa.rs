//! HPA for replicas and VPA for memory, as most clusters combine them. A simple form of both.

use std::collections::VecDeque;

use meanfield_common::{
    invalid::{Invalid, within},
    observation::Observation,
    resources::{Bytes, Resources, Scale},
};

use super::{Decision, Policy, View};

/// Steps over which HPA holds the highest recommendation before it scales in: 5 minutes of 15 s.
const DOWN_WINDOW: usize = 20;
/// Steps over which memory peaks are remembered: an hour of 15 s.
const MEMORY_WINDOW: usize = 240;
/// Utilisation within this share of the target changes nothing.
const TOLERANCE: f64 = 0.1;
/// Room above the peak.
const MEMORY_MARGIN: f64 = 1.15;
/// Growth after a kill.
const OOM_BUMP: f64 = 1.2;

/// HPA on CPU over request, and a memory limit above the recent peak.
#[derive(Debug, Clone)]
pub struct HpaVpa {
    target: f64,
    recommended: VecDeque<u32>,
    peaks: VecDeque<u64>,
}

impl HpaVpa {
    /// With HPA's target utilisation, as a share of the CPU request.
    pub fn new(target: f64) -> Result<Self, Invalid> {
        let target = within("hpa.target", target, 0.01, 10.0)?;
        Ok(Self { target, recommended: VecDeque::new(), peaks: VecDeque::new() })
    }

    fn replicas(&mut self, seen: &Observation) -> u32 {
        let current = seen.scale.replicas;
        let ratio = seen.cpu_over_request() / self.target;
        let raw = if (ratio - 1.0).abs() <= TOLERANCE || seen.ready == 0 {
            current
        } else {
            (ratio * f64::from(seen.ready)).ceil() as u32
        };
        push(&mut self.recommended, raw, DOWN_WINDOW);
        let stabilised = self.recommended.iter().copied().max().unwrap_or(raw);
        stabilised.min(current.saturating_mul(2).max(4)).max(1)
    }

    fn memory(&mut self, seen: &Observation) -> Bytes {
        let limit = seen.scale.limit.memory.0 as f64;
        if let Some(peak) = memory_peak(seen, OOM_BUMP) {
            push(&mut self.peaks, peak, MEMORY_WINDOW);
        }
        let Some(&highest) = self.peaks.iter().max() else { return seen.scale.limit.memory };
        let highest = highest as f64 * MEMORY_MARGIN;
        // VPA leaves a pod alone while its request is about right.
        if highest > limit || highest < 0.8 * limit { Bytes(highest as u64) } else { seen.scale.limit.memory }
    }
}

/// The memory that a replica was seen to need: more than its limit after a kill; unknown while none runs.
pub(super) fn memory_peak(seen: &Observation, bump: f64) -> Option<u64> {
    if seen.oom_kills > 0 {
        Some((seen.scale.limit.memory.0 as f64 * bump) as u64)
    } else {
        (seen.ready > 0).then_some(seen.memory_peak.0)
    }
}

/// Appends to a window of the last `longest` values.
pub(super) fn push<T>(window: &mut VecDeque<T>, value: T, longest: usize) {
    if window.len() >= longest {
        window.pop_front();
    }
    window.push_back(value);
}

impl Policy for HpaVpa {
    fn name(&self) -> &'static str {
        "hpa-vpa"
    }

    fn decide(&mut self, view: &View<'_>) -> Result<Decision, crate::Error> {
        let seen = view.seen;
        let limit = Resources { cpu: seen.scale.limit.cpu, memory: self.memory(seen) };
        Ok(Decision::wish(view.target.bounds.clamp(&Scale { replicas: self.replicas(seen), limit })))
    }

    fn reset(&mut self) {
        self.recommended.clear();
        self.peaks.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::resources::MilliCores;

    fn seen(replicas: u32, cpu: u64) -> Observation {
        let mut seen = Observation { ready: replicas, cpu_used: MilliCores(cpu), ..Observation::default() };
        seen.scale.replicas = replicas;
        seen
    }

    #[test]
    fn follows_the_ratio_outside_the_tolerance() {
        let replicas = |current, cpu| HpaVpa::new(0.5).unwrap().replicas(&seen(current, cpu));
        assert_eq!(replicas(4, 2000), 4, "on target");
        assert_eq!(replicas(4, 2180), 4, "within a tenth");
        assert_eq!(replicas(4, 3000), 6);
        assert_eq!(replicas(4, 1000), 2);
        assert_eq!(replicas(1, 9000), 4, "never more than twice, or 4");
        assert_eq!(replicas(10, 90_000), 20);
    }

    #[test]
    fn scales_in_only_after_the_window() {
        let mut hpa = HpaVpa::new(0.5).unwrap();
        assert_eq!(hpa.replicas(&seen(4, 3000)), 6);
        for _ in 1..DOWN_WINDOW {
            assert_eq!(hpa.replicas(&seen(6, 600)), 6);
        }
        assert_eq!(hpa.replicas(&seen(6, 600)), 2);
    }

    #[test]
    fn memory_follows_the_peak_and_grows_after_a_kill() {
        let mut vpa = HpaVpa::new(0.5).unwrap();
        let mut now = seen(1, 0);
        now.memory_peak = Bytes::mebi(100);
        assert_eq!(vpa.memory(&now), Bytes((Bytes::mebi(100).0 as f64 * MEMORY_MARGIN) as u64));
        now.oom_kills = 1;
        let grown = vpa.memory(&now).0 as f64 / now.scale.limit.memory.0 as f64;
        assert!((grown - OOM_BUMP * MEMORY_MARGIN).abs() < 1e-6);
    }

    #[test]
    fn memory_stays_until_a_replica_has_run() {
        let starting = Observation { ready: 0, ..Observation::default() };
        assert_eq!(HpaVpa::new(0.5).unwrap().memory(&starting), starting.scale.limit.memory);
    }
}
