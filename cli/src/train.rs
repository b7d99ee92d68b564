//! `meanfield train`: agents learn on simulated clusters, with checkpoints to go on from.
//!
//! The agents reach a real coordinator in process. At each checkpoint all of them leave and join anew, so that what
//! follows depends on nothing but what the checkpoint holds: a training that was stopped and resumed comes to the same
//! bits as one that was not.

mod checkpoint;
mod forecast;
mod settings;

use std::{fmt::Write, fs, num::NonZero, path::Path, time::Duration};

use anyhow::Context;
use meanfield_agent::training::{Progress, Trainer};
use meanfield_common::{identity::PoolName, invalid::Invalid};
use meanfield_coordinator::{Clock, Coordinator, Options};

use crate::{
    args::TrainArgs,
    file,
    in_process::InProcess,
    plot::{Axes, COLOURS, GREY, SeriesLabelPosition, lines},
    progress::Bar,
};
use settings::{Settings, Stop};

pub fn run(args: &TrainArgs) -> anyhow::Result<()> {
    if args.forecast {
        return forecast::run(args);
    }
    let settings = Settings::read(args.file.as_ref())?;
    let ended = train(&settings, &args.out, args.resume, args.threads, None)?;
    say!("{ended}");
    say!("Learning curve, networks and the last checkpoint: {}", args.out.display());
    Ok(())
}

/// Trains to the end, or until so many episodes are done; says why it stopped.
fn train(
    settings: &Settings,
    out: &Path,
    resume: bool,
    threads: Option<NonZero<usize>>,
    until: Option<u64>,
) -> anyhow::Result<String> {
    let config = settings.config()?;
    let (scenario, loads) = settings.clusters()?;
    let last = checkpoint::all(out)?.pop();
    if let (Some(last), false) = (&last, resume) {
        let bound = "without checkpoints, or with --resume to go on from the last one";
        Err(Invalid::new("out", last.display(), bound))?;
    }
    if last.is_none() && resume {
        let bound = format!("a folder with a checkpoint to go on from ({})", checkpoint::pattern(out).display());
        Err(Invalid::new("resume", out.display(), bound))?;
    }
    fs::create_dir_all(out).with_context(|| format!("cannot write to {}", out.display()))?;

    let (coordinator, pools) = coordinator(config.environments)?;
    let link = |_: usize| InProcess(coordinator.clone());
    let mut trainer = Trainer::new(config, &scenario, settings.seed, &pools, link)?.with_loads(loads);
    if let Some(threads) = threads {
        trainer = trainer.with_threads(threads);
    }
    let mut curve = Vec::new();
    let mut kept = None;
    if let (Some(last), true) = (last, resume) {
        let (state, saved) = checkpoint::read(&last)?;
        let of = || format!("cannot go on from {}", last.display());
        // Networks of another shape are the clearer reason than the settings that made them so.
        trainer.fits(&saved).with_context(of)?;
        let differing = settings.differences(&state.settings)?;
        if !differing.is_empty() {
            let bound = format!("those of {}: {}", last.display(), differing.join("; "));
            Err(Invalid::new("settings", "others", bound))?;
        }
        trainer.resume(&saved, link).with_context(of)?;
        let point = |[reward, violations, cores]: [f64; 3]| Progress { reward, violations, cores };
        curve.extend(state.curve.into_iter().map(point));
        kept = Some(last);
    }

    let bar = Bar::new("training", settings.episodes.saturating_sub(trainer.iteration()).max(1));
    let mut reason = format!("All {} episodes are done.", settings.episodes);
    while trainer.iteration() < settings.episodes.min(until.unwrap_or(u64::MAX)) {
        if let Some(stop) = settings.stop.filter(|stop| stale(&curve, stop)) {
            let Stop { window, patience } = stop;
            reason = format!(
                "Stopped after {} episodes: the mean reward of {window} has not become better for {patience}.",
                curve.len()
            );
            break;
        }
        let share = trainer.iteration() as f32 / settings.episodes as f32;
        let progress = trainer.iterate(share).with_context(|| match &kept {
            Some(kept) => format!("the last good checkpoint is {}", kept.display()),
            None => "there is no checkpoint yet".to_owned(),
        })?;
        bar.step(progress.reward, progress.violations, progress.cores);
        curve.push(progress);
        if trainer.iteration().is_multiple_of(settings.checkpoint_every) {
            kept = Some(checkpoint::write(out, settings, &trainer.save()?, &curve)?);
            draw(out, &curve)?;
            trainer.restart(&scenario, link)?;
        }
    }
    bar.finish();
    trainer.leave()?;
    draw(out, &curve)?;
    if until.is_none() {
        for (name, learner) in trainer.learners() {
            file::replace(&out.join(format!("model-{name}.safetensors")), &learner.network().save()?)?;
        }
    }
    Ok(reason)
}

