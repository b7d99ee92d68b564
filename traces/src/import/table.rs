//! A row a moment: World Cup 1998 (`period,count`), and plain CSV.
//!
//! Plain CSV is either wide (a time column and a column a series, named by the first line) or long (`series`, a time
//! column and one of numbers, as [`export`](crate::export) writes it). Two columns without names are time and requests.

use std::collections::HashMap;

use super::{
    Error, Imported, Notes, Options, Values,
    grid::{Fill, Samples},
    shortened,
    source::{Lines, Row},
    time,
};

/// Which of the tables.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Worldcup,
    Plain,
}

/// Whether a column of this name holds times.
pub fn is_time(name: &str) -> bool {
    ["time", "timestamp", "date", "datetime", "period"].contains(&name.trim().to_ascii_lowercase().as_str())
}

/// Whether a first line speaks for a plain table.
pub fn recognises(names: &[&str]) -> bool {
    let timed = names.iter().any(|name| is_time(name));
    let bare = names.len() == 2 && time::parse(names[0]).is_some() && names[1].parse::<f64>().is_ok();
    (timed && names.len() > 1) || bare
}

/// Where the columns are.
struct Columns {
    time: usize,
    series: Option<usize>,
    values: Vec<usize>,
}

pub fn read(mut lines: Lines<'_>, header: &[String], kind: Kind, options: &Options) -> Result<Imported, Error> {
    let file = lines.file().to_owned();
    let refuse = |(line, reason)| Error::Row { file: file.clone(), line, column: 1, reason };
    let columns = if header.len() == 2 && time::parse(header[0].trim()).is_some() {
        lines.put_back();
        Columns { time: 0, series: None, values: vec![1] }
    } else {
        columns(header).map_err(|reason| refuse((1, reason)))?
    };
    let mut notes = Notes::default();
    let mut table: Vec<Samples> = match (columns.series, kind) {
        (Some(_), _) => Vec::new(),
        (None, Kind::Worldcup) if columns.values.len() == 1 => vec![Samples::new("worldcup98".to_owned())],
        (None, _) => named(header, &columns, &mut notes),
    };
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut samples = 0;
    while let Some(row) = lines.next()? {
        row.expect_columns(header.len())?;
        let time = time::parse(row.text(columns.time)).ok_or_else(|| {
            let text = shortened(row.text(columns.time));
            row.error(columns.time, format!("{text:?} is not seconds, RFC 3339 or YYYY-MM-DD HH:MM:SS"))
        })?;
        samples += columns.values.len();
        for (index, column) in columns.values.iter().enumerate() {
            let place = match columns.series {
                None => index,
                Some(series) => place(&row, series, &mut places, &mut table),
            };
            if table.len() > options.limits.series || samples > options.limits.samples {
                let limits = &options.limits;
                return Err(row.error(0, format!("more than {} series or {} samples", limits.series, limits.samples)));
            }
            let count = Some(row.count(*column)?);
            table[place].push(time, count, row.line).map_err(|reason| row.error(columns.time, reason))?;
        }
    }
    let fill = if kind == Kind::Worldcup { Fill::Zero } else { Fill::Line };
    let per_second = options.values == Some(Values::Rates);
    let (mut limits, mut traces) = (options.limits.clone(), Vec::new());
    for series in table {
        let trace = series.finish(options.interval, per_second, fill, &limits, &mut notes).map_err(refuse)?;
        limits.samples = limits.samples.saturating_sub(trace.counts.len());
        traces.push(trace);
    }
    Ok(Imported { traces, events: Vec::new(), notes: notes.0 })
}

fn columns(header: &[String]) -> Result<Columns, String> {
    let time = header.iter().position(|name| is_time(name)).ok_or("no column is named time or timestamp")?;
    let series = header.iter().position(|name| name.trim().eq_ignore_ascii_case("series"));
    let values: Vec<_> = (0..header.len()).filter(|column| *column != time && Some(*column) != series).collect();
    match (values.len(), series) {
        (0, _) => Err("no column holds requests".to_owned()),
        (1, _) | (_, None) => Ok(Columns { time, series, values }),
        _ => Err("a table with a column named series has one column of numbers".to_owned()),
    }
}

/// A series a column, named by the first line.
fn named(header: &[String], columns: &Columns, notes: &mut Notes) -> Vec<Samples> {
    let bare = time::parse(header[0].trim()).is_some();
    let mut names = super::Names::default();
    let name = |column: &usize| if bare { "requests" } else { header[*column].trim() };
    columns.values.iter().map(|column| Samples::new(names.unique(name(column), 1, notes))).collect()
}

fn place(row: &Row<'_>, column: usize, places: &mut HashMap<String, usize>, table: &mut Vec<Samples>) -> usize {
    let name = row.text(column);
    if let Some(place) = places.get(name) {
        return *place;
    }
    places.insert(name.to_owned(), table.len());
    table.push(Samples::new(name.to_owned()));
    table.len() - 1
}
