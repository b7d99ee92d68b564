//! What a decision may not do: leave the bounds, or move too far at once.

use meanfield_common::resources::{Bounds, Bytes, MilliCores, Resources, Scale};

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
    /// Why it differs from the wish, if it does; where both did, the rate.
    pub clip: Option<Clip>,
}

/// How much a lever may grow or shrink in one step, as a factor.
const FASTEST: f64 = 2.0;
/// Replicas that may always be added in one step, as Kubernetes' own default has it; and one may always be taken away.
const ALWAYS: u64 = 4;

/// What of `wish` may be carried out from `current`.
#[must_use]
pub fn check(bounds: &Bounds, current: &Scale, wish: &Scale) -> Verdict {
    let legal = bounds.clamp(wish);
    let slow = |from: u64, to: u64, always: u64| {
        let most = ((from as f64 * FASTEST).ceil() as u64).max(from.saturating_add(always));
        let least = ((from as f64 / FASTEST).floor() as u64).min(from.saturating_sub(1));
        to.clamp(least, most)
    };
    let slowed = Scale {
        replicas: u32::try_from(slow(current.replicas.into(), legal.replicas.into(), ALWAYS)).unwrap_or(u32::MAX),
        limit: Resources {
            cpu: MilliCores(slow(current.limit.cpu.0, legal.limit.cpu.0, 1)),
            memory: Bytes(slow(current.limit.memory.0, legal.limit.memory.0, 1)),
        },
    };
    // From outside the bounds the way back may be long, but bounds are hard: they win over the rate.
    let scale = bounds.clamp(&slowed);
    let clip = if scale != legal {
        Some(Clip::Rate)
    } else if legal != *wish {
        Some(Clip::Bounds)
    } else {
        None
    };
    Verdict { scale, clip }
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
        let from_four = |wish| check(&bounds(), &scale(4, 1000, 1000), &wish);
        assert_eq!(from_four(scale(5, 1500, 500)), Verdict { scale: scale(5, 1500, 500), clip: None });
        assert_eq!(from_four(scale(0, 1000, 1000)), Verdict { scale: scale(2, 1000, 1000), clip: Some(Clip::Rate) });
        assert_eq!(from_four(scale(4, 1000, 5000)).clip, Some(Clip::Rate));
        let near_top = check(&bounds(), &scale(9, 1000, 1000), &scale(12, 1000, 1000));
        assert_eq!(near_top, Verdict { scale: scale(10, 1000, 1000), clip: Some(Clip::Bounds) });
        assert_eq!(check(&bounds(), &scale(1, 100, 100), &scale(2, 100, 100)).scale.replicas, 2);
    }

    #[test]
    fn from_outside_the_bounds_everything_leads_back_at_once() {
        let back = check(&bounds(), &scale(100, 1000, 1000), &scale(100, 1000, 1000));
        assert_eq!(back, Verdict { scale: scale(10, 1000, 1000), clip: Some(Clip::Bounds) });
        let further = check(&bounds(), &scale(100, 1000, 1000), &scale(2, 1000, 1000));
        assert_eq!(further, Verdict { scale: scale(10, 1000, 1000), clip: Some(Clip::Rate) });
    }

    proptest! {
        #[test]
        fn nothing_ever_leaves_the_bounds(
            current in (0..2000_u32, any::<u64>(), any::<u64>()),
            wish in (any::<u32>(), any::<u64>(), any::<u64>()),
        ) {
            let (current, wish) = (scale(current.0, current.1, current.2), scale(wish.0, wish.1, wish.2));
            prop_assert!(bounds().contains(&check(&bounds(), &current, &wish).scale));
        }
    }
}
