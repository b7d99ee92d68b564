//! What a decision may not do: leave the bounds, move too far at once, take more than was granted, or move more than the
//! pool's change budget allows.

pub mod budget;

use meanfield_common::{
    resources::{Bounds, Bytes, MilliCores, Resources, Scale},
    scarcity::Grant,
};

/// Why a wish was cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Clip {
    /// It left the operator's bounds.
    Bounds,
    /// It moved a lever too far in one step.
    Rate,
    /// Not everybody's need fits, and the coordinator had this one yield.
    Grant,
    /// It would have moved more than the pool's change budget left.
    Budget,
}

impl Clip {
    /// All reasons.
    pub const ALL: [Self; 4] = [Self::Bounds, Self::Rate, Self::Grant, Self::Budget];

    /// The reason in a word.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Bounds => "bounds",
            Self::Rate => "rate",
            Self::Grant => "grant",
            Self::Budget => "budget",
        }
    }
}

/// The guard's word on a wish.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Verdict {
    /// What may be carried out.
    pub scale: Scale,
    /// Why it differs from the wish, if it does; where several did, the budget before the grant before
    /// the rate before the bounds.
    pub clip: Option<Clip>,
}

/// How much a lever may grow or shrink in one step, as a factor.
const FASTEST: f64 = 2.0;
/// Replicas that may always be added in one step, as Kubernetes' own default has it; and one may always be taken away.
const ALWAYS: u64 = 4;
/// Milli-cores of a replica that may always be added in one step: an idle workload's limit is small, and doubling it
/// step by step would come minutes after the crowd.
const ALWAYS_CPU: u64 = 2000;

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
            cpu: MilliCores(slow(current.limit.cpu.0, legal.limit.cpu.0, ALWAYS_CPU)),
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

/// What of a verdict a grant allows, given what a replica of it reserves: no more replicas than it takes to use the
/// grant up, each as much smaller as it must be, but nothing outside the bounds. So all that was granted is used, also by
/// few large replicas. The rate of change does not hold here, since others wait for what is given up. Memory is given back
/// by replicas only: a lower limit would get them killed.
#[must_use]
pub fn cut(bounds: &Bounds, verdict: Verdict, request: MilliCores, grant: &Grant) -> Verdict {
    let Verdict { mut scale, .. } = verdict;
    let over = |cap: f64, one: f64| if one > 0.0 { cap / one } else { f64::INFINITY };
    let by_cores = grant.cores.map_or(f64::INFINITY, |cap| (over(cap.get(), request.cores()) - 1e-9).ceil());
    let gibibytes = scale.limit.memory.as_mebi() / 1024.0;
    let by_memory = grant.memory_gib.map_or(f64::INFINITY, |cap| (over(cap.get(), gibibytes) + 1e-9).floor());
    let most = by_cores.min(by_memory).min(f64::from(u32::MAX)) as u32;
    scale.replicas = scale.replicas.min(most.max(*bounds.replicas().start()));
    let reserved = request.cores() * f64::from(scale.replicas);
    if let Some(cap) = grant.cores.map(|cap| cap.get()).filter(|cap| *cap < reserved) {
        let least = bounds.cpu().start().0 as f64 / (scale.limit.cpu.0 as f64).max(1.0);
        // Where that many would have to be smaller than they may, fewer of the smallest use up what they can.
        let smallest = (over(cap, request.cores() * least) + 1e-9).floor().min(f64::from(scale.replicas)) as u32;
        scale.replicas = smallest.max(*bounds.replicas().start());
        let reserved = request.cores() * f64::from(scale.replicas);
        scale.limit.cpu = MilliCores((scale.limit.cpu.0 as f64 * (cap / reserved).min(1.0) + 1e-6).floor() as u64);
    }
    let scale = bounds.clamp(&scale);
    Verdict { scale, clip: if scale == verdict.scale { verdict.clip } else { Some(Clip::Grant) } }
}

