//! Audit logs as `meanfield ctl audit verify --file` reads them, token patterns, and what agents read of a coordinator.

#![no_main]

use libfuzzer_sys::fuzz_target;
use meanfield_common::{
    batch::Answers,
    wire::{Answer, Problem, Registered},
};
use meanfield_coordinator::{
    access::Pattern,
    audit::{Page, verify},
};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(page) = serde_json::from_slice::<Page>(bytes) {
        let _ = verify(page.anchor, &page.entries, page.head);
    }
    if let Ok(text) = std::str::from_utf8(bytes)
        && let Some((pattern, name)) = text.split_once('\n')
        && let Ok(pattern) = pattern.parse::<Pattern>()
    {
        let fixed = pattern.to_string().replace('*', "");
        assert!(!pattern.matches(name) || name.len() >= fixed.len());
        assert_eq!(pattern.to_string().parse::<Pattern>().as_ref(), Ok(&pattern));
    }
    let _ = serde_json::from_slice::<Answer>(bytes);
    let _ = serde_json::from_slice::<Answers>(bytes);
    let _ = serde_json::from_slice::<Registered>(bytes);
    let _ = serde_json::from_slice::<Problem>(bytes);
});
