//! The agent's behaviour, seen from outside.

#![allow(clippy::unwrap_used, clippy::panic)] // helpers of tests may fail as tests do

mod baselines;
mod budget;
mod fallback;
mod fleets;
mod following;
mod http_link;
mod learning;
mod loop_order;
mod membership;
mod pause;
mod plan;
mod profile;
mod recording;
mod residual;
mod scarcity;
mod serving;
mod sharing;
mod support;
mod teaching;
mod training;
mod trajectories;
mod wants;
