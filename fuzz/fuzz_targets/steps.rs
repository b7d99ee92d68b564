//! Recorded steps in the layout of the store: chunks and summaries. What is read is written as it was.

#![no_main]

use libfuzzer_sys::fuzz_target;
use meanfield_coordinator::trajectories::layout::{Summary, decode, encode};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(chunk) = decode(7, bytes) {
        let written = encode(chunk.received, &chunk.steps);
        assert_eq!(decode(7, &written).expect("what was written can be read"), chunk);
    }
    if let Ok(summary) = Summary::decode(bytes) {
        assert_eq!(Summary::decode(&summary.encode()).expect("what was written can be read"), summary);
    }
});
