//! Scaling actions: which way each of the three levers moves.

use std::cmp::Ordering;

use serde::{Deserialize, Serialize};

use crate::{invalid::Invalid, resources::Scale};

/// One lever's direction: down, stay or up; -1, 0 or 1 on the wire.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[serde(try_from = "i64", into = "i64")]
pub enum Step {
    /// Less of it.
    Down,
    /// No change.
    #[default]
    Stay,
    /// More of it.
    Up,
}

impl Step {
    /// As a number: -1, 0 or 1.
    #[must_use]
    pub fn sign(self) -> i32 {
        match self {
            Self::Down => -1,
            Self::Stay => 0,
            Self::Up => 1,
        }
    }

    /// The direction from one quantity to another.
    pub fn between<T: Ord>(from: &T, to: &T) -> Self {
        match to.cmp(from) {
            Ordering::Less => Self::Down,
            Ordering::Equal => Self::Stay,
            Ordering::Greater => Self::Up,
        }
    }
}

impl TryFrom<i64> for Step {
    type Error = Invalid;
    fn try_from(value: i64) -> Result<Self, Invalid> {
        match value {
            -1 => Ok(Self::Down),
            0 => Ok(Self::Stay),
            1 => Ok(Self::Up),
            _ => Err(Invalid::new("action", value, "-1, 0 or 1")),
        }
    }
}

impl From<Step> for i64 {
    fn from(step: Step) -> Self {
        step.sign().into()
    }
}

/// What an agent did in one step: two vertical levers and a horizontal one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Action {
    /// The CPU limit of each replica.
    #[cfg_attr(feature = "openapi", schema(value_type = i8, minimum = -1, maximum = 1))]
    pub cpu: Step,
    /// The memory limit of each replica.
    #[cfg_attr(feature = "openapi", schema(value_type = i8, minimum = -1, maximum = 1))]
    pub memory: Step,
    /// The number of replicas.
    #[cfg_attr(feature = "openapi", schema(value_type = i8, minimum = -1, maximum = 1))]
    pub replicas: Step,
}

impl Action {
    /// Nothing moves.
    pub const HOLD: Self = Self { cpu: Step::Stay, memory: Step::Stay, replicas: Step::Stay };

    /// The action that leads from one scale to another.
    #[must_use]
    pub fn between(from: &Scale, to: &Scale) -> Self {
        Self {
            cpu: Step::between(&from.limit.cpu, &to.limit.cpu),
            memory: Step::between(&from.limit.memory, &to.limit.memory),
            replicas: Step::between(&from.replicas, &to.replicas),
        }
    }

    /// The vertical part as one number, -2 to 2.
    #[must_use]
    pub fn vertical(&self) -> i32 {
        self.cpu.sign() + self.memory.sign()
    }

    /// The horizontal part as one number, -1 to 1.
    #[must_use]
    pub fn horizontal(&self) -> i32 {
        self.replicas.sign()
    }

    /// Whether a lever that moved in the `previous` step moves back in this one.
    #[must_use]
    pub fn oscillates_after(&self, previous: &Self) -> bool {
        let back = |before: Step, now: Step| before.sign() * now.sign() < 0;
        back(previous.cpu, self.cpu) || back(previous.memory, self.memory) || back(previous.replicas, self.replicas)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lever_that_moves_back_at_once_oscillates() {
        let out = Action { replicas: Step::Up, ..Action::HOLD };
        let back = Action { replicas: Step::Down, ..Action::HOLD };
        let other = Action { cpu: Step::Down, ..Action::HOLD };
        assert!(back.oscillates_after(&out) && out.oscillates_after(&back));
        assert!(!out.oscillates_after(&out) && !other.oscillates_after(&out) && !Action::HOLD.oscillates_after(&out));
    }

    #[test]
    fn directions_are_numbers_on_the_wire() {
        let action = Action { cpu: Step::Up, memory: Step::Down, replicas: Step::Stay };
        let text = serde_json::to_string(&action).unwrap();
        assert_eq!(text, r#"{"cpu":1,"memory":-1,"replicas":0}"#);
        assert_eq!(serde_json::from_str::<Action>(&text).unwrap(), action);
        let error = serde_json::from_str::<Action>(r#"{"cpu":2,"memory":0,"replicas":0}"#).unwrap_err();
        assert!(error.to_string().contains("2 is not -1, 0 or 1"), "{error}");
        assert_eq!((action.vertical(), action.horizontal()), (0, 0));
    }
}
