//! JSON lines: one object per line. A key that a line leaves out, or `null`, is a missing number.

use crate::cell::{self, Cell};
use crate::columns::{ColumnKind, Rows, Wanted};
use crate::error::TableError;
use serde_json::{Map, Value};
use std::io::{BufRead, BufReader, Read};

/// Reads objects line by line; the first line's keys are the columns.
pub(crate) struct JsonReader {
    input: BufReader<Box<dyn Read + Send>>,
    header: Vec<String>,
    wanted: Vec<Wanted>,
    first: Option<Map<String, Value>>,
    line: u64,
    text: Vec<u8>,
}

impl JsonReader {
    pub(crate) fn new(input: Box<dyn Read + Send>) -> Result<Self, TableError> {
        let input = BufReader::with_capacity(1 << 16, input);
        let (header, wanted, text) = (Vec::new(), Vec::new(), Vec::new());
        let mut reader = Self { input, header, wanted, first: None, line: 0, text };
        let first = reader.next_object()?.ok_or(TableError::Empty)?;
        reader.header = first.keys().cloned().collect();
        reader.first = Some(first);
        Ok(reader)
    }

    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    pub(crate) fn choose(&mut self, wanted: Vec<Wanted>) {
        self.wanted = wanted;
    }

    fn next_object(&mut self) -> Result<Option<Map<String, Value>>, TableError> {
        loop {
            self.text.clear();
            if self.input.read_until(b'\n', &mut self.text)? == 0 {
                return Ok(None);
            }
            self.line += 1;
            if !self.text.trim_ascii().is_empty() {
                break;
            }
        }
        match serde_json::from_slice(&self.text) {
            Ok(Value::Object(object)) => Ok(Some(object)),
            Ok(_) => Err(self.syntax("this line is not a JSON object".into())),
            Err(e) => {
                Err(self.syntax(format!("not valid JSON at column {}: {}", e.column(), short(&e))))
            }
        }
    }

    fn syntax(&self, message: String) -> TableError {
        TableError::Syntax { line: self.line, message }
    }

    pub(crate) fn read(&mut self, rows: &mut Rows, max_rows: usize) -> Result<bool, TableError> {
        for _ in 0..max_rows {
            let object = match self.first.take() {
                Some(first) => first,
                None => match self.next_object()? {
                    Some(object) => object,
                    None => return Ok(false),
                },
            };
            for wanted in &self.wanted {
                let text = match object.get(&wanted.column) {
                    None | Some(Value::Null) => String::new(),
                    Some(Value::String(text)) => text.clone(),
                    Some(Value::Bool(b)) => u8::from(*b).to_string(),
                    Some(other) => other.to_string(),
                };
                match cell::parse(text.as_bytes(), wanted.kind) {
                    Cell::Number(v) => rows.values.push(v),
                    Cell::Calendar(v) => {
                        rows.calendar = true;
                        rows.values.push(v);
                    }
                    Cell::Wrong(expected) => {
                        return Err(TableError::Cell {
                            line: self.line,
                            column: wanted.column.clone(),
                            text: text.chars().take(60).collect(),
                            expected,
                        });
                    }
                }
                if matches!(wanted.kind, ColumnKind::Time { .. }) {
                    rows.push_time_text(text.as_bytes());
                }
            }
            rows.rows += 1;
        }
        Ok(true)
    }
}

/// The message without the place, which we give ourselves.
fn short(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line").next().unwrap_or(&text).to_owned()
}
