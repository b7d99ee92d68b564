//! The rule-based autoscalers, deciding as the real ones do.
//!
//! Pure computation: no clock, no I/O; whoever calls gives the time. Each module is checked against the autoscaler's own
//! code by the oracles in `tests/oracles`.

mod elementary;
pub mod kpa;
pub mod vpa;
