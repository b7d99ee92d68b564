//! The whole system: real processes of the `meanfield` binary on free ports, and the rules that the repository keeps.
//!
//! `restart`, `kill`, `sharing`, `teaching`, `superseded`, `demo`, `trace`, `train`, `eval`, `loadgen`, `security`, `admin` and `command_line` start the binary and watch it from outside, `architecture` and
//! `documentation` read the repository. Nothing here sleeps for a guessed time: [`support::eventually`] asks again
//! until what must happen has happened.

// Helpers fail like the tests that call them.
#![allow(clippy::unwrap_used, clippy::panic)]

mod admin;
mod architecture;
mod certificates;
mod command_line;
mod demo;
mod documentation;
mod eval;
mod kill;
mod loadgen;
mod restart;
mod security;
mod sharing;
mod superseded;
mod support;
mod teaching;
mod trace;
mod train;
