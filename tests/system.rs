//! The whole system: real processes of the `meanfield` binary on free ports, and the rules that the repository keeps.
//!
//! `restart`, `kill`, `disk`, `sharing`, `teaching`, `superseded`, `trajectories`, `following`, `inferring`, `demo`, `trace`, `train`, `eval`, `loadgen`, `security`, `admin`, `operations`, `remote`, `telemetry` and `command_line` start the binary and watch it from outside, `architecture`, `configuration` and
//! `documentation` read the repository. Nothing here sleeps for a guessed time: [`support::eventually`] asks again
//! until what must happen has happened.

// Helpers fail like the tests that call them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod admin;
mod architecture;
mod certificates;
mod command_line;
mod configuration;
mod demo;
mod disk;
mod documentation;
mod eval;
mod following;
mod inferring;
mod kill;
mod loadgen;
mod operations;
mod remote;
mod restart;
mod security;
mod sharing;
mod superseded;
mod support;
mod teaching;
mod telemetry;
mod trace;
mod train;
mod trajectories;
