//! One member: who it is, what it last said, and when.

use std::sync::Arc;

use meanfield_common::{
    budget::Moving,
    identity::{AgentName, Category, Epoch},
    mean_field::{Aspects, Contribution},
    scarcity::{Entitlement, Weight},
    wire::Heartbeat,
};

use super::last::Last;
use crate::{
    error::Error,
    pool::{Pool, Share},
    view::State,
};

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: AgentName,
    pub(super) pool: Arc<Pool>,
    pub(super) category: Category,
    pub(super) epoch: Epoch,
    /// The details of g that it is told.
    pub(super) aspects: Aspects,
    pub(super) paused: bool,
    pub(super) suspect: bool,
    /// When it was last heard of, on the coordinator's clock.
    pub(super) heard: u64,
    pub(super) last: Option<Last>,
    /// The weight of that in the sums: orders may say another one since.
    pub(super) weight: Weight,
    /// Whether it was last told a cap.
    pub(super) yields: bool,
    pub(super) share: Share,
}

impl Member {
    /// Whether this very heartbeat was taken before, which asked to move so much.
    pub(super) fn answered(&self, beat: &Heartbeat, asked: Option<Moving>) -> Result<bool, Error> {
        let Some(last) = &self.last else { return Ok(false) };
        let (given, taken) = (beat.sequence, last.sequence);
        if given < taken {
            Err(Error::Replayed { given, last: taken })
        } else if given > taken {
            Ok(false)
        } else if *beat == (Heartbeat { moving: asked, ..last.unpack(self.epoch) }) {
            Ok(true)
        } else {
            Err(Error::Conflict(given))
        }
    }

    /// What it said last in this epoch.
    pub(super) fn last(&self) -> Option<Heartbeat> {
        self.last.as_ref().map(|last| last.unpack(self.epoch))
    }

    /// What a heartbeat of it puts into the sums, with this weight.
    pub(super) fn contribution(&self, beat: &Heartbeat, weight: Weight) -> Contribution {
        Contribution::new(&beat.state, &beat.action, beat.reward).of(self.category).weighing(weight)
    }

    /// What it has in the sums: computed anew each time, which takes less than the memory it would need is worth.
    pub(super) fn latest(&self) -> Option<Contribution> {
        self.last().map(|last| self.contribution(&last, self.weight))
    }

    /// How much a heartbeat counts in a weighted team reward: as an operator says, else as it claims.
    pub(super) fn weight(beat: &Heartbeat, given: Option<&Entitlement>) -> Weight {
        let given = given.and_then(|given| given.weight);
        given.or(beat.claim.map(|claim| claim.weight)).unwrap_or_default()
    }

    /// When it will have been silent for so long.
    pub(super) fn silent_until(&self, age: u64) -> u64 {
        self.heard.saturating_add(age)
    }

    pub(super) fn state(&self) -> State {
        if self.suspect { State::Suspect } else { State::Active }
    }
}
