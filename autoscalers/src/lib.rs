//! The rule-based autoscalers, deciding as the real ones do.
//!
//! Pure computation: no clock, no I/O; whoever calls gives the time. Each module is checked against the autoscaler's
//! own code by the oracles in `tests/oracles`, except for [`aimd`] and [`ensure`], which are known from papers: those
//! say what the papers fix and what was chosen.

pub mod aimd;
mod elementary;
pub mod ensure;
pub mod hpa;
pub mod kpa;
pub mod vpa;
