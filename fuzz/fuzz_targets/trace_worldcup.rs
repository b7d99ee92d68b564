//! World Cup 1998.

#![no_main]

use libfuzzer_sys::fuzz_target;
use meanfield_traces::import::{Format, Limits, Options, read_from};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { bytes: 1 << 20, samples: 1 << 16, ..Limits::default() };
    let options = Options { format: Some(Format::Worldcup), limits, ..Options::default() };
    let _ = read_from("fuzz", bytes, &options);
});
