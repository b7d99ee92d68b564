//! Descriptions of clusters and of workloads: any text is refused with a reason or taken.

#![no_main]

use libfuzzer_sys::fuzz_target;
use meanfield_simulator::{cluster_file::ClusterFile, workload::Workload};

fuzz_target!(|text: &str| {
    if let Ok(file) = ClusterFile::parse(text, "fuzz") {
        let _ = file.build(1, 3);
    }
    let _ = Workload::parse(text, "fuzz");
});
