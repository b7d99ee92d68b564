//! What members ask to move of a budget and what they were let, to be said again if one asks again. Few pools have a
//! budget, so it is kept beside the members: where there is none, it costs them nothing.

use std::sync::atomic::{AtomicBool, Ordering};

use dashmap::DashMap;
use meanfield_common::{budget::Moving, identity::AgentId};

/// Of a member's last heartbeat.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Move {
    pub(super) asked: Option<Moving>,
    pub(super) allowed: Option<Moving>,
}

/// By member; only those who asked or were let. Locked for moments, within a member's entry.
#[derive(Debug, Default)]
pub(super) struct Moves {
    /// Whether there ever was one: until then nobody has to be looked up.
    any: AtomicBool,
    members: DashMap<AgentId, Move>,
}

impl Moves {
    pub(super) fn get(&self, id: AgentId) -> Move {
        if !self.any.load(Ordering::Relaxed) {
            return Move::default();
        }
        self.members.get(&id).map(|found| *found).unwrap_or_default()
    }

    pub(super) fn set(&self, id: AgentId, of: Move) {
        if of == Move::default() {
            if self.any.load(Ordering::Relaxed) {
                self.members.remove(&id);
            }
            return;
        }
        // An insertion makes room for one more, also where it needs none.
        if let Some(mut known) = self.members.get_mut(&id) {
            *known = of;
            return;
        }
        self.members.insert(id, of);
        self.any.store(true, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use uuid::Uuid;

    #[test]
    fn keeps_only_what_is_something() {
        let (moves, id) = (Moves::default(), AgentId(Uuid::from_u128(1)));
        let some = Move { asked: Some(Moving { millicores: 1, mebibytes: 2 }), allowed: None };
        moves.set(id, Move::default());
        assert!(moves.members.is_empty() && !moves.any.load(Ordering::Relaxed));
        moves.set(id, some);
        assert_eq!((moves.get(id), moves.get(AgentId(Uuid::nil()))), (some, Move::default()));
        moves.set(id, Move::default());
        assert!(moves.members.is_empty());
        assert_eq!(moves.get(id), Move::default());
    }
}
