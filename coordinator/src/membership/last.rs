//! A member's last heartbeat, packed: a million of them are kept, and what is optional in a message should not cost each of
//! them eight bytes to say that it is not there.

use meanfield_common::{
    action::Action,
    identity::{Epoch, Sequence},
    reward::Reward,
    scarcity::{Amount, Claim, Cores, Gibibytes, Pods, Share, Weight},
    state::LocalState,
    wire::Heartbeat,
};

/// A heartbeat without its epoch, which is the member's.
#[derive(Debug, Clone, Copy)]
pub(super) struct Last {
    pub(super) sequence: Sequence,
    round: u64,
    state: LocalState,
    reward: Reward,
    claim: Claim,
    action: Action,
    has_round: bool,
    has_claim: bool,
    detail: bool,
}

impl Last {
    pub(super) fn pack(beat: &Heartbeat) -> Self {
        let Heartbeat { epoch: _, sequence, round, state, action, reward, claim, detail } = *beat;
        Self {
            sequence,
            round: round.unwrap_or_default(),
            state,
            reward,
            claim: claim.unwrap_or_else(nothing),
            action,
            has_round: round.is_some(),
            has_claim: claim.is_some(),
            detail,
        }
    }

    pub(super) fn unpack(&self, epoch: Epoch) -> Heartbeat {
        let Self { sequence, round, state, reward, claim, action, has_round, has_claim, detail } = *self;
        let (round, claim) = (has_round.then_some(round), has_claim.then_some(claim));
        Heartbeat { epoch, sequence, round, state, action, reward, claim, detail }
    }
}

/// Stands where there is no claim.
fn nothing() -> Claim {
    let amount = Amount { cores: Cores::clamped(0.0), memory_gib: Gibibytes::clamped(0.0) };
    Claim {
        wanted: amount,
        held: amount,
        offered: amount.cores,
        weight: Weight::default(),
        pending: Pods::default(),
        node_utilisation: Share::clamped(0.0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unpacks_to_what_was_packed_in_little_space() {
        let plain = Heartbeat {
            epoch: Epoch(3),
            sequence: Sequence(7),
            round: None,
            state: LocalState::default(),
            action: Action::HOLD,
            reward: Reward::try_from(-0.25).unwrap(),
            claim: None,
            detail: true,
        };
        for beat in [plain, Heartbeat { round: Some(0), claim: Some(nothing()), detail: false, ..plain }] {
            assert_eq!(Last::pack(&beat).unpack(Epoch(3)), beat);
        }
        assert!(size_of::<Option<Last>>() <= 152, "{}", size_of::<Option<Last>>());
    }
}
