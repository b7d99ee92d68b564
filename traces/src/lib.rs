//! Arrival traces: counts per interval, single arrivals, and rates over shorter steps.
//!
//! - [`trace`] holds what everything else speaks of: counts per interval, and single arrivals.
//! - [`rates`] spreads counts per minute over shorter steps.

pub mod error;
pub mod rates;
pub mod trace;

pub use error::Error;
pub use trace::{Events, Trace};
