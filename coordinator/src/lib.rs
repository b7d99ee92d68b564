//! The coordinator: membership, the mean field, the admin API and metrics.
//!
//! One [`Coordinator`] serves a program that embeds it and, through [`serve`], agents and operators over HTTP; both
//! run the same code. Heartbeats touch memory only and cost the same for any number of agents; whatever must outlive
//! the process goes through one thread that writes many changes with one flush.
//!
//! | module | holds |
//! |---|---|
//! | [`options`], [`clock`], [`error`] | configuration, injected time, what can go wrong |
//! | [`coordinator`] | the handle: every operation, once |
//! | [`access`] | tokens, roles and how often they may be used |
//! | `membership`, `pool` | the members and the exact sums of their pools |
//! | `claims` | what the members of a pool claim of its capacity, and who yields |
//! | [`settings`] | what an operator says of a pool |
//! | [`forecast`] | the forecast network that the agents of a pool share |
//! | [`models`] | base models by version: what agents start from, and what follows from what they learn |
//! | `ledger`, `writer` | who is a member and who is paused, as written down; the thread that writes |
//! | [`store`] | where it is written: sled, or nowhere |
//! | [`trajectories`] | what agents saw, did and earned: kept, asked for, exported |
//! | [`orders`], `budget` | what operators order, to whom and under which conditions; how much may be moved within a minute |
//! | [`audit`] | who ordered what and when, in a chain of hashes |
//! | [`events`] | everything that happens, for whoever watches |
//! | [`view`] | what operators see |
//! | [`metrics`] | every metric by name |
//! | [`http`], [`server`] | the routes, and the daemon around them |
//! | [`tls`] | the certificate, and new ones while it runs |
//! | [`token`] | the coordinator's own token, given or in the data directory |

pub mod access;
pub mod audit;
mod budget;
mod claims;
pub mod clock;
pub mod coordinator;
pub mod error;
pub mod events;
pub mod forecast;
pub mod http;
mod ledger;
mod membership;
pub mod metrics;
pub mod models;
pub mod options;
pub mod orders;
mod pool;
pub mod server;
pub mod settings;
pub mod store;
pub mod tls;
pub mod token;
pub mod trajectories;
pub mod view;
mod writer;

pub use clock::Clock;
pub use coordinator::Coordinator;
pub use error::Error;
pub use options::Options;
pub use server::serve;
