//! Any format, told from the bytes; packed ones too.

#![no_main]

use libfuzzer_sys::fuzz_target;
use meanfield_traces::import::{Limits, Options, read_from};

fuzz_target!(|bytes: &[u8]| {
    let limits = Limits { bytes: 1 << 20, samples: 1 << 16, ..Limits::default() };
    let options = Options { format: None, limits, ..Options::default() };
    let _ = read_from("fuzz", bytes, &options);
});
