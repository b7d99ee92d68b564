//! The nodes that a pool's agents report, each once, where its capacity is theirs.
//!
//! Every claim may name one node of its agent, another one each time. A node counts while anybody names it: for
//! [`LIVES`] after the last time. What all of them have together is known once they have been listened to for so long, since
//! before that some may not have been named yet, and a part of the nodes must not pass for all of them.
//!
//! Of the last words of a few different agents about a node the one in the middle counts, so that no single one of them can
//! set it where three or more run there. There is space for so many nodes and words from the start, so that heartbeats
//! allocate nothing; nodes beyond are passed over.

use std::collections::HashMap;

use meanfield_common::{
    fixed::{Fixed, sum_to_f64},
    scarcity::{Amount, Capacity, Node, NodeId, PoolCores, PoolMemory},
};

/// How many nodes count at most.
const MOST: usize = 4096;
/// How many agents' words about a node are kept, the latest of each.
const WORDS: usize = 3;
/// For how many milliseconds a word counts: twenty of an agent's usual steps, so that one whose replicas are on twenty
/// nodes names each in time.
const LIVES: u64 = 300_000;

#[derive(Debug, Default)]
pub(crate) struct Nodes {
    all: HashMap<NodeId, Known>,
    sum: [i128; 2],
    heard: Option<Heard>,
}

/// Since when nodes have been named without so long a pause that all would be forgotten, and when one was named last.
#[derive(Debug, Clone, Copy)]
struct Heard {
    since: u64,
    last: u64,
}

#[derive(Debug, Clone, Copy, Default)]
struct Known {
    has: [i64; 2],
    words: [Option<Word>; WORDS],
}

/// What an agent said of a node last.
#[derive(Debug, Clone, Copy)]
struct Word {
    agent: u32,
    said: [i64; 2],
    at: u64,
}

impl Known {
    /// Takes a word in, in the place of the agent's last one, or of the oldest.
    fn hear(&mut self, word: Word) {
        let place = self.words.iter_mut().min_by_key(|known| match known {
            Some(known) if known.agent == word.agent => (0, 0),
            None => (1, 0),
            Some(known) => (2, known.at),
        });
        if let Some(place) = place {
            *place = Some(word);
        }
        self.settle(word.at);
    }

    /// Forgets words that are too old, and takes the middle of the others, for CPU and memory apart: of two the lower one.
    fn settle(&mut self, now: u64) {
        for word in &mut self.words {
            *word = word.filter(|word| now.saturating_sub(word.at) <= LIVES);
        }
        self.has = [0, 1].map(|which| {
            let (mut said, mut count) = ([0; WORDS], 0);
            for word in self.words.iter().flatten() {
                said[count] = word.said[which];
                count += 1;
            }
            said[..count].sort_unstable();
            said[count.saturating_sub(1) / 2]
        });
    }

    fn lives(&self) -> bool {
        self.words.iter().any(Option::is_some)
    }
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
    pub(crate) fn report(&mut self, node: &Node, agent: u32, now: u64) {
        if self.all.len() >= MOST && !self.all.contains_key(&node.id) {
            return;
        }
        let before = self.heard.filter(|heard| now.saturating_sub(heard.last) <= LIVES);
        self.heard = Some(Heard { since: before.map_or(now, |heard| heard.since), last: now });
        let known = self.all.entry(node.id).or_default();
        let had = known.has;
        known.hear(Word { agent, said: fixed(&node.allocatable), at: now });
        change(&mut self.sum, had, known.has);
    }

    /// Lets go of what nobody says any more.
    pub(crate) fn expire(&mut self, now: u64) {
        let sum = &mut self.sum;
        self.all.retain(|_, known| {
            let had = known.has;
            known.settle(now);
            change(sum, had, known.has);
            known.lives()
        });
    }

    /// What all of them have together; none until that is known.
    pub(crate) fn capacity(&self, now: u64) -> Option<Capacity> {
        let known = self.heard.is_some_and(|heard| now.saturating_sub(heard.since) >= LIVES) && !self.all.is_empty();
        let [cores, memory] = self.sum.map(sum_to_f64);
        let capacity = || Capacity { cores: PoolCores::clamped(cores), memory_gib: PoolMemory::clamped(memory) };
        known.then(capacity)
    }
}

