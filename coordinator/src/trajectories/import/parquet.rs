//! Rows of a Parquet file. The library trusts what it reads more than we do.

use std::{
    fs::File,
    io::{self, BufReader, Read, Seek, SeekFrom},
    panic::{AssertUnwindSafe, catch_unwind},
};

use axum::body::Bytes;
use meanfield_common::invalid::Invalid;
use parquet::{
    errors::{ParquetError, Result as ParquetResult},
    file::reader::{ChunkReader, FileReader, Length, SerializedFileReader},
    record::{Field, Row, reader::RowIter},
};

use super::{Fields, check};

pub(super) fn rows(file: File) -> Result<Fields, Invalid> {
    let bad = |error: ParquetError| Invalid::new("body", error, "Parquet");
    let reader = guarded(|| Ending::new(file).and_then(SerializedFileReader::new).map_err(bad))?;
    check(reader.metadata().file_metadata().schema_descr().columns().iter().map(|column| column.name()))?;
    let text = |field: &Field| match field {
        Field::Str(text) => text.clone(),
        Field::Double(number) => number.to_string(),
        Field::Int(number) => number.to_string(),
        Field::UInt(number) => number.to_string(),
        Field::Long(number) => number.to_string(),
        Field::ULong(number) => number.to_string(),
        // No column of ours is of another type, and none of ours reads this.
        other => format!("{other:?}"),
    };
    let fields = move |row: Row| row.get_column_iter().map(|(_, field)| text(field)).collect();
    let mut rows = RowIter::from_file_into(Box::new(reader));
    Ok(Box::new(std::iter::from_fn(move || {
        guarded(|| rows.next().map(|row| row.map(fields).map_err(bad)).transpose()).transpose()
    })))
}

/// Some files make the library panic, for example by lengths below zero; for us that is one more way of being no Parquet.
fn guarded<T>(read: impl FnOnce() -> Result<T, Invalid>) -> Result<T, Invalid> {
    let panicked = |_| Err(Invalid::new("body", "what cannot be read", "Parquet"));
    catch_unwind(AssertUnwindSafe(read)).unwrap_or_else(panicked)
}

/// A file that ends with an error. The library takes nothing for an answer when it passes over a list, and asks again for
/// each of the elements that a damaged one promises: for years.
struct Ending {
    file: File,
    length: u64,
}

impl Ending {
    fn new(file: File) -> ParquetResult<Self> {
        let length = file.metadata()?.len();
        Ok(Self { file, length })
    }
}

impl Length for Ending {
    fn len(&self) -> u64 {
        self.length
    }
}

impl ChunkReader for Ending {
    type T = BufReader<Strict>;

    fn get_read(&self, start: u64) -> ParquetResult<Self::T> {
        let mut file = self.file.try_clone()?;
        file.seek(SeekFrom::Start(start))?;
        Ok(BufReader::new(Strict(file)))
    }

    fn get_bytes(&self, start: u64, length: usize) -> ParquetResult<Bytes> {
        // Before space is made for it.
        if start.checked_add(length as u64).is_none_or(|end| end > self.length) {
            return Err(ParquetError::EOF(format!("{length} bytes at {start} of {}", self.length)));
        }
        self.file.get_bytes(start, length)
    }
}

/// Reads something or fails.
struct Strict(File);

impl Read for Strict {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self.0.read(buffer)? {
            0 if !buffer.is_empty() => Err(io::ErrorKind::UnexpectedEof.into()),
            read => Ok(read),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn behind_its_end_a_file_is_an_error() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(b"abc").unwrap();
        let ending = Ending::new(file).unwrap();
        let mut buffer = [0; 8];
        let mut reader = ending.get_read(1).unwrap();
        assert_eq!((reader.read(&mut buffer).unwrap(), &buffer[..2]), (2, &b"bc"[..]));
        assert_eq!(reader.read(&mut buffer).unwrap_err().kind(), io::ErrorKind::UnexpectedEof);
        assert_eq!(ending.get_bytes(1, 2).unwrap(), "bc");
        for (start, length) in [(1, 3), (4, 0), (u64::MAX, 1), (0, usize::MAX)] {
            assert!(ending.get_bytes(start, length).is_err(), "{length} bytes at {start}");
        }
    }

    /// Without an end to it, this one takes longer than anybody waits. Found by fuzzing.
    #[test]
    fn a_damaged_list_is_no_parquet() {
        let mut file = tempfile::tempfile().unwrap();
        file.write_all(include_bytes!("../../../tests/fixtures/endless.parquet")).unwrap();
        let refused = rows(file).map(|mut rows| rows.find_map(Result::err));
        assert!(refused.is_err() || refused.is_ok_and(|refused| refused.is_some()));
    }
}
