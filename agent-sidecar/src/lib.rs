//! The agent of one workload.
//!
//! Open [`agent`] first: one step there reads top to bottom as observe, heartbeat, record, decide, guard, actuate.
//!
//! | module | holds |
//! |---|---|
//! | [`agent`] | the loop over one workload |
//! | [`environment`] | what is observed and scaled: the trait, and simulated clusters |
//! | [`link`], [`http`] | how the coordinator is reached: the trait, and HTTP |
//! | [`membership`] | registering, heartbeats, coming back after a loss |
//! | [`policy`] | who decides: the trait, the queue model and its forecast, PPO, HPA+VPA and other rules |
//! | [`guard`] | what a decision may not do |
//! | [`sharing`] | the forecast network that the agents of a pool share |
//! | [`following`] | the base model that an agent decides with, kept at the version that is served |
//! | [`teaching`] | what an agent has learnt, handed in for its base model |
//! | [`profile`] | what a workload needs most, from what it was seen to use |
//! | [`trajectories`] | recorded steps, handed in beside the loop |
//! | `scarcity` | what an agent claims of its pool, and what it was told |
//! | [`fleet`] | many agents on one simulated cluster, in lock-step |
//! | [`training`], [`turns`] | fleets that learn, at once or one at a time |
//! | [`pretraining`] | where the shipped forecast network comes from |
//! | [`yardstick`] | what somebody who knows the arrivals could reach |
//! | [`daemon`], [`metrics`] | one agent in real time, and what it counts |

pub mod agent;
pub mod daemon;
pub mod environment;
pub mod fleet;
pub mod following;
pub mod guard;
pub mod http;
pub mod link;
pub mod membership;
pub mod metrics;
pub mod policy;
pub mod pretraining;
pub mod profile;
mod scarcity;
pub mod sharing;
pub mod teaching;
pub mod training;
pub mod trajectories;
pub mod turns;
pub mod yardstick;

/// What can end an agent's loop; the source says why.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The workload cannot be observed or scaled.
    #[error("the environment failed")]
    Environment(#[from] environment::Error),
    /// The coordinator will not have this agent.
    #[error("the coordinator will not have this agent")]
    Link(#[from] link::Error),
    /// The learner refused its input.
    #[error("the learner failed")]
    Learner(#[from] meanfield_learner::Error),
    /// A network in training ran away; it is as it was before that update.
    #[error("training stopped in episode {episode}: the network of {of} could not be updated")]
    Training {
        /// The episode, from 0.
        episode: u64,
        /// Whose network.
        of: String,
        /// What became of it.
        source: meanfield_learner::Error,
    },
    /// Something given from outside is out of bounds.
    #[error("invalid input")]
    Invalid(#[from] meanfield_common::invalid::Invalid),
}
