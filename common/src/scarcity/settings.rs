//! What operators order about scarcity: how a pool goes about it, and what single agents are given.

use std::str::FromStr;

use serde::{Deserialize, Serialize};

use super::{Amount, Weight};
use crate::invalid::{Invalid, within};

macro_rules! words {
    ($(#[$doc:meta])* $name:ident, $field:literal: $($(#[$word_doc:meta])* $word:ident = $text:literal;)*) => {
        $(#[$doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
        #[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
        #[serde(rename_all = "lowercase")]
        pub enum $name { $($(#[$word_doc])* $word,)* }

        impl $name {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$word),*];

            /// The name on the wire, in commands and in metrics.
            #[must_use]
            pub fn name(self) -> &'static str {
                match self { $(Self::$word => $text),* }
            }
        }

        impl FromStr for $name {
            type Err = Invalid;
            fn from_str(text: &str) -> Result<Self, Invalid> {
                let names = || [$($text),*].join(", ");
                let found = Self::ALL.iter().copied().find(|word| word.name() == text);
                found.ok_or_else(|| Invalid::new($field, format!("{text:?}"), format!("one of {}", names())))
            }
        }
    };
}

words! {
    /// What is made of too little.
    Mode, "mode":
    /// Nothing is computed, and nothing is told.
    Off = "off";
    /// All is computed and shown; agents hear what their caps would be, and need not keep them.
    Advise = "advise";
    /// Agents are told caps, and keep them.
    Enforce = "enforce";
}

words! {
    /// Where a pool's capacity comes from.
    Source, "capacity":
    /// An operator or the configuration says it.
    Declared = "declared";
    /// It is the sum of the nodes that agents report, and at most what is declared.
    Reported = "reported";
}

words! {
    /// Why somebody has a cap.
    Reason, "reason":
    /// It gets its bare need, and less than it wants beyond: all bare needs fit, all claims do not.
    Comfort = "comfort";
    /// It yields of its bare need.
    Need = "need";
    /// The same, and memory alone is short.
    Memory = "memory";
}

/// By how much of its weight one who yields is worth more with each minute of yielding.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(value_type = f64, minimum = 0.0, maximum = 100.0))]
#[serde(try_from = "f64", into = "f64")]
pub struct Ageing(f64);

impl Ageing {
    /// As a float.
    #[must_use]
    pub fn get(self) -> f64 {
        self.0
    }
}

impl TryFrom<f64> for Ageing {
    type Error = Invalid;
    fn try_from(value: f64) -> Result<Self, Invalid> {
        within("ageing", value, 0.0, 100.0).map(Self)
    }
}

impl From<Ageing> for f64 {
    fn from(ageing: Ageing) -> Self {
        ageing.0
    }
}

/// How a pool goes about scarcity.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[cfg_attr(feature = "openapi", schema(as = ScarcitySettings))]
#[serde(deny_unknown_fields, default)]
pub struct Settings {
    /// What is made of too little: enforced, unless it says otherwise.
    pub mode: Mode,
    /// By how much of its weight one who yields is worth more with each minute of yielding; 0 is off.
    pub ageing: Ageing,
    /// Where the capacity comes from: declared, unless it says otherwise.
    pub capacity: Source,
}

impl Default for Settings {
    fn default() -> Self {
        Self { mode: Mode::Enforce, ageing: Ageing::default(), capacity: Source::Declared }
    }
}

/// What an operator gives to one agent.
#[derive(Debug, Clone, Copy, PartialEq, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "openapi", derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Entitlement {
    /// What its objective is worth, whatever it claims itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub weight: Option<Weight>,
    /// What it is never cut below, as far as it asks for it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub minimum: Option<Amount>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn settings_have_defaults_and_bounds() {
        assert_eq!(serde_json::from_str::<Settings>("{}").unwrap(), Settings::default());
        let some: Settings = serde_json::from_str(r#"{"mode":"advise","ageing":0.5,"capacity":"reported"}"#).unwrap();
        assert_eq!((some.mode, some.ageing.get(), some.capacity), (Mode::Advise, 0.5, Source::Reported));
        let text = serde_json::to_string(&some).unwrap();
        assert_eq!(serde_json::from_str::<Settings>(&text).unwrap(), some);
        for (bad, named) in [
            (r#"{"mode":"on"}"#, "enforce"),
            (r#"{"ageing":-1}"#, "ageing: -1 is not within [0, 100]"),
            (r#"{"ageing":1e300}"#, "ageing"),
            (r#"{"capacity":"guessed"}"#, "reported"),
            (r#"{"price":1}"#, "price"),
        ] {
            assert!(serde_json::from_str::<Settings>(bad).unwrap_err().to_string().contains(named), "{bad}");
        }
        for (bad, named) in [
            (r#"{"weight":0}"#, "weight: 0 is not within [0.001, 1000]"),
            (r#"{"minimum":{"cores":1}}"#, "memory_gib"),
            (r#"{"minimum":{"cores":-1,"memory_gib":1}}"#, "cores: -1 is not within [0, 1000000]"),
            (r#"{"maximum":{}}"#, "maximum"),
        ] {
            assert!(serde_json::from_str::<Entitlement>(bad).unwrap_err().to_string().contains(named), "{bad}");
        }
        assert_eq!("advise".parse::<Mode>().unwrap(), Mode::Advise);
        assert_eq!("on".parse::<Mode>().unwrap_err().bound, "one of off, advise, enforce");
    }
}
