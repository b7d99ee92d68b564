//! The Horizontal Pod Autoscaler, deciding as `kube-controller-manager` 1.36 does.
//!
//! One [`Hpa`] stands for one `HorizontalPodAutoscaler` object. Every round (15 s apart by default) it is shown what is
//! [`Seen`] and answers with a [`Decision`]: each metric proposes replicas ([`Proposal`]), the highest proposal is
//! stabilised against those of the past, and then limited in rate and to the bounds.
//!
//! Whoever compares a policy with this one compares it with what their cluster does today, so the order of the rules,
//! their rounding and their oddities are those of the original; `tests/oracles/hpa` asks it. Only where the original's
//! integers overflow does this one not follow: it saturates.
//!
//! ```
//! use meanfield_autoscalers::hpa::{Counts, Hpa, Seen, Spec};
//!
//! let mut hpa = Hpa::new(Spec::cpu(2, 10, 50))?;
//! // Four pods that request 500 millicores each use 1500 together: 75 % where 50 % is wanted.
//! let seen = Seen::counted(4, Counts { ready: 4, used: 1500, request: 500, ..Counts::default() });
//! assert_eq!(hpa.decide(0, &seen).replicas, 6);
//! # Ok::<(), meanfield_common::invalid::Invalid>(())
//! ```

mod history;
mod limits;
mod replicas;
mod seen;
mod spec;

use meanfield_common::invalid::Invalid;

pub use self::{
    limits::Limit,
    replicas::{Basis, Failure, Proposal},
    seen::{Counts, PerPod, Phase, Pod, Reading, Ready, Sample, Seen, Status},
    spec::{Behavior, Change, Flags, Metric, Policy, Resource, Rules, Select, Spec, Target},
};

use self::{
    history::{Events, Recommendations},
    limits::Rates,
    replicas::{Calculation, Tolerances},
};

/// Milliseconds since any moment that the caller chooses, or a span of them. Whole numbers, since rules ask whether an
/// entry is exactly as old as a window; signed, since what is seen may be older than the caller's clock.
pub type Millis = i64;

/// A Horizontal Pod Autoscaler with its memory.
#[derive(Debug, Clone)]
pub struct Hpa {
    spec: Spec,
    flags: Flags,
    recommendations: Recommendations,
    added: Events,
    removed: Events,
    /// Whether the last change was from some replicas to none: only then does it leave zero by itself.
    at_zero: bool,
}

/// What a round decided, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    /// The replicas to have.
    pub replicas: u32,
    /// Why so many.
    pub reason: Reason,
    /// What each metric wanted, in the order of the spec. Empty when no metric was asked.
    pub proposals: Vec<Result<Proposal, Failure>>,
}

/// Why a decision is what it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reason {
    /// Somebody else set the target to zero, which switches autoscaling off.
    Disabled,
    /// There were more replicas than the upper bound.
    AboveMax,
    /// There were fewer replicas than the lower bound.
    BelowMin,
    /// No metric can be trusted: all failed, or some did and the others would have scaled down. The replicas stay.
    Failed {
        /// The first metric that failed.
        first: usize,
    },
    /// A metric was followed.
    Followed {
        /// Which one.
        metric: usize,
        /// Whether, and in which direction, recommendations of the past held this one back.
        stabilised: Option<Direction>,
        /// What limited the change after that.
        limit: Limit,
    },
}

/// A direction of scaling.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Direction {
    /// Towards more replicas.
    Up,
    /// Towards fewer.
    Down,
}

impl Hpa {
    /// An autoscaler under a controller with its default flags.
    pub fn new(spec: Spec) -> Result<Self, Invalid> {
        Self::with_flags(spec, Flags::default())
    }

    /// An autoscaler under a controller with flags of its own.
    pub fn with_flags(spec: Spec, flags: Flags) -> Result<Self, Invalid> {
        flags.check()?;
        spec.check(&flags)?;
        let recommendations = Recommendations::default();
        Ok(Self { spec, flags, recommendations, added: Events::default(), removed: Events::default(), at_zero: false })
    }

    /// What it was asked to do.
    #[must_use]
    pub fn spec(&self) -> &Spec {
        &self.spec
    }

    /// Asks something else of it. It remembers what it did, as when an operator edits the object.
    pub fn respecify(&mut self, spec: Spec) -> Result<(), Invalid> {
        spec.check(&self.flags)?;
        self.spec = spec;
        Ok(())
    }

    /// One round: a recommendation that is carried out.
    pub fn decide(&mut self, now: Millis, seen: &Seen) -> Decision {
        let decision = self.recommend(now, seen);
        self.scaled(now, seen.replicas, decision.replicas);
        decision
    }

