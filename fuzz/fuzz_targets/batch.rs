//! Batches of heartbeats in their compact form, and answers to them: any bytes are refused with a reason or taken, and
//! what is taken reads back as written.

#![no_main]

use libfuzzer_sys::fuzz_target;
use meanfield_common::batch::binary;

fuzz_target!(|bytes: &[u8]| {
    if let Ok(batch) = binary::Reader::new(bytes) {
        let count = batch.len();
        let read: Vec<_> = batch.collect();
        assert_eq!(read.len(), count);
        let good: Vec<_> = read.into_iter().filter_map(|(agent, beat)| Some((agent, beat.ok()?))).collect();
        let mut written = Vec::new();
        binary::write(&mut written, good.iter().map(|(agent, beat)| (*agent, beat)));
        let again = binary::Reader::new(&written).expect("what was written is a batch");
        assert!(again.eq(good.into_iter().map(|(agent, beat)| (agent, Ok(beat)))));
    }
    if let Ok(answers) = binary::answers(bytes) {
        let mut written = Vec::new();
        binary::head(&mut written, answers.len());
        for answer in &answers {
            match answer {
                Ok(answer) => binary::taken(&mut written, answer),
                Err(refused) => binary::refused(&mut written, &refused.kind, &refused.detail),
            }
        }
        assert_eq!(binary::answers(&written).expect("what was written are answers").len(), answers.len());
    }
});
