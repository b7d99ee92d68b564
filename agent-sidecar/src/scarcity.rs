//! An agent's part in scarcity: what it claims of its pool, and what it was last told.

use meanfield_common::{
    budget::Moving,
    observation::Observation,
    resources::{MilliCores, Scale},
    scarcity::{Amount, Claim, Cores, Gibibytes, Pods, Scarcity, Share, Weight},
};

/// How fast the estimate of CPU per request follows what is measured.
const FOLLOW: f64 = 0.2;
/// Steps without an answer after which a grant no longer holds, if the coordinator did not say for how long it does: about
/// as long as the coordinator itself remembers an agent that is silent, and counts on it to yield.
const HOLDS: u32 = 8;
/// What is left of a price after each step without an answer.
const FADE: f64 = 0.8;

/// Estimates what its claims are made of.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Claimant {
    /// CPU seconds of a request.
    cpu: Option<f64>,
    /// CPU request over limit where the policy does not ask for one.
    share: Option<f64>,
    /// What the last decision asked for.
    wish: Option<Amount>,
}

impl Claimant {
    /// The claim of a step; `asked` is the CPU request that was asked for, if apart from the limit.
    pub(crate) fn claim(&mut self, seen: &Observation, asked: bool, weight: Weight, paused: bool) -> Claim {
        // While requests are given up on, much of the CPU goes into what never completes.
        if let Some(measured) = seen.cpu_seconds_per_request().filter(|_| seen.dropped <= 0.0 || self.cpu.is_none()) {
            let cpu = self.cpu.get_or_insert(measured);
            *cpu += FOLLOW * (measured - *cpu);
        }
        if !asked && seen.scale.limit.cpu.0 > 0 {
            self.share = Some(seen.request.cpu.0 as f64 / seen.scale.limit.cpu.0 as f64);
        }
        let placed = seen.scale.replicas.saturating_sub(seen.pending);
        let held = amount(placed, seen.request.cpu, seen.scale.limit.memory.as_mebi());
        let wanted = if paused { Some(held) } else { self.wish };
        let waiting = if seen.seconds > 0.0 { seen.backlog / seen.seconds } else { 0.0 };
        Claim {
            wanted: wanted.unwrap_or(held),
            held,
            offered: Cores::clamped((seen.arrival_rate + waiting) * self.cpu.unwrap_or(0.0)),
            weight,
            pending: Pods::clamped(seen.pending),
            node_utilisation: Share::clamped(seen.node_utilisation),
            // Said only where it is asked for.
            node: None,
        }
    }

    /// Keeps what a decision asked for, before any grant cut it.
    pub(crate) fn wished(&mut self, scale: &Scale, request: Option<MilliCores>) {
        let cpu = self.request(scale.limit.cpu, request);
        self.wish = Some(amount(scale.replicas, cpu, scale.limit.memory.as_mebi()));
    }

    /// The CPU request of a replica with this limit.
    pub(crate) fn request(&self, limit: MilliCores, asked: Option<MilliCores>) -> MilliCores {
        let usual = || MilliCores((limit.0 as f64 * self.share.unwrap_or(1.0)).ceil() as u64);
        asked.unwrap_or_else(usual).min(limit)
    }
}

fn amount(replicas: u32, cpu: MilliCores, mebi: f64) -> Amount {
    let replicas = f64::from(replicas);
    Amount { cores: Cores::clamped(replicas * cpu.cores()), memory_gib: Gibibytes::clamped(replicas * mebi / 1024.0) }
}

/// What the coordinator said last, and how long ago.
///
/// Without it the price fades from step to step, since it is a hint that grows old. A grant holds whole for as long as
/// it was given, or for [`HOLDS`] steps, because others were promised what it withholds and half a grant would serve nobody, and then not at
/// all: a workload must not stay small for want of somebody to lift its cap. Its own guard stays in any case.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Told {
    scarcity: Option<Scarcity>,
    /// What may be moved of the pool's capacity; none where nobody limits that.
    allowance: Option<Moving>,
    missed: u32,
    /// Seconds since it was said, as the workload's time passes.
    silent: f64,
}

impl Told {
    pub(crate) fn hear(&mut self, scarcity: Option<Scarcity>, allowance: Option<Moving>) {
        *self = Self { scarcity, allowance, missed: 0, silent: 0.0 };
    }

