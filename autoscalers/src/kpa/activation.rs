//! Between what load asks for and what is applied: the scale's bounds, the initial scale, and the way to zero.
//!
//! A revision is activating until as many pods are ready as it must have, then active. Without load it keeps one pod
//! until it has been active for a stable window; then it is inactive, and its last pod goes when requests have been
//! sent to the proxy for a grace period. With too little capacity for a burst they were already, so that there is
//! nothing to wait for.

use std::time::Duration;

use meanfield_common::invalid::{Invalid, within};

/// The most pods of any setting.
pub(super) const MOST: u32 = 1_000_000;
/// What a deployment is given beyond its deadline before an activation counts as failed.
const ACTIVATION_BUFFER: Duration = Duration::from_secs(30);

/// Bounds of the scale, and when it may become zero. The default is that of the real one's configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Options {
    /// Whether the last pod may go.
    pub scale_to_zero: bool,
    /// How long requests must have gone to the proxy before the last pod goes.
    pub grace: Duration,
    /// How long a revision must have been inactive before the last pod goes.
    pub retention: Duration,
    /// How long a deployment may take to make progress.
    pub progress_deadline: Duration,
    /// Replicas of a new revision, kept until so many were ready.
    pub initial_scale: u32,
    /// The least replicas.
    pub min_scale: u32,
    /// The most replicas; 0 is no bound.
    pub max_scale: u32,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            scale_to_zero: true,
            grace: Duration::from_secs(30),
            retention: Duration::ZERO,
            progress_deadline: Duration::from_secs(600),
            initial_scale: 1,
            min_scale: 0,
            max_scale: 0,
        }
    }
}

impl Options {
    pub(super) fn validated(self) -> Result<Self, Invalid> {
        for (field, value) in
            [("initial_scale", self.initial_scale), ("min_scale", self.min_scale), ("max_scale", self.max_scale)]
        {
            within(field, value.into(), 0.0, MOST.into())?;
        }
        if self.max_scale != 0 && self.max_scale < self.min_scale {
            let bound = format!("0 or at least the minimum {}", self.min_scale);
            return Err(Invalid::new("max_scale", self.max_scale, bound));
        }
        let longest = Duration::from_secs(366 * 86_400);
        for (field, value, shortest) in [
            ("grace", self.grace, Duration::from_nanos(1)),
            ("retention", self.retention, Duration::ZERO),
            ("progress_deadline", self.progress_deadline, Duration::from_nanos(1)),
        ] {
            if !(shortest..=longest).contains(&value) {
                return Err(Invalid::new(field, format!("{value:?}"), format!("within [{shortest:?}, 366 days]")));
            }
        }
        Ok(self)
    }
}

/// Whether a revision serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Condition {
    Activating,
    Active,
    Inactive,
}

/// The state of one revision on its way up and down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Activation {
    options: Options,
    condition: Condition,
    /// Since when; unset before the first round.
    since: Option<Duration>,
    /// Since when requests go to the proxy, while they do.
    proxied_since: Option<Duration>,
    /// Whether the initial scale was reached once.
    initialised: bool,
    replicas: i32,
}

/// What to do with a scale: apply it, or leave the replicas and go on as if it were this.
enum Want {
    Apply(i32),
    Leave(Option<i32>),
}

impl Activation {
    pub(super) fn new(options: Options) -> Self {
        let replicas = super::count(options.initial_scale);
        let condition = Condition::Activating;
        Self { options, condition, since: None, proxied_since: None, initialised: false, replicas }
    }

    pub(super) fn resume(&mut self, now: Duration, ready: u32) {
        self.condition = if ready > 0 { Condition::Active } else { Condition::Inactive };
        self.since = Some(now);
        self.proxied_since = Some(now);
        self.initialised = true;
        self.replicas = super::count(ready);
    }

    /// One reconcile: what the load asks for becomes replicas.
    pub(super) fn round(
        &mut self,
        now: Duration,
        ready: i32,
        desired: Option<i32>,
        excess: i32,
        stable_window: Duration,
    ) -> u32 {
        if self.since.is_none() {
            self.since = Some(now);
            self.proxied_since = Some(now);
        }
        let want = match self.want(now, desired, stable_window) {
            Want::Apply(replicas) => {
                self.replicas = replicas;
                Some(replicas)
            }
            Want::Leave(want) => want,
        };
        if want.is_some_and(|want| want > 0) && excess >= 0 {
            self.proxied_since = None;
        } else {
            self.proxied_since = self.proxied_since.or(Some(now));
        }
        self.observe(now, want, ready);
        self.replicas.max(0) as u32
    }

    fn want(&self, now: Duration, desired: Option<i32>, stable_window: Duration) -> Want {
        if desired.is_none() && self.condition != Condition::Activating {
            return Want::Leave(None);
        }
        let initial = super::count(self.options.initial_scale);
        let mut min = super::count(self.options.min_scale);
        if initial > 1 && !self.initialised {
            min = min.max(initial);
        }
        let max = if self.options.max_scale == 0 { i32::MAX } else { super::count(self.options.max_scale) };
        // The minimum wins, as where the initial scale is above the maximum.
        let desired = desired.unwrap_or(-1);
        let bounded = if desired < min { min } else { desired.min(max) };
        if bounded == 0 { self.to_zero(now, stable_window) } else { Want::Apply(bounded) }
    }

    fn to_zero(&self, now: Duration, stable_window: Duration) -> Want {
        if !self.options.scale_to_zero {
            return Want::Apply(1);
        }
        let elapsed = |since: Option<Duration>| since.map_or(Duration::ZERO, |since| now.saturating_sub(since));
        let so_far = elapsed(self.since);
        let Options { grace, retention, progress_deadline, .. } = self.options;
        match self.condition {
            Condition::Activating if so_far > progress_deadline + ACTIVATION_BUFFER => Want::Apply(0),
            Condition::Activating => Want::Leave(None),
            Condition::Active if so_far >= stable_window => Want::Leave(Some(0)),
            Condition::Active => Want::Apply(1),
            Condition::Inactive if so_far >= grace.max(retention) => Want::Apply(0),
            Condition::Inactive if so_far < retention => Want::Leave(Some(0)),
            Condition::Inactive if elapsed(self.proxied_since) >= grace => Want::Apply(0),
            Condition::Inactive => Want::Leave(Some(0)),
        }
    }

    /// Updates the condition after scaling.
    fn observe(&mut self, now: Duration, want: Option<i32>, ready: i32) {
        let min = super::count(self.options.min_scale);
        let needed = min.max(if self.initialised { 1 } else { super::count(self.options.initial_scale) });
        self.initialised |= ready >= needed;

        let wanted = want.is_some_and(|want| want > 0);
        // Without data an inactive revision stays so.
        let condition = if want == Some(0) || needed == 0 || (self.condition == Condition::Inactive && !wanted) {
            Condition::Inactive
        } else if ready < needed {
            Condition::Activating
        } else {
            Condition::Active
        };
        if condition != self.condition {
            self.condition = condition;
            self.since = Some(now);
        }
    }
}
