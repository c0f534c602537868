//! TOML as a tree in which every key and value knows where it stands.

use crate::diagnostic::{Diagnostic, Source};
use std::ops::Range;
use toml::de::{DeTable, DeValue};

/// The most states, inputs or observations: programs number them in 15 bits.
pub(super) const MAX_NAMES: usize = 10_000;

/// A value with its place.
#[derive(Clone, Debug)]
pub(super) struct Value {
    pub(super) kind: Kind,
    pub(super) at: Place,
}

/// Bytes of one of the sources.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Place {
    pub(super) source: usize,
    pub(super) span: Range<usize>,
}

#[derive(Clone, Debug)]
pub(super) enum Kind {
    Number(f64),
    /// The text, and where its first character stands if the text appears in the file as it is.
    Text(String, Option<usize>),
    Flag(bool),
    List(Vec<Value>),
    Table(Vec<Entry>),
    Date,
}

#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) key: String,
    pub(super) key_at: Place,
    pub(super) value: Value,
}

impl Value {
    pub(super) fn describe(&self) -> &'static str {
        match self.kind {
            Kind::Number(_) => "a number",
            Kind::Text(..) => "a text",
            Kind::Flag(_) => "true or false",
            Kind::List(_) => "a list",
            Kind::Table(_) => "a table",
            Kind::Date => "a date",
        }
    }
}

/// Parses a file. The entries of each table come in the order of the file.
pub(super) fn parse(sources: &[Source], index: usize) -> Result<Vec<Entry>, Diagnostic> {
    let source = &sources[index];
    let document = DeTable::parse(&source.text).map_err(|e| {
        let message = e.message().lines().collect::<Vec<_>>().join(", ");
        Diagnostic::new(source, e.span().unwrap_or(0..0), format!("not valid TOML: {message}"))
    })?;
    Ok(table(document.get_ref(), &source.text, index))
}

fn table(table: &DeTable<'_>, text: &str, source: usize) -> Vec<Entry> {
    let mut entries: Vec<Entry> = table
        .iter()
        .map(|(key, value)| Entry {
            key: key.get_ref().to_string(),
            key_at: Place { source, span: key.span() },
            value: convert(value.get_ref(), value.span(), text, source),
        })
        .collect();
    entries.sort_by_key(|e| e.key_at.span.start);
    entries
}

fn convert(value: &DeValue<'_>, span: Range<usize>, text: &str, source: usize) -> Value {
    let kind = match value {
        DeValue::String(s) => Kind::Text(s.to_string(), content_start(text, &span, s)),
        DeValue::Integer(i) => {
            let digits = i.as_str().replace('_', "");
            Kind::Number(match i.radix() {
                10 => digits.parse().unwrap_or(f64::NAN),
                radix => i64::from_str_radix(&digits, radix).map_or(f64::NAN, |v| v as f64),
            })
        }
        DeValue::Float(f) => Kind::Number(f.as_str().replace('_', "").parse().unwrap_or(f64::NAN)),
        DeValue::Boolean(b) => Kind::Flag(*b),
        DeValue::Datetime(_) => Kind::Date,
        DeValue::Array(items) => {
            Kind::List(items.iter().map(|v| convert(v.get_ref(), v.span(), text, source)).collect())
        }
        DeValue::Table(inner) => Kind::Table(table(inner, text, source)),
    };
    Value { kind, at: Place { source, span } }
}

/// Where the text of a string value starts in the file, if no escape changed it on the way.
fn content_start(text: &str, span: &Range<usize>, content: &str) -> Option<usize> {
    let raw = text.get(span.clone())?;
    let quote = if raw.starts_with("\"\"\"") || raw.starts_with("'''") { 3 } else { 1 };
    let offset = raw.get(quote..)?.find(content).map(|i| quote + i)?;
    (offset <= quote + 2).then_some(span.start + offset)
}
