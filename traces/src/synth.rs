//! Made traces: a [`Shape`] of components, and [`Preset`]s of shapes that are calibrated on real traces.
//!
//! The rate at time t is a product,
//!
//! ```text
//! rate(t) = mean * day(t) * week(t) * trend(t) * exp(wanders(t)) * (1 + bursts(t)) * (1 + crowds(t)) * switch(t)
//! ```
//!
//! and a step's arrivals are counted with the noise of independent requests. Components work in steps of at most
//! [`FINEST`] seconds and are averaged over the steps that were asked for, so that a trace has the same law at any
//! step. What is said in days shrinks with [`Shape::day_seconds`]; what is said in seconds does not.

mod burst;
mod calibration;
mod crowd;
mod preset;
mod shape;
mod wander;

pub use burst::{Bursts, Size};
pub use calibration::AzureFunctions;
pub use crowd::Crowds;
pub use preset::{Preset, chat, coding};
pub use shape::{Counting, Scale, Shape};
pub use wander::{Switching, Wander};

/// Seconds of the steps in which components work.
pub const FINEST: f64 = 15.0;

use std::f64::consts::TAU;

use rand::RngExt;
use rand_chacha::ChaCha8Rng;

/// A standard normal number (Box and Muller).
fn normal(rng: &mut ChaCha8Rng) -> f64 {
    let radius = (-2.0 * (1.0 - rng.random::<f64>()).ln()).sqrt();
    radius * (TAU * rng.random::<f64>()).cos()
}
