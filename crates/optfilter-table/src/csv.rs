//! Comma-, semicolon- and tab-separated values.
//!
//! csv-core splits records. What stands between them is looked at here: comments, and empty lines, which are a missing
//! measurement where a table has a single column.

use crate::calendar::TimeStyle;
use crate::cell::Cells;
use crate::columns::{Format, Rows, Wanted};
use crate::error::TableError;
use crate::source::{MAX_COLUMNS, MAX_LINE, Source, Text, first_line};
use csv_core::ReadRecordResult;
use std::io::BufRead;

/// Splits records; lines that start with `#` are comments.
pub(crate) struct CsvReader {
    input: Text,
    core: csv_core::Reader,
    header: Vec<String>,
    wanted: Vec<(usize, Wanted)>,
    cells: Cells,
    /// The cells of a record, one after the other, and where each of them ends.
    text: Vec<u8>,
    ends: Vec<usize>,
    count: usize,
    /// The line of the next byte, and whether the byte before it was a carriage return.
    line: u64,
    after_return: bool,
    /// Whether the text ended within the last record. Not so if that is bad and goes over several lines: then a quote that nothing
    /// ends has taken in the lines after it.
    torn: bool,
}

/// What comes next.
enum Next {
    /// A record that starts at this line.
    Record(u64),
    /// The empty line of this number.
    Blank(u64),
    End,
}

impl CsvReader {
    pub(crate) fn new(source: Source, format: Format) -> Result<Self, TableError> {
        let (head, input) = source.into_text()?;
        let delimiter = match format {
            Format::Tsv => b'\t',
            _ => guess_delimiter(first_line(&head).unwrap_or(&head)),
        };
        let mut reader = Self {
            input,
            core: csv_core::ReaderBuilder::new().delimiter(delimiter).build(),
            header: Vec::new(),
            wanted: Vec::new(),
            // Commas that separate no cells may separate digits.
            cells: Cells::with_commas(delimiter == b';'),
            text: vec![0; 1 << 10],
            ends: vec![0; 1 << 5],
            count: 0,
            line: 1,
            after_return: false,
            torn: false,
        };
        loop {
            match reader.next()? {
                Next::Record(_) => break,
                Next::Blank(_) => {}
                Next::End => return Err(TableError::Empty),
            }
        }
        let name = |i| String::from_utf8_lossy(reader.cell(i)).trim().to_owned();
        reader.header = (0..reader.count).map(name).collect();
        Ok(reader)
    }

    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    pub(crate) fn set_style(&mut self, style: TimeStyle) {
        self.cells.style = style;
    }

    pub(crate) fn is_torn(&self) -> bool {
        self.torn
    }

    pub(crate) fn choose(&mut self, wanted: Vec<(usize, Wanted)>) {
        self.wanted = wanted;
    }

    pub(crate) fn read(&mut self, rows: &mut Rows, max_rows: usize) -> Result<bool, TableError> {
        let last = rows.rows + max_rows;
        while rows.rows < last {
            let line = match self.next()? {
                Next::End => return Ok(false),
                Next::Blank(line) if self.header.len() == 1 => {
                    self.count = 0; // its one cell is empty
                    line
                }
                Next::Blank(_) => continue,
                Next::Record(line) if self.count == self.header.len() => line,
                Next::Record(line) => {
                    let (found, expected) = (self.count, self.header.len());
                    self.torn &= self.line == line;
                    return Err(TableError::Ragged { line, found, expected });
                }
            };
            for (index, wanted) in &self.wanted {
                let text = cell(&self.text, &self.ends, self.count, *index);
                if let Err(e) = self.cells.text(rows, wanted, text, line) {
                    self.torn &= self.line == line;
                    return Err(e);
                }
            }
            rows.lines.push(line);
            rows.rows += 1;
        }
        Ok(true)
    }

    fn cell(&self, index: usize) -> &[u8] {
        cell(&self.text, &self.ends, self.count, index)
    }

    fn next(&mut self) -> Result<Next, TableError> {
        loop {
            let Some(&first) = self.input.fill_buf()?.first() else { return Ok(Next::End) };
            let after_return = std::mem::take(&mut self.after_return);
            match first {
                b'\n' if after_return => self.input.consume(1),
                b'\n' | b'\r' => {
                    self.input.consume(1);
                    self.after_return = first == b'\r';
                    self.line += 1;
                    self.torn = false;
                    return Ok(Next::Blank(self.line - 1));
                }
                b'#' => {
                    self.input.skip_until(b'\n')?;
                    self.line += 1;
                }
                _ => break,
            }
        }
        let line = self.line;
        let mut filled = 0;
        self.count = 0;
        loop {
            let input = self.input.fill_buf()?;
            let at_end = input.is_empty();
            let text = self.text.get_mut(filled..).unwrap_or_default();
            let ends = self.ends.get_mut(self.count..).unwrap_or_default();
            let (result, read, written, cells) = self.core.read_record(input, text, ends);
            let used = input.get(..read).unwrap_or_default();
            self.line += used.iter().filter(|b| **b == b'\n').count() as u64;
            self.after_return = used.last() == Some(&b'\r');
            self.input.consume(read);
            filled += written;
            self.count += cells;
            let most = |what: String| TableError::Syntax { line, message: what };
            match result {
                ReadRecordResult::InputEmpty => {}
                ReadRecordResult::OutputFull if self.text.len() >= MAX_LINE => {
                    return Err(most(format!("it is longer than {} MiB", MAX_LINE >> 20)));
                }
                ReadRecordResult::OutputEndsFull if self.ends.len() >= MAX_COLUMNS => {
                    return Err(most(format!("it has more than {MAX_COLUMNS} cells")));
                }
                ReadRecordResult::OutputFull => self.text.resize(2 * self.text.len(), 0),
                ReadRecordResult::OutputEndsFull => self.ends.resize(2 * self.ends.len(), 0),
                ReadRecordResult::Record => {
                    self.torn = at_end;
                    self.line += u64::from(self.after_return);
                    return Ok(Next::Record(line));
                }
                ReadRecordResult::End => return Ok(Next::End),
            }
        }
    }
}

/// A cell of a record; empty where there is none.
fn cell<'a>(text: &'a [u8], ends: &[usize], count: usize, index: usize) -> &'a [u8] {
    if index >= count {
        return &[];
    }
    let start = index.checked_sub(1).and_then(|i| ends.get(i)).copied().unwrap_or(0);
    ends.get(index).and_then(|end| text.get(start..*end)).unwrap_or_default()
}

/// The delimiter that the line of names uses most.
fn guess_delimiter(header: &[u8]) -> u8 {
    let count = |d: u8| header.iter().filter(|b| **b == d).count();
    let (comma, semicolon, tab) = (count(b','), count(b';'), count(b'\t'));
    match () {
        () if semicolon > comma && semicolon > tab => b';',
        () if tab > comma => b'\t',
        () => b',',
    }
}
