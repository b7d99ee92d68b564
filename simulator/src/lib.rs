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
//! | [`workload`] | what a request of each function or segment needs, and its SLO from an isolated run |
//! | [`input`] | how demand follows from the size of what requests bring along |
//! | [`application`] | programs put together from segments |
//! | [`instability`] | payloads and loads that change while running |
//! | [`scenario`] | who shares which nodes: the standard clusters |
//! | [`cluster_file`] | who shares which nodes: clusters described in a file |
//! | [`origin`] | reading TOML so that a refusal says where |
//! | [`placement`] | the scheduler: requests onto nodes |
//! | [`sharing`] | max-min fair CPU under quotas |
//! | `tenant` | pods: their life, their size, their memory |
//! | [`anomaly`] | disturbances from outside |
//! | [`cluster`] | the orchestrator: pods, nodes, steps |
//! | `fluid` | how requests fare in a step, in closed form |
//! | [`events`] | how requests fare in a step, one by one |

pub mod anomaly;
pub mod application;
pub mod cluster;
pub mod cluster_file;
pub mod events;
mod fluid;
pub mod input;
pub mod instability;
pub mod origin;
pub mod placement;
pub mod scenario;
pub mod sharing;
mod tenant;
pub mod workload;
