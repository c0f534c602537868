//! Parquet tables, without Arrow: the crate's own rows are enough for numbers, and Arrow would make the
//! build several times longer.
//!
//! A Parquet file's index is at its end, so the file is read into memory as it is (compressed) and
//! decoded row by row. Writing collects a row group at a time.

use super::cell::{self, Cell};
use super::{Batch, ColumnKind, FLAG_NAMES, OutputColumn, TableError, Wanted};
use parquet::basic::{Compression, LogicalType, Repetition, Type as Physical};
use parquet::data_type::{ByteArray, ByteArrayType, DoubleType};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::file::writer::SerializedFileWriter;
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;
use std::io::{Read, Write};
use std::sync::Arc;

fn convert(error: parquet::errors::ParquetError) -> TableError {
    match error {
        parquet::errors::ParquetError::External(inner) => {
            match inner.downcast::<std::io::Error>() {
                Ok(io) => TableError::Io(*io),
                Err(other) => TableError::Io(std::io::Error::other(other)),
            }
        }
        other => TableError::Io(std::io::Error::other(other.to_string())),
    }
}

/// Rows of a Parquet file.
pub(super) struct ParquetReader {
    rows: RowIter<'static>,
    header: Vec<String>,
    wanted: Vec<(usize, Wanted)>,
    row: u64,
}

impl ParquetReader {
    pub(super) fn new(mut input: Box<dyn Read + Send>) -> Result<Self, TableError> {
        let mut bytes = Vec::new();
        input.read_to_end(&mut bytes)?;
        let reader = SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(convert)?;
        let schema = reader.metadata().file_metadata().schema_descr();
        let header =
            schema.root_schema().get_fields().iter().map(|f| f.name().to_owned()).collect();
        let rows = RowIter::from_file_into(Box::new(reader));
        Ok(Self { rows, header, wanted: Vec::new(), row: 0 })
    }

    pub(super) fn header(&self) -> Vec<String> {
        self.header.clone()
    }

    pub(super) fn choose(&mut self, wanted: Vec<(usize, Wanted)>) {
        self.wanted = wanted;
    }

    pub(super) fn read(&mut self, batch: &mut Batch, max_rows: usize) -> Result<bool, TableError> {
        for _ in 0..max_rows {
            let Some(row) = self.rows.next() else { return Ok(false) };
            let row = row.map_err(convert)?;
            self.row += 1;
            let fields: Vec<&Field> = row.get_column_iter().map(|(_, field)| field).collect();
            for (index, wanted) in &self.wanted {
                let text = fields.get(*index).map_or(String::new(), |f| cell_text(f));
                match cell::parse(text.as_bytes(), wanted.kind) {
                    Cell::Number(v) => batch.values.push(v),
                    Cell::Calendar(v) => {
                        batch.calendar = true;
                        batch.values.push(v);
                    }
                    Cell::Wrong(expected) => {
                        return Err(TableError::Cell {
                            line: self.row,
                            column: wanted.column.clone(),
                            text: text.chars().take(60).collect(),
                            expected,
                        });
                    }
                }
                if matches!(wanted.kind, ColumnKind::Time { .. }) {
                    batch.push_time_text(text.as_bytes());
                }
            }
            batch.rows += 1;
        }
        Ok(true)
    }
}

/// A field as the text that a CSV cell would hold.
fn cell_text(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Bool(b) => u8::from(*b).to_string(),
        Field::Double(v) => v.to_string(),
        Field::Float(v) => f64::from(*v).to_string(),
        Field::Str(text) => text.clone(),
        Field::Date(days) => (f64::from(*days) * 86_400.0).to_string(),
        Field::TimestampMillis(t) => (*t as f64 / 1e3).to_string(),
        Field::TimestampMicros(t) => (*t as f64 / 1e6).to_string(),
        other => other.to_string(),
    }
}

/// Rows per row group.
const GROUP: usize = 1 << 16;

enum Column {
    /// Numbers; NaN is null.
    Numbers(Vec<f64>),
    Texts(Vec<ByteArray>),
}

/// A Parquet file being written.
pub(super) struct ParquetWriter {
    writer: SerializedFileWriter<Box<dyn Write + Send>>,
    columns: Vec<Column>,
    rows: usize,
}

impl ParquetWriter {
    pub(super) fn new(
        out: Box<dyn Write + Send>,
        columns: &[OutputColumn],
    ) -> Result<Self, TableError> {
        let mut fields = Vec::new();
        let mut buffers = Vec::new();
        for column in columns {
            let text = matches!(column, OutputColumn::Flag(_));
            let physical = if text { Physical::BYTE_ARRAY } else { Physical::DOUBLE };
            let mut builder = Type::primitive_type_builder(column.name(), physical)
                .with_repetition(Repetition::OPTIONAL);
            if text {
                builder = builder.with_logical_type(Some(LogicalType::String));
            }
            fields.push(Arc::new(builder.build().map_err(convert)?));
            buffers.push(if text {
                Column::Texts(Vec::new())
            } else {
                Column::Numbers(Vec::new())
            });
        }
        let schema =
            Type::group_type_builder("estimates").with_fields(fields).build().map_err(convert)?;
        let properties = WriterProperties::builder().set_compression(Compression::SNAPPY).build();
        let writer = SerializedFileWriter::new(out, Arc::new(schema), Arc::new(properties))
            .map_err(convert)?;
        Ok(Self { writer, columns: buffers, rows: 0 })
    }

    pub(super) fn row(&mut self, values: &[f64]) -> Result<(), TableError> {
        for (column, &value) in self.columns.iter_mut().zip(values) {
            match column {
                Column::Numbers(numbers) => numbers.push(value),
                Column::Texts(texts) => {
                    texts.push(FLAG_NAMES.get(value as usize).copied().unwrap_or("?").into());
                }
            }
        }
        self.rows += 1;
        if self.rows == GROUP { self.write_group() } else { Ok(()) }
    }

    fn write_group(&mut self) -> Result<(), TableError> {
        if self.rows == 0 {
            return Ok(());
        }
        let mut group = self.writer.next_row_group().map_err(convert)?;
        for column in &mut self.columns {
            let Some(mut writer) = group.next_column().map_err(convert)? else { break };
            match column {
                Column::Numbers(numbers) => {
                    let levels: Vec<i16> = numbers.iter().map(|v| i16::from(!v.is_nan())).collect();
                    numbers.retain(|v| !v.is_nan());
                    writer
                        .typed::<DoubleType>()
                        .write_batch(numbers, Some(&levels), None)
                        .map_err(convert)?;
                    numbers.clear();
                }
                Column::Texts(texts) => {
                    let levels = vec![1; texts.len()];
                    writer
                        .typed::<ByteArrayType>()
                        .write_batch(texts, Some(&levels), None)
                        .map_err(convert)?;
                    texts.clear();
                }
            }
            writer.close().map_err(convert)?;
        }
        group.close().map_err(convert)?;
        self.rows = 0;
        Ok(())
    }

    pub(super) fn finish(mut self) -> Result<(), TableError> {
        self.write_group()?;
        self.writer.close().map_err(convert)?;
        Ok(())
    }
}
