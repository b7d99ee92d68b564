//! Arrival traces: imported, described, and made.
