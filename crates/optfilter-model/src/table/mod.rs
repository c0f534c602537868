//! Tables of measurements: CSV, TSV and JSON lines (and Parquet with the feature `parquet`), read and
//! written row by row in constant memory.
//!
//! A reader is told which columns it should give and in what order; it hands out batches of plain
//! numbers, so that what follows never sees text. An empty cell, `NaN`, `NA` or `null` is a missing
//! number (NaN). A time column may also hold calendar times (`2026-11-15T13:00:00Z`).
//!
//! The csv crate splits records; numbers are parsed by the standard library and written by zmij, the
//! shortest text that reads back as the same number. Both are fast enough for a million rows a second
//! on one core, which a data frame library would also reach, at a hundred times the dependencies.

mod calendar;
mod cell;
mod csv;
mod json;
#[cfg(feature = "parquet")]
mod parquet;
mod write;

pub use calendar::{format_time, parse_time};
pub use write::{FLAG_NAMES, OutputColumn, TableWriter};

use crate::diagnostic::closest;
use std::io::Read;
use std::path::Path;

/// How a table is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// Comma-separated values; semicolons are recognised.
    Csv,
    /// Tab-separated values.
    Tsv,
    /// One JSON object per line.
    JsonLines,
    /// Apache Parquet.
    Parquet,
}

impl Format {
    /// The format that a file name ends in.
    pub fn of_path(path: &Path) -> Option<Self> {
        match path.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" | "txt" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            "jsonl" | "ndjson" | "json" => Some(Self::JsonLines),
            "parquet" | "pq" => Some(Self::Parquet),
            _ => None,
        }
    }
}

/// What a wanted column holds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ColumnKind {
    /// Numbers that may be missing.
    Measurement,
    /// Numbers that may not.
    Input,
    /// Times, which may not be missing either; calendar times are divided by this many seconds.
    Time {
        /// Seconds per unit of the model's time.
        seconds_per_unit: f64,
    },
}

/// A column that a reader should give.
#[derive(Clone, Debug, PartialEq)]
pub struct Wanted {
    /// Its name in the table.
    pub column: String,
    /// What it holds.
    pub kind: ColumnKind,
}

/// Rows of numbers, row after row, in the order of the wanted columns.
#[derive(Clone, Debug, Default)]
pub struct Batch {
    /// The numbers, `rows * columns` of them.
    pub values: Vec<f64>,
    /// How many rows.
    pub rows: usize,
    /// The time cells as they were written, one after the other; empty without a time column.
    pub time_text: Vec<u8>,
    /// Where each of them ends.
    pub time_ends: Vec<usize>,
    /// Whether times were calendar times.
    pub calendar: bool,
}

impl Batch {
    /// Forgets the rows and keeps the memory.
    pub fn clear(&mut self) {
        self.values.clear();
        self.rows = 0;
        self.time_text.clear();
        self.time_ends.clear();
    }

    /// The time cell of a row as it was written.
    pub fn time_text(&self, row: usize) -> Option<&[u8]> {
        let end = *self.time_ends.get(row)?;
        let start = if row == 0 { 0 } else { self.time_ends[row - 1] };
        self.time_text.get(start..end)
    }

    fn push_time_text(&mut self, text: &[u8]) {
        self.time_text.extend_from_slice(text);
        self.time_ends.push(self.time_text.len());
    }
}

/// What can be wrong with a table, in one line.
#[derive(Debug)]
#[non_exhaustive]
pub enum TableError {
    /// Reading or writing failed.
    Io(std::io::Error),
    /// There is no header.
    Empty,
    /// A column is not there.
    MissingColumn {
        /// The column.
        column: String,
        /// The columns that are.
        available: Vec<String>,
    },
    /// A column is there twice.
    DoubleColumn {
        /// The column.
        column: String,
    },
    /// A cell is not a number.
    Cell {
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The text.
        text: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A row has more or fewer cells than the header.
    Ragged {
        /// The line, from 1.
        line: u64,
        /// Cells in the row.
        found: usize,
        /// Cells in the header.
        expected: usize,
    },
    /// A line is not valid for the format.
    Syntax {
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// The program was built without the format.
    Unsupported {
        /// What is missing.
        message: &'static str,
    },
}

impl std::fmt::Display for TableError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Io(e) => write!(f, "{e}"),
            Self::Empty => {
                write!(f, "the table is empty: a first line with column names is expected")
            }
            Self::MissingColumn { column, available } => {
                write!(f, "there is no column {column:?}")?;
                match closest(column, available.iter().map(String::as_str)) {
                    Some(near) => write!(f, "; did you mean {near:?}?"),
                    None => {
                        let shown: Vec<&str> =
                            available.iter().take(12).map(String::as_str).collect();
                        let more = if available.len() > 12 { ", ..." } else { "" };
                        write!(f, "; there are {}{more}", shown.join(", "))
                    }
                }
            }
            Self::DoubleColumn { column } => write!(f, "column {column:?} appears twice"),
            Self::Cell { line, column, text, expected } => {
                write!(f, "line {line}, column {column:?}: {text:?} is not {expected}")
            }
            Self::Ragged { line, found, expected } => {
                write!(f, "line {line} has {found} cells where the header has {expected}")
            }
            Self::Syntax { line, message } => write!(f, "line {line}: {message}"),
            Self::Unsupported { message } => write!(f, "{message}"),
        }
    }
}

