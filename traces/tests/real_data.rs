//! Importers and generators against the real traces, where they are: in the directory `MEANFIELD_DATA`, or in
//! `../shared/data` beside the repository. Elsewhere these tests say that they have nothing to do.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{env, path::PathBuf};

use meanfield_traces::{
    Trace,
    describe::{Description, describe, quartiles},
    import::{Imported, Mended, Options, read},
    synth::{Preset, Shape, chat, coding},
};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

fn data() -> Option<PathBuf> {
    let beside = || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../shared/data"));
    let data = env::var_os("MEANFIELD_DATA").map_or_else(beside, PathBuf::from);
    if data.is_dir() {
        return Some(data);
    }
    println!("skipped: no real traces in {} (MEANFIELD_DATA names another directory)", data.display());
    None
}

fn import(file: &str, interval: Option<f64>) -> Option<Imported> {
    let path = data()?.join(file);
    if !path.exists() {
        println!("skipped: {} is absent", path.display());
        return None;
    }
    Some(read(&path, &Options { interval, ..Options::default() }).unwrap())
}

type Figure = fn(&Description) -> Option<f64>;

/// How near a made median must be to the real one.
#[derive(Clone, Copy)]
enum Near {
    /// Within this factor, up or down.
    Factor(f64),
    /// Within this distance.
    Distance(f64),
}

#[track_caller]
fn compare(real: &[Description], made: &[Description], rows: &[(&str, Figure, Near)]) {
    let mut far = Vec::new();
    for (name, figure, near) in rows {
        let [real, made] = [real, made].map(|all| quartiles(all, figure).unwrap()[1]);
        println!("{name:12} real {real:10.3} made {made:10.3}");
        let fits = match near {
            Near::Factor(factor) => made / real < *factor && real / made < *factor,
            Near::Distance(distance) => (made - real).abs() < *distance,
        };
        if !fits {
            far.push(*name);
        }
    }
    assert!(far.is_empty(), "too far: {far:?}");
}

fn made(count: u64, step: f64, steps: usize, mean: f64, shape: impl Fn(&mut ChaCha8Rng) -> Shape) -> Vec<Description> {
    let one = |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        let rates = shape(&mut rng).generate(mean / step, steps, step, &mut rng);
        let counts = rates.iter().map(|rate| (rate * step).round()).collect();
        describe(&Trace::new("made", None, step, counts).unwrap())
    };
    (0..count).map(one).collect()
}

#[test]
fn azure_2019_is_read_whole() {
    let Some(day) = import("azure2019/minute_counts_one_day.csv.xz", None) else { return };
    assert_eq!((day.traces.len(), day.notes.len()), (811, 0));
    assert!(day.traces.iter().all(|trace| trace.counts.len() == 1440));
    assert_eq!(day.traces.iter().filter(|trace| trace.is_busy()).count(), 88);
    let hour = import("azure2019/hour_1000_functions_invocations.csv.gz", None).unwrap();
    assert_eq!((hour.traces.len(), hour.traces[0].counts.len()), (1000, 60));
}

#[test]
fn single_requests_and_the_world_cup_are_read_whole() {
    let Some(code) = import("azure_llm2023/AzureLLMInferenceTrace_code.csv.gz", None) else { return };
    assert_eq!((code.events[0].times().len(), code.traces[0].total()), (8819, 8819.0));
    let worldcup = import("worldcup98/requests_per_minute_to_june_15.csv.gz", None).unwrap();
    assert_eq!(worldcup.traces[0].counts.len(), 64_950);
    let notes: Vec<_> = worldcup.notes.iter().map(|note| (note.kind, note.count)).collect();
    assert_eq!(notes, [(Mended::GapsAsZero, 10)]);
    let balancer = import("anomalies/elb_request_count_8c0756.csv.gz", None).unwrap();
    assert_eq!((balancer.traces[0].interval, balancer.notes[0].kind), (300.0, Mended::GapsOnLine));
}

#[test]
fn made_functions_are_like_the_busy_ones_of_azure() {
    let Some(day) = import("azure2019/minute_counts_one_day.csv.xz", None) else { return };
    let busy: Vec<_> = day.traces.into_iter().filter(Trace::is_busy).collect();
    let real: Vec<_> = busy.iter().map(describe).collect();
    // Seeds other than those of the fit.
    let made: Vec<_> = (busy.iter().zip(0_u64..))
        .flat_map(|(trace, index)| (0..3).map(move |seed| (trace.mean_rate(), 7_000_000 + 1000 * seed + index)))
        .filter_map(|(mean, seed)| {
            let rates = Preset::AzureFunctions.generate(mean, 1440, 60.0, &mut ChaCha8Rng::seed_from_u64(seed));
            let counts = rates.iter().map(|rate| (rate * 60.0).round()).collect();
            let trace = Trace::new("made", None, 60.0, counts).unwrap();
            trace.is_busy().then(|| describe(&trace))
        })
        .collect();
    let rows: [(&str, Figure, Near); 9] = [
        ("peak/mean", |d| d.peak_to_mean, Near::Factor(1.5)),
        ("cv", |d| d.cv, Near::Factor(1.3)),
        ("dispersion", |d| d.dispersion, Near::Factor(1.5)),
        ("lag-1", |d| d.lag1, Near::Distance(0.12)),
        ("slow share", |d| d.slow_share, Near::Distance(0.12)),
        ("daily", |d| d.daily, Near::Distance(0.08)),
        ("bursts", |d| Some(d.burst_share), Near::Distance(0.04)),
        ("idle", |d| Some(d.idle), Near::Distance(0.12)),
        ("tail", |d| d.tail, Near::Factor(1.5)),
    ];
    compare(&real, &made, &rows);
}

#[test]
fn a_made_world_cup_is_like_its_first_days() {
    let Some(worldcup) = import("worldcup98/requests_per_minute_to_june_15.csv.gz", None) else { return };
    let trace = &worldcup.traces[0];
    let last = Trace { counts: trace.counts[trace.counts.len() - 5 * 1440..].to_vec(), ..trace.clone() };
    let real = [describe(&last)];
    let rows: [(&str, Figure, Near); 5] = [
        ("peak/mean", |d| d.peak_to_mean, Near::Factor(1.4)),
        ("cv", |d| d.cv, Near::Factor(1.3)),
        ("lag-1", |d| d.lag1, Near::Distance(0.05)),
        ("daily", |d| d.daily, Near::Distance(0.2)),
        ("bursts", |d| Some(d.burst_share), Near::Distance(0.02)),
    ];
    compare(&real, &made(20, 60.0, 5 * 1440, real[0].mean, |rng| Preset::Worldcup.shape(rng)), &rows);
}

#[test]
fn made_language_models_are_like_the_two_of_azure() {
    for (name, shape) in [("conv", chat as fn() -> Shape), ("code", coding)] {
        let file = format!("azure_llm2023/AzureLLMInferenceTrace_{name}.csv.gz");
        let Some(imported) = import(&file, Some(15.0)) else { return };
        let real = [describe(&imported.traces[0])];
        let rows: [(&str, Figure, Near); 4] = [
            ("peak/mean", |d| d.peak_to_mean, Near::Factor(1.5)),
            ("cv", |d| d.cv, Near::Factor(1.3)),
            ("lag-1", |d| d.lag1, Near::Distance(0.15)),
            ("idle", |d| Some(d.idle), Near::Distance(0.1)),
        ];
        compare(&real, &made(100, 15.0, real[0].intervals, real[0].mean, |_| shape()), &rows);
    }
}
