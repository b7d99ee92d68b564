//! A member's last heartbeat, packed: a million of them are kept, and what is optional in a message should not cost all of
//! them its space.
//!
//! A claim has a box of its own, made when a member claims for the first time in an epoch and used again from then on.

use meanfield_common::{
    action::Action,
    identity::{Epoch, Sequence},
    reward::Reward,
    scarcity::Claim,
    state::LocalState,
    wire::Heartbeat,
};

/// A heartbeat without its epoch, which is the member's, and what it asks to move, which is in [`super::moves`].
#[derive(Debug)]
pub(super) struct Last {
    pub(super) sequence: Sequence,
    round: u64,
    state: LocalState,
    reward: Reward,
    claim: Option<Box<Claim>>,
    action: Action,
    has_round: bool,
    detail: bool,
}

impl Last {
    pub(super) fn pack(beat: &Heartbeat) -> Self {
        Self::with(beat, beat.claim.map(Box::new))
    }

    /// The next one in the place of this one.
    pub(super) fn replace(&mut self, beat: &Heartbeat) {
        let claim = match (self.claim.take(), beat.claim) {
            (Some(mut old), Some(new)) => {
                *old = new;
                Some(old)
            }
            (_, new) => new.map(Box::new),
        };
        *self = Self::with(beat, claim);
    }

    fn with(beat: &Heartbeat, claim: Option<Box<Claim>>) -> Self {
        let Heartbeat { epoch: _, sequence, round, state, action, reward, claim: _, detail, moving: _ } = *beat;
        let (has_round, round) = (round.is_some(), round.unwrap_or_default());
        Self { sequence, round, state, reward, claim, action, has_round, detail }
    }

    pub(super) fn unpack(&self, epoch: Epoch) -> Heartbeat {
        let &Self { sequence, round, state, reward, ref claim, action, has_round, detail } = self;
        let (round, claim) = (has_round.then_some(round), claim.as_deref().copied());
        Heartbeat { epoch, sequence, round, state, action, reward, claim, detail, moving: None }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use meanfield_common::scarcity::{Amount, Cores, Gibibytes, Pods, Share, Weight};

    #[test]
    fn unpacks_to_what_was_packed_in_little_space() {
        let amount = Amount { cores: Cores::clamped(2.5), memory_gib: Gibibytes::clamped(0.5) };
        let claim = Claim {
            wanted: amount,
            held: amount,
            offered: amount.cores,
            weight: Weight::default(),
            pending: Pods::clamped(4),
            node_utilisation: Share::clamped(0.5),
            node: None,
        };
        let plain = Heartbeat {
            epoch: Epoch(3),
            sequence: Sequence(7),
            round: None,
            state: LocalState::default(),
            action: Action::HOLD,
            reward: Reward::try_from(-0.25).unwrap(),
            claim: None,
            detail: true,
            moving: None,
        };
        let claiming = Heartbeat { round: Some(0), claim: Some(claim), detail: false, ..plain };
        let mut last = Last::pack(&plain);
        assert_eq!(last.unpack(Epoch(3)), plain);
        for beat in [claiming, Heartbeat { round: None, ..claiming }, plain, claiming] {
            last.replace(&beat);
            assert_eq!((last.unpack(Epoch(3)), Last::pack(&beat).unpack(Epoch(3))), (beat, beat));
        }
        assert!(size_of::<Option<Last>>() <= 96, "{}", size_of::<Option<Last>>());
    }
}
