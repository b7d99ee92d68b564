//! Imports of steps: the first byte says whether the rest is CSV or Parquet. Any file is refused with a reason, or read.
//!
//! Files that make the Parquet library panic are among those that are refused. So the hook by which libFuzzer ends the
//! process at any panic is taken away here: a panic that nobody catches reaches the caller of the target, which ends the
//! process as well.

#![no_main]

use std::{
    cell::RefCell,
    fs::File,
    io::{Seek, Write},
};

use libfuzzer_sys::fuzz_target;
use meanfield_coordinator::trajectories::{export::Format, import::Batches};

thread_local! {
    /// One file for all inputs, without a name.
    static FILE: RefCell<File> = RefCell::new(tempfile::tempfile().expect("a file"));
}

fuzz_target!(init: drop(std::panic::take_hook()), |input: &[u8]| {
    let Some((&which, bytes)) = input.split_first() else { return };
    let format = if which.is_multiple_of(2) { Format::Csv } else { Format::Parquet };
    FILE.with_borrow_mut(|file| {
        file.set_len(0).and_then(|()| file.rewind()).expect("an empty file");
        file.write_all(bytes).and_then(|()| file.rewind()).expect("a file with the input");
        let Ok(batches) = Batches::open(file.try_clone().expect("another handle"), format) else { return };
        for batch in batches {
            if batch.is_err() {
                break;
            }
        }
    });
});
