//! A row a function, a column a minute: Azure Functions 2019 (`HashOwner,HashApp,HashFunction,Trigger,1,2,…,1440`) and
//! tables cut from it (`id,pool,total,…,1,…,1440` or `HashFunction,Trigger,1,…,60`).

use super::{Imported, Mended, Names, Notes, Options, source::Lines};
use crate::{Error, Trace};

/// The column of minute 1, when every column from there on is numbered.
pub fn first_minute(header: &[String]) -> Option<usize> {
    let first = header.iter().position(|name| name.trim() == "1")?;
    let minutes = &header[first..];
    let numbered = minutes.iter().zip(1_usize..).all(|(name, minute)| name.trim().parse() == Ok(minute));
    (first > 0 && minutes.len() > 1 && numbered).then_some(first)
}

pub fn read(lines: &mut Lines<'_>, header: &[String], options: &Options) -> Result<Imported, Error> {
    let fail = |file: &str, reason: &str| Error::File { file: file.to_owned(), reason: reason.to_owned() };
    let Some(first) = first_minute(header) else {
        return Err(fail(lines.file(), "the first line has no columns 1, 2, 3, … after a name"));
    };
    if options.interval.is_some_and(|interval| interval != 60.0) {
        return Err(fail(lines.file(), "counts per minute have an interval of 60 s and no other"));
    }
    let column = |name: &str| header[..first].iter().position(|column| column.trim().eq_ignore_ascii_case(name));
    let (app, function) = (column("HashApp"), column("HashFunction").or_else(|| column("id")).unwrap_or(0));
    let total = column("total");
    let (mut imported, mut names, mut notes, mut samples) =
        (Imported::default(), Names::default(), Notes::default(), 0);
    while let Some(row) = lines.next()? {
        row.expect_columns(header.len())?;
        samples += header.len() - first;
        if imported.traces.len() >= options.limits.series || samples > options.limits.samples {
            let limits = &options.limits;
            return Err(row.error(0, format!("more than {} series or {} samples", limits.series, limits.samples)));
        }
        let counts = (first..header.len()).map(|minute| row.count(minute)).collect::<Result<Vec<_>, _>>()?;
        if let Some(column) = total
            && (row.number(column)? - counts.iter().sum::<f64>()).abs() > 0.5
        {
            notes.add(Mended::WrongTotal, 1, row.line);
        }
        let name = match app {
            Some(app) => format!("{}/{}", row.text(app), row.text(function)),
            None => row.text(function).to_owned(),
        };
        let name = names.unique(&name, row.line, &mut notes);
        let trace = Trace::new(name, None, 60.0, counts).map_err(|invalid| row.error(first, invalid.to_string()))?;
        imported.traces.push(trace);
    }
    imported.notes = notes.0;
    Ok(imported)
}
