//! Networks as files (safetensors): base models, forecasts and a learner's checkpoint. Any bytes are refused with a reason,
//! or are a network that is written as it was read.

#![no_main]

use libfuzzer_sys::fuzz_target;
use meanfield_coordinator::forecast::Forecast;
use meanfield_learner::{ActorCritic, Learner, forecast::Network};

fuzz_target!(|bytes: &[u8]| {
    if let Ok(network) = ActorCritic::load(bytes) {
        let written = network.save().expect("what was read can be written");
        let again = ActorCritic::load(&written).expect("what was written can be read");
        assert_eq!(again.save().expect("and written again"), written);
    }
    let _ = Learner::load(bytes);
    let _ = Network::load(bytes);
    let _ = Forecast::new(bytes.to_vec());
});
