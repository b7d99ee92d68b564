//! What the pool's change budget leaves of a move: as much of the way as the allowance pays for.

use meanfield_common::{
    budget::Moving,
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
};

use super::{Clip, Verdict};

/// Into so many parts the way is divided.
const PARTS: u32 = 64;

/// A scale, and what each replica of it reserves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Reserved {
    /// The scale.
    pub scale: Scale,
    /// The CPU request of a replica.
    pub request: MilliCores,
}

impl Reserved {
    /// How much of the pool's capacity is moved on the way to another, up or down.
    #[must_use]
    pub fn distance(&self, to: &Self) -> Moving {
        let cpu = |one: &Self| u64::from(one.scale.replicas).saturating_mul(one.request.0);
        let memory = |one: &Self| u64::from(one.scale.replicas).saturating_mul(one.scale.limit.memory.0);
        let mebibytes = memory(self).abs_diff(memory(to)).div_ceil(Bytes::mebi(1).0);
        Moving::clamped(cpu(self).abs_diff(cpu(to)), mebibytes)
    }

    /// So many parts of the way to another, rounded towards this one.
    fn towards(&self, to: &Self, parts: u32) -> Self {
        let between = |from: u64, to: u64| {
            let step = u128::from(from.abs_diff(to)) * u128::from(parts) / u128::from(PARTS);
            // No more than the difference, so it fits.
            let step = u64::try_from(step).unwrap_or(u64::MAX);
            if to >= from { from + step } else { from - step }
        };
        let replicas = between(self.scale.replicas.into(), to.scale.replicas.into());
        let limit = Resources {
            cpu: MilliCores(between(self.scale.limit.cpu.0, to.scale.limit.cpu.0)),
            memory: Bytes(between(self.scale.limit.memory.0, to.scale.limit.memory.0)),
        };
        let scale = Scale { replicas: u32::try_from(replicas).unwrap_or(u32::MAX), limit };
        Self { scale, request: MilliCores(between(self.request.0, to.request.0)) }
    }
}

/// How far an allowance lets a workload go from where it is to where a verdict wants it, and the CPU request there. Bounds
/// are hard: from outside of them it goes back whatever that costs.
#[must_use]
pub fn spend(
    bounds: &Bounds,
    now: &Reserved,
    wanted: &Reserved,
    clip: Option<Clip>,
    allowance: &Moving,
) -> (Verdict, MilliCores) {
    let part = |parts: u32| {
        let there = now.towards(wanted, parts);
        Reserved { scale: bounds.clamp(&there.scale), ..there }
    };
    let whole = part(PARTS);
    if now.distance(&whole).fits(allowance) {
        return (Verdict { scale: whole.scale, clip }, whole.request);
    }
    let affordable = (1..PARTS).rev().map(part).find(|there| now.distance(there).fits(allowance));
    let there = affordable.unwrap_or_else(|| part(0));
    (Verdict { scale: there.scale, clip: Some(Clip::Budget) }, there.request)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn reserved(replicas: u32, cpu: u64, mebi: u64) -> Reserved {
        let limit = Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(mebi) };
        Reserved { scale: Scale { replicas, limit }, request: MilliCores(cpu / 2) }
    }

    fn bounds() -> Bounds {
        Bounds::new(1..=20, MilliCores(100)..=MilliCores(4000), Bytes::mebi(64)..=Bytes::mebi(4096)).unwrap()
    }

    fn allowed(millicores: u64, mebibytes: u64) -> Moving {
        Moving::clamped(millicores, mebibytes)
    }

    #[test]
    fn goes_as_far_as_it_is_paid_for() {
        let (now, wanted) = (reserved(4, 1000, 512), reserved(12, 1000, 512));
        let go = |allowance: Moving| spend(&bounds(), &now, &wanted, None, &allowance).0;
        assert_eq!(now.distance(&wanted), allowed(4000, 4096));
        assert_eq!(go(allowed(4000, 4096)), Verdict { scale: wanted.scale, clip: None });
        assert_eq!(go(allowed(2000, 4096)).scale.replicas, 8);
        assert_eq!(go(allowed(4000, 1024)).scale.replicas, 6, "memory is moved too");
        assert_eq!(go(allowed(0, 0)), Verdict { scale: now.scale, clip: Some(Clip::Budget) });
        let down = spend(&bounds(), &wanted, &now, None, &allowed(1000, 9999)).0;
        assert_eq!(down.scale.replicas, 10, "down counts like up");
    }

    #[test]
    fn bounds_are_hard() {
        let outside = reserved(40, 1000, 512);
        let (verdict, _) = spend(&bounds(), &outside, &outside, None, &allowed(0, 0));
        assert_eq!(verdict.scale.replicas, 20);
    }

    proptest! {
        #[test]
        fn never_more_than_was_allowed(
            from in (1..=20_u32, 100..=4000_u64, 64..=4096_u64),
            to in (1..=20_u32, 100..=4000_u64, 64..=4096_u64),
            millicores in 0..40_000_u64,
            mebibytes in 0..80_000_u64,
        ) {
            let (from, to) = (reserved(from.0, from.1, from.2), reserved(to.0, to.1, to.2));
            let allowance = allowed(millicores, mebibytes);
            let (verdict, request) = spend(&bounds(), &from, &to, None, &allowance);
            let there = Reserved { scale: verdict.scale, request };
            prop_assert!(from.distance(&there).fits(&allowance), "{:?}", there);
            prop_assert!(bounds().contains(&verdict.scale));
            prop_assert_eq!(verdict.clip.is_none(), from.distance(&to).fits(&allowance));
        }
    }
}