impl std::error::Error for TableError {}

impl From<std::io::Error> for TableError {
    fn from(e: std::io::Error) -> Self {
        Self::Io(e)
    }
}

/// A table being read.
pub struct TableReader {
    kind: ReaderKind,
    columns: Vec<String>,
}

enum ReaderKind {
    Csv(csv::CsvReader),
    Json(json::JsonReader),
    #[cfg(feature = "parquet")]
    Parquet(parquet::ParquetReader),
}

/// Where a table comes from.
pub enum Source {
    /// A file, of which parts can be read in any order.
    File(std::fs::File),
    /// Bytes that come one after the other.
    Stream(Box<dyn Read + Send>),
}

impl Source {
    fn into_stream(self) -> Box<dyn Read + Send> {
        match self {
            Self::File(file) => Box::new(file),
            Self::Stream(input) => input,
        }
    }
}

impl TableReader {
    /// Starts reading: takes the header and finds the columns, which `choose` names after seeing it.
    pub fn open(
        source: Source,
        format: Format,
        choose: impl FnOnce(&[String]) -> Vec<Wanted>,
    ) -> Result<Self, TableError> {
        let (kind, columns) = match format {
            Format::Csv | Format::Tsv => {
                let mut reader = csv::CsvReader::new(source.into_stream(), format)?;
                let columns = reader.header().to_vec();
                reader.choose(find(&columns, choose(&columns))?);
                (ReaderKind::Csv(reader), columns)
            }
            Format::JsonLines => {
                let mut reader = json::JsonReader::new(source.into_stream())?;
                let columns = reader.header().to_vec();
                let wanted = choose(&columns);
                find(&columns, wanted.clone())?;
                reader.choose(wanted);
                (ReaderKind::Json(reader), columns)
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let mut reader = parquet::ParquetReader::new(source)?;
                let columns = reader.header();
                reader.choose(find(&columns, choose(&columns))?)?;
                (ReaderKind::Parquet(reader), columns)
            }
            #[cfg(not(feature = "parquet"))]
            Format::Parquet => {
                let message = "this program was built without Parquet; build it with the feature \
                               `parquet`, or convert the table to CSV";
                return Err(TableError::Unsupported { message });
            }
        };
        Ok(Self { kind, columns })
    }

    /// Every column of the table.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Appends up to `max_rows` rows; false at the end of the table.
    pub fn read(&mut self, batch: &mut Batch, max_rows: usize) -> Result<bool, TableError> {
        match &mut self.kind {
            ReaderKind::Csv(reader) => reader.read(batch, max_rows),
            ReaderKind::Json(reader) => reader.read(batch, max_rows),
            #[cfg(feature = "parquet")]
            ReaderKind::Parquet(reader) => reader.read(batch, max_rows),
        }
    }
}

/// Pairs each wanted column with its position.
fn find(columns: &[String], wanted: Vec<Wanted>) -> Result<Vec<(usize, Wanted)>, TableError> {
    wanted
        .into_iter()
        .map(|w| {
            let mut places = columns.iter().enumerate().filter(|(_, c)| **c == w.column);
            match (places.next(), places.next()) {
                (Some((i, _)), None) => Ok((i, w)),
                (Some(_), Some(_)) => Err(TableError::DoubleColumn { column: w.column }),
                (None, _) => {
                    Err(TableError::MissingColumn { column: w.column, available: columns.to_vec() })
                }
            }
        })
        .collect()
}
