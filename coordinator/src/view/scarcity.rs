//! What operators see of scarcity.

use meanfield_common::{
    identity::AgentName,
    scarcity::{Ageing, Amount, Capacity, Grant, Headroom, Mode, Reason, Settings},
};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;

/// How scarce a pool's capacity is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct ScarcityView {
    /// Whether caps are enforced, or only advised.
    pub mode: Mode,
    /// By how much of its weight one who yields is worth more with each minute.
    pub ageing: Ageing,
    /// What its members may reserve together.
    pub capacity: Capacity,
    /// How many nodes agents name, where it is reported; absent where it is only declared.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nodes: Option<usize>,
    /// How much room is left.
    pub headroom: Headroom,
    /// What a core is worth, in weight.
    pub price: f64,
    /// How many members have a cap.
    pub grants: u64,
    /// How many members claim more than their work bears out.
    pub capped: u64,
    /// Who has a cap, in order of names; at most a hundred.
    pub yielding: Vec<Yielding>,
    /// How many cuts are open, by reason, whether or not they are still in the ledger.
    pub cuts: Vec<OpenCuts>,
}

/// One that has a cap.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct Yielding {
    /// Its name.
    pub name: AgentName,
    /// Its cap.
    pub grant: Grant,
}

/// How many cuts are open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct OpenCuts {
    /// For this reason.
    pub reason: Reason,
    /// So many.
    pub open: u64,
}

/// How a pool goes about scarcity.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct SettingsView {
    /// What an operator ordered.
    pub ordered: Option<Settings>,
    /// What counts: that, or the defaults.
    pub effective: Settings,
    /// How many nodes count, where the capacity is theirs.
    pub nodes: Option<usize>,
}

/// Which cuts to list.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CutFilter {
    /// Only of the agent of this name.
    pub agent: Option<AgentName>,
    /// Only those that are open, or those that are not.
    pub open: Option<bool>,
}

/// One page of cuts.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CutPage {
    /// The oldest first.
    pub cuts: Vec<CutView>,
    /// What to give as `after` for the next page; absent on the last one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<u64>,
}

/// That somebody got less than it would have taken.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, ToSchema)]
pub struct CutView {
    /// Counts all cuts of the pool since the coordinator was started.
    pub number: u64,
    /// Who.
    pub agent: AgentName,
    /// Why.
    pub reason: Reason,
    /// Whether it was told so, or only advised.
    pub enforced: bool,
    /// Since when, in milliseconds since 1970.
    pub since_ms: u64,
    /// Until when; absent while it goes on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub until_ms: Option<u64>,
    /// What it would have taken, as of the latest allocation.
    pub wanted: Amount,
    /// What it gets; what is absent is not capped.
    pub granted: Grant,
    /// What a whole pool of its need was worth when it began: weight over its share of what is scarce.
    pub worth: f64,
    /// The same of the least valuable one that is served. It may be lower: a small need may fit where a larger one does not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub served_worth: Option<f64>,
    /// For whom: those who are served although they are worth least, three at most. Nobody where comfort shrinks, which
    /// is for everybody's need.
    pub instead: Vec<AgentName>,
}
