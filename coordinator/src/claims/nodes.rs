//! The nodes that a pool's agents report, each once, where its capacity is theirs.
//!
//! Every claim may name one node of its agent, another one each time. A node counts while anybody names it: for
//! [`LIVES`] after the last time. Where agents disagree about a node, the lowest counts that anybody said of late. There is
//! space for so many nodes from the start, so that heartbeats allocate nothing; what is beyond is passed over.

use std::collections::HashMap;

use meanfield_common::{
    fixed::{Fixed, sum_to_f64},
    scarcity::{Amount, Capacity, Node, NodeId, PoolCores, PoolMemory},
};

/// How many nodes count at most.
const MOST: usize = 4096;
/// For how many milliseconds a node counts after it was named last: twenty of an agent's usual steps, so that one whose
/// replicas are on twenty nodes names each in time.
const LIVES: u64 = 300_000;

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    all: HashMap<NodeId, Known>,
    sum: [i128; 2],
}

#[derive(Debug, Clone, Copy)]
struct Known {
    has: [i64; 2],
    /// When it was named last, and when somebody last said so little.
    named: u64,
    confirmed: u64,
}

fn fixed(amount: &Amount) -> [i64; 2] {
    [amount.cores.get(), amount.memory_gib.get()].map(|amount| Fixed::nearest(amount).raw())
}

impl Nodes {
    /// Makes space for all there may be. Twice as much as is used, so that places of nodes that went are found again
    /// without growing.
    pub(crate) fn prepare(&mut self) {
        self.all.reserve(2 * MOST);
    }

    /// Forgets all of them, and the space.
    pub(crate) fn clear(&mut self) {
        *self = Self::default();
    }

    pub(crate) fn len(&self) -> usize {
        self.all.len()
    }

    /// Takes in what an agent says of one of its nodes.
    pub(crate) fn report(&mut self, node: &Node, now: u64) {
        let said = fixed(&node.allocatable);
        if self.all.len() >= MOST && !self.all.contains_key(&node.id) {
            return;
        }
        let known = self.all.entry(node.id).or_insert(Known { has: [0; 2], named: now, confirmed: 0 });
        let fresh = known.has == [0; 2] || now.saturating_sub(known.confirmed) > LIVES;
        let lowest = [0, 1].map(|which| known.has[which].min(said[which]));
        let has = if fresh { said } else { lowest };
        self.sum = [0, 1].map(|which| self.sum[which] + i128::from(has[which]) - i128::from(known.has[which]));
        // One who says more than counts confirms nothing.
        let confirmed = if has == said { now } else { known.confirmed };
        *known = Known { has, named: now, confirmed };
    }

    /// Lets go of those that nobody names any more.
    pub(crate) fn expire(&mut self, now: u64) {
        let sum = &mut self.sum;
        self.all.retain(|_, known| {
            let lives = now.saturating_sub(known.named) <= LIVES;
            if !lives {
                *sum = [0, 1].map(|which| sum[which] - i128::from(known.has[which]));
            }
            lives
        });
    }

    /// What all of them have together; none while nobody has named any.
    pub(crate) fn capacity(&self) -> Option<Capacity> {
        let [cores, memory] = self.sum.map(sum_to_f64);
        let capacity = || Capacity { cores: PoolCores::clamped(cores), memory_gib: PoolMemory::clamped(memory) };
        (!self.all.is_empty()).then(capacity)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::scarcity::{Cores, Gibibytes};

    fn node(id: u64, cores: f64, memory: f64) -> Node {
        let allocatable = Amount { cores: Cores::clamped(cores), memory_gib: Gibibytes::clamped(memory) };
        Node { id: NodeId(id), allocatable }
    }

    fn size(nodes: &Nodes) -> Option<(f64, f64)> {
        nodes.capacity().map(|capacity| (capacity.cores.get(), capacity.memory_gib.get()))
    }

    #[test]
    fn a_node_counts_once_while_anybody_names_it() {
        let mut nodes = Nodes::default();
        assert_eq!(size(&nodes), None);
        nodes.report(&node(1, 8.0, 32.0), 0);
        nodes.report(&node(1, 8.0, 32.0), 1000);
        nodes.report(&node(2, 4.0, 16.0), 1000);
        assert_eq!((size(&nodes), nodes.len()), (Some((12.0, 48.0)), 2));
        nodes.report(&node(1, 8.0, 32.0), LIVES);
        nodes.expire(LIVES + 1000);
        assert_eq!(size(&nodes), Some((12.0, 48.0)), "just in time");
        nodes.expire(LIVES + 1001);
        assert_eq!(size(&nodes), Some((8.0, 32.0)));
        nodes.expire(3 * LIVES);
        assert_eq!(size(&nodes), None);
    }

    #[test]
    fn of_two_who_disagree_the_lower_one_counts_while_it_is_said() {
        let mut nodes = Nodes::default();
        nodes.report(&node(1, 8.0, 32.0), 0);
        nodes.report(&node(1, 6.0, 40.0), 10);
        assert_eq!(size(&nodes), Some((6.0, 32.0)), "part by part");
        nodes.report(&node(1, 8.0, 32.0), LIVES / 2);
        assert_eq!(size(&nodes), Some((6.0, 32.0)));
        // Nobody has said so little for long: the node has grown.
        nodes.report(&node(1, 8.0, 32.0), LIVES + 11);
        assert_eq!(size(&nodes), Some((8.0, 32.0)));
    }

    #[test]
    fn there_are_not_more_than_there_is_space_for() {
        let mut nodes = Nodes::default();
        nodes.prepare();
        let counted = allocation_counter::measure(|| {
            for id in 0..3 * MOST as u64 {
                nodes.report(&node(id, 1.0, 1.0), 0);
            }
            // They come and go for long.
            for time in 1..20 {
                nodes.expire(time * 2 * LIVES);
                for id in 0..MOST as u64 {
                    nodes.report(&node(id * time, 1.0, 1.0), time * 2 * LIVES);
                }
            }
        });
        assert_eq!((size(&nodes), counted.count_total), (Some((MOST as f64, MOST as f64)), 0));
    }
}
