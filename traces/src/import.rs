//! Reads traces that others publish: plain, gzip or xz, told apart by their first bytes.
//!
//! What is malformed is refused with its file, line and column. What can be mended without guessing is mended, counted
//! and said in [`Imported::notes`]; nothing is left out in silence. The rules, by case:
//!
//! | case | series of counts | single invocations |
//! |---|---|---|
//! | malformed number, time, quote, or number of columns | refused | refused |
//! | negative or infinite value | refused | refused |
//! | time earlier than the one before | refused | sorted, noted |
//! | the same time twice in a series | refused | kept: two arrivals |
//! | time off the grid of the interval | refused | – |
//! | counts at an interval finer than their rows, or rows with two distances equally often | refused | – |
//! | numbers missing at the end | left out, said | – |
//! | seconds that do not begin at zero | moved there, said | – |
//! | missing intervals, or NaN in Prometheus | filled, noted: zero in logs (World Cup), else a straight line | – |
//! | a name that appears twice | numbered, noted | merged: one function |
//! | arrival before the trace begins | – | left out, noted |
//! | stated total unlike the sum | noted | – |
//! | blank line | carries nothing, skipped | the same |
//!
//! Memory is bounded by [`Limits`]; what goes beyond is refused with the limit's name.

mod grid;
mod invocations;
mod minutes;
mod prometheus;
mod source;
mod table;
pub mod time;

use std::{collections::HashMap, fmt, fs::File, io::Read, path::Path};

use meanfield_common::invalid::within;

use crate::{Error, Events, Trace};
use source::{Lines, Source};

/// A format that can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// A row a function and a column a minute, numbered from 1: Azure Functions 2019 and tables cut from it.
    AzureMinutes,
    /// `app,func,end_timestamp,duration`: Azure Functions 2021, a row an invocation.
    AzureInvocations,
    /// `TIMESTAMP,ContextTokens,GeneratedTokens`: Azure LLM inference 2023, a row a request.
    AzureLlm,
    /// `period,count`: World Cup 1998, requests a minute.
    Worldcup,
    /// A time column and a column a series, or the project's own `series,time,requests`.
    Csv,
    /// Prometheus' answer to a range query (a JSON matrix).
    Prometheus,
}

/// What the numbers of a series say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Values {
    /// Requests within the interval.
    Counts,
    /// Requests a second.
    Rates,
}

/// How to read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Options {
    /// The format [default: told from the first line].
    pub format: Option<Format>,
    /// Seconds between rows of a series [default: the most frequent distance], or seconds to count invocations in
    /// [default: 60]. Minute files have one interval only.
    pub interval: Option<f64>,
    /// What the numbers say [default: rates in Prometheus' answers, counts elsewhere].
    pub values: Option<Values>,
    /// Bounds on what is read.
    pub limits: Limits,
}

/// Bounds on what is read, so that no file can take all memory.
#[derive(Debug, Clone, PartialEq)]
pub struct Limits {
    /// Bytes after unpacking.
    pub bytes: u64,
    /// Bytes of one line.
    pub line_bytes: usize,
    /// Columns of one row.
    pub columns: usize,
    /// Series of one file.
    pub series: usize,
    /// Samples of all series together, filled gaps included.
    pub samples: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self { bytes: 4 << 30, line_bytes: 1 << 20, columns: 20_000, series: 200_000, samples: 100_000_000 }
    }
}

/// What was read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Imported {
    /// Counts per interval, in the order of the file.
    pub traces: Vec<Trace>,
    /// Single arrivals, where the format has them; `traces` are these, counted.
    pub events: Vec<Events>,
    /// What had to be mended.
    pub notes: Vec<Note>,
}

/// Something that was mended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Note {
    /// What.
    pub kind: Mended,
    /// How often.
    pub count: u64,
    /// The line where it happened first.
    pub line: u64,
}

/// What can be mended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mended {
    /// Missing intervals, set to zero.
    GapsAsZero,
    /// Intervals without a number at the end, left out.
    TrailingGaps,
    /// Missing intervals, on a straight line between their neighbours.
    GapsOnLine,
    /// A name that was taken already got a number.
    SameName,
    /// A stated total differs from the sum.
    WrongTotal,
    /// Invocations out of order, sorted.
    Unsorted,
    /// Invocations that arrived before the trace begins, left out.
    BeforeStart,
    /// Series whose times in seconds do not begin at zero; they do now.
    Offset,
    /// Series with one row only, taken as one minute.
    Alone,
}

