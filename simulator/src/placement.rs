//! The scheduler: which node a pod's request fits on.

use meanfield_common::resources::{Bytes, Resources};

/// A node's size.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Node {
    /// Cores.
    pub cores: f64,
    /// Memory.
    pub memory: Bytes,
    /// Megabytes per second that its disk reads or writes.
    pub disk: f64,
    /// Megabytes per second of its network.
    pub network: f64,
    /// Megabytes per second of its memory bus.
    pub bus: f64,
}

impl Node {
    /// Megabytes per second of a usual disk.
    pub const DISK_MB: f64 = 400.0;
    /// Megabytes per second of a usual network: 10 Gbit/s.
    pub const NETWORK_MB: f64 = 1250.0;
    /// Megabytes per second of a usual memory bus.
    pub const BUS_MB: f64 = 20_000.0;

    /// A node with a usual disk, network and memory bus.
    #[must_use]
    pub fn new(cores: f64, memory: Bytes) -> Self {
        Self { cores, memory, disk: Self::DISK_MB, network: Self::NETWORK_MB, bus: Self::BUS_MB }
    }
}

/// A node and what the pods on it have reserved.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Ledger {
    pub(crate) node: Node,
    cpu_left: i64,
    memory_left: i64,
}

impl Ledger {
    pub(crate) fn new(node: Node) -> Self {
        Self { node, cpu_left: (node.cores * 1000.0) as i64, memory_left: signed(node.memory.0) }
    }

    fn fits(&self, request: Resources) -> bool {
        signed(request.cpu.0) <= self.cpu_left && signed(request.memory.0) <= self.memory_left
    }

    fn take(&mut self, request: Resources) {
        self.cpu_left -= signed(request.cpu.0);
        self.memory_left -= signed(request.memory.0);
    }

    pub(crate) fn give_back(&mut self, request: Resources) {
        self.cpu_left += signed(request.cpu.0);
        self.memory_left += signed(request.memory.0);
    }

    /// Replaces one reservation by another if that fits.
    pub(crate) fn swap(&mut self, old: Resources, new: Resources) -> bool {
        self.give_back(old);
        let fits = self.fits(new);
        self.take(if fits { new } else { old });
        fits
    }
}

fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX / 4)
}

/// Reserves `request` on the node with the most free CPU that it fits on; `None` leaves the pod pending.
pub(crate) fn place(ledgers: &mut [Ledger], request: Resources) -> Option<usize> {
    let fitting = ledgers.iter_mut().enumerate().filter(|(_, ledger)| ledger.fits(request));
    let (index, ledger) = fitting.max_by_key(|(index, ledger)| (ledger.cpu_left, std::cmp::Reverse(*index)))?;
    ledger.take(request);
    Some(index)
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::resources::MilliCores;

    fn request(cpu: u64, memory: u64) -> Resources {
        Resources { cpu: MilliCores(cpu), memory: Bytes::mebi(memory) }
    }

    #[test]
    fn spreads_until_full_and_then_leaves_pending() {
        let node = Node::new(2.0, Bytes::mebi(1024));
        let mut ledgers = [Ledger::new(node), Ledger::new(node)];
        let placed: Vec<_> = (0..5).map(|_| place(&mut ledgers, request(1000, 100))).collect();
        assert_eq!(placed, [Some(0), Some(1), Some(0), Some(1), None]);
        ledgers[1].give_back(request(1000, 100));
        assert_eq!(place(&mut ledgers, request(1000, 100)), Some(1));
        assert_eq!(place(&mut ledgers, request(0, 2000)), None, "memory counts too");
    }

    #[test]
    fn a_resize_that_does_not_fit_changes_nothing() {
        let mut ledger = Ledger::new(Node::new(2.0, Bytes::mebi(1024)));
        let small = request(500, 100);
        ledger.take(small);
        ledger.take(small);
        assert!(!ledger.swap(small, request(1600, 100)));
        assert!(ledger.swap(small, request(1500, 100)));
        assert!(!ledger.fits(request(1, 0)));
    }
}