/// A coordinator in memory with a pool for each cluster.
pub fn coordinator(clusters: usize) -> anyhow::Result<(Coordinator, Vec<PoolName>)> {
    let pools = (1..=clusters).map(|cluster| format!("training-{cluster}").parse()).collect::<Result<Vec<_>, _>>()?;
    // Simulated time may stand still for longer than any real agent is silent.
    let (suspect_after, gone_after) = (Duration::from_hours(24), Duration::from_hours(48));
    let options = Options { pools: pools.clone(), suspect_after, gone_after, ..Options::default() };
    Ok((Coordinator::open(options, Clock::system())?, pools))
}

/// Whether no window within the patience was better than the best before.
fn stale(curve: &[Progress], stop: &Stop) -> bool {
    let means: Vec<f64> = curve
        .windows(stop.window)
        .map(|window| window.iter().map(|point| point.reward).sum::<f64>() / stop.window as f64)
        .collect();
    let Some(split) = means.len().checked_sub(stop.patience).filter(|split| *split > 0) else { return false };
    let best = |part: &[f64]| part.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    best(&means[split..]) <= best(&means[..split])
}

/// The learning curve, as numbers and as a picture.
fn draw(out: &Path, curve: &[Progress]) -> anyhow::Result<()> {
    let mut text = String::from("episode,reward,violations,cores\n");
    for (episode, Progress { reward, violations, cores }) in curve.iter().enumerate() {
        let _ = writeln!(text, "{episode},{reward},{violations},{cores}");
    }
    file::replace(&out.join("curve.csv"), text.as_bytes())?;
    let smooth: Vec<(f64, f64)> = (0..curve.len())
        .map(|end| {
            let window = &curve[end.saturating_sub(19)..=end];
            (end as f64, window.iter().map(|point| point.reward).sum::<f64>() / window.len() as f64)
        })
        .collect();
    let raw: Vec<_> = curve.iter().enumerate().map(|(at, point)| (at as f64, point.reward)).collect();
    // Where it starts, far below, would squeeze what is worth seeing: the worst tenth is cut off.
    let mut rewards: Vec<f64> = raw.iter().map(|point| point.1).collect();
    rewards.sort_unstable_by(f64::total_cmp);
    let (low, high) = (rewards.get(rewards.len() / 10).copied(), rewards.last().copied());
    let (low, high) = (low.unwrap_or(0.0), high.unwrap_or(1.0));
    let room = 0.05 * (high - low).max(0.1);
    let axes = Axes {
        title: "Learning (simulated)",
        x: "episode",
        y: "mean reward of a step",
        left: 0.0,
        low: low - room,
        high: high + room,
        legend: SeriesLabelPosition::LowerRight,
    };
    let svg = lines(&axes, &[("each episode", GREY, raw), ("mean of 20", COLOURS[0], smooth)])?;
    file::replace(&out.join("curve.svg"), svg.as_bytes())
}

#[cfg(test)]
mod tests;