impl fmt::Display for Note {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            Mended::GapsAsZero => "missing intervals set to zero",
            Mended::TrailingGaps => "intervals without a number at the end left out",
            Mended::GapsOnLine => "missing intervals filled on a straight line",
            Mended::SameName => "names appear again and got a number",
            Mended::WrongTotal => "stated totals differ from the sum of the counts",
            Mended::Unsorted => "invocations out of order, sorted",
            Mended::BeforeStart => "invocations arrived before the trace begins, left out",
            Mended::Offset => "series do not begin at second zero; moved there",
            Mended::Alone => "series have a single row, taken as one minute",
        };
        write!(f, "{} {what}, first at line {}", self.count, self.line)
    }
}

/// Counts what is mended.
#[derive(Debug, Default)]
struct Notes(Vec<Note>);

impl Notes {
    fn add(&mut self, kind: Mended, count: u64, line: u64) {
        match self.0.iter_mut().find(|note| note.kind == kind) {
            Some(note) => note.count += count,
            None => self.0.push(Note { kind, count, line }),
        }
    }
}

/// Reads a file.
pub fn read(path: &Path, options: &Options) -> Result<Imported, Error> {
    let name = path.display().to_string();
    let file = File::open(path).map_err(|source| Error::Io { file: name.clone(), source })?;
    read_from(&name, file, options)
}

/// Reads from anywhere; `name` stands for the file in errors.
pub fn read_from(name: &str, from: impl Read, options: &Options) -> Result<Imported, Error> {
    if let Some(interval) = options.interval {
        let invalid = within("interval", interval, 1e-3, 1e9).err();
        if let Some(invalid) = invalid {
            return Err(Error::File { file: name.to_owned(), reason: invalid.to_string() });
        }
    }
    let mut source = Source::open(name, from, &options.limits)?;
    let json = source.begins_with_brace()?;
    let forced = options.format;
    if forced == Some(Format::Prometheus) || (forced.is_none() && json) {
        return prometheus::read(source, options);
    }
    let mut lines = Lines::new(source, &options.limits);
    let header = lines.header()?;
    let format = match forced {
        Some(format) => format,
        None => detect(&header).ok_or_else(|| Error::File {
            file: name.to_owned(),
            reason: format!("the first line fits no known format: {}", shortened(&header.join(","))),
        })?,
    };
    match format {
        Format::AzureMinutes => minutes::read(&mut lines, &header, options),
        Format::AzureInvocations => invocations::read_azure(&mut lines, &header, options),
        Format::AzureLlm => invocations::read_llm(&mut lines, &header, options),
        Format::Worldcup => table::read(lines, &header, table::Kind::Worldcup, options),
        Format::Csv | Format::Prometheus => table::read(lines, &header, table::Kind::Plain, options),
    }
}

/// The format that a first line speaks for.
fn detect(header: &[String]) -> Option<Format> {
    let lower: Vec<_> = header.iter().map(|name| name.trim().to_ascii_lowercase()).collect();
    let names: Vec<_> = lower.iter().map(String::as_str).collect();
    match names.as_slice() {
        ["app", "func", "end_timestamp", "duration"] => Some(Format::AzureInvocations),
        ["timestamp", "contexttokens", "generatedtokens"] => Some(Format::AzureLlm),
        ["period", "count"] => Some(Format::Worldcup),
        names if minutes::first_minute(header).is_some() && !table::is_time(names[0]) => Some(Format::AzureMinutes),
        names if table::recognises(names) => Some(Format::Csv),
        _ => None,
    }
}

fn shortened(text: &str) -> String {
    const LONGEST: usize = 60;
    if text.chars().count() <= LONGEST {
        text.to_owned()
    } else {
        text.chars().take(LONGEST).chain("…".chars()).collect()
    }
}

/// Gives every series a name of its own.
#[derive(Default)]
struct Names(HashMap<String, u64>);

impl Names {
    fn unique(&mut self, name: &str, line: u64, notes: &mut Notes) -> String {
        let mut candidate = name.to_owned();
        while self.0.contains_key(&candidate) {
            let times = self.0.entry(name.to_owned()).or_insert(1);
            *times += 1;
            candidate = format!("{name}#{times}");
        }
        if candidate != name {
            notes.add(Mended::SameName, 1, line);
        }
        self.0.insert(candidate.clone(), 1);
        candidate
    }
}
