//! Writing tables: the same formats that are read.

use crate::arrays::ArrayWriter;
use crate::columns::{Format, OutputColumn, flag, label};
use crate::error::TableError;
#[cfg(feature = "parquet")]
use crate::parquet::ParquetWriter;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Bytes collected before they are handed on.
const BLOCK: usize = 1 << 17;

/// Where the bytes go.
enum Out {
    Plain(Box<dyn Write + Send>),
    Packed(GzEncoder<Box<dyn Write + Send>>),
}

/// A table being written.
pub struct TableWriter {
    out: Out,
    format: Format,
    columns: Vec<OutputColumn>,
    /// For JSON: `{"name":` or `,"name":` of each column.
    keys: Vec<Vec<u8>>,
    buffer: Vec<u8>,
    written: u64,
    arrays: Option<ArrayWriter>,
    #[cfg(feature = "parquet")]
    parquet: Option<ParquetWriter>,
}

impl TableWriter {
    /// Starts a table; writes the header unless the table goes on where an earlier run stopped.
    pub fn new(
        out: Box<dyn Write + Send>,
        format: Format,
        columns: Vec<OutputColumn>,
        continues: bool,
    ) -> Result<Self, TableError> {
        #[cfg(not(feature = "parquet"))]
        if format == Format::Parquet {
            let message = "this program was built without Parquet; write CSV, TSV or JSON lines";
            return Err(TableError::Unsupported { message });
        }
        let keys = columns
            .iter()
            .enumerate()
            .map(|(i, c)| {
                let name = serde_json::Value::from(c.name()).to_string();
                format!("{}{name}:", if i == 0 { '{' } else { ',' }).into_bytes()
            })
            .collect();
        let (out, arrays) = if matches!(format, Format::Npz | Format::Npy) {
            let arrays = ArrayWriter::new(out, &columns, format == Format::Npz);
            (Box::new(std::io::sink()) as Box<dyn Write + Send>, Some(arrays))
        } else {
            (out, None)
        };
        #[cfg(feature = "parquet")]
        let (out, parquet) = if format == Format::Parquet {
            let parquet = ParquetWriter::new(out, &columns);
            (Box::new(std::io::sink()) as Box<dyn Write + Send>, Some(parquet))
        } else {
            (out, None)
        };
        let mut writer = Self {
            out: Out::Plain(out),
            format,
            columns,
            keys,
            buffer: Vec::with_capacity(2 * BLOCK),
            written: 0,
            arrays,
            #[cfg(feature = "parquet")]
            parquet,
        };
        if !continues && matches!(format, Format::Csv | Format::Tsv) {
            let delimiter = writer.delimiter();
            for (i, column) in writer.columns.iter().enumerate() {
                if i > 0 {
                    writer.buffer.push(delimiter);
                }
                push_quoted(&mut writer.buffer, column.name().as_bytes(), delimiter);
            }
            writer.buffer.push(b'\n');
        }
        Ok(writer)
    }

    /// The same, compressed with gzip. To be said before the first row.
    pub fn gzip(mut self) -> Self {
        self.out = match self.out {
            Out::Plain(out) => Out::Packed(GzEncoder::new(out, Compression::default())),
            packed => packed,
        };
        self
    }

    fn delimiter(&self) -> u8 {
        if self.format == Format::Tsv { b'\t' } else { b',' }
    }

    /// Writes one row: a number for each column, and the text of the time cell if there is one.
    pub fn row(&mut self, values: &[f64], time_text: Option<&[u8]>) -> Result<(), TableError> {
        self.labelled_row(values, time_text, &[])
    }

