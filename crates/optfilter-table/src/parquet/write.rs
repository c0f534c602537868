//! A Parquet file being written.

use super::error::convert;
use crate::calendar::parse_time;
use crate::columns::{OutputColumn, flag, label};
use crate::error::TableError;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
use parquet::errors::ParquetError;
use parquet::file::properties::WriterProperties;
use parquet::file::writer::{SerializedColumnWriter, SerializedFileWriter};
use parquet::schema::types::Type;
use std::io::Write;
use std::sync::Arc;

/// Rows per row group.
const GROUP: usize = 1 << 16;

/// What is collected of a column until its row group is full.
enum Column {
    /// Numbers; NaN is null.
    Numbers(Vec<f64>),
    /// Microseconds since 1970.
    Times(Vec<i64>),
    Texts(Vec<ByteArray>),
}

type Out = Box<dyn Write + Send>;

enum Writer {
    /// The first row decides whether times are numbers or instants.
    Waiting(Out),
    Open(SerializedFileWriter<Out>),
    /// Opening failed; the error has been handed on.
    Lost,
}

pub(crate) struct ParquetWriter {
    writer: Writer,
    names: Vec<OutputColumn>,
    columns: Vec<Column>,
    rows: usize,
}

impl ParquetWriter {
    pub(crate) fn new(out: Out, columns: &[OutputColumn]) -> Self {
        let names = columns.to_vec();
        Self { writer: Writer::Waiting(out), names, columns: Vec::new(), rows: 0 }
    }

    pub(crate) fn row(
        &mut self,
        values: &[f64],
        time_text: Option<&[u8]>,
        labels: &[String],
    ) -> Result<(), TableError> {
        let instant = || time_text.and_then(|t| parse_time(std::str::from_utf8(t).ok()?));
        if matches!(self.writer, Writer::Waiting(_)) {
            self.open(instant().is_some())?;
        }
        for ((column, &value), name) in self.columns.iter_mut().zip(values).zip(&self.names) {
            match column {
                Column::Numbers(numbers) => numbers.push(value),
                Column::Times(times) => {
                    times.push((instant().unwrap_or(value) * 1e6).round() as i64);
                }
                Column::Texts(texts) if matches!(name, OutputColumn::Label(_)) => {
                    texts.push(label(labels, value).into());
                }
                Column::Texts(texts) => texts.push(flag(value).into()),
            }
        }
        self.rows += 1;
        if self.rows == GROUP { self.write_group() } else { Ok(()) }
    }

    fn open(&mut self, calendar: bool) -> Result<(), TableError> {
        let out = match std::mem::replace(&mut self.writer, Writer::Lost) {
            Writer::Waiting(out) => out,
            other => {
                self.writer = other;
                return Ok(());
            }
        };
        let mut fields = Vec::new();
        for column in &self.names {
            let (buffer, physical, logical) = match column {
                OutputColumn::Flag(_) | OutputColumn::Label(_) => {
                    (Column::Texts(Vec::new()), Physical::BYTE_ARRAY, Some(LogicalType::String))
                }
                OutputColumn::Time(_) if calendar => (
                    Column::Times(Vec::new()),
                    Physical::INT64,
                    Some(LogicalType::timestamp(true, TimeUnit::MICROS)),
                ),
                _ => (Column::Numbers(Vec::new()), Physical::DOUBLE, None),
            };
            let field = Type::primitive_type_builder(column.name(), physical)
                .with_repetition(Repetition::OPTIONAL)
                .with_logical_type(logical)
                .build();
            fields.push(Arc::new(field.map_err(convert)?));
            self.columns.push(buffer);
        }
        let schema =
            Type::group_type_builder("estimates").with_fields(fields).build().map_err(convert)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties));
        self.writer = Writer::Open(writer.map_err(convert)?);
        Ok(())
    }

    fn write_group(&mut self) -> Result<(), TableError> {
        let Writer::Open(writer) = &mut self.writer else { return Ok(()) };
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = writer.next_row_group().map_err(convert)?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column().map_err(convert)? else { break };
            let written = match column {
                Column::Numbers(numbers) => {
                    let levels: Vec<i16> = numbers.iter().map(|v| i16::from(!v.is_nan())).collect();
                    numbers.retain(|v| !v.is_nan());
                    put::<DoubleType>(&mut writer, &levels, numbers)
                }
                Column::Times(times) => put::<Int64Type>(&mut writer, &vec![1; times.len()], times),
                Column::Texts(texts) => {
                    put::<ByteArrayType>(&mut writer, &vec![1; texts.len()], texts)
                }
            };
            written.map_err(convert)?;
            writer.close().map_err(convert)?;
        }
        group.close().map_err(convert)?;
        self.rows = 0;
        Ok(())
    }

    pub(crate) fn finish(mut self) -> Result<(), TableError> {
        self.open(false)?; // a table without rows still has its columns
        self.write_group()?;
        if let Writer::Open(writer) = self.writer {
            writer.close().map_err(convert)?;
        }
        Ok(())
    }
}

/// Writes what has been collected of a column; a level of one for each value that is there, of zero for each that is not.
fn put<T: DataType>(
    writer: &mut SerializedColumnWriter<'_>,
    levels: &[i16],
    values: &mut Vec<T::T>,
) -> Result<usize, ParquetError> {
    let written = writer.typed::<T>().write_batch(values, Some(levels), None);
    values.clear();
    written
}
