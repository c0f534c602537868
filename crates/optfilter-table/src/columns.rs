//! What a table is made of: formats, columns, rows of numbers.

use std::collections::HashMap;
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
    /// NumPy's archive of arrays.
    Npz,
    /// One array of NumPy's.
    Npy,
}

impl Format {
    /// The format that a file name ends in.
    pub fn of_path(path: &Path) -> Option<Self> {
        let plain = if is_gzip(path) { Path::new(path.file_stem()?) } else { path };
        match plain.extension()?.to_str()?.to_ascii_lowercase().as_str() {
            "csv" | "txt" => Some(Self::Csv),
            "tsv" | "tab" => Some(Self::Tsv),
            "jsonl" | "ndjson" | "json" => Some(Self::JsonLines),
            // Parquet is compressed inside.
            "parquet" | "pq" if !is_gzip(path) => Some(Self::Parquet),
            "npz" if !is_gzip(path) => Some(Self::Npz),
            "npy" if !is_gzip(path) => Some(Self::Npy),
            _ => None,
        }
    }

    /// Whether it is text, which can be read and written while it grows.
    pub fn is_text(self) -> bool {
        matches!(self, Self::Csv | Self::Tsv | Self::JsonLines)
    }
}

/// Whether a file name says that its text is compressed with gzip.
pub fn is_gzip(path: &Path) -> bool {
    path.extension().is_some_and(|e| e.eq_ignore_ascii_case("gz"))
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
    /// Names; the number of a row is that of its name in [`Rows::labels`].
    Label,
    /// Names that may be missing: an empty cell has the empty name.
    Category,
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
pub struct Rows {
    /// The numbers, `rows * columns` of them.
    pub values: Vec<f64>,
    /// How many rows.
    pub rows: usize,
    /// The time cells as they were written, one after the other; empty without a time column.
    pub time_text: Vec<u8>,
    /// Where each of them ends.
    pub time_ends: Vec<usize>,
    /// The line of each row in its table, from 1 (of a Parquet file its number).
    pub lines: Vec<u64>,
    /// Whether times were calendar times.
    pub calendar: bool,
    /// The names in columns of labels, in the order in which they were first met.
    pub labels: Vec<String>,
    /// Which table they are of, where several are read one after the other.
    pub table: usize,
    /// Whether their text ended within the last of them, before the end of its line: more of it may be to come.
    pub torn: bool,
    /// What each row was as it was read ([`Trail`](crate::Trail)), where cells have been filled in since; else empty.
    pub prints: Vec<u64>,
    /// The table of each row, where rows of several are read side by side; else empty.
    tables: Vec<usize>,
    numbers: HashMap<String, usize>,
}

impl Rows {
    /// Forgets the rows and keeps the memory, and what labels are called.
    pub fn clear(&mut self) {
        self.values.clear();
        self.rows = 0;
        self.lines.clear();
        self.time_text.clear();
        self.time_ends.clear();
        self.tables.clear();
        self.prints.clear();
        self.torn = false;
    }

    /// Takes away the last of rows of so many columns.
    pub fn split_last(&mut self, columns: usize) -> Self {
        let kept = self.rows.saturating_sub(1);
        let time = kept.checked_sub(1).and_then(|row| self.time_ends.get(row)).copied();
        let time_text = self.time_text.split_off(time.unwrap_or(0).min(self.time_text.len()));
        let last = Self {
            values: self.values.split_off((kept * columns).min(self.values.len())),
            rows: self.rows - kept,
            time_ends: self.time_ends.iter().skip(kept).map(|_| time_text.len()).collect(),
            time_text,
            lines: self.lines.split_off(kept.min(self.lines.len())),
            calendar: self.calendar,
            labels: self.labels.clone(),
            table: self.table,
            torn: std::mem::take(&mut self.torn),
            prints: self.prints.split_off(kept.min(self.prints.len())),
            tables: self.tables.split_off(kept.min(self.tables.len())),
            numbers: self.numbers.clone(),
        };
        self.rows = kept;
        self.time_ends.truncate(kept);
        last
    }

    /// Which table a row is of.
    pub fn table_of(&self, row: usize) -> usize {
        self.tables.get(row).copied().unwrap_or(self.table)
    }

    /// The time cell of a row as it was written.
    pub fn time_text(&self, row: usize) -> Option<&[u8]> {
        let end = *self.time_ends.get(row)?;
        let start = row.checked_sub(1).and_then(|r| self.time_ends.get(r)).copied().unwrap_or(0);
        self.time_text.get(start..end)
    }

    /// Forgets what labels are called, which must be done between rows only.
    pub fn forget_labels(&mut self) {
        self.labels.clear();
        self.numbers.clear();
    }

    /// Appends a row of one of several tables with times: whether these are of the calendar, and the number of the table.
    pub fn push_row(
        &mut self,
        values: &[f64],
        time_text: &[u8],
        line: u64,
        (calendar, table): (bool, usize),
    ) {
        self.tables.push(table);
        self.values.extend_from_slice(values);
        self.rows += 1;
        self.lines.push(line);
        self.calendar = calendar;
        self.push_time_text(time_text);
    }

    /// Takes away what a torn row of so many columns has left.
    pub(crate) fn trim(&mut self, columns: usize) {
        self.values.truncate(self.rows * columns);
        self.lines.truncate(self.rows);
        self.time_ends.truncate(self.rows);
        self.time_text.truncate(self.time_ends.last().copied().unwrap_or(0));
    }

    /// Gives every row from `first` on, of so many columns, one label as its last column.
    pub fn label_from(&mut self, first: usize, columns: usize, label: &str) {
        let number = self.number_of(label.as_bytes());
        let plain = self.values.split_off((first * (columns + 1)).min(self.values.len()));
        for row in plain.chunks_exact(columns.max(1)) {
            self.values.extend_from_slice(row);
            self.values.push(number);
        }
    }

    /// The number of a label.
    pub(crate) fn number_of(&mut self, label: &[u8]) -> f64 {
        let label = String::from_utf8_lossy(label);
        if let Some(number) = self.numbers.get(label.as_ref()) {
            return *number as f64;
        }
        self.numbers.insert(label.to_string(), self.labels.len());
        self.labels.push(label.into_owned());
        (self.labels.len() - 1) as f64
    }

    pub(crate) fn push_time_text(&mut self, text: &[u8]) {
        self.time_text.extend_from_slice(text);
        self.time_ends.push(self.time_text.len());
    }
}

/// Names of the values of a flag column.
pub const FLAG_NAMES: [&str; 7] =
    ["ok", "missing", "partial", "outlier", "bound", "runaway", "lost"];

/// A column of an output table.
#[derive(Clone, Debug, PartialEq)]
pub enum OutputColumn {
    /// The time, as the input had it.
    Time(String),
    /// Numbers; NaN is written as an empty cell or `null`.
    Number(String),
    /// One of [`FLAG_NAMES`], by number.
    Flag(String),
    /// A name, by its number among those given with the row.
    Label(String),
}

impl OutputColumn {
    /// Its name.
    pub fn name(&self) -> &str {
        match self {
            Self::Time(n) | Self::Number(n) | Self::Flag(n) | Self::Label(n) => n,
        }
    }
}

/// The name that a number stands for.
pub(crate) fn label(labels: &[String], number: f64) -> &str {
    labels.get(number as usize).map_or("?", String::as_str)
}

/// The name of a flag.
pub(crate) fn flag(number: f64) -> &'static str {
    FLAG_NAMES.get(number as usize).copied().unwrap_or("?")
}
