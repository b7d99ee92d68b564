//! Load for Meanfield: swarms of agents against a coordinator.
//!
//! A client of its own, because the load generator shares the machine with what it measures: requests are prepared
//! once and answers are read no further than needed.

pub mod client;
pub mod swarm;
