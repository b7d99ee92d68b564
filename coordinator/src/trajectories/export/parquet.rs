//! Rows as Parquet, some thousands in a group.

use std::{io::Write, sync::Arc};

use ::parquet::{
    basic::Compression,
    data_type::{ByteArray, ByteArrayType, DoubleType, Int32Type, Int64Type},
    errors::ParquetError,
    file::{
        properties::WriterProperties,
        writer::{SerializedColumnWriter, SerializedFileWriter},
    },
    schema::parser::parse_message_type,
};

use super::{Error, Row, Rows, csv::verdicts};
use crate::trajectories::layout::numbers;

/// The schema. Numbers of 64 bits without a sign are kept as those with one, bit by bit.
pub const MESSAGE: &str = "message step {
    required binary agent (UTF8);
    required binary pool (UTF8);
    required binary category (UTF8);
    required int64 epoch (UINT_64);
    required int64 episode (UINT_64);
    required int32 step (UINT_32);
    required int64 received_ms (UINT_64);
    required double slo_preservation;
    required double cpu_utilisation;
    required double memory_utilisation;
    required double arrival_change;
    required double cpu_limit;
    required double memory_limit;
    required double replicas;
    required int32 action_cpu;
    required int32 action_memory;
    required int32 action_replicas;
    required double reward;
    required double next_slo_preservation;
    required double next_cpu_utilisation;
    required double next_memory_utilisation;
    required double next_arrival_change;
    required double next_cpu_limit;
    required double next_memory_limit;
    required double next_replicas;
    required binary verdicts (UTF8);
}";

/// Rows of a group: what is held in memory.
const GROUP: usize = 8192;

/// Writes Parquet.
pub struct Parquet<W: Write + Send> {
    writer: SerializedFileWriter<W>,
    rows: Vec<Row>,
}

impl<W: Write + Send> Parquet<W> {
    /// Writes the head.
    ///
    /// # Errors
    /// If it cannot be written.
    pub fn new(to: W) -> Result<Self, Error> {
        let schema = Arc::new(parse_message_type(MESSAGE).map_err(failed)?);
        let properties = Arc::new(WriterProperties::builder().set_compression(Compression::SNAPPY).build());
        let writer = SerializedFileWriter::new(to, schema, properties).map_err(failed)?;
        Ok(Self { writer, rows: Vec::new() })
    }

    fn group(&mut self) -> Result<(), ParquetError> {
        let rows = std::mem::take(&mut self.rows);
        if rows.is_empty() {
            return Ok(());
        }
        let mut group = self.writer.next_row_group()?;
        let mut at = 0;
        while let Some(mut column) = group.next_column()? {
            write(&mut column, at, &rows)?;
            column.close()?;
            at += 1;
        }
        group.close().map(drop)
    }
}

/// One column of a group, by its place in [`super::COLUMNS`].
fn write(column: &mut SerializedColumnWriter<'_>, at: usize, rows: &[Row]) -> Result<usize, ParquetError> {
    let text =
        |of: &dyn Fn(&Row) -> String| rows.iter().map(|row| ByteArray::from(of(row).into_bytes())).collect::<Vec<_>>();
    let long = |of: &dyn Fn(&Row) -> u64| rows.iter().map(|row| of(row) as i64).collect::<Vec<_>>();
    let short = |of: &dyn Fn(&Row) -> i32| rows.iter().map(of).collect::<Vec<_>>();
    let float = |of: &dyn Fn(&Row) -> f64| rows.iter().map(of).collect::<Vec<_>>();
    let texts = |column: &mut SerializedColumnWriter<'_>, values: Vec<ByteArray>| {
        column.typed::<ByteArrayType>().write_batch(&values, None, None)
    };
    let longs = |column: &mut SerializedColumnWriter<'_>, values: Vec<i64>| {
        column.typed::<Int64Type>().write_batch(&values, None, None)
    };
    let shorts = |column: &mut SerializedColumnWriter<'_>, values: Vec<i32>| {
        column.typed::<Int32Type>().write_batch(&values, None, None)
    };
    let floats = |column: &mut SerializedColumnWriter<'_>, values: Vec<f64>| {
        column.typed::<DoubleType>().write_batch(&values, None, None)
    };
    match at {
        0 => texts(column, text(&|row| row.agent.to_string())),
        1 => texts(column, text(&|row| row.pool.to_string())),
        2 => texts(column, text(&|row| row.category.name().to_owned())),
        3 => longs(column, long(&|row| row.epoch.0)),
        4 => longs(column, long(&|row| row.step.episode)),
        5 => shorts(column, short(&|row| row.step.step as i32)),
        6 => longs(column, long(&|row| row.received)),
        7..=13 => floats(column, float(&|row| numbers(&row.step.state)[at - 7])),
        14 => shorts(column, short(&|row| row.step.action.cpu.sign())),
        15 => shorts(column, short(&|row| row.step.action.memory.sign())),
        16 => shorts(column, short(&|row| row.step.action.replicas.sign())),
        17 => floats(column, float(&|row| row.step.reward.get())),
        18..=24 => floats(column, float(&|row| numbers(&row.step.next_state)[at - 18])),
        _ => texts(column, text(&|row| verdicts(&row.step))),
    }
}

impl<W: Write + Send> Rows for Parquet<W> {
    fn row(&mut self, row: Row) -> Result<(), Error> {
        self.rows.push(row);
        if self.rows.len() < GROUP { Ok(()) } else { self.group().map_err(failed) }
    }

    fn finish(mut self: Box<Self>) -> Result<(), Error> {
        self.group().map_err(failed)?;
        self.writer.close().map(drop).map_err(failed)
    }
}

#[allow(clippy::needless_pass_by_value)] // as map_err hands it over
fn failed(error: ParquetError) -> Error {
    Error::Write(error.to_string())
}
