//! The native learning engine: networks, PPO and checkpoints as pure computation.
//!
//! Nothing here knows of clusters, HTTP or files. An agent hands in observations and rewards and gets back actions and,
//! now and then, better parameters; randomness comes in as a seed, so the same inputs give the same bits.
//!
//! Where to start reading:
//! - [`config`]: every setting of the learner; [`presets`]: the paper's values and ours.
//! - [`ppo`]: one update, from a [`rollout::Batch`] to new parameters.
//! - [`actor_critic`]: the two networks, and how an action is chosen.
//! - [`network`] and `kernels`: the arithmetic, written so that the compiler vectorises it.
//! - [`forecast`]: how high a load may go, as quantiles.
//! - [`checkpoint`]: parameters and training state as safetensors bytes.
//!
//! With the feature `tch` there is a second engine, `torch`: the same update on LibTorch, which the tests compare with.

pub mod actor_critic;
pub mod adam;
pub mod checkpoint;
pub mod config;
pub mod error;
pub mod forecast;
pub mod gae;
mod kernels;
pub mod network;
pub mod policy;
pub mod ppo;
pub mod presets;
pub mod rollout;
#[cfg(feature = "tch")]
pub mod torch;

pub use actor_critic::{ActScratch, ActorCritic, Mode};
pub use config::{Activation, AuxiliaryForm, Config, Curriculum, Reward, Sharing, Turns};
pub use error::Error;
pub use policy::Choice;
pub use ppo::{Gradients, Learner, Stats};
pub use presets::{Family, Variant};
pub use rand_chacha::ChaCha8Rng;
pub use rollout::{Batch, Segment, Step};
