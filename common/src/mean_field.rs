//! The mean field: what all the other agents do, as a few statistics.
//!
//! A pool's statistics are sums of exact integers ([`crate::fixed`]): to add, replace or take away one agent's part costs
//! the same however many there are, and no history of changes can leave a rounding error behind. The auxiliary state g of
//! one agent is the pool without it.

use serde::{Deserialize, Serialize};

use crate::{
    action::Action,
    fixed::{Fixed, Unit, sqrt_of_products, sum_to_f64, whole},
    identity::Category,
    reward::Reward,
    scarcity::Weight,
    state::LocalState,
};

mod aspects;
mod detail;
mod layout;

pub use aspects::Aspects;
pub use detail::{Detail, Details, Kind, PERCENTILES};
pub use layout::{Form, Layout};

/// How many fields the mean field follows.
pub const FIELDS: usize = 6;

/// How many numbers one virtual agent gives to a network.
pub const FEATURES: usize = 2 * FIELDS;

/// Bits of a weight behind the point: with a weight of at most 1000 it fits 32 bits.
const WEIGHT_BITS: u32 = 22;

/// What one agent puts into its pool's mean field. A coordinator keeps up to two for each of a million agents, so it is
/// kept small.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Contribution {
    reward: Fixed,
    /// CPU limit, memory limit, SP, RU.
    shares: [Unit; 4],
    /// The rest of l, which only [`Details`] follow: RU of CPU and of memory, AC, NC.
    rest: [Unit; 4],
    /// How much it counts in a weighted team reward, in multiples of 2^-22.
    weight: u32,
    /// Vertical and horizontal.
    actions: [i8; 2],
    category: Category,
}

impl Contribution {
    /// The contribution of one heartbeat. RU is the mean of CPU and memory utilisation.
    #[must_use]
    pub fn new(state: &LocalState, action: &Action, reward: Reward) -> Self {
        let utilisation = (state.cpu_utilisation.get() + state.memory_utilisation.get()) / 2.0;
        let shares = [state.cpu_limit.get(), state.memory_limit.get(), state.slo_preservation.get(), utilisation];
        let rest = [state.cpu_utilisation, state.memory_utilisation, state.arrival_change, state.replicas];
        Self {
            reward: Fixed::nearest(reward.get()),
            shares: shares.map(Unit::nearest),
            rest: rest.map(|unit| Unit::nearest(unit.get())),
            weight: 1 << WEIGHT_BITS,
            // Both are within [-2, 2].
            actions: [action.vertical() as i8, action.horizontal() as i8],
            category: Category::Cpu,
        }
    }

    /// CPU limit, memory limit, vertical action, horizontal action, SP, RU as raw integers within 2^31, so that their
    /// squares fit too.
    fn fields(&self) -> [i64; FIELDS] {
        let [cpu_limit, memory_limit, preservation, utilisation] = self.shares.map(Unit::raw);
        let [vertical, horizontal] = self.actions.map(whole);
        [cpu_limit, memory_limit, vertical, horizontal, preservation, utilisation]
    }

    /// The same from an agent of this weight; without one it counts as 1.
    #[must_use]
    pub fn weighing(self, weight: Weight) -> Self {
        // A weight is at most 1000, so this fits.
        Self { weight: (weight.get() * f64::from(1_u32 << WEIGHT_BITS)).round_ties_even() as u32, ..self }
    }

    /// The same from an agent of a category; without one it counts as CPU-intensive.
    #[must_use]
    pub fn of(self, category: Category) -> Self {
        Self { category, ..self }
    }
}

impl Contribution {
    fn weighted(&self) -> i128 {
        i128::from(self.weight) * i128::from(self.reward.raw())
    }
}

/// Exact statistics over a set of contributions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Sums {
    count: u64,
    /// Within 2^63 for fewer than 2^32 agents, since each is within 2^31.
    sums: [i64; FIELDS],
    squares: [i128; FIELDS],
    rewards: i128,
    /// Of the weights, in multiples of 2^-22.
    weights: u64,
    /// Of the products of weight and reward, in multiples of 2^-52.
    weighted: i128,
}

impl Sums {
    /// Takes a contribution in.
    pub fn add(&mut self, one: &Contribution) {
        self.count += 1;
        self.rewards += i128::from(one.reward.raw());
        self.weights += u64::from(one.weight);
        self.weighted += one.weighted();
        for ((sum, square), field) in self.sums.iter_mut().zip(&mut self.squares).zip(one.fields()) {
            *sum += field;
            *square += i128::from(field * field);
        }
    }

    /// Puts a contribution in the place of one that was taken in before: the same as taking the one out and the other in,
    /// at half the price.
    pub fn replace(&mut self, old: &Contribution, new: &Contribution) {
        self.rewards += i128::from(new.reward.raw() - old.reward.raw());
        self.weights = self.weights.saturating_sub(old.weight.into()) + u64::from(new.weight);
        self.weighted += new.weighted() - old.weighted();
        let fields = old.fields().into_iter().zip(new.fields());
        for ((sum, square), (old, new)) in self.sums.iter_mut().zip(&mut self.squares).zip(fields) {
            *sum += new - old;
            // Both squares are within 2^62.
            *square += i128::from(new * new - old * old);
        }
    }

    /// Takes a contribution out that was taken in before.
    pub fn remove(&mut self, one: &Contribution) {
        self.count = self.count.saturating_sub(1);
        self.rewards -= i128::from(one.reward.raw());
        self.weights = self.weights.saturating_sub(one.weight.into());
        self.weighted -= one.weighted();
        for ((sum, square), field) in self.sums.iter_mut().zip(&mut self.squares).zip(one.fields()) {
            *sum -= field;
            *square -= i128::from(field * field);
        }
    }