    /// A step of so many seconds without an answer.
    pub(crate) fn miss(&mut self, seconds: f64) {
        self.missed = self.missed.saturating_add(1);
        self.silent += seconds.max(0.0);
        let lapsed = self.missed >= HOLDS;
        // An allowance is for one step. Without a new one nothing may be moved, as long as a grant would hold.
        self.allowance = self.allowance.map(|_| Moving::default()).filter(|_| !lapsed);
        if let Some(scarcity) = &mut self.scarcity {
            scarcity.price *= FADE;
            let lapsed = scarcity.valid_ms.map_or(lapsed, |valid| self.silent * 1000.0 >= valid as f64);
            scarcity.grant = scarcity.grant.filter(|_| !lapsed);
        }
    }

    /// Whether the coordinator wants to know what nodes have.
    pub(crate) fn wants_nodes(&self) -> bool {
        self.missed == 0 && self.scarcity.is_some_and(|scarcity| scarcity.nodes)
    }

    pub(crate) fn now(&self) -> Option<Scarcity> {
        self.scarcity
    }

    pub(crate) fn allowance(&self) -> Option<Moving> {
        self.allowance
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::{
        resources::{Bytes, Resources},
        scarcity::{Grant, Headroom},
    };

    fn seen() -> Observation {
        let limit = Resources { cpu: MilliCores(1500), memory: Bytes::mebi(512) };
        Observation {
            seconds: 10.0,
            arrival_rate: 20.0,
            throughput: 20.0,
            cpu_used: MilliCores(2000),
            backlog: 50.0,
            scale: Scale { replicas: 4, limit },
            request: Resources { cpu: MilliCores(1000), ..limit },
            ready: 3,
            pending: 1,
            ..Observation::default()
        }
    }

    #[test]
    fn claims_are_by_requests_and_work_includes_what_waits() {
        let mut claimant = Claimant::default();
        let first = claimant.claim(&seen(), false, Weight::default(), false);
        assert_eq!((first.wanted, first.held.cores.get(), first.held.memory_gib.get()), (first.held, 3.0, 1.5));
        // 0.1 CPU seconds a request, 20 a second and 5 of those that wait.
        assert!((first.offered.get() - 2.5).abs() < 1e-12);
        let wish = Scale { replicas: 6, limit: Resources { cpu: MilliCores(3000), memory: Bytes::mebi(1024) } };
        claimant.wished(&wish, None);
        let claim = claimant.claim(&seen(), false, Weight::default(), false);
        assert_eq!((claim.wanted.cores.get(), claim.wanted.memory_gib.get()), (12.0, 6.0));
        claimant.wished(&wish, Some(MilliCores(500)));
        assert_eq!(claimant.claim(&seen(), true, Weight::default(), false).wanted.cores.get(), 3.0);
        let paused = claimant.claim(&seen(), false, Weight::default(), true);
        assert_eq!(paused.wanted, paused.held, "a paused agent claims what it holds");
    }

    #[test]
    fn without_answers_the_price_fades_and_the_grant_ends() {
        let grant = Grant { cores: Some(Cores::clamped(2.0)), memory_gib: None };
        let mut told = Told::default();
        let scarcity =
            Scarcity { headroom: Headroom::default(), price: 1.0, grant: Some(grant), ..Scarcity::default() };
        told.hear(Some(scarcity), Some(Moving::clamped(500, 500)));
        for step in 1..=HOLDS {
            told.miss(15.0);
            let scarcity = told.now().unwrap();
            assert!((scarcity.price - FADE.powi(step as i32)).abs() < 1e-9);
            assert_eq!(scarcity.grant.is_some(), step < HOLDS, "step {step}");
            assert_eq!(told.allowance(), (step < HOLDS).then(Moving::default), "step {step}");
        }
        told.hear(None, None);
        assert_eq!((told.now(), told.allowance()), (None, None));
    }

    #[test]
    fn a_grant_holds_as_long_as_it_was_given() {
        let grant = Grant { cores: Some(Cores::clamped(2.0)), memory_gib: None };
        for (valid_ms, seconds, steps) in [(30_000, 15.0, 2), (30_000, 10.0, 3), (120_000, 15.0, 8), (0, 15.0, 1)] {
            let mut told = Told::default();
            told.hear(Some(Scarcity { grant: Some(grant), valid_ms: Some(valid_ms), ..Scarcity::default() }), None);
            for step in 1..=steps {
                assert!(told.now().unwrap().grant.is_some(), "{valid_ms} ms, before step {step}");
                told.miss(seconds);
            }
            assert_eq!(told.now().unwrap().grant, None, "{valid_ms} ms");
        }
    }
}
