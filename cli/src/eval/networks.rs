//! Forecast networks that experiments use: the shipped one, and one that has never seen anything like Azure.

use std::sync::{Arc, OnceLock};

use meanfield_agent::{policy::forecast, pretraining::Recipe};
use meanfield_common::invalid::Invalid;
use meanfield_learner::forecast::Network;
use meanfield_traces::synth::Preset;

pub fn shipped() -> Result<Arc<Network>, Invalid> {
    forecast::shipped().map_err(|error| Invalid::new("forecast network", error, "the shipped one"))
}

/// Made by the same recipe from every kind of load but one; once a process.
pub fn without_azure() -> Result<Arc<Network>, Invalid> {
    static MADE: OnceLock<Result<Arc<Network>, String>> = OnceLock::new();
    let made = MADE.get_or_init(|| {
        let presets = Preset::ALL.into_iter().filter(|preset| *preset != Preset::AzureFunctions).collect();
        let recipe = Recipe { presets, ..Recipe::default() };
        recipe.train(|_, _| ()).map(Arc::new).map_err(|error| format!("{error:#}"))
    });
    made.clone().map_err(|error| Invalid::new("forecast network", error, "trainable"))
}
