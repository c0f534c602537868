//! JSON lines: one object per line. A key that a line leaves out, or `null`, is a missing number. So is `NaN`, which is no
//! JSON but what Python's json module and R write.

use crate::calendar::TimeStyle;
use crate::cell::Cells;
use crate::columns::{Rows, Wanted};
use crate::error::TableError;
use crate::source::{Source, Text};
use serde_json::{Map, Value};
use std::borrow::Cow;
use std::io::BufRead;

/// Reads objects line by line; the first line's keys are the columns.
pub(crate) struct JsonReader {
    input: Text,
    header: Vec<String>,
    wanted: Vec<Wanted>,
    cells: Cells,
    first: Option<Map<String, Value>>,
    line: u64,
    text: Vec<u8>,
}

impl JsonReader {
    pub(crate) fn new(source: Source) -> Result<Self, TableError> {
        let (_, input) = source.into_text()?;
        let (header, wanted, text) = (Vec::new(), Vec::new(), Vec::new());
        let cells = Cells::default();
        let mut reader = Self { input, header, wanted, cells, first: None, line: 0, text };
        let first = reader.next_object()?.ok_or(TableError::Empty)?;
        reader.header = first.keys().cloned().collect();
        reader.first = Some(first);
        Ok(reader)
    }

    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    pub(crate) fn set_style(&mut self, style: TimeStyle) {
        self.cells.style = style;
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
        let read = serde_json::from_slice(&self.text).or_else(|e| {
            quote_words(&self.text).and_then(|t| serde_json::from_slice(&t).ok()).ok_or(e)
        });
        match read {
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
                    None | Some(Value::Null) => Cow::default(),
                    Some(Value::String(text)) => Cow::from(text),
                    Some(Value::Bool(b)) => Cow::from(u8::from(*b).to_string()),
                    Some(other) => Cow::from(other.to_string()),
                };
                self.cells.text(rows, wanted, text.as_bytes(), self.line)?;
            }
            rows.lines.push(self.line);
            rows.rows += 1;
        }
        Ok(true)
    }
}

/// The line with `NaN` and `Infinity` as texts, if there are any outside of texts.
fn quote_words(line: &[u8]) -> Option<Vec<u8>> {
    const WORDS: [&[u8]; 4] = [b"NaN", b"-NaN", b"Infinity", b"-Infinity"];
    let (mut out, mut rest) = (Vec::with_capacity(line.len() + 16), line);
    let (mut in_text, mut changed) = (false, false);
    while let Some((&byte, after)) = rest.split_first() {
        let word = WORDS.iter().find(|w| !in_text && rest.starts_with(w));
        if let Some((word, after)) = word.and_then(|w| Some((w, rest.strip_prefix(*w)?))) {
            out.extend([b"\"", *word, b"\""].concat());
            (rest, changed) = (after, true);
            continue;
        }
        out.push(byte);
        rest = after;
        match (byte, rest.split_first()) {
            (b'"', _) => in_text = !in_text,
            (b'\\', Some((&escaped, after))) if in_text => {
                out.push(escaped);
                rest = after;
            }
            _ => {}
        }
    }
    changed.then_some(out)
}

/// The message without the place, which we give ourselves.
fn short(error: &serde_json::Error) -> String {
    let text = error.to_string();
    text.split(" at line").next().unwrap_or(&text).to_owned()
}
