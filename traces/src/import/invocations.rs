//! A row an invocation: Azure Functions 2021 and Azure LLM inference 2023.

use std::collections::HashMap;

use super::{
    Imported, Mended, Notes, Options,
    source::{Lines, Row},
    time::{self, Time},
};
use crate::{Error, Events};

/// Seconds in which invocations are counted unless told otherwise.
const MINUTE: f64 = 60.0;

/// `app,func,end_timestamp,duration`, both in seconds: an invocation arrived at its end less its duration.
pub fn read_azure(lines: &mut Lines<'_>, header: &[String], options: &Options) -> Result<Imported, Error> {
    expect(lines, header, &["app", "func", "end_timestamp", "duration"])?;
    let mut arrivals = Arrivals::default();
    while let Some(row) = lines.next()? {
        row.expect_columns(4)?;
        let (end, duration) = (row.number(2)?, row.number(3)?);
        if duration < 0.0 {
            return Err(row.error(3, format!("{duration} is not a duration")));
        }
        let name = format!("{}/{}", row.text(0), row.text(1));
        let arrival = end - duration;
        if arrival < 0.0 {
            arrivals.notes.add(Mended::BeforeStart, 1, row.line);
        } else {
            arrivals.push(&name, arrival, &row, options)?;
        }
    }
    arrivals.finish(None, 0.0, lines.file(), options)
}

/// `TIMESTAMP,ContextTokens,GeneratedTokens`; tokens are checked, but a trace is of arrivals only.
pub fn read_llm(lines: &mut Lines<'_>, header: &[String], options: &Options) -> Result<Imported, Error> {
    expect(lines, header, &["timestamp", "contexttokens", "generatedtokens"])?;
    let mut arrivals = Arrivals::default();
    while let Some(row) = lines.next()? {
        row.expect_columns(3)?;
        let Some(Time::Unix(time)) = time::parse(row.text(0)) else {
            return Err(row.error(0, format!("{:?} is not a date and time", super::shortened(row.text(0)))));
        };
        if time < 0.0 {
            return Err(row.error(0, "a time before 1970"));
        }
        row.count(1)?;
        row.count(2)?;
        arrivals.push("requests", time, &row, options)?;
    }
    let start = arrivals.functions.first().map(|(_, times)| times.iter().copied().fold(f64::INFINITY, f64::min));
    arrivals.finish(start, start.unwrap_or_default(), lines.file(), options)
}

fn expect(lines: &Lines<'_>, header: &[String], wanted: &[&str]) -> Result<(), Error> {
    if header.len() == wanted.len()
        && header.iter().zip(wanted).all(|(name, wanted)| name.trim().eq_ignore_ascii_case(wanted))
    {
        return Ok(());
    }
    let reason = format!("the first line is not {}", wanted.join(","));
    Err(Error::File { file: lines.file().to_owned(), reason })
}

/// Arrivals by function, in the order in which functions appear.
#[derive(Default)]
struct Arrivals {
    functions: Vec<(String, Vec<f64>)>,
    places: HashMap<String, usize>,
    total: usize,
    last: f64,
    notes: Notes,
}

impl Arrivals {
    fn push(&mut self, name: &str, time: f64, row: &Row<'_>, options: &Options) -> Result<(), Error> {
        if !(0.0..=1e12).contains(&time) {
            return Err(row.error(0, format!("{time} is not within [0, 1e12] seconds")));
        }
        let place = match self.places.get(name) {
            Some(place) => *place,
            None => {
                self.places.insert(name.to_owned(), self.functions.len());
                self.functions.push((name.to_owned(), Vec::new()));
                self.functions.len() - 1
            }
        };
        self.total += 1;
        let limits = &options.limits;
        if self.functions.len() > limits.series || self.total > limits.samples {
            return Err(row.error(0, format!("more than {} series or {} samples", limits.series, limits.samples)));
        }
        if time < self.last {
            self.notes.add(Mended::Unsorted, 1, row.line);
        }
        self.last = time;
        self.functions[place].1.push(time);
        Ok(())
    }

    fn finish(self, start: Option<f64>, zero: f64, file: &str, options: &Options) -> Result<Imported, Error> {
        let mut imported = Imported { notes: self.notes.0, ..Imported::default() };
        let fail = |reason: String| Error::File { file: file.to_owned(), reason };
        let interval = options.interval.unwrap_or(MINUTE);
        let mut samples = 0.0;
        for (name, times) in self.functions {
            let latest = times.iter().copied().fold(0.0, f64::max);
            samples += (latest - zero) / interval;
            if samples > options.limits.samples as f64 {
                return Err(fail(format!("more than {} intervals of {interval} s", options.limits.samples)));
            }
            let times = times.into_iter().map(|time| time - zero).collect();
            let events = Events::new(name, start, times).map_err(|invalid| fail(invalid.to_string()))?;
            imported.traces.push(events.counts(interval).map_err(|invalid| fail(invalid.to_string()))?);
            imported.events.push(events);
        }
        Ok(imported)
    }
}
