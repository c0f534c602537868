//! Rows of a Parquet file.

use super::error::convert;
use crate::calendar::format_time;
use crate::cell::{self, Cell};
use crate::columns::{ColumnKind, Rows, Wanted};
use crate::error::TableError;
use crate::source::Source;
use parquet::basic::{LogicalType, TimeUnit};
use parquet::file::reader::{FileReader, SerializedFileReader};
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::Type;

/// A Parquet table being read.
pub(crate) struct ParquetReader {
    /// The file, until the columns are chosen.
    file: Option<Box<dyn FileReader>>,
    rows: Option<RowIter<'static>>,
    header: Vec<String>,
    wanted: Vec<Column>,
    row: u64,
}

/// A wanted column, and where it is among those that are decoded.
struct Column {
    index: usize,
    wanted: Wanted,
    /// The crate gives timestamps in nanoseconds, pandas' own, as plain integers.
    nanoseconds: bool,
}

impl ParquetReader {
    pub(crate) fn new(source: Source) -> Result<Self, TableError> {
        let file: Box<dyn FileReader> = match source {
            Source::File(file) => Box::new(SerializedFileReader::new(file).map_err(convert)?),
            Source::Stream(mut input) => {
                let mut bytes = Vec::new();
                input.read_to_end(&mut bytes)?;
                Box::new(SerializedFileReader::new(bytes::Bytes::from(bytes)).map_err(convert)?)
            }
        };
        let schema = file.metadata().file_metadata().schema();
        let header = schema.get_fields().iter().map(|f| f.name().to_owned()).collect();
        Ok(Self { file: Some(file), rows: None, header, wanted: Vec::new(), row: 0 })
    }

    pub(crate) fn header(&self) -> Vec<String> {
        self.header.clone()
    }

    pub(crate) fn choose(&mut self, wanted: Vec<(usize, Wanted)>) -> Result<(), TableError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        if wanted.is_empty() {
            return Ok(());
        }
        let schema = file.metadata().file_metadata().schema();
        let fields = schema.get_fields();
        // In the order of the file, as the rows will be.
        let mut kept: Vec<usize> = wanted.iter().map(|(i, _)| *i).collect();
        kept.sort_unstable();
        kept.dedup();
        let projection = Type::group_type_builder(schema.name())
            .with_fields(kept.iter().map(|&i| fields[i].clone()).collect())
            .build()
            .map_err(convert)?;
        self.wanted = wanted
            .into_iter()
            .map(|(i, wanted)| Column {
                index: kept.partition_point(|&k| k < i),
                wanted,
                nanoseconds: matches!(
                    fields[i].get_basic_info().logical_type_ref(),
                    Some(LogicalType::Timestamp(t)) if t.unit == TimeUnit::NANOS
                ),
            })
            .collect();
        let rows = RowIter::from_file_into(file).project(Some(projection)).map_err(convert)?;
        self.rows = Some(rows);
        Ok(())
    }

    pub(crate) fn read(&mut self, into: &mut Rows, max_rows: usize) -> Result<bool, TableError> {
        let Some(rows) = &mut self.rows else { return Ok(false) };
        for _ in 0..max_rows {
            let Some(row) = rows.next() else { return Ok(false) };
            let row = row.map_err(convert)?.into_columns();
            self.row += 1;
            for Column { index, wanted, nanoseconds } in &self.wanted {
                let field = row.get(*index).map_or(&Field::Null, |(_, field)| field);
                let is_time = matches!(wanted.kind, ColumnKind::Time { .. });
                match value(field, wanted.kind, *nanoseconds) {
                    Cell::Number(v) => {
                        into.values.push(v);
                        if is_time {
                            into.push_time_text(field_text(field).as_bytes());
                        }
                    }
                    Cell::Calendar(v) => {
                        into.calendar = true;
                        into.values.push(v);
                        match seconds(field, *nanoseconds) {
                            Some(s) => into.push_time_text(format_time(s).as_bytes()),
                            None => into.push_time_text(field_text(field).as_bytes()),
                        }
                    }
                    Cell::Wrong(expected) => {
                        return Err(TableError::Cell {
                            line: self.row,
                            column: wanted.column.clone(),
                            text: field_text(field).chars().take(60).collect(),
                            expected,
                        });
                    }
                }
            }
            into.rows += 1;
        }
        Ok(true)
    }
}

fn value(field: &Field, kind: ColumnKind, nanoseconds: bool) -> Cell {
    if let (Some(seconds), ColumnKind::Time { seconds_per_unit }) =
        (seconds(field, nanoseconds), kind)
    {
        return Cell::Calendar(seconds / seconds_per_unit);
    }
    match number(field) {
        Some(v) if v.is_finite() => Cell::Number(v),
        Some(_) => cell::parse(b"nan", kind),
        None => cell::parse(field_text(field).as_bytes(), kind),
    }
}

/// A calendar time as seconds since 1970.
fn seconds(field: &Field, nanoseconds: bool) -> Option<f64> {
    match field {
        Field::Date(days) => Some(f64::from(*days) * 86_400.0),
        Field::TimestampMillis(t) => Some(*t as f64 / 1e3),
        Field::TimestampMicros(t) => Some(*t as f64 / 1e6),
        Field::Long(t) if nanoseconds => Some(*t as f64 / 1e9),
        _ => None,
    }
}

fn number(field: &Field) -> Option<f64> {
    Some(match field {
        Field::Bool(v) => f64::from(u8::from(*v)),
        Field::Byte(v) => f64::from(*v),
        Field::Short(v) => f64::from(*v),
        Field::Int(v) => f64::from(*v),
        Field::Long(v) => *v as f64,
        Field::UByte(v) => f64::from(*v),
        Field::UShort(v) => f64::from(*v),
        Field::UInt(v) => f64::from(*v),
        Field::ULong(v) => *v as f64,
        Field::Float(v) => f64::from(*v),
        Field::Double(v) => *v,
        _ => return None,
    })
}

/// A field as the text that a CSV cell would hold.
fn field_text(field: &Field) -> String {
    match field {
        Field::Null => String::new(),
        Field::Str(text) => text.clone(),
        Field::Double(v) => v.to_string(),
        other => other.to_string(),
    }
}
