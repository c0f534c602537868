//! Comma-, semicolon- and tab-separated values.

use crate::cell::{self, Cell};
use crate::columns::{ColumnKind, Format, Rows, Wanted};
use crate::error::TableError;
use std::io::{BufRead, BufReader, Read};

type Input = BufReader<Box<dyn Read + Send>>;

/// Splits records with the csv crate; lines that start with `#` are comments.
pub(crate) struct CsvReader {
    reader: csv::Reader<Input>,
    header: Vec<String>,
    wanted: Vec<(usize, Wanted)>,
    record: csv::ByteRecord,
}

impl CsvReader {
    pub(crate) fn new(input: Box<dyn Read + Send>, format: Format) -> Result<Self, TableError> {
        let mut input = BufReader::with_capacity(1 << 18, input);
        let delimiter = match format {
            Format::Tsv => b'\t',
            _ => guess_delimiter(input.fill_buf()?),
        };
        let mut reader = csv::ReaderBuilder::new()
            .delimiter(delimiter)
            .comment(Some(b'#'))
            .has_headers(false)
            .flexible(true)
            .buffer_capacity(1 << 16)
            .from_reader(input);
        let mut record = csv::ByteRecord::new();
        if !reader.read_byte_record(&mut record).map_err(convert)? {
            return Err(TableError::Empty);
        }
        let header = record.iter().map(|c| String::from_utf8_lossy(c).trim().to_owned()).collect();
        Ok(Self { reader, header, wanted: Vec::new(), record })
    }

    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    pub(crate) fn choose(&mut self, wanted: Vec<(usize, Wanted)>) {
        self.wanted = wanted;
    }

    pub(crate) fn read(&mut self, rows: &mut Rows, max_rows: usize) -> Result<bool, TableError> {
        for _ in 0..max_rows {
            if !self.reader.read_byte_record(&mut self.record).map_err(convert)? {
                return Ok(false);
            }
            let line = || self.record.position().map_or(0, csv::Position::line);
            if self.record.len() != self.header.len() {
                return Err(TableError::Ragged {
                    line: line(),
                    found: self.record.len(),
                    expected: self.header.len(),
                });
            }
            for (index, wanted) in &self.wanted {
                let text = &self.record[*index];
                match cell::parse(text, wanted.kind) {
                    Cell::Number(v) => rows.values.push(v),
                    Cell::Calendar(v) => {
                        rows.calendar = true;
                        rows.values.push(v);
                    }
                    Cell::Wrong(expected) => {
                        return Err(TableError::Cell {
                            line: line(),
                            column: wanted.column.clone(),
                            text: String::from_utf8_lossy(text).chars().take(60).collect(),
                            expected,
                        });
                    }
                }
                if matches!(wanted.kind, ColumnKind::Time { .. }) {
                    rows.push_time_text(text.trim_ascii());
                }
            }
            rows.rows += 1;
        }
        Ok(true)
    }
}

/// The delimiter that the first line of names uses most.
fn guess_delimiter(start: &[u8]) -> u8 {
    let header =
        start.split(|b| *b == b'\n').find(|l| !l.starts_with(b"#") && !l.trim_ascii().is_empty());
    let count = |d: u8| header.unwrap_or_default().iter().filter(|b| **b == d).count();
    let (comma, semicolon, tab) = (count(b','), count(b';'), count(b'\t'));
    match () {
        () if semicolon > comma && semicolon > tab => b';',
        () if tab > comma => b'\t',
        () => b',',
    }
}

fn convert(error: csv::Error) -> TableError {
    let line = error.position().map_or(0, csv::Position::line);
    match error.into_kind() {
        csv::ErrorKind::Io(e) => TableError::Io(e),
        other => TableError::Syntax { line, message: format!("{other:?}") },
    }
}