    /// The same set without one contribution that is in it: leave-one-out.
    #[must_use]
    pub fn without(&self, one: &Contribution) -> Self {
        let mut rest = *self;
        rest.remove(one);
        rest
    }

    /// How many contributions are in.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// The team reward: the mean reward, `None` over nobody.
    #[must_use]
    pub fn mean_reward(&self) -> Option<f64> {
        (self.count > 0).then(|| sum_to_f64(self.rewards) / self.count as f64)
    }

    /// The team reward weighted by priority: sum(w r) / sum(w), `None` over nobody. Where all weights are the same power
    /// of two, it is the plain mean to the bit.
    #[must_use]
    pub fn weighted_reward(&self) -> Option<f64> {
        (self.weights > 0).then(|| sum_to_f64(self.weighted) / self.weights as f64)
    }

    /// The statistics as an agent sees them; all zero over nobody.
    #[must_use]
    pub fn auxiliary(&self) -> AuxiliaryState {
        let [cpu_limit, memory_limit, vertical, horizontal, slo_preservation, utilisation] =
            std::array::from_fn(|field| self.moments(field));
        AuxiliaryState {
            others: self.count,
            cpu_limit,
            memory_limit,
            vertical,
            horizontal,
            slo_preservation,
            utilisation,
            detail: None,
        }
    }

    fn moments(&self, field: usize) -> Moments {
        if self.count == 0 {
            return Moments::default();
        }
        let (count, sum, square) = (i128::from(self.count), i128::from(self.sums[field]), self.squares[field]);
        Moments {
            sum: sum_to_f64(sum),
            mean: sum_to_f64(sum) / self.count as f64,
            // n^2 var = n sum(x^2) - sum(x)^2, exact in integers, so equal values give exactly 0.
            std: sqrt_of_products(count * square - sum * sum) / self.count as f64,
        }
    }
}

/// Sum, mean and (population) standard deviation of one field over the other agents.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Moments {
    /// Sum.
    pub sum: f64,
    /// Mean.
    pub mean: f64,
    /// Standard deviation.
    pub std: f64,
}

/// The auxiliary global state g of one agent: the virtual agent that stands for all the others.
#[derive(Debug, Clone, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct AuxiliaryState {
    /// How many agents the statistics are over.
    pub others: u64,
    /// CPU limits, as shares of their upper bounds.
    pub cpu_limit: Moments,
    /// Memory limits, as shares of their upper bounds.
    pub memory_limit: Moments,
    /// Vertical actions, -2 to 2.
    pub vertical: Moments,
    /// Horizontal actions, -1 to 1.
    pub horizontal: Moments,
    /// SLO preservation.
    pub slo_preservation: Moments,
    /// Mean of CPU and memory utilisation.
    pub utilisation: Moments,
    /// More about the others, for agents that agreed on it at registration or whose heartbeat asks for it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub detail: Option<Box<Detail>>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{action::Step, state::Unit};

    fn contribution(cpu_limit: f64, sp: f64, replicas: Step, reward: f64) -> Contribution {
        let state = LocalState {
            cpu_limit: Unit::clamped(cpu_limit),
            slo_preservation: Unit::clamped(sp),
            ..LocalState::default()
        };
        Contribution::new(&state, &Action { replicas, ..Action::HOLD }, Reward::try_from(reward).unwrap())
    }

    #[test]
    fn a_single_agent_has_nobody_else() {
        let own = contribution(0.5, 1.0, Step::Up, 0.7);
        let mut pool = Sums::default();
        pool.add(&own);
        assert_eq!(pool.without(&own), Sums::default());
        assert_eq!(pool.without(&own).auxiliary(), AuxiliaryState::default());
        assert_eq!(Sums::default().mean_reward(), None);
        assert!((pool.mean_reward().unwrap() - 0.7).abs() < 1e-9);
    }

    #[test]
    fn leave_one_out_by_hand() {
        let own = contribution(1.0, 0.0, Step::Down, -5.0);
        let others = [contribution(0.25, 0.5, Step::Up, 1.0), contribution(0.75, 1.0, Step::Up, 0.0)];
        let mut pool = Sums::default();
        for one in others.iter().chain([&own]) {
            pool.add(one);
        }
        let g = pool.without(&own).auxiliary();
        assert_eq!(g.others, 2);
        assert_eq!(g.cpu_limit, Moments { sum: 1.0, mean: 0.5, std: 0.25 });
        assert_eq!(g.slo_preservation, Moments { sum: 1.5, mean: 0.75, std: 0.25 });
        assert_eq!(g.horizontal, Moments { sum: 2.0, mean: 1.0, std: 0.0 });
        assert!((pool.mean_reward().unwrap() + 4.0 / 3.0).abs() < 1e-9, "the team reward is over everybody");
        assert_eq!(g.inputs(&Layout::of(Form::Sums))[..6], [1.0, 0.0, 0.0, 2.0, 0.75, 0.0]);
        assert_eq!(g.inputs(&Layout::of(Form::Means))[..6], [0.5, 0.0, 0.0, 1.0, 0.75, 0.0]);
    }

    #[test]
    fn equal_values_have_exactly_no_spread() {
        let mut pool = Sums::default();
        for _ in 0..1000 {
            pool.add(&contribution(0.1, 0.3, Step::Stay, 0.1));
        }
        assert_eq!(pool.auxiliary().cpu_limit.std, 0.0);
        assert_eq!(pool.auxiliary().slo_preservation.std, 0.0);
    }
}
