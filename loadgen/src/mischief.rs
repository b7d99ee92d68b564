//! What a misbehaving agent sends, and what must come of it.

use std::str::FromStr;

use meanfield_common::{
    identity::{Epoch, Sequence},
    invalid::Invalid,
    wire::Heartbeat,
};

/// A way to misbehave.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Mischief {
    /// A reward that is not a number.
    Nan,
    /// An epoch that is over, or one that never began.
    Epoch,
    /// A sequence number that was passed long ago.
    Replay,
    /// The same good heartbeat again and again, as fast as it is answered.
    Flood,
}

impl Mischief {
    /// All of them.
    pub const ALL: [Self; 4] = [Self::Nan, Self::Epoch, Self::Replay, Self::Flood];

    /// The name on the command line and in results.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Nan => "nan",
            Self::Epoch => "epoch",
            Self::Replay => "replay",
            Self::Flood => "flood",
        }
    }

    /// The heartbeat of this kind in the place of a good one; what is no number is put in when it is written.
    #[must_use]
    pub fn twist(self, good: Heartbeat) -> Heartbeat {
        match self {
            Self::Nan | Self::Flood => good,
            // Every other time from the future.
            Self::Epoch if good.sequence.0.is_multiple_of(2) => Heartbeat { epoch: good.epoch.next(), ..good },
            Self::Epoch => Heartbeat { epoch: Epoch(0), ..good },
            Self::Replay => Heartbeat { sequence: Sequence(0), ..good },
        }
    }

    /// Whether it must be refused; a flood is only a nuisance, and may be taken or turned away.
    #[must_use]
    pub fn must_fail(self) -> bool {
        self != Self::Flood
    }
}

impl FromStr for Mischief {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        let found = Self::ALL.into_iter().find(|mischief| mischief.name() == text);
        found.ok_or_else(|| Invalid::new("misbehave", format!("{text:?}"), "one of nan, epoch, replay, flood"))
    }
}
