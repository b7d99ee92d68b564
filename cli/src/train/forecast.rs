//! `meanfield train --forecast`: the recipe by which the shipped forecast network was made.

use std::fs;

use anyhow::Context;
use meanfield_agent::{pretraining::Recipe, training::streams::HELD_OUT_TRACES};
use meanfield_learner::forecast;

use crate::{args::TrainArgs, file};

pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    let recipe = Recipe::default();
    fs::create_dir_all(&args.out).with_context(|| format!("cannot write to {}", args.out.display()))?;
    let network = recipe.train(|pass, loss| say!("pass {:>2}: pinball loss {:.5}", pass + 1, loss))?;
    let [near, ahead] = forecast::loss(&network, &recipe.samples(HELD_OUT_TRACES, HELD_OUT_TRACES + 60)?)?;
    let path = args.out.join("forecast.safetensors");
    file::replace(&path, &network.save()?)?;
    say!(
        "Held-out traces: {near:.5} for the next {} steps, {ahead:.5} for {}.",
        forecast::HORIZONS[0],
        forecast::HORIZONS[1]
    );
    say!("{}: {} parameters, from {}.", path.display(), network.parameters(), network.provenance);
    Ok(())
}
