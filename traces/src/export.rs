//! The project's own CSV: `series,time,requests`, a row an interval, series one after the other.
//!
//! Long and not wide, so that series of different lengths and intervals fit into one file. Times are RFC 3339 where the
//! trace has a date, otherwise seconds since its beginning. Numbers are written so that they come back bit by bit.

use std::io::{self, Write};

use crate::{Trace, import::time};

/// Writes all series.
pub fn write_csv(traces: &[Trace], mut to: impl Write) -> io::Result<()> {
    writeln!(to, "series,time,requests")?;
    for trace in traces {
        let name = quoted(&trace.name);
        for (index, count) in trace.counts.iter().enumerate() {
            let offset = index as f64 * trace.interval;
            match trace.start {
                Some(start) => writeln!(to, "{name},{},{count}", time::format(start + offset))?,
                None => writeln!(to, "{name},{offset},{count}")?,
            }
        }
    }
    to.flush()
}

/// A field that cannot be taken for two, and holds no line breaks.
fn quoted(name: &str) -> String {
    let name: String = name.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
    if name.contains([',', '"']) { format!("\"{}\"", name.replace('"', "\"\"")) } else { name }
}
