//! Recorded steps: what an agent saw, did and earned, for learning from later.
//!
//! A step has its place in logical time, (episode, step) within one registration. The coordinator keeps a step once: the
//! same place with the same content may be sent again, with other content it is refused.

use std::{fmt, str::FromStr};

use serde::{Deserialize, Serialize};

use crate::{action::Action, identity::Epoch, invalid::Invalid, reward::Reward, state::LocalState};

/// The most verdicts of one step.
pub const MOST_VERDICTS: usize = 8;
/// The most steps of one batch.
pub const MOST_STEPS: usize = 1000;
/// The most steps that one batch may say were dropped: more than an agent loses in years, and far from where a counter wraps.
pub const MOST_DROPPED: u64 = 1_000_000_000;

/// What a guard said about a step, such as `rate` or `grant`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = String, min_length = 1, max_length = 32, pattern = "^[a-z0-9-]+$"))]
#[serde(try_from = "String", into = "String")]
pub struct Verdict(Box<str>);

impl Verdict {
    /// The verdict as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for Verdict {
    type Err = Invalid;
    fn from_str(text: &str) -> Result<Self, Invalid> {
        const LONGEST: usize = 32;
        let good = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if (1..=LONGEST).contains(&text.len()) && text.bytes().all(good) {
            Ok(Self(text.into()))
        } else {
            Err(Invalid::new("verdicts", format!("{text:?}"), format!("1 to {LONGEST} of a-z, 0-9, '-'")))
        }
    }
}

impl TryFrom<String> for Verdict {
    type Error = Invalid;
    fn try_from(text: String) -> Result<Self, Invalid> {
        text.parse()
    }
}

impl From<Verdict> for String {
    fn from(verdict: Verdict) -> Self {
        verdict.0.into()
    }
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What the guards said about a step, in their order: at most [`MOST_VERDICTS`].
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = Vec<Verdict>, max_items = 8))]
#[serde(try_from = "Vec<Verdict>", into = "Vec<Verdict>")]
pub struct Verdicts(Vec<Verdict>);

impl Verdicts {
    /// The verdicts in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Verdict] {
        &self.0
    }

    /// Whether no guard said anything.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl TryFrom<Vec<Verdict>> for Verdicts {
    type Error = Invalid;
    fn try_from(verdicts: Vec<Verdict>) -> Result<Self, Invalid> {
        if verdicts.len() <= MOST_VERDICTS {
            Ok(Self(verdicts))
        } else {
            let bound = format!("at most {MOST_VERDICTS} of them");
            Err(Invalid::new("verdicts", format!("a list of {}", verdicts.len()), bound))
        }
    }
}

impl From<Verdicts> for Vec<Verdict> {
    fn from(verdicts: Verdicts) -> Self {
        verdicts.0
    }
}

/// One recorded step.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Recorded {
    /// Which episode of the registration.
    pub episode: u64,
    /// Which step of the episode.
    pub step: u32,
    /// The local state before the action.
    pub state: LocalState,
    /// What was done.
    pub action: Action,
    /// What it earned.
    pub reward: Reward,
    /// The local state after the action.
    pub next_state: LocalState,
    /// What the guards said about it.
    #[serde(default, skip_serializing_if = "Verdicts::is_empty")]
    pub verdicts: Verdicts,
}

impl Recorded {
    /// Its place in the logical time of the registration.
    #[must_use]
    pub fn place(&self) -> (u64, u32) {
        (self.episode, self.step)
    }
}

/// One to [`MOST_STEPS`] steps, each later than the one before.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = Vec<Recorded>, min_items = 1, max_items = 1000))]
#[serde(try_from = "Vec<Recorded>", into = "Vec<Recorded>")]
pub struct Steps(Vec<Recorded>);

impl Steps {
    /// The steps in order.
    #[must_use]
    pub fn as_slice(&self) -> &[Recorded] {
        &self.0
    }
}

impl TryFrom<Vec<Recorded>> for Steps {
    type Error = Invalid;
    fn try_from(steps: Vec<Recorded>) -> Result<Self, Invalid> {
        if !(1..=MOST_STEPS).contains(&steps.len()) {
            return Err(Invalid::new(
                "steps",
                format!("a list of {}", steps.len()),
                format!("1 to {MOST_STEPS} of them"),
            ));
        }
        match steps.windows(2).find(|pair| pair[1].place() <= pair[0].place()) {
            None => Ok(Self(steps)),
            Some(pair) => {
                let ((episode, step), (before, at)) = (pair[1].place(), pair[0].place());
                let bound = format!("later than episode {before}, step {at}, which comes before it");
                Err(Invalid::new("steps", format!("episode {episode}, step {step}"), bound))
            }
        }
    }
}

