//! What all Meanfield processes agree on.
//!
//! Validated types and the formulas over them; no I/O, no clocks, no randomness. The coordinator and the
//! agents meet only here: [`wire`] is everything that travels between them.
//!
//! | module | holds |
//! |---|---|
//! | [`invalid`] | the one validation error: field, value, bound |
//! | [`digest`] | what a file is known by |
//! | [`secret`] | a text that must not be seen |
//! | [`identity`] | agent ids, names, pools, categories, epochs, sequences |
//! | [`resources`] | milli-cores, bytes, limits and requests, scaling bounds |
//! | [`slo`] | service-level objectives and SLO preservation |
//! | [`observation`] | what an environment measured in one step |
//! | [`queue`] | latency in closed form: requests that share cores |
//! | [`state`] | the local state l of seven numbers, arrival change |
//! | [`action`] | scaling steps, oscillation |
//! | [`reward`] | the published reward and the default one |
//! | [`fixed`], [`mean_field`] | exact sums and the auxiliary state g |
//! | [`scarcity`] | claims on a pool's capacity, who yields, the price of a core |
//! | [`budget`] | how much of a capacity may be moved within a minute |
//! | [`trajectory`] | recorded steps, as agents hand them in |
//! | [`trace`] | ids that follow a step from an agent to its coordinator |
//! | [`wire`], [`batch`] | the messages between agent and coordinator, and many of them in one |

pub mod action;
pub mod batch;
pub mod budget;
pub mod digest;
pub mod fixed;
pub mod identity;
pub mod invalid;
pub mod mean_field;
pub mod observation;
pub mod queue;
pub mod resources;
pub mod reward;
pub mod scarcity;
pub mod secret;
pub mod slo;
pub mod state;
pub mod trace;
pub mod trajectory;
pub mod wire;