/// What a grant allows of a CPU request that stands apart from its limit, for each of so many replicas.
#[must_use]
pub fn cut_request(request: MilliCores, replicas: u32, grant: &Grant) -> MilliCores {
    let Some(cap) = grant.cores else { return request };
    request.min(MilliCores((cap.get() * 1000.0 / f64::from(replicas.max(1)) + 1e-6) as u64)).max(MilliCores(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::scarcity::{Cores, Gibibytes};
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
    fn a_small_limit_may_follow_a_crowd_at_once_but_gives_back_in_halves() {
        let up = check(&bounds(), &scale(1, 250, 1000), &scale(1, 4000, 1000));
        assert_eq!(up, Verdict { scale: scale(1, 2250, 1000), clip: Some(Clip::Rate) });
        let large = check(&bounds(), &scale(1, 2250, 1000), &scale(1, 4000, 1000));
        assert_eq!(large, Verdict { scale: scale(1, 4000, 1000), clip: None });
        let down = check(&bounds(), &scale(1, 2250, 1000), &scale(1, 100, 1000));
        assert_eq!(down, Verdict { scale: scale(1, 1125, 1000), clip: Some(Clip::Rate) });
    }

    #[test]
    fn from_outside_the_bounds_everything_leads_back_at_once() {
        let back = check(&bounds(), &scale(100, 1000, 1000), &scale(100, 1000, 1000));
        assert_eq!(back, Verdict { scale: scale(10, 1000, 1000), clip: Some(Clip::Bounds) });
        let further = check(&bounds(), &scale(100, 1000, 1000), &scale(2, 1000, 1000));
        assert_eq!(further, Verdict { scale: scale(10, 1000, 1000), clip: Some(Clip::Rate) });
    }

    fn granted(cores: f64) -> Grant {
        Grant { cores: Some(Cores::clamped(cores)), memory_gib: None }
    }

    #[test]
    fn a_grant_is_used_up_by_as_few_replicas_as_can_and_never_leaves_the_bounds() {
        let verdict = Verdict { scale: scale(6, 1500, 1000), clip: None };
        let cut = |cores: f64| cut(&bounds(), verdict, MilliCores(1000), &granted(cores));
        assert_eq!(cut(6.0), verdict);
        assert_eq!(cut(5.0), Verdict { scale: scale(5, 1500, 1000), clip: Some(Clip::Grant) });
        assert_eq!(cut(4.5), Verdict { scale: scale(5, 1350, 1000), clip: Some(Clip::Grant) });
        assert_eq!(cut(0.5), Verdict { scale: scale(1, 750, 1000), clip: Some(Clip::Grant) });
        assert_eq!(cut(0.0), Verdict { scale: scale(1, 100, 1000), clip: Some(Clip::Grant) }, "the bounds win");
    }

    #[test]
    fn where_replicas_cannot_be_small_enough_there_are_fewer() {
        let verdict = Verdict { scale: scale(10, 150, 1000), clip: None };
        let cut = cut(&bounds(), verdict, MilliCores(150), &granted(0.18));
        assert_eq!(cut, Verdict { scale: scale(1, 150, 1000), clip: Some(Clip::Grant) });
    }

    #[test]
    fn a_request_of_its_own_is_cut_too() {
        // Even the one replica that the bounds ask for is too much: its request shrinks, whatever its limit.
        assert_eq!(cut_request(MilliCores(500), 1, &granted(0.25)), MilliCores(250));
        assert_eq!(cut_request(MilliCores(500), 4, &granted(2.0)), MilliCores(500));
        assert_eq!(cut_request(MilliCores(500), 0, &granted(0.0)), MilliCores(1));
        assert_eq!(cut_request(MilliCores(500), 2, &Grant { cores: None, memory_gib: None }), MilliCores(500));
    }

    #[test]
    fn scarce_memory_takes_replicas_only() {
        let bounds =
            Bounds::new(2..=10, MilliCores(100)..=MilliCores(4000), Bytes::mebi(100)..=Bytes::mebi(4096)).unwrap();
        let limit = Resources { cpu: MilliCores(1500), memory: Bytes::mebi(1024) };
        let verdict = Verdict { scale: Scale { replicas: 6, limit }, clip: Some(Clip::Rate) };
        let at = |gibibytes: f64| {
            let grant = Grant { cores: None, memory_gib: Some(Gibibytes::clamped(gibibytes)) };
            cut(&bounds, verdict, MilliCores(1000), &grant)
        };
        assert_eq!(at(6.0), verdict);
        assert_eq!(at(3.9), Verdict { scale: Scale { replicas: 3, limit }, clip: Some(Clip::Grant) });
        assert_eq!(at(0.25).scale, Scale { replicas: 2, limit });
    }

    proptest! {
        #[test]
        fn a_grant_is_kept_wherever_the_bounds_allow(
            replicas in 1..=10_u32, cpu in 100..=4000_u64, share in 0.2..=1.0_f64, cores in 0.0..60.0_f64,
        ) {
            let request = MilliCores((cpu as f64 * share).ceil() as u64);
            let verdict = Verdict { scale: scale(replicas, cpu, 1000), clip: None };
            let after = cut(&bounds(), verdict, request, &granted(cores)).scale;
            prop_assert!(bounds().contains(&after) && after.replicas <= replicas && after.limit.cpu.0 <= cpu);
            let reserved = f64::from(after.replicas) * after.limit.cpu.cores() * request.0 as f64 / cpu as f64;
            let least = after.replicas == 1 && after.limit.cpu.0 == 100;
            prop_assert!(reserved <= cores + 1e-6 || least, "{after:?} reserves {reserved} of {cores}");
        }

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
