//! What everybody is told about a pool: what a core is worth, and how much room there is.

use super::{FLOOR, Slot, amount};
use crate::{
    fixed::{Fixed, sum_to_f64},
    scarcity::Headroom,
};

/// How far the price moves in a step, for every multiple of the capacity that is asked for too much.
const ASCENT: f64 = 0.5;
/// How much lower the price must be before one who yields to it asks again.
const RETURN: f64 = 0.8;
/// What is left of the price after a step in which everybody's need fits.
const EASE: f64 = 0.5;
/// The highest price.
const HIGHEST_PRICE: f64 = 1e6;

/// One step of dual ascent: the price of a core rises while those who would pay it ask for more than there is.
pub(super) fn ascend(before: f64, size: i64, slots: &mut [Slot], steps: f64) -> f64 {
    let floor = Fixed::nearest(FLOOR[0]).raw();
    let (mut demand, mut weights, mut needs) = (0_i128, 0_i128, 0_i128);
    for slot in slots.iter_mut() {
        let Some(need) = slot.need else { continue };
        let (asks, weight) = (slot.takes[0], slot.weight(&need));
        // Whoever has yielded comes back when the price is clearly below its worth.
        let price = if slot.yields { before / RETURN } else { before };
        slot.yields = price * amount(asks) > amount(weight);
        demand += i128::from(if slot.yields { asks.min(floor) } else { asks });
        weights += i128::from(weight);
        needs += i128::from(asks);
    }
    if needs == 0 {
        return 0.0;
    }
    if needs <= i128::from(size) {
        return before * EASE.powf(steps);
    }
    let typical = weights as f64 / needs as f64;
    let excess = demand as f64 / size as f64 - 1.0;
    (before + ASCENT * steps * typical * excess).clamp(0.0, HIGHEST_PRICE)
}

/// Exact sums over what agents said.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Totals {
    agents: u64,
    held: [i128; 2],
    offered: i128,
    nodes: i128,
    pending: u64,
}

impl Totals {
    pub(super) fn of(slots: &[Slot]) -> Self {
        let mut sum = Self::default();
        for need in slots.iter().filter_map(|slot| slot.need.as_ref()) {
            sum.agents += 1;
            sum.held = [0, 1].map(|which| sum.held[which] + i128::from(need.held[which]));
            sum.offered += i128::from(need.offered);
            sum.nodes += i128::from(need.nodes);
            sum.pending += u64::from(need.pending);
        }
        sum
    }

    pub(super) fn headroom(&self, size: [i64; 2]) -> Headroom {
        let over = |sum: i128, which: usize| sum as f64 / size[which] as f64;
        let agents = self.agents.max(1) as f64;
        Headroom {
            free: (1.0 - over(self.held[0], 0)).clamp(-1.0, 1.0),
            load: over(self.offered, 0).min(2.0),
            saturation: (sum_to_f64(self.nodes) / agents).clamp(0.0, 1.0),
            unscheduled: self.pending as f64 / (self.pending as f64 + agents),
            memory: over(self.held[1], 1).min(2.0),
        }
    }
}
