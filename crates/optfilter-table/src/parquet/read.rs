//! Rows of a Parquet file.

use super::file::PackedFile;
use super::guard::guarded;
use crate::calendar::{TimeStyle, format_time};
use crate::cell::{self, Cell, Cells};
use crate::columns::{ColumnKind, Rows, Wanted};
use crate::error::TableError;
use crate::foreign;
use crate::source::Source;
use parquet::basic::{Compression, LogicalType, Repetition, TimeUnit};
use parquet::file::reader::FileReader;
use parquet::record::Field;
use parquet::record::reader::RowIter;
use parquet::schema::types::{Type, TypePtr};
use std::io::Read;

/// A Parquet table being read.
pub(crate) struct ParquetReader {
    /// The file, until the columns are chosen.
    file: Option<Box<dyn FileReader>>,
    rows: Option<RowIter<'static>>,
    header: Vec<String>,
    wanted: Vec<Column>,
    cells: Cells,
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
            Source::File(mut file) if file.metadata()?.is_file() => {
                let mut start = Vec::new();
                (&mut file).take(512).read_to_end(&mut start)?;
                check(&start)?;
                Box::new(guarded(|| PackedFile::new(file))?)
            }
            // A pipe, by name or not.
            other => {
                let mut bytes = Vec::new();
                other.into_stream().read_to_end(&mut bytes)?;
                check(&bytes)?;
                Box::new(guarded(|| PackedFile::new(bytes::Bytes::from(bytes)))?)
            }
        };
        let schema = file.metadata().file_metadata().schema();
        let header = schema.get_fields().iter().map(|f| f.name().to_owned()).collect();
        Ok(Self {
            file: Some(file),
            rows: None,
            header,
            wanted: Vec::new(),
            cells: Cells::default(),
            row: 0,
        })
    }

    pub(crate) fn header(&self) -> Vec<String> {
        self.header.clone()
    }

    pub(crate) fn set_style(&mut self, style: TimeStyle) {
        self.cells.style = style;
    }

    pub(crate) fn choose(&mut self, wanted: Vec<(usize, Wanted)>) -> Result<(), TableError> {
        let Some(file) = self.file.take() else { return Ok(()) };
        if wanted.is_empty() {
            return Ok(());
        }
        let schema = file.metadata().file_metadata().schema();
        let fields = schema.get_fields();
        // Now, and not at the first row: nothing has been written yet.
        for group in file.metadata().row_groups() {
            let asked = |name: Option<&String>| wanted.iter().any(|w| Some(&w.1.column) == name);
            if group.columns().iter().any(|c| {
                matches!(c.compression(), Compression::BROTLI(_) | Compression::LZO)
                    && asked(c.column_path().parts().first())
            }) {
                return Err(TableError::Unsupported {
                    message: "the file is compressed in a way that cannot be read; write it with \
                              compression \"zstd\", \"snappy\" or \"gzip\"",
                });
            }
        }
        let one_value = |field: &TypePtr| {
            field.is_primitive() && field.get_basic_info().repetition() != Repetition::REPEATED
        };
        if !wanted.iter().filter_map(|(i, _)| fields.get(*i)).all(one_value) {
            return Err(TableError::Unsupported {
                message: "a column that is asked for holds lists or records; give each of their values a column",
            });
        }
        // In the order of the file, as the rows will be.
        let mut kept: Vec<usize> = wanted.iter().map(|(i, _)| *i).collect();
        kept.sort_unstable();
        kept.dedup();
        let fields_kept = kept.iter().filter_map(|&i| fields.get(i).cloned()).collect();
        let projection = Type::group_type_builder(schema.name()).with_fields(fields_kept);
        let projection = guarded(|| projection.build())?;
        self.wanted = wanted
            .into_iter()
            .map(|(i, wanted)| Column {
                index: kept.partition_point(|&k| k < i),
                wanted,
                nanoseconds: matches!(
                    fields.get(i).and_then(|f| f.get_basic_info().logical_type_ref()),
                    Some(LogicalType::Timestamp(t)) if t.unit == TimeUnit::NANOS
                ),
            })
            .collect();
        let rows = guarded(|| RowIter::from_file_into(file).project(Some(projection)))?;
        self.rows = Some(rows);
        Ok(())
    }

    pub(crate) fn read(&mut self, into: &mut Rows, max_rows: usize) -> Result<bool, TableError> {
        // Put back at the end: after an error nothing may be asked of it.
        let Some(mut rows) = self.rows.take() else { return Ok(false) };
        for _ in 0..max_rows {
            let Some(row) = guarded(|| rows.next().transpose())? else { return Ok(false) };
            let row = row.into_columns();
            self.row += 1;
            for Column { index, wanted, nanoseconds } in &self.wanted {
                let field = row.get(*index).map_or(&Field::Null, |(_, field)| field);
                let cell = value(field, wanted.kind, *nanoseconds);
                let calendar = matches!(cell, Cell::Calendar(_));
                self.cells.push(into, wanted, cell, self.row, || {
                    match seconds(field, *nanoseconds) {
                        Some(seconds) if calendar => format_time(seconds),
                        _ => field_text(field),
                    }
                })?;
            }
            into.lines.push(self.row);
            into.rows += 1;
        }
        self.rows = Some(rows);
        Ok(true)
    }
}

/// Seconds from 1970 to the end of the calendar.
const YEAR_9999: f64 = 253_402_300_800.0;

/// What is no Parquet file is named.
fn check(start: &[u8]) -> Result<(), TableError> {
    match foreign::of_start(start) {
        _ if start.starts_with(b"PAR1") => Ok(()),
        Some(kind) if kind != "a Parquet file" => Err(TableError::Foreign { kind }),
        _ => Err(TableError::Unsupported {
            message: "this is not a Parquet file, or an encrypted one; is its name right?",
        }),
    }
}

fn value(field: &Field, kind: ColumnKind, nanoseconds: bool) -> Cell {
    if let (Some(seconds), ColumnKind::Time { seconds_per_unit }) =
        (seconds(field, nanoseconds), kind)
    {
        return match seconds.abs() < YEAR_9999 {
            true => Cell::Calendar(seconds / seconds_per_unit),
            false => Cell::Wrong("a time of a calendar: it is beyond the year 9999"),
        };
    }
    if matches!(kind, ColumnKind::Label | ColumnKind::Category) {
        return cell::parse(field_text(field).as_bytes(), kind);
    }
    match number(field) {
        Some(v) if v.is_finite() => Cell::Number(v),
        Some(v) if v.is_nan() => cell::parse(b"nan", kind),
        _ => cell::parse(field_text(field).as_bytes(), kind),
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
        // The parquet crate cannot write a time beyond its calendar.
        other => guarded(|| Ok(other.to_string())).unwrap_or_else(|_| "beyond the calendar".into()),
    }
}
