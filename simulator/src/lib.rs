//! A shared cluster in simulated time.
//!
//! Tenants' pods share nodes; what one tenant takes, its neighbours miss. One step (15 s by default) is either computed
//! in closed form from rates, so training is fast, or from every single request, so that no formula is trusted. The same
//! seed gives the same bytes.
//!
//! Open [`cluster`] first; one step there reads top to bottom.
//!
//! | module | holds |
//! |---|---|
//! | [`workload`] | what a request of each function needs, and its SLO from an isolated run |
//! | [`arrivals`] | seeded arrival rates: a day's curve, bursts, noise |
//! | [`scenario`] | who shares which nodes: the standard clusters |
//! | [`placement`] | the scheduler: requests onto nodes |
//! | [`sharing`] | max-min fair CPU under quotas |
//! | [`queue`] | waiting times and latency percentiles |
//! | `tenant` | pods: their life, their size, their memory |
//! | [`anomaly`] | disturbances from outside |
//! | [`cluster`] | the orchestrator: pods, nodes, steps |
//! | `fluid` | how requests fare in a step, in closed form |
//! | [`events`] | how requests fare in a step, one by one |

pub mod anomaly;
pub mod arrivals;
pub mod cluster;
pub mod events;
mod fluid;
pub mod placement;
pub mod queue;
pub mod scenario;
pub mod sharing;
mod tenant;
pub mod workload;
