//! Load for Meanfield: swarms of agents against a coordinator.
//!
//! A client of its own, because the load generator shares the machine with what it measures: requests are prepared
//! once and answers are read no further than needed.
//!
//! | module | holds |
//! |---|---|
//! | [`client`], [`tls`] | one HTTP connection, also by https |
//! | [`swarm`] | many agents on few connections |
//! | [`pace`] | planned times, and latencies that count from them |
//! | [`mischief`] | how agents misbehave |
//! | [`load`] | a swarm under load, every answer judged |

pub mod client;
pub mod load;
pub mod mischief;
pub mod pace;
pub mod swarm;
pub mod tls;