    /// One round, without the assumption that it is carried out: if so, the caller says it with [`scaled`](Self::scaled).
    /// Rates are measured by changes that happened.
    pub fn recommend(&mut self, now: Millis, seen: &Seen) -> Decision {
        let current = replicas(seen.replicas);
        let (min, max) = (replicas(self.spec.min), replicas(self.spec.max));
        self.recommendations.seed(now, current);
        let outright = |replicas, reason| Decision { replicas, reason, proposals: Vec::new() };
        if current == 0 {
            // A raised lower bound, or a metric that does not need pods, ends a zero of the autoscaler's own making.
            if !self.at_zero || (min == 0 && !self.spec.watches_outside()) {
                return outright(seen.replicas, Reason::Disabled);
            }
        } else if current > max {
            return outright(self.spec.max, Reason::AboveMax);
        } else if current < min {
            return outright(self.spec.min, Reason::BelowMin);
        }

        let proposals = self.proposals(now, seen, current);
        let (metric, wanted) = match followed(&proposals, current) {
            Ok(followed) => followed,
            Err(first) => return Decision { replicas: seen.replicas, reason: Reason::Failed { first }, proposals },
        };
        let wanted = wanted.max(0);
        let (mut chosen, stabilised, limit) = self.restrain(now, current, wanted);
        if current == 0 {
            chosen = chosen.max(min);
        }
        let reason = Reason::Followed { metric, stabilised, limit };
        Decision { replicas: u32::try_from(chosen).unwrap_or(0), reason, proposals }
    }

    /// The target was set from some replicas to others.
    pub fn scaled(&mut self, now: Millis, from: u32, to: u32) {
        if from == to {
            return;
        }
        if let Some(Behavior { up, down }) = &self.spec.behavior {
            let (rules, events) = if to > from { (up, &mut self.added) } else { (down, &mut self.removed) };
            let longest = rules.policies.iter().map(|policy| policy.period).max().unwrap_or(0);
            events.record(now, replicas(from.abs_diff(to)), seconds(longest));
        }
        self.at_zero = self.flags.scale_to_zero && to == 0 && self.spec.min == 0 && self.spec.watches_outside();
    }

    fn proposals(&self, now: Millis, seen: &Seen, current: i32) -> Vec<Result<Proposal, Failure>> {
        let tolerance = |rules: fn(&Behavior) -> &Rules| {
            let rules = self.spec.behavior.as_ref().map(rules);
            rules.and_then(|rules| rules.tolerance).unwrap_or(self.flags.tolerance)
        };
        let tolerances = Tolerances { down: tolerance(|rules| &rules.down), up: tolerance(|rules| &rules.up) };
        let calculation = Calculation { now, seen, current, flags: &self.flags, tolerances };
        let readings = seen.readings.iter().chain(std::iter::repeat(&Reading::Unavailable));
        self.spec.metrics.iter().zip(readings).map(|(metric, reading)| calculation.propose(*metric, reading)).collect()
    }

    /// Stabilises what is wanted and limits it.
    fn restrain(&mut self, now: Millis, current: i32, wanted: i32) -> (i32, Option<Direction>, Limit) {
        let (min, max) = (replicas(self.spec.min), replicas(self.spec.max));
        let Some(Behavior { up, down }) = &self.spec.behavior else {
            let stable = self.recommendations.highest(now, wanted, self.flags.downscale_stabilisation);
            let (chosen, limit) = limits::without_behavior(current, stable, min, max);
            return (chosen, (stable != wanted).then_some(Direction::Down), limit);
        };
        let up_window = up.window.map_or(0, seconds);
        // The flag loses its fraction of a second on this path, as in the original.
        let down_window = down.window.map_or(self.flags.downscale_stabilisation / 1000 * 1000, seconds);
        let stable = self.recommendations.stabilise(now, current, wanted, up_window, down_window);
        let direction = if wanted >= current { Direction::Up } else { Direction::Down };
        let rates = Rates { now, current, added: &self.added, removed: &self.removed };
        let (chosen, limit) = rates.limit(stable, min, max, up, down);
        (chosen, (stable != wanted).then_some(direction), limit)
    }
}

/// The metric that wants most and what it wants, or the first metric that failed when that forbids to follow the others.
fn followed(proposals: &[Result<Proposal, Failure>], current: i32) -> Result<(usize, i32), usize> {
    let mut best: Option<(usize, i32)> = None;
    let mut failed = None;
    for (index, proposal) in proposals.iter().enumerate() {
        match proposal {
            // Zero does not hold its place: the original cannot tell it from none.
            Ok(proposal) if best.is_none_or(|(_, most)| most == 0 || proposal.replicas > most) => {
                best = Some((index, proposal.replicas));
            }
            Ok(_) => {}
            Err(_) => failed = failed.or(Some(index)),
        }
    }
    match (best, failed) {
        (Some((_, replicas)), Some(first)) if replicas < current => Err(first),
        (Some(best), _) => Ok(best),
        (None, first) => Err(first.unwrap_or(0)),
    }
}

/// A count in the width that the original computes with.
fn replicas(count: u32) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

/// Seconds of the API as a span of time.
fn seconds(count: u32) -> Millis {
    Millis::from(count) * 1000
}
