//! Prometheus' answer to a range query: `{"status":"success","data":{"resultType":"matrix","result":[…]}}`.
//!
//! Samples are checked while they are read, so that a refusal has its line and column.

use std::{collections::BTreeMap, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{self, SeqAccess, Visitor},
};

use super::{
    Error, Imported, Names, Notes, Options, Values,
    grid::{Fill, Samples},
    source::Source,
    time::{Time, UNIX_TO},
};
use crate::trace::HIGHEST_COUNT;

/// An answer is held in memory as a whole.
const MOST_BYTES: u64 = 512 << 20;

#[derive(Deserialize)]
struct Answer {
    status: String,
    error: Option<String>,
    data: Option<Data>,
}

#[derive(Deserialize)]
struct Data {
    #[serde(rename = "resultType")]
    kind: String,
    #[serde(default)]
    result: Vec<Series>,
}

#[derive(Deserialize)]
struct Series {
    #[serde(default)]
    metric: BTreeMap<String, String>,
    #[serde(default)]
    values: Vec<Sample>,
}

/// A time and a value, which is absent where it is not a number.
struct Sample(f64, Option<f64>);

impl<'de> Deserialize<'de> for Sample {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pair;
        impl<'de> Visitor<'de> for Pair {
            type Value = Sample;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("[time, \"value\"]")
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Sample, A::Error> {
                let short = || de::Error::custom("a sample is [time, \"value\"]");
                let time: f64 = items.next_element()?.ok_or_else(short)?;
                let text: String = items.next_element()?.ok_or_else(short)?;
                if items.next_element::<de::IgnoredAny>()?.is_some() {
                    return Err(short());
                }
                if !(0.0..UNIX_TO).contains(&time) {
                    return Err(de::Error::custom(format!("{time} is not a time")));
                }
                match text.parse::<f64>() {
                    Ok(value) if value.is_nan() => Ok(Sample(time, None)),
                    Ok(value) if (0.0..=HIGHEST_COUNT).contains(&value) => Ok(Sample(time, Some(value.abs()))),
                    Ok(value) => Err(de::Error::custom(format!("{value} is not within [0, {HIGHEST_COUNT:e}]"))),
                    Err(_) => Err(de::Error::custom(format!("{:?} is not a number", super::shortened(&text)))),
                }
            }
        }
        deserializer.deserialize_seq(Pair)
    }
}

pub fn read(source: Source<'_>, options: &Options) -> Result<Imported, Error> {
    let file = source.name.clone();
    let mut limits = options.limits.clone();
    limits.bytes = limits.bytes.min(MOST_BYTES);
    let bytes = source.into_bytes(&limits)?;
    let answer: Answer = serde_json::from_slice(&bytes).map_err(|error| {
        let text = error.to_string();
        let reason = text.split(" at line ").next().unwrap_or_default().to_owned();
        Error::Row { file: file.clone(), line: error.line() as u64, column: error.column() as u64, reason }
    })?;
    drop(bytes);
    let fail = |reason: String| Error::File { file: file.clone(), reason };
    let data = match answer {
        Answer { error: Some(error), .. } => return Err(fail(format!("Prometheus answered: {error}"))),
        Answer { data: Some(data), status, .. } if status == "success" => data,
        Answer { status, .. } => return Err(fail(format!("status {status:?} without data"))),
    };
    if data.kind != "matrix" {
        return Err(fail(format!("a result of type {:?}; a range query gives a matrix", data.kind)));
    }
    if data.result.len() > limits.series {
        return Err(fail(format!("more than {} series", limits.series)));
    }
    // The matrix is on one line as a rule: samples are counted instead of lines.
    let (mut traces, mut names, mut notes) = (Vec::new(), Names::default(), Notes::default());
    for series in data.result {
        let name = names.unique(&label(&series.metric), 1, &mut notes);
        let refuse = |(sample, reason): (u64, String)| fail(format!("series {name}, sample {sample}: {reason}"));
        let mut samples = Samples::new(name.clone());
        for (Sample(time, value), sample) in series.values.into_iter().zip(1..) {
            samples.push(Time::Unix(time), value, sample).map_err(|reason| refuse((sample, reason)))?;
        }
        let rates = options.values != Some(Values::Counts);
        let trace = samples.finish(options.interval, rates, Fill::Line, &limits, &mut notes).map_err(refuse)?;
        limits.samples = limits.samples.saturating_sub(trace.counts.len());
        traces.push(trace);
    }
    Ok(Imported { traces, events: Vec::new(), notes: notes.0 })
}

/// `name{label="value",…}` as Prometheus writes it.
fn label(metric: &BTreeMap<String, String>) -> String {
    let labels = metric.iter().filter(|(key, _)| *key != "__name__").map(|(key, value)| format!("{key}={value:?}"));
    let labels = labels.collect::<Vec<_>>().join(",");
    match (metric.get("__name__"), labels.is_empty()) {
        (Some(name), true) => name.clone(),
        (Some(name), false) => format!("{name}{{{labels}}}"),
        (None, true) => "requests".to_owned(),
        (None, false) => format!("{{{labels}}}"),
    }
}
