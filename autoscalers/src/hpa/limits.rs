//! How far a stabilised recommendation may be followed at once.

use super::{
    Millis,
    history::Events,
    spec::{Change, Policy, Rules, Select},
};

/// What kept the replicas from the recommendation.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    /// Nothing.
    Within,
    /// The rate upwards.
    ScaleUp,
    /// The rate downwards.
    ScaleDown,
    /// The upper bound.
    Max,
    /// The lower bound.
    Min,
}

/// The rules without a behaviour: at most twice the replicas at once, though four are always allowed.
pub(super) fn without_behavior(current: i32, wanted: i32, min: i32, max: i32) -> (i32, Limit) {
    let rate = current.saturating_mul(2).max(4);
    let (most, limit) = if max > rate { (rate, Limit::ScaleUp) } else { (max, Limit::Max) };
    if wanted < min {
        (min, Limit::Min)
    } else if wanted > most {
        (most, limit)
    } else {
        (wanted, Limit::Within)
    }
}

/// The rates of a behaviour, given how the replicas changed before.
pub(super) struct Rates<'a> {
    pub now: Millis,
    pub current: i32,
    pub added: &'a Events,
    pub removed: &'a Events,
}

impl Rates<'_> {
    /// The most that may be done towards `wanted`. Each bound holds in its own direction only: the other one was seen to
    /// before, when the replicas were outside.
    pub fn limit(&self, wanted: i32, min: i32, max: i32, up: &Rules, down: &Rules) -> (i32, Limit) {
        if wanted > self.current {
            let rate = self.most(up).max(self.current);
            let (most, limit) = if max > rate { (rate, Limit::ScaleUp) } else { (max, Limit::Max) };
            if wanted > most {
                return (most, limit);
            }
        } else if wanted < self.current {
            let rate = self.least(down).min(self.current);
            let (least, limit) = if min < rate { (rate, Limit::ScaleDown) } else { (min, Limit::Min) };
            if wanted < least {
                return (least, limit);
            }
        }
        (wanted, Limit::Within)
    }

    fn most(&self, rules: &Rules) -> i32 {
        let allowed = rules.policies.iter().map(|policy| {
            let start = self.start(policy);
            match policy.change {
                Change::Pods(count) => start.saturating_add(super::replicas(count)),
                Change::Percent(percent) => (f64::from(start) * (1.0 + f64::from(percent) / 100.0)).ceil() as i32,
            }
        });
        let chosen = match rules.select {
            Select::Max => allowed.max(),
            Select::Min => allowed.min(),
            Select::Disabled => None,
        };
        chosen.unwrap_or(self.current)
    }

    fn least(&self, rules: &Rules) -> i32 {
        let allowed = rules.policies.iter().map(|policy| {
            let start = self.start(policy);
            match policy.change {
                Change::Pods(count) => start.saturating_sub(super::replicas(count)),
                Change::Percent(percent) => (f64::from(start) * (1.0 - f64::from(percent) / 100.0)) as i32,
            }
        });
        let chosen = match rules.select {
            Select::Max => allowed.min(),
            Select::Min => allowed.max(),
            Select::Disabled => None,
        };
        chosen.unwrap_or(self.current)
    }

    /// The replicas when the policy's period began.
    fn start(&self, policy: &Policy) -> i32 {
        let period = super::seconds(policy.period);
        let removed = self.removed.within(self.now, period);
        self.current.saturating_sub(self.added.within(self.now, period)).saturating_add(removed)
    }
}
