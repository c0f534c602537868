//! JSON lines: one object per line. A key that a line leaves out, or `null`, is a missing number. So is `NaN`, which is no
//! JSON but what Python's json module and R write.

use crate::calendar::TimeStyle;
use crate::cell::Cells;
use crate::columns::{ColumnKind, Rows, Wanted};
use crate::error::TableError;
use crate::names::{cut, short};
use crate::source::{MAX_COLUMNS, MAX_LINE, Source, Text};
use serde::Deserialize;
use serde::de::{self, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Number;
use serde_json::error::Category;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fmt;
use std::io::{BufRead, Read};

/// Reads objects line by line; the first line's keys are the columns.
pub(crate) struct JsonReader {
    input: Text,
    header: Vec<String>,
    wanted: Vec<Wanted>,
    cells: Cells,
    first: Option<Object>,
    line: u64,
    text: Vec<u8>,
}

/// A line: its keys with their values, and the keys that it has twice.
#[derive(Default)]
struct Object {
    values: BTreeMap<String, Scalar>,
    twice: Vec<String>,
}

/// A value, as far as a cell can hold it.
enum Scalar {
    Null,
    Truth(bool),
    Number(Number),
    Text(String),
    /// A list or an object, of which nothing is kept.
    Nested,
}

impl Scalar {
    /// As a cell of a CSV would hold it.
    fn text(&self, kind: ColumnKind) -> Cow<'_, str> {
        match self {
            Self::Null => Cow::default(),
            Self::Text(text) => Cow::from(text),
            Self::Truth(truth) if kind == ColumnKind::Label => Cow::from(truth.to_string()),
            Self::Truth(truth) => Cow::from(u8::from(*truth).to_string()),
            Self::Number(number) => Cow::from(number.to_string()),
            Self::Nested => Cow::from("[...]"),
        }
    }
}

impl JsonReader {
    pub(crate) fn new(source: Source) -> Result<Self, TableError> {
        let (_, input) = source.into_text()?;
        let (header, wanted, text) = (Vec::new(), Vec::new(), Vec::new());
        let cells = Cells::default();
        let mut reader = Self { input, header, wanted, cells, first: None, line: 0, text };
        let first = reader.next_object()?.ok_or(TableError::Empty)?;
        reader.header = first.values.keys().cloned().collect();
        reader.first = Some(first);
        Ok(reader)
    }

    pub(crate) fn header(&self) -> &[String] {
        &self.header
    }

    pub(crate) fn set_style(&mut self, style: TimeStyle) {
        self.cells.style = style;
    }

    pub(crate) fn is_torn(&self) -> bool {
        !self.text.is_empty() && !self.text.ends_with(b"\n")
    }

    pub(crate) fn choose(&mut self, wanted: Vec<Wanted>) {
        self.wanted = wanted;
    }

    fn next_object(&mut self) -> Result<Option<Object>, TableError> {
        loop {
            // The line before stays what it was if there is none after it.
            if self.input.fill_buf()?.is_empty() {
                return Ok(None);
            }
            self.text.clear();
            self.line += 1;
            let mut line = (&mut self.input).take(MAX_LINE as u64 + 1);
            if line.read_until(b'\n', &mut self.text)? > MAX_LINE {
                self.text.clear(); // its end is further on, and not that of the text
                return Err(self.syntax(format!("it is longer than {} MiB", MAX_LINE >> 20)));
            }
            if !self.text.trim_ascii().is_empty() {
                break;
            }
        }
        let read = serde_json::from_slice::<Object>(&self.text).or_else(|e| {
            quote_words(&self.text).and_then(|t| serde_json::from_slice(&t).ok()).ok_or(e)
        });
        read.map(Some).map_err(|e| match e.classify() {
            Category::Data if !self.text.trim_ascii_start().starts_with(b"{") => {
                self.syntax("this line is not a JSON object".into())
            }
            Category::Data => self.syntax(reason(&e)),
            _ => self.syntax(format!("not valid JSON at column {}: {}", e.column(), reason(&e))),
        })
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
                if object.twice.contains(&wanted.column) {
                    let key = short(&wanted.column);
                    return Err(self.syntax(format!("the key {key:?} appears twice")));
                }
                let value = object.values.get(&wanted.column).unwrap_or(&Scalar::Null);
                if let (Scalar::Nested, ColumnKind::Label | ColumnKind::Category) =
                    (value, wanted.kind)
                {
                    let column = wanted.column.clone();
                    let (text, expected) = ("[...]".to_owned(), "a label, which is one value");
                    return Err(TableError::Cell { line: self.line, column, text, expected });
                }
                let text = value.text(wanted.kind);
                self.cells.text(rows, wanted, text.as_bytes(), self.line)?;
            }
            rows.lines.push(self.line);
            rows.rows += 1;
        }
        Ok(true)
    }
}

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Keys;
        impl<'de> Visitor<'de> for Keys {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Object, A::Error> {
                let mut object = Object::default();
                while let Some(key) = map.next_key::<String>()? {
                    if object.values.len() >= MAX_COLUMNS {
                        let message = format!("it has more than {MAX_COLUMNS} keys");
                        return Err(de::Error::custom(message));
                    }
                    let value = map.next_value()?;
                    match object.values.entry(key) {
                        Entry::Occupied(known) => object.twice.push(known.key().clone()),
                        Entry::Vacant(new) => {
                            new.insert(value);
                        }
                    }
                }
                Ok(object)
            }
        }
        from.deserialize_map(Keys)
    }
}

impl<'de> Deserialize<'de> for Scalar {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        struct Any;
        impl<'de> Visitor<'de> for Any {
            type Value = Scalar;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a value")
            }

            fn visit_unit<E>(self) -> Result<Scalar, E> {
                Ok(Scalar::Null)
            }

            fn visit_bool<E>(self, truth: bool) -> Result<Scalar, E> {
                Ok(Scalar::Truth(truth))
            }

            fn visit_i64<E>(self, number: i64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number.into()))
            }

            fn visit_u64<E>(self, number: u64) -> Result<Scalar, E> {
                Ok(Scalar::Number(number.into()))
            }

            fn visit_f64<E>(self, number: f64) -> Result<Scalar, E> {
                Ok(Number::from_f64(number).map_or(Scalar::Null, Scalar::Number))
            }

            fn visit_str<E>(self, text: &str) -> Result<Scalar, E> {
                Ok(Scalar::Text(text.to_owned()))
            }

            fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Scalar, A::Error> {
                while seq.next_element::<IgnoredAny>()?.is_some() {}
                Ok(Scalar::Nested)
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Scalar, A::Error> {
                while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
                Ok(Scalar::Nested)
            }
        }
        from.deserialize_any(Any)
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
fn reason(error: &serde_json::Error) -> String {
    let text = error.to_string();
    cut(text.split(" at line").next().unwrap_or(&text), 200).into_owned()
}
