//! Who has been silent for too long.

use std::sync::atomic::Ordering;

use meanfield_common::identity::{AgentId, AgentName, Epoch, PoolName};

use super::Membership;
use crate::events::About;

/// After how many milliseconds of silence a member is suspect, and after how many it is gone.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Deadlines {
    pub(crate) suspect_after: u64,
    pub(crate) gone_after: u64,
}

/// A member that has been silent for too long.
#[derive(Debug, Clone)]
pub(crate) struct Overdue {
    pub(crate) id: AgentId,
    pub(crate) name: AgentName,
    pub(crate) pool: PoolName,
    pub(crate) epoch: Epoch,
}

impl From<&Overdue> for About {
    fn from(agent: &Overdue) -> Self {
        let (pool, name) = (Some(agent.pool.clone()), Some(agent.name.clone()));
        Self { pool, name, agent: Some(agent.id), ..Self::default() }
    }
}

impl Membership {
    /// Marks who has become suspect, and names who is gone. A look at everybody is taken only when somebody's deadline
    /// may have passed: with a million members who report in time, that is seldom.
    pub(crate) fn overdue(&self, now: u64) -> (Vec<Overdue>, Vec<Overdue>) {
        if now < self.due.load(Ordering::Relaxed) {
            return Default::default();
        }
        // Before looking: whoever joins or speaks up meanwhile puts its own deadline here.
        self.due.store(u64::MAX, Ordering::Relaxed);
        let Deadlines { suspect_after, gone_after } = self.deadlines;
        let (mut silent, mut gone, mut due) = (Vec::new(), Vec::new(), u64::MAX);
        for entry in &self.members {
            let member = entry.value();
            let overdue = || Overdue {
                id: *entry.key(),
                name: member.name.clone(),
                pool: member.pool.name.clone(),
                epoch: member.epoch,
            };
            if member.silent_until(gone_after) <= now {
                gone.push(overdue());
            } else if member.silent_until(suspect_after) <= now && !member.suspect {
                silent.push(overdue());
            }
            due = due.min(member.silent_until(if member.suspect { gone_after } else { suspect_after }));
        }
        self.expect_until(due);
        silent.retain(|overdue| match self.members.get_mut(&overdue.id) {
            Some(mut member) if member.silent_until(suspect_after) <= now && !member.suspect => {
                member.suspect = true;
                member.pool.suspect(&member.share, true);
                true
            }
            _ => false,
        });
        (silent, gone)
    }

    /// Ends a membership if it is still silent: a heartbeat may have come since it was found overdue.
    pub(crate) fn part_overdue(&self, overdue: &Overdue, now: u64) -> bool {
        self.part_if(overdue.id, |member| {
            member.epoch == overdue.epoch && member.silent_until(self.deadlines.gone_after) <= now
        })
    }

    /// Somebody's deadline is then.
    pub(super) fn expect_until(&self, deadline: u64) {
        self.due.fetch_min(deadline, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{clock::Clock, store::Record};
    use meanfield_common::{
        action::Action,
        identity::{Category, Sequence},
        mean_field::Aspects,
        reward::Reward,
        state::LocalState,
        wire::Heartbeat,
    };
    use uuid::Uuid;

    #[test]
    fn one_that_speaks_up_after_it_was_found_silent_stays() {
        let pool: PoolName = "default".parse().unwrap();
        let record = |epoch| Record {
            pool: pool.clone(),
            name: "a".parse().unwrap(),
            category: Category::Io,
            epoch,
            aspects: Aspects::NONE,
            member: true,
            paused: false,
        };
        let deadlines = Deadlines { suspect_after: 10, gone_after: 50 };
        let membership = Membership::new(std::slice::from_ref(&pool), deadlines, Clock::manual());
        let id = AgentId(Uuid::nil());
        let found_silent = || membership.overdue(100).1.remove(0);
        membership.join(id, &record(Epoch(1)), 0);

        let overdue = found_silent();
        let beat = Heartbeat {
            epoch: Epoch(1),
            sequence: Sequence(1),
            round: None,
            state: LocalState::default(),
            action: Action::HOLD,
            reward: Reward::default(),
            claim: None,
            detail: false,
            moving: None,
        };
        membership.heartbeat(id, &beat, 100).unwrap();
        assert!(!membership.part_overdue(&overdue, 100));

        membership.join(id, &record(Epoch(2)), 0);
        let overdue = found_silent();
        membership.join(id, &record(Epoch(3)), 0);
        assert!(!membership.part_overdue(&overdue, 100), "it was another epoch that was silent");
        assert!(membership.part_overdue(&found_silent(), 100));
        assert!(membership.agent(id, 0).is_err() && membership.audit());
    }
    #[test]
    fn nobodys_deadline_is_missed_because_nobody_looked() {
        let pool: PoolName = "default".parse().unwrap();
        let deadlines = Deadlines { suspect_after: 45, gone_after: 120 };
        let membership = Membership::new(std::slice::from_ref(&pool), deadlines, Clock::manual());
        let record = |name: &str| Record {
            pool: pool.clone(),
            name: name.parse().unwrap(),
            category: Category::Io,
            epoch: Epoch(1),
            aspects: Aspects::NONE,
            member: true,
            paused: false,
        };
        let beat = Heartbeat {
            epoch: Epoch(1),
            sequence: Sequence(1),
            round: None,
            state: LocalState::default(),
            action: Action::HOLD,
            reward: Reward::default(),
            claim: None,
            detail: false,
            moving: None,
        };
        let ids = [1, 2].map(|number| AgentId(Uuid::from_u128(number)));
        let found = |now| {
            let (suspect, gone) = membership.overdue(now);
            assert!(membership.audit());
            let ids = |all: Vec<Overdue>| all.into_iter().map(|one| one.id).collect::<Vec<_>>();
            (ids(suspect), ids(gone))
        };
        membership.join(ids[0], &record("a"), 0);
        assert_eq!(found(44), (vec![], vec![]));
        assert_eq!(found(45), (vec![ids[0]], vec![]));
        membership.join(ids[1], &record("b"), 50);
        // A suspect that speaks up has an earlier deadline than it had as a suspect.
        membership.heartbeat(ids[0], &beat, 60).unwrap();
        assert_eq!(found(94), (vec![], vec![]));
        assert_eq!(found(95), (vec![ids[1]], vec![]));
        assert_eq!(found(105), (vec![ids[0]], vec![]));
        assert_eq!(found(170), (vec![], vec![ids[1]]));
        assert_eq!(found(171), (vec![], vec![ids[1]]), "as long as nobody takes it out");
        assert_eq!(membership.pools()[0].agents.suspect, 2);
    }
}