    /// The same where columns hold names: those that their numbers stand for.
    pub fn labelled_row(
        &mut self,
        values: &[f64],
        time_text: Option<&[u8]>,
        labels: &[String],
    ) -> Result<(), TableError> {
        if let Some(arrays) = &mut self.arrays {
            arrays.row(values, time_text, labels);
            return Ok(());
        }
        #[cfg(feature = "parquet")]
        if let Some(parquet) = &mut self.parquet {
            return parquet.row(values, time_text, labels);
        }
        let json = self.format == Format::JsonLines;
        let delimiter = self.delimiter();
        let columns = self.columns.iter().zip(&self.keys);
        for (i, (&value, (column, key))) in values.iter().zip(columns).enumerate() {
            if json {
                self.buffer.extend_from_slice(key);
            } else if i > 0 {
                self.buffer.push(delimiter);
            }
            match (column, time_text) {
                (OutputColumn::Time(_), Some(text)) if json => push_json(&mut self.buffer, text),
                (OutputColumn::Time(_), Some(text)) => {
                    push_quoted(&mut self.buffer, text, delimiter)
                }
                (OutputColumn::Label(_), _) => {
                    let name = label(labels, value).as_bytes();
                    match json {
                        true => push_json_name(&mut self.buffer, name),
                        false => push_quoted(&mut self.buffer, name, delimiter),
                    }
                }
                (OutputColumn::Flag(_), _) => {
                    let quote: &[u8] = if json { b"\"" } else { b"" };
                    for part in [quote, flag(value).as_bytes(), quote] {
                        self.buffer.extend_from_slice(part);
                    }
                }
                _ if value.is_finite() => push_number(&mut self.buffer, value),
                _ if json => self.buffer.extend_from_slice(b"null"),
                _ => {}
            }
        }
        self.buffer.extend_from_slice(if json { b"}\n" } else { b"\n" });
        if self.buffer.len() >= BLOCK {
            self.write_out()?;
        }
        Ok(())
    }

    fn write_out(&mut self) -> Result<(), TableError> {
        match &mut self.out {
            Out::Plain(out) => out.write_all(&self.buffer)?,
            Out::Packed(out) => out.write_all(&self.buffer)?,
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Hands everything on. Returns how many bytes of text have been written since the start.
    pub fn flush(&mut self) -> Result<u64, TableError> {
        self.write_out()?;
        match &mut self.out {
            Out::Plain(out) => out.flush()?,
            Out::Packed(out) => out.flush()?,
        }
        Ok(self.written)
    }

    /// Ends the table.
    pub fn finish(mut self) -> Result<(), TableError> {
        if let Some(arrays) = self.arrays.take() {
            return arrays.finish();
        }
        #[cfg(feature = "parquet")]
        if let Some(parquet) = self.parquet.take() {
            return parquet.finish();
        }
        self.write_out()?;
        match self.out {
            Out::Plain(mut out) => out.flush()?,
            Out::Packed(out) => out.finish()?.flush()?,
        }
        Ok(())
    }
}

/// The shortest text that reads back as the same number; whole numbers without a point.
fn push_number(out: &mut Vec<u8>, value: f64) {
    let mut digits = zmij::Buffer::new();
    let text = digits.format_finite(value);
    out.extend_from_slice(text.strip_suffix(".0").unwrap_or(text).as_bytes());
}

/// A text cell, in quotes if it holds anything that would end it.
fn push_quoted(out: &mut Vec<u8>, text: &[u8], delimiter: u8) {
    let special = |b: &u8| *b == delimiter || matches!(b, b'"' | b'\n' | b'\r');
    // A number sign at the start of a line would make it a comment.
    if !text.starts_with(b"#") && !text.iter().any(special) {
        out.extend_from_slice(text);
        return;
    }
    out.push(b'"');
    for &b in text {
        if b == b'"' {
            out.push(b'"');
        }
        out.push(b);
    }
    out.push(b'"');
}

/// A name as JSON: a number only where every reader prints that number as the name again, so that 1 and 1.0 stay two names.
fn push_json_name(out: &mut Vec<u8>, text: &[u8]) {
    // Up to 2^53, beyond which readers round.
    let exact = |v: f64| v.abs() < 9_007_199_254_740_992.0;
    let number = std::str::from_utf8(text).ok().and_then(|t| t.parse::<f64>().ok());
    let mut printed = Vec::new();
    if let Some(value) = number.filter(|v| exact(*v) && !(*v == 0.0 && v.is_sign_negative())) {
        push_number(&mut printed, value);
    }
    // Readers differ in how they print exponents.
    match printed == text && !text.contains(&b'e') {
        true => out.extend_from_slice(text),
        false => push_json_text(out, text),
    }
}

/// A time as JSON: as it is if that is a JSON number, else as a string.
fn push_json(out: &mut Vec<u8>, text: &[u8]) {
    if serde_json::from_slice::<serde_json::Number>(text).is_ok() {
        out.extend_from_slice(text);
    } else {
        push_json_text(out, text);
    }
}

fn push_json_text(out: &mut Vec<u8>, text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    out.extend_from_slice(serde_json::Value::from(text.as_ref()).to_string().as_bytes());
}
