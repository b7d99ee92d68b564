//! `meanfield trace`: figures, CSV and drawings of arrival traces, real or made.
//!
//! What an importer had to mend is said on standard error; standard output holds the result alone.

pub mod args;
mod figures;
mod plot;

use std::{
    fs::File,
    io::{self, BufWriter, Write},
    path::Path,
};

use anyhow::Context;
use meanfield_common::invalid::within;
use meanfield_traces::{Trace, export::write_csv, import, synth};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

use args::{ReadArgs, SynthArgs, TraceArgs, TraceCommand};

/// Most intervals of all series together that are made; a file of them has some gigabytes.
const MOST_INTERVALS: f64 = 1e8;

pub fn run(args: &TraceArgs) -> anyhow::Result<()> {
    match &args.command {
        TraceCommand::Describe(args) => figures::print(&read(&args.read)?, args.series, args.json),
        TraceCommand::Import(args) => write(&read(&args.read)?, args.output.as_deref()),
        TraceCommand::Synth(args) => write(&make(args)?, args.output.as_deref()),
        TraceCommand::Plot(args) => {
            let traces = busiest(read(&args.read)?, args.series as usize);
            let svg = plot::draw(&traces)?;
            std::fs::write(&args.output, svg).with_context(|| args.output.display().to_string())
        }
    }
}

fn read(args: &ReadArgs) -> anyhow::Result<Vec<Trace>> {
    let mut imported = import::read(&args.file, &args.options())?;
    for note in &imported.notes {
        eprintln!("meanfield: {}: {note}", args.file.display());
    }
    if args.busy {
        imported.traces.retain(Trace::is_busy);
    }
    anyhow::ensure!(!imported.traces.is_empty(), "{}: no series to show", args.file.display());
    Ok(imported.traces)
}

/// The series with the most requests, most first.
fn busiest(mut traces: Vec<Trace>, count: usize) -> Vec<Trace> {
    traces.sort_by(|a, b| b.total().total_cmp(&a.total()));
    traces.truncate(count);
    traces
}

fn make(args: &SynthArgs) -> anyhow::Result<Vec<Trace>> {
    within("mean", args.mean, 0.0, 1e9)?;
    within("days", args.days, 1e-4, 1e4)?;
    let preset = synth::Preset::from(args.preset);
    let mut rng = ChaCha8Rng::seed_from_u64(args.seed);
    let step = args.step.as_secs_f64();
    let one = |number: u64, rng: &mut ChaCha8Rng| -> anyhow::Result<Trace> {
        let mut shape = preset.shape(rng);
        if let Some(day) = args.day {
            shape.day_seconds = day.as_secs_f64();
        }
        let steps = (args.days * shape.day_seconds / step).round();
        within("intervals", steps * args.series as f64, 1.0, MOST_INTERVALS)?;
        let rates = shape.generate(args.mean, steps as usize, step, rng);
        let counts = rates.iter().map(|rate| rate * step).collect();
        Ok(Trace::new(format!("{}-{number}", preset.name()), None, step, counts)?)
    };
    (1..=args.series).map(|number| one(number, &mut rng)).collect()
}

fn write(traces: &[Trace], output: Option<&Path>) -> anyhow::Result<()> {
    match output {
        Some(path) => {
            let place = || path.display().to_string();
            let file = File::create(path).with_context(place)?;
            write_csv(traces, BufWriter::new(file)).with_context(place)
        }
        None => match write_csv(traces, BufWriter::new(io::stdout().lock())) {
            // Whoever stopped reading has read enough.
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => Ok(result.and_then(|()| io::stdout().flush())?),
        },
    }
}
