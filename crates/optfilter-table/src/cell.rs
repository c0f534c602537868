//! One cell of text as a number.

use crate::calendar::parse_time;
use crate::columns::ColumnKind;

/// What a cell turned out to be.
pub(crate) enum Cell {
    Number(f64),
    /// A calendar time, in units of the model's time.
    Calendar(f64),
    /// Not what the column should hold; the text says what that is.
    Wrong(&'static str),
}

/// Whether a text stands for a missing number.
fn is_missing(text: &[u8]) -> bool {
    matches!(text, b"" | b"." | b"?")
        || [&b"nan"[..], b"na", b"n/a", b"null", b"none"]
            .iter()
            .any(|m| text.eq_ignore_ascii_case(m))
}

/// Reads a cell of a column of this kind.
#[inline]
pub(crate) fn parse(text: &[u8], kind: ColumnKind) -> Cell {
    let text = text.trim_ascii();
    // The common case first: a number in plain text.
    let number = std::str::from_utf8(text).ok().and_then(|t| t.parse::<f64>().ok());
    match (number, kind) {
        (Some(v), _) if v.is_finite() => Cell::Number(v),
        (_, ColumnKind::Measurement) if is_missing(text) => Cell::Number(f64::NAN),
        (_, ColumnKind::Measurement) => Cell::Wrong("a finite number or empty"),
        (_, ColumnKind::Input) if is_missing(text) => {
            Cell::Wrong("a number, and an input may not be missing")
        }
        (_, ColumnKind::Input) => Cell::Wrong("a finite number"),
        (_, ColumnKind::Time { seconds_per_unit }) => {
            match std::str::from_utf8(text).ok().and_then(parse_time) {
                Some(seconds) => Cell::Calendar(seconds / seconds_per_unit),
                None => Cell::Wrong("a time (a number, or as in 2026-11-15T13:00:00Z)"),
            }
        }
    }
}