impl From<Steps> for Vec<Recorded> {
    fn from(steps: Steps) -> Self {
        steps.0
    }
}

/// How many steps an agent dropped: at most [`MOST_DROPPED`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = u64, minimum = 0, maximum = 1_000_000_000))]
#[serde(try_from = "u64", into = "u64")]
pub struct Dropped(u64);

impl Dropped {
    /// As many of these as one batch may say.
    #[must_use]
    pub fn of(steps: u64) -> Self {
        Self(steps.min(MOST_DROPPED))
    }

    /// As a number.
    #[must_use]
    pub fn get(self) -> u64 {
        self.0
    }

    /// Whether there were none.
    #[must_use]
    pub fn is_none(&self) -> bool {
        self.0 == 0
    }
}

impl TryFrom<u64> for Dropped {
    type Error = Invalid;
    fn try_from(steps: u64) -> Result<Self, Invalid> {
        if steps <= MOST_DROPPED {
            Ok(Self(steps))
        } else {
            Err(Invalid::new("dropped", steps, format!("at most {MOST_DROPPED}")))
        }
    }
}

impl From<Dropped> for u64 {
    fn from(dropped: Dropped) -> Self {
        dropped.0
    }
}

/// An agent hands in what it recorded.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Append {
    /// The epoch given at registration.
    pub epoch: Epoch,
    /// The steps.
    pub steps: Steps,
    /// How many others the agent dropped since the batch before, for want of room or because they were refused. Older
    /// coordinators refuse a field that they do not know, so it is left out where there were none.
    #[serde(default, skip_serializing_if = "Dropped::is_none")]
    pub dropped: Dropped,
}

/// The coordinator's answer to [`Append`], given when all of it is durable.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
pub struct Appended {
    /// How many steps were new.
    pub stored: u64,
    /// How many were known already, with the same content.
    pub known: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn step(episode: u64, step: u32) -> Recorded {
        Recorded {
            episode,
            step,
            state: LocalState::default(),
            action: Action::HOLD,
            reward: Reward::default(),
            next_state: LocalState::default(),
            verdicts: Verdicts::default(),
        }
    }

    #[test]
    fn a_batch_reads_back_as_written() {
        let verdicts = Verdicts::try_from(vec!["rate".parse().unwrap(), "grant".parse().unwrap()]).unwrap();
        let steps = vec![step(1, 7), Recorded { verdicts, ..step(1, 9) }, step(2, 0)];
        let append = Append { epoch: Epoch(3), steps: steps.try_into().unwrap(), dropped: Dropped::of(2) };
        let text = serde_json::to_string(&append).unwrap();
        assert_eq!(serde_json::from_str::<Append>(&text).unwrap(), append);
    }

    #[test]
    fn steps_out_of_order_too_many_or_too_few_are_refused() {
        for bad in
            [vec![], vec![step(1, 1), step(1, 1)], vec![step(2, 0), step(1, 5)], vec![step(0, 0); MOST_STEPS + 1]]
        {
            assert_eq!(Steps::try_from(bad).unwrap_err().field, "steps");
        }
    }

    #[test]
    fn what_was_dropped_is_bounded_on_every_way_in() {
        assert_eq!(Dropped::try_from(MOST_DROPPED).unwrap(), Dropped::of(u64::MAX));
        let error = Dropped::try_from(MOST_DROPPED + 1).unwrap_err().to_string();
        assert_eq!(error, "dropped: 1000000001 is not at most 1000000000");
        assert!(serde_json::from_value::<Dropped>(u64::MAX.into()).is_err());
    }

    #[test]
    fn verdicts_are_few_and_short() {
        for bad in ["", "Rate", "a b", "é", &"x".repeat(33)] {
            assert_eq!(bad.parse::<Verdict>().unwrap_err().field, "verdicts", "{bad:?}");
        }
        let nine = vec!["rate".parse().unwrap(); MOST_VERDICTS + 1];
        assert_eq!(Verdicts::try_from(nine).unwrap_err().field, "verdicts");
    }
}
