//! More about the other agents than g says: one virtual agent a category, percentiles, and the means of all of l.
//!
//! Kept beside the sums and as exactly: sums of integers, and counts in bins of 1/32, which an agent that leaves takes out
//! again one by one. Only answers to agents that ask carry it.

use serde::{Deserialize, Serialize};

use super::{Aspects, Contribution, FIELDS, Moments, Sums};
use crate::{
    fixed::{Unit, sum_to_f64},
    identity::Category,
};

/// The percentiles that [`Detail::percentiles`] holds, in hundredths.
pub const PERCENTILES: [u64; 3] = [10, 50, 90];

/// Bins of a field: multiples of 1/32 within [-2, 2].
const BINS: usize = 129;
/// The bin of 0.
const MIDDLE: i64 = 64;
/// Raw fixed-point units of a bin: 2^30 / 32.
const BIN_BITS: u32 = 25;

/// What is followed beyond [`Sums`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Details {
    count: u64,
    /// l, in the order of [`crate::state::LocalState::features`], SP, AC and so on.
    states: [i64; 7],
    categories: [Sums; Category::ALL.len()],
    bins: [[u32; BINS]; FIELDS],
}

impl Default for Details {
    fn default() -> Self {
        Self { count: 0, states: [0; 7], categories: Default::default(), bins: [[0; BINS]; FIELDS] }
    }
}

/// The others as an agent that asks sees them: the parts that were agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Detail {
    /// Means of the seven numbers of l: SP, CPU and memory utilisation, AC, CPU and memory limit, NC.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub states: Option<[f64; 7]>,
    /// One virtual agent a category: CPU-, memory- and I/O-intensive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub categories: Option<[Kind; 3]>,
    /// The 10th, 50th and 90th percentile of each field of g (CPU limit, memory limit, vertical and horizontal actions,
    /// SP, utilisation), to the nearest 1/32.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub percentiles: Option<[[f64; 3]; 6]>,
}

/// All others of one category.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Kind {
    /// How many there are.
    pub others: u64,
    /// The fields of g, in its order.
    pub fields: [Moments; 6],
}

impl Details {
    /// Takes a contribution in.
    pub fn add(&mut self, one: &Contribution) {
        self.count += 1;
        for (sum, value) in self.states.iter_mut().zip(one.states()) {
            *sum += value;
        }
        self.categories[one.category as usize].add(one);
        for (bins, field) in self.bins.iter_mut().zip(one.fields()) {
            let bin = &mut bins[bin(field)];
            *bin = bin.saturating_add(1);
        }
    }

    /// Takes a contribution out that was taken in before.
    pub fn remove(&mut self, one: &Contribution) {
        self.count = self.count.saturating_sub(1);
        for (sum, value) in self.states.iter_mut().zip(one.states()) {
            *sum -= value;
        }
        self.categories[one.category as usize].remove(one);
        for (bins, field) in self.bins.iter_mut().zip(one.fields()) {
            let bin = &mut bins[bin(field)];
            *bin = bin.saturating_sub(1);
        }
    }

    /// Puts a contribution in the place of one that was taken in before.
    pub fn replace(&mut self, old: &Contribution, new: &Contribution) {
        for (sum, (old, new)) in self.states.iter_mut().zip(old.states().into_iter().zip(new.states())) {
            *sum += new - old;
        }
        if old.category == new.category {
            self.categories[new.category as usize].replace(old, new);
        } else {
            self.categories[old.category as usize].remove(old);
            self.categories[new.category as usize].add(new);
        }
        for (bins, (old, new)) in self.bins.iter_mut().zip(old.fields().into_iter().zip(new.fields())) {
            let (old, new) = (bin(old), bin(new));
            if old != new {
                bins[old] = bins[old].saturating_sub(1);
                bins[new] = bins[new].saturating_add(1);
            }
        }
    }

    /// What an agent is told of these parts, if any; `own` is what it has in here itself.
    #[must_use]
    pub fn detail(&self, own: Option<&Contribution>, aspects: Aspects) -> Option<Box<Detail>> {
        if aspects.is_none() {
            return None;
        }
        let mut others = self.clone();
        if let Some(own) = own {
            others.remove(own);
        }
        let count = others.count.max(1) as f64;
        let told = |aspect: Aspects| aspects.has(aspect);
        let kind = |sums: Sums| Kind { others: sums.count(), fields: std::array::from_fn(|field| sums.moments(field)) };
        let percentiles =
            |field: usize| PERCENTILES.map(|percent| percentile(&others.bins[field], others.count, percent));
        Some(Box::new(Detail {
            states: told(Aspects::STATES).then(|| others.states.map(|sum| sum_to_f64(sum.into()) / count)),
            categories: told(Aspects::CATEGORIES).then(|| others.categories.map(kind)),
            percentiles: told(Aspects::PERCENTILES).then(|| std::array::from_fn(percentiles)),
        }))
    }
}

impl Contribution {
    /// l as raw integers, in the order in which networks see it.
    fn states(&self) -> [i64; 7] {
        let [cpu_limit, memory_limit, preservation, _] = self.shares;
        let [cpu, memory, change, replicas] = self.rest;
        [preservation, cpu, memory, change, cpu_limit, memory_limit, replicas].map(Unit::raw)
    }
}

/// The bin nearest to a raw value.
fn bin(raw: i64) -> usize {
    let nearest = (raw + (1 << (BIN_BITS - 1))) >> BIN_BITS;
    (nearest + MIDDLE).clamp(0, BINS as i64 - 1) as usize
}

/// The smallest binned value that at least so many hundredths do not exceed; 0 over nobody.
fn percentile(bins: &[u32; BINS], count: u64, percent: u64) -> f64 {
    if count == 0 {
        return 0.0;
    }
    let rank = (count * percent).div_ceil(100).max(1);
    let mut below = 0;
    for (bin, held) in bins.iter().enumerate() {
        below += u64::from(*held);
        if below >= rank {
            return (bin as f64 - MIDDLE as f64) / 32.0;
        }
    }
    0.0
}
