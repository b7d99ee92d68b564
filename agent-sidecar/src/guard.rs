//! What a decision may not do: leave the bounds, or move too far at once.

use meanfield_common::{
    invalid::{Invalid, within},
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
};

/// Why a wish was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clip {
    /// It left the operator's bounds.
    Bounds,
    /// It moved a lever too far in one step.
    Rate,
}

/// The guard's word on a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What may be carried out.
    pub scale: Scale,
    /// Why it differs from the wish, if it does; the last check that cut wins.
    pub clip: Option<Clip>,
}

/// The checks.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Guard {
    factor: f64,
}

impl Default for Guard {
    /// A lever at most doubles or halves in a step.
    fn default() -> Self {
        Self { factor: 2.0 }
    }
}

impl Guard {
    /// A guard that lets a lever grow or shrink at most by `factor` in a step (replicas at least by one).
    pub fn new(factor: f64) -> Result<Self, Invalid> {
        Ok(Self { factor: within("guard.factor", factor, 1.0, 1000.0)? })
    }

    /// What of `wish` may be carried out from `current`.
    #[must_use]
    pub fn check(&self, bounds: &Bounds, current: &Scale, wish: &Scale) -> Verdict {
        let legal = bounds.clamp(wish);
        let mut clip = (legal != *wish).then_some(Clip::Bounds);
        let step = |from: u64, to: u64| {
            let most = ((from as f64 * self.factor).ceil() as u64).max(from.saturating_add(1));
            let least = ((from as f64 / self.factor).floor() as u64).min(from.saturating_sub(1));
            to.clamp(least, most)
        };
        let slowed = Scale {
            replicas: u32::try_from(step(current.replicas.into(), legal.replicas.into())).unwrap_or(u32::MAX),
            limit: Resources {
                cpu: MilliCores(step(current.limit.cpu.0, legal.limit.cpu.0)),
                memory: Bytes(step(current.limit.memory.0, legal.limit.memory.0)),
            },
        };
        if slowed != legal {
            clip = Some(Clip::Rate);
        }
        // A current scale from outside the bounds may have pulled the result out again: bounds are hard.
        Verdict { scale: bounds.clamp(&slowed), clip }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn scale(replicas: u32, cpu: u64, memory: u64) -> Scale {
        Scale { replicas, limit: Resources { cpu: MilliCores(cpu), memory: Bytes(memory) } }
    }

    fn bounds() -> Bounds {
        Bounds::new(1..=10, MilliCores(100)..=MilliCores(4000), Bytes(100)..=Bytes(4000)).unwrap()
    }

    #[test]
    fn passes_clips_and_says_why() {
        let guard = Guard::default();
        let check = |wish| guard.check(&bounds(), &scale(4, 1000, 1000), &wish);
        assert_eq!(check(scale(5, 1500, 500)), Verdict { scale: scale(5, 1500, 500), clip: None });
        assert_eq!(check(scale(0, 1000, 1000)), Verdict { scale: scale(2, 1000, 1000), clip: Some(Clip::Rate) });
        assert_eq!(check(scale(4, 1000, 5000)).clip, Some(Clip::Rate));
        let near_top = guard.check(&bounds(), &scale(9, 1000, 1000), &scale(12, 1000, 1000));
        assert_eq!(near_top, Verdict { scale: scale(10, 1000, 1000), clip: Some(Clip::Bounds) });
        assert_eq!(guard.check(&bounds(), &scale(1, 100, 100), &scale(2, 100, 100)).scale.replicas, 2);
    }

    proptest! {
        #[test]
        fn nothing_ever_leaves_the_bounds(
            current in (0..2000_u32, any::<u64>(), any::<u64>()),
            wish in (any::<u32>(), any::<u64>(), any::<u64>()),
        ) {
            let (current, wish) = (scale(current.0, current.1, current.2), scale(wish.0, wish.1, wish.2));
            prop_assert!(bounds().contains(&Guard::default().check(&bounds(), &current, &wish).scale));
        }
    }
}