fn change(sum: &mut [i128; 2], had: [i64; 2], has: [i64; 2]) {
    *sum = [0, 1].map(|which| sum[which] + i128::from(has[which]) - i128::from(had[which]));
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::scarcity::{Cores, Gibibytes};

    fn node(id: u64, cores: f64, memory: f64) -> Node {
        let allocatable = Amount { cores: Cores::clamped(cores), memory_gib: Gibibytes::clamped(memory) };
        Node { id: NodeId(id), allocatable }
    }

    fn size(nodes: &Nodes, now: u64) -> Option<(f64, f64)> {
        nodes.capacity(now).map(|capacity| (capacity.cores.get(), capacity.memory_gib.get()))
    }

    #[test]
    fn a_node_counts_once_while_anybody_names_it() {
        let mut nodes = Nodes::default();
        assert_eq!(size(&nodes, 9 * LIVES), None);
        for now in [0, 1000, LIVES] {
            nodes.report(&node(1, 8.0, 32.0), 1, now);
        }
        nodes.report(&node(2, 4.0, 16.0), 2, LIVES);
        assert_eq!((size(&nodes, LIVES), nodes.len()), (Some((12.0, 48.0)), 2));
        nodes.report(&node(1, 8.0, 32.0), 2, 2 * LIVES);
        nodes.expire(2 * LIVES);
        assert_eq!(size(&nodes, 2 * LIVES), Some((12.0, 48.0)), "just in time");
        nodes.expire(2 * LIVES + 1);
        assert_eq!(size(&nodes, 2 * LIVES + 1), Some((8.0, 32.0)));
        nodes.expire(4 * LIVES);
        assert_eq!((size(&nodes, 4 * LIVES), nodes.sum), (None, [0; 2]));
    }

    #[test]
    fn nothing_is_known_until_all_had_the_time_to_be_named() {
        let mut nodes = Nodes::default();
        nodes.report(&node(1, 8.0, 32.0), 1, 1000);
        nodes.report(&node(2, 8.0, 32.0), 1, LIVES);
        assert_eq!(size(&nodes, LIVES + 999), None);
        assert_eq!(size(&nodes, LIVES + 1000), Some((16.0, 64.0)));
        // After a silence in which all were forgotten it begins anew, with or without a look in between.
        nodes.report(&node(1, 8.0, 32.0), 1, 2 * LIVES + 1);
        nodes.expire(2 * LIVES + 1);
        assert_eq!(size(&nodes, 2 * LIVES + 1), None);
        assert_eq!(size(&nodes, 3 * LIVES + 1), Some((8.0, 32.0)));
    }

    #[test]
    fn of_different_agents_words_the_middle_one_counts() {
        let mut nodes = Nodes::default();
        let has = |nodes: &Nodes| nodes.all[&NodeId(1)].has.map(|raw| sum_to_f64(raw.into()));
        nodes.report(&node(1, 8.0, 32.0), 1, 0);
        nodes.report(&node(1, 6.0, 40.0), 2, 10);
        assert_eq!(has(&nodes), [6.0, 32.0], "of two the lower one, part by part");
        nodes.report(&node(1, 7.0, 36.0), 3, 20);
        assert_eq!(has(&nodes), [7.0, 36.0]);
        // One that lies, again and again, in either direction.
        for (turn, lie) in [1e6, 0.001, 1e6, 1e6, 0.001, 0.001].into_iter().enumerate() {
            nodes.report(&node(1, lie, lie), 4, 30 + turn as u64);
            let [cores, memory] = has(&nodes);
            assert!((6.0..=8.0).contains(&cores) && (32.0..=40.0).contains(&memory), "{cores} {memory}");
        }
        // It has grown: what nobody says any more is forgotten.
        nodes.report(&node(1, 16.0, 64.0), 1, LIVES + 100);
        assert_eq!((has(&nodes), nodes.sum.map(sum_to_f64)), ([16.0, 64.0], [16.0, 64.0]));
    }

    #[test]
    fn there_are_not_more_than_there_is_space_for() {
        let mut nodes = Nodes::default();
        nodes.prepare();
        let counted = allocation_counter::measure(|| {
            for id in 0..3 * MOST as u64 {
                nodes.report(&node(id, 1.0, 1.0), 1, 0);
            }
            // They come and go for long.
            for time in 1..20 {
                nodes.expire(time * 2 * LIVES);
                for id in 0..MOST as u64 {
                    nodes.report(&node(id * time, 1.0, 1.0), 1, time * 2 * LIVES);
                }
            }
        });
        assert_eq!((nodes.sum.map(sum_to_f64), counted.count_total), ([MOST as f64; 2], 0));
    }
}
