//! Streams of seeds by purpose, for [`mix`], in one place so that no two of them meet. Episodes of a training take theirs
//! from 0 upwards.

/// Networks, one after another.
pub(super) const NETWORKS: u64 = 1 << 48;
/// Agents of a training.
pub(super) const AGENTS: u64 = 1 << 49;
/// How far limits of an episode are above requests.
pub(super) const OVERCOMMITS: u64 = 1 << 50;
/// Base models among the networks.
pub(super) const BASES: usize = 1 << 32;

/// Days of a contest: nobody trains on them.
pub const HELD_OUT_DAYS: u64 = 1 << 40;
/// The hours before a day of a contest.
pub const HISTORY: u64 = 1 << 41;
/// The day on which variants are compared: nobody trains on it either.
pub const HELD_OUT_DAY: u64 = 1 << 43;
/// Days of scarcity in a demonstration.
pub const SCARCE_DAYS: u64 = 1 << 42;
/// Days of experiments with policies, for tuning or for counting as their seeds go.
pub const EXPERIMENT: u64 = 1 << 45;
/// Days of experiments in which capacity is scarce.
pub const REGIMES: u64 = 1 << 44;
/// Traces of the forecast network's recipe from here on are for looking at; training takes the first ones.
pub const HELD_OUT_TRACES: usize = 1 << 20;

/// Independent seeds from one seed (SplitMix64).
#[must_use]
pub fn mix(seed: u64, stream: u64) -> u64 {
    let mut z = seed.wrapping_add(stream.wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
