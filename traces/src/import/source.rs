//! Bytes of a file, unpacked, and its lines cut into fields, with bounds on both.

use std::{
    borrow::Cow,
    io::{self, BufRead, BufReader, Cursor, Read},
};

use flate2::read::MultiGzDecoder;
use lzma_rust2::XzReader;

use super::{Limits, shortened};
use crate::{Error, trace::HIGHEST_COUNT};

/// Memory for unpacking xz, in KiB: its largest preset needs 65 MiB.
const XZ_MEMORY: u32 = 128 << 10;

/// The unpacked bytes of a file.
pub struct Source<'a> {
    pub name: String,
    reader: Box<dyn BufRead + 'a>,
}

impl<'a> Source<'a> {
    /// Unpacks what gzip or xz packed; everything else is taken as it is.
    pub fn open(name: &str, mut from: impl Read + 'a, limits: &Limits) -> Result<Self, Error> {
        let fail = |source| Error::Io { file: name.to_owned(), source };
        let mut magic = Vec::new();
        from.by_ref().take(6).read_to_end(&mut magic).map_err(fail)?;
        let (gzip, xz) = (magic.starts_with(&[0x1f, 0x8b]), magic == [0xfd, b'7', b'z', b'X', b'Z', 0]);
        let whole = BufReader::new(Cursor::new(magic).chain(from));
        // One byte more than allowed, to tell the end of the file from the limit.
        let most = limits.bytes.saturating_add(1);
        let reader: Box<dyn BufRead + 'a> = if gzip {
            Box::new(BufReader::new(MultiGzDecoder::new(whole).take(most)))
        } else if xz {
            Box::new(BufReader::new(XzReader::new_mem_limit(whole, true, XZ_MEMORY).take(most)))
        } else {
            Box::new(whole.take(most))
        };
        Ok(Self { name: name.to_owned(), reader })
    }

    /// Whether this is JSON and no table.
    pub fn begins_with_brace(&mut self) -> Result<bool, Error> {
        let bytes = self.reader.fill_buf().map_err(|source| Error::Io { file: self.name.clone(), source })?;
        Ok(bytes.trim_ascii_start().starts_with(b"{"))
    }

    /// Everything at once.
    pub fn into_bytes(mut self, limits: &Limits) -> Result<Vec<u8>, Error> {
        let mut bytes = Vec::new();
        self.reader
            .read_to_end(&mut bytes)
            .map_err(|source| Error::Io { file: self.name.clone(), source })
            .and_then(|read| check_bytes(&self.name, read as u64, limits))?;
        Ok(bytes)
    }
}

fn check_bytes(file: &str, read: u64, limits: &Limits) -> Result<(), Error> {
    if read <= limits.bytes {
        return Ok(());
    }
    Err(Error::File { file: file.to_owned(), reason: format!("more than {} bytes when unpacked", limits.bytes) })
}

/// The lines of a table.
pub struct Lines<'a> {
    source: Source<'a>,
    limits: Limits,
    line: u64,
    read: u64,
    buffer: Vec<u8>,
    /// The first line was no header: it is given out again.
    again: bool,
}

impl<'a> Lines<'a> {
    pub fn new(source: Source<'a>, limits: &Limits) -> Self {
        Self { source, limits: limits.clone(), line: 0, read: 0, buffer: Vec::new(), again: false }
    }

    pub fn file(&self) -> &str {
        &self.source.name
    }

    /// The fields of the first line.
    pub fn header(&mut self) -> Result<Vec<String>, Error> {
        match self.next()? {
            Some(row) => Ok(row.fields.into_iter().map(Cow::into_owned).collect()),
            None => Err(Error::File { file: self.file().to_owned(), reason: "the file is empty".to_owned() }),
        }
    }

    /// Gives the line that was read last once more.
    pub fn put_back(&mut self) {
        self.again = true;
    }

