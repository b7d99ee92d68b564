//! What of a claim counts: as much as the work bears out.

use crate::{fixed::Fixed, scarcity::Claim};

/// A claim counts up to so many times the offered work, and a little more for those with hardly any. What is wanted
/// beyond is comfort, which nobody else is cut for.
pub const EVIDENCE: f64 = 1.5;
/// What may be claimed beyond [`EVIDENCE`]: cores, and gibibytes.
pub const EVIDENCE_FLOOR: [f64; 2] = [1.0, 4.0];
/// Gibibytes that may be claimed for each core of offered work.
pub const EVIDENCE_MEMORY: f64 = 24.0;
/// The bare need of CPU: so many times the offered work, and so many cores for those with hardly any.
pub const BARE: f64 = 1.2;
/// See [`BARE`].
pub const BARE_FLOOR: f64 = 0.3;

/// What one agent is taken to need: its claim within the evidence, as exact numbers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Need {
    /// Cores and memory: the claim, and what of it counts.
    pub(super) asked: [i64; 2],
    pub(super) wanted: [i64; 2],
    /// What of that is no comfort; memory never is.
    pub(super) bare: [i64; 2],
    pub(super) held: [i64; 2],
    pub(super) offered: i64,
    pub(super) weight: i64,
    pub(super) pending: u32,
    pub(super) nodes: i64,
    /// Whether the claim was above the evidence.
    pub capped: bool,
}

impl From<&Claim> for Need {
    fn from(claim: &Claim) -> Self {
        let offered = claim.offered.get();
        let fixed = |value: f64| Fixed::nearest(value).raw();
        let most =
            [fixed(EVIDENCE * offered + EVIDENCE_FLOOR[0]), fixed(EVIDENCE_MEMORY * offered + EVIDENCE_FLOOR[1])];
        let asked = [claim.wanted.cores.fixed(), claim.wanted.memory_gib.fixed()];
        let held = [claim.held.cores.fixed(), claim.held.memory_gib.fixed()];
        // Whoever asks for less than its work needs at least that.
        let wanted = [asked[0].min(most[0]).max(claim.offered.fixed()), asked[1].min(most[1])];
        Self {
            asked,
            wanted,
            bare: [wanted[0].min(fixed(BARE * offered + BARE_FLOOR)), wanted[1]],
            held,
            offered: claim.offered.fixed(),
            weight: claim.weight.fixed(),
            pending: claim.pending.get(),
            nodes: claim.node_utilisation.fixed(),
            capped: (0..2).any(|which| asked[which] > most[which]),
        }
    }
}
