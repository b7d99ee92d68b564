//! Arrival traces: imported from public formats, described in figures, and made by generators calibrated on them.
//!
//! - [`trace`] holds what everything else speaks of: counts per interval, and single arrivals.
//! - [`import`] reads files that others publish, and says what it had to mend.
//! - [`export`] writes the project's own CSV, which [`import`] reads back.
//! - [`rates`] spreads counts per minute over shorter steps.
//! - [`describe`] measures a trace; the generators of [`synth`] are calibrated on these figures.

pub mod describe;
pub mod error;
pub mod export;
pub mod import;
pub mod rates;
pub mod synth;
pub mod trace;

pub use error::Error;
pub use trace::{Events, Trace};