    /// The next line that is not blank.
    pub fn next(&mut self) -> Result<Option<Row<'_>>, Error> {
        if !std::mem::take(&mut self.again) {
            loop {
                if !self.advance()? {
                    return Ok(None);
                }
                if !self.buffer.trim_ascii().is_empty() {
                    break;
                }
            }
        }
        let error = |column: usize, reason: String| Error::Row {
            file: self.source.name.clone(),
            line: self.line,
            column: column as u64,
            reason,
        };
        let text = std::str::from_utf8(&self.buffer).map_err(|_| error(1, "this is not UTF-8 text".to_owned()))?;
        let fields = split(text.trim_start_matches('\u{feff}'), self.limits.columns).map_err(|(c, r)| error(c, r))?;
        Ok(Some(Row { file: &self.source.name, line: self.line, fields }))
    }

    fn advance(&mut self) -> Result<bool, Error> {
        self.buffer.clear();
        let most = self.limits.line_bytes as u64 + 1;
        let read = (&mut self.source.reader).take(most).read_until(b'\n', &mut self.buffer);
        let read = read.map_err(|source: io::Error| Error::Io { file: self.source.name.clone(), source })? as u64;
        self.line += 1;
        self.read += read;
        check_bytes(&self.source.name, self.read, &self.limits)?;
        if read == most && self.buffer.last() != Some(&b'\n') {
            let reason = format!("a line of more than {} bytes", self.limits.line_bytes);
            return Err(Error::Row { file: self.source.name.clone(), line: self.line, column: 1, reason });
        }
        while matches!(self.buffer.last(), Some(b'\n' | b'\r')) {
            self.buffer.pop();
        }
        Ok(read > 0)
    }
}

/// Cuts a line at its commas; quotes keep commas in, and two of them stand for one.
fn split(line: &str, most: usize) -> Result<Vec<Cow<'_, str>>, (usize, String)> {
    let mut fields = Vec::new();
    let mut rest = Some(line);
    while let Some(text) = rest {
        let column = fields.len() + 1;
        if column > most {
            return Err((column, format!("more than {most} columns")));
        }
        let field;
        (field, rest) = if let Some(quoted) = text.strip_prefix('"') {
            let (field, after) = unquote(quoted).ok_or((column, "the quote is not closed".to_owned()))?;
            match after.strip_prefix(',') {
                Some(after) => (Cow::Owned(field), Some(after)),
                None if after.is_empty() => (Cow::Owned(field), None),
                None => return Err((column, "text after the closing quote".to_owned())),
            }
        } else {
            match text.split_once(',') {
                Some((field, after)) => (Cow::Borrowed(field), Some(after)),
                None => (Cow::Borrowed(text), None),
            }
        };
        fields.push(field);
    }
    Ok(fields)
}

fn unquote(text: &str) -> Option<(String, &str)> {
    let mut field = String::new();
    let mut rest = text;
    loop {
        let (before, after) = rest.split_once('"')?;
        field.push_str(before);
        match after.strip_prefix('"') {
            Some(after) => {
                field.push('"');
                rest = after;
            }
            None => return Some((field, after)),
        }
    }
}

/// One line of a table.
pub struct Row<'a> {
    file: &'a str,
    pub line: u64,
    pub fields: Vec<Cow<'a, str>>,
}

impl Row<'_> {
    /// A refusal of a column, counted from zero.
    pub fn error(&self, column: usize, reason: impl Into<String>) -> Error {
        Error::Row { file: self.file.to_owned(), line: self.line, column: column as u64 + 1, reason: reason.into() }
    }

    /// Refuses a row that has more or fewer columns than the header.
    pub fn expect_columns(&self, columns: usize) -> Result<(), Error> {
        let found = self.fields.len();
        if found == columns {
            return Ok(());
        }
        Err(self.error(found.min(columns), format!("{found} columns where the first line has {columns}")))
    }

    pub fn text(&self, column: usize) -> &str {
        self.fields.get(column).map_or("", |field| field.trim())
    }

    /// A number that may be negative.
    pub fn number(&self, column: usize) -> Result<f64, Error> {
        let text = self.text(column);
        match text.parse::<f64>() {
            Ok(number) if number.is_finite() => Ok(number),
            _ => Err(self.error(column, format!("{:?} is not a number", shortened(text)))),
        }
    }

    /// A number of requests.
    pub fn count(&self, column: usize) -> Result<f64, Error> {
        let number = self.number(column)?;
        if (0.0..=HIGHEST_COUNT).contains(&number) {
            // No negative zero: it would not come back from our own CSV.
            return Ok(number.abs());
        }
        Err(self.error(column, format!("{number} is not within [0, {HIGHEST_COUNT:e}]")))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_cut_at_commas_outside_of_quotes() {
        let cut = |line| split(line, 4).map(|fields| fields.join("|"));
        assert_eq!(cut("a,b,,c"), Ok("a|b||c".to_owned()));
        assert_eq!(cut("\"a,b\",\"say \"\"so\"\"\""), Ok("a,b|say \"so\"".to_owned()));
        assert_eq!(cut(""), Ok(String::new()));
        for (bad, column) in [("a,\"b", 2), ("\"a\"b,c", 1), ("1,2,3,4,5", 5)] {
            assert_eq!(cut(bad).unwrap_err().0, column, "{bad}");
        }
    }
}
