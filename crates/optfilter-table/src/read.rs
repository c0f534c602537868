//! Reading tables: the columns that are wanted, in the order in which they are wanted.

use crate::arrays::ArrayReader;
use crate::calendar::TimeStyle;
use crate::columns::{Format, Rows, Wanted};
use crate::error::TableError;
#[cfg(feature = "parquet")]
use crate::parquet;
use crate::source::Source;
use crate::{csv, json};
use std::collections::HashMap;

/// A table being read.
pub struct TableReader {
    kind: ReaderKind,
    columns: Vec<String>,
    /// How many of them were chosen.
    width: usize,
}

enum ReaderKind {
    Csv(Box<csv::CsvReader>),
    Json(json::JsonReader),
    Arrays(ArrayReader),
    #[cfg(feature = "parquet")]
    Parquet(parquet::ParquetReader),
}

/// A table whose header has been read, and nothing else: of a pipe that can be done once only.
pub struct Begun {
    kind: ReaderKind,
    columns: Vec<String>,
}

impl Begun {
    /// Reads the header.
    pub fn open(source: Source, format: Format) -> Result<Self, TableError> {
        let (kind, columns) = match format {
            Format::Csv | Format::Tsv => {
                let reader = csv::CsvReader::new(source, format)?;
                let columns = reader.header().to_vec();
                (ReaderKind::Csv(Box::new(reader)), columns)
            }
            Format::JsonLines => {
                let reader = json::JsonReader::new(source)?;
                let columns = reader.header().to_vec();
                (ReaderKind::Json(reader), columns)
            }
            Format::Npz | Format::Npy => {
                let mut reader = ArrayReader::new(source, format == Format::Npz)?;
                let columns = reader.take_header();
                (ReaderKind::Arrays(reader), columns)
            }
            #[cfg(feature = "parquet")]
            Format::Parquet => {
                let reader = parquet::ParquetReader::new(source)?;
                let columns = reader.header();
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

    /// Goes on with the columns that are wanted.
    pub fn choose(self, wanted: Vec<Wanted>) -> Result<TableReader, TableError> {
        let Self { mut kind, columns } = self;
        let wanted = find(&columns, wanted)?;
        let width = wanted.len();
        match &mut kind {
            ReaderKind::Csv(reader) => reader.choose(wanted),
            ReaderKind::Json(reader) => {
                reader.choose(wanted.into_iter().map(|(_, wanted)| wanted).collect());
            }
            ReaderKind::Arrays(reader) => reader.choose(wanted)?,
            #[cfg(feature = "parquet")]
            ReaderKind::Parquet(reader) => reader.choose(wanted)?,
        }
        Ok(TableReader { kind, columns, width })
    }
}

impl TableReader {
    /// Starts reading: takes the header and finds the columns, which `choose` names after seeing it. [`Begun`] is the same in
    /// two steps.
    pub fn open(
        source: Source,
        format: Format,
        choose: impl FnOnce(&[String]) -> Vec<Wanted>,
    ) -> Result<Self, TableError> {
        let begun = Begun::open(source, format)?;
        let wanted = choose(begun.columns());
        begun.choose(wanted)
    }

    /// Says how times are written, before the first row is read.
    #[must_use]
    pub fn with_times(mut self, style: TimeStyle) -> Self {
        match &mut self.kind {
            ReaderKind::Csv(reader) => reader.set_style(style),
            ReaderKind::Json(reader) => reader.set_style(style),
            ReaderKind::Arrays(reader) => reader.set_style(style),
            #[cfg(feature = "parquet")]
            ReaderKind::Parquet(reader) => reader.set_style(style),
        }
        self
    }

    /// Every column of the table.
    pub fn columns(&self) -> &[String] {
        &self.columns
    }

    /// Whether a wanted column, by its place among them, holds unsigned bytes or truth values: of an array, whose type says so.
    pub fn are_bytes(&self, column: usize) -> bool {
        match &self.kind {
            ReaderKind::Arrays(reader) => reader.are_bytes(column),
            _ => false,
        }
    }

    /// Whether the text ended within the row that was read last, before the end of its line: if it is a file that is being written, more of
    /// that row may be to come.
    pub fn is_torn(&self) -> bool {
        match &self.kind {
            ReaderKind::Csv(reader) => reader.is_torn(),
            ReaderKind::Json(reader) => reader.is_torn(),
            _ => false,
        }
    }

    /// Appends up to `max_rows` rows; false at the end of the table. The rows before a bad one are there.
    pub fn read(&mut self, rows: &mut Rows, max_rows: usize) -> Result<bool, TableError> {
        let read = match &mut self.kind {
            ReaderKind::Csv(reader) => reader.read(rows, max_rows),
            ReaderKind::Json(reader) => reader.read(rows, max_rows),
            ReaderKind::Arrays(reader) => reader.read(rows, max_rows),
            #[cfg(feature = "parquet")]
            ReaderKind::Parquet(reader) => reader.read(rows, max_rows),
        };
        if read.is_err() {
            rows.trim(self.width);
        }
        rows.torn = read.is_ok() && self.is_torn();
        read
    }
}

/// Pairs each wanted column with its position. Arrays may have millions of columns, of which few are wanted: those are
/// remembered, and the others passed by.
fn find(columns: &[String], wanted: Vec<Wanted>) -> Result<Vec<(usize, Wanted)>, TableError> {
    // The place of a name, and how often it is there.
    let mut places: HashMap<&str, (usize, u32)> =
        wanted.iter().map(|w| (w.column.as_str(), (0, 0))).collect();
    for (i, column) in columns.iter().enumerate() {
        if let Some((place, count)) = places.get_mut(column.as_str()) {
            (*place, *count) = (i, count.saturating_add(1));
        }
    }
    let places: Vec<(usize, u32)> =
        wanted.iter().map(|w| places.get(w.column.as_str()).copied().unwrap_or_default()).collect();
    wanted
        .into_iter()
        .zip(places)
        .map(|(w, (place, count))| match count {
            1 => Ok((place, w)),
            0 => Err(TableError::MissingColumn { column: w.column, available: columns.to_vec() }),
            _ => Err(TableError::DoubleColumn { column: w.column }),
        })
        .collect()
}
