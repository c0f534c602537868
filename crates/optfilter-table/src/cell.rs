//! Cells as numbers.

use crate::calendar::{TimeStyle, parse_time};
use crate::columns::{ColumnKind, Rows, Wanted};
use crate::error::TableError;
use crate::names::short;

/// What a cell turned out to be.
pub(crate) enum Cell {
    Number(f64),
    /// A calendar time, in units of the model's time.
    Calendar(f64),
    /// A name.
    Label,
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
    if kind == ColumnKind::Category {
        return Cell::Label;
    }
    if kind == ColumnKind::Label {
        return match std::str::from_utf8(text) {
            Ok("") => Cell::Wrong("a label, which may not be missing"),
            Ok(_) => Cell::Label,
            // What replaces a letter that nobody can read would be the same letter in all names.
            Err(_) => Cell::Wrong("a label in UTF-8"),
        };
    }
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
        (_, ColumnKind::Input | ColumnKind::Label | ColumnKind::Category) => {
            Cell::Wrong("a finite number")
        }
        (_, ColumnKind::Time { seconds_per_unit }) => {
            match std::str::from_utf8(text).ok().and_then(parse_time) {
                Some(seconds) => Cell::Calendar(seconds / seconds_per_unit),
                None => Cell::Wrong("a time (a number, or as in 2026-11-15T13:00:00Z)"),
            }
        }
    }
}

/// Appends cells to rows.
#[derive(Default)]
pub(crate) struct Cells {
    /// Whether the times so far were calendar times: numbers and dates have no common zero.
    calendar: Option<bool>,
    /// How times are written.
    pub(crate) style: TimeStyle,
    /// Whether numbers may have a decimal comma, and whether those so far had one instead of a point.
    commas: bool,
    comma: Option<bool>,
}

impl Cells {
    /// Of a table in which commas separate digits, if anything.
    pub(crate) fn with_commas(commas: bool) -> Self {
        Self { commas, ..Self::default() }
    }
}

impl Cells {
    /// Appends a cell of text.
    #[inline]
    pub(crate) fn text(
        &mut self,
        rows: &mut Rows,
        wanted: &Wanted,
        text: &[u8],
        line: u64,
    ) -> Result<(), TableError> {
        let cell = self.cell(text, wanted.kind);
        self.push(rows, wanted, cell, line, || text)
    }

    /// What a cell of text holds, by the table's own style.
    #[inline]
    fn cell(&mut self, text: &[u8], kind: ColumnKind) -> Cell {
        if let (ColumnKind::Time { seconds_per_unit }, Some(_)) = (kind, &self.style.pattern) {
            let seconds = std::str::from_utf8(text).ok().and_then(|text| self.style.parse(text));
            return match seconds {
                Some(seconds) => Cell::Calendar(seconds / seconds_per_unit),
                None => Cell::Wrong("a time in the given format"),
            };
        }
        if self.commas && !matches!(kind, ColumnKind::Label | ColumnKind::Category) {
            return self.number(text, kind);
        }
        parse(text, kind)
    }

    /// A number of a table whose cells are not separated by commas; all have a point, or all a comma.
    fn number(&mut self, text: &[u8], kind: ColumnKind) -> Cell {
        let has = |sign: u8| text.contains(&sign);
        let (mixed, comma) = (has(b',') && has(b'.'), has(b','));
        if !(comma || has(b'.')) || matches!(parse(text, kind), Cell::Calendar(_)) {
            return parse(text, kind);
        }
        let digits = |b: &u8| b.is_ascii_digit() || b"+-., ".contains(b);
        if mixed && text.iter().all(digits) {
            return Cell::Wrong("a number without thousands separators");
        }
        let pointed: Vec<u8> = text.iter().map(|b| if *b == b',' { b'.' } else { *b }).collect();
        match (parse(&pointed, kind), *self.comma.get_or_insert(comma)) {
            (Cell::Number(_), true) if !comma => {
                Cell::Wrong("a number with a decimal comma, as those before it are")
            }
            (Cell::Number(_), false) if comma => {
                Cell::Wrong("a number with a decimal point, as those before it are")
            }
            (cell, _) => cell,
        }
    }

    /// Appends a cell whose text is only asked for where it is needed.
    #[inline]
    pub(crate) fn push<T: AsRef<[u8]>>(
        &mut self,
        rows: &mut Rows,
        wanted: &Wanted,
        cell: Cell,
        line: u64,
        text: impl FnOnce() -> T,
    ) -> Result<(), TableError> {
        let is_time = matches!(wanted.kind, ColumnKind::Time { .. });
        let cell = match (cell, wanted.kind, self.style.epoch) {
            (Cell::Number(v), ColumnKind::Time { seconds_per_unit }, Some(unit)) => {
                Cell::Calendar(v * unit / seconds_per_unit)
            }
            (cell, ..) => cell,
        };
        let calendar = matches!(cell, Cell::Calendar(_));
        let expected = match (cell, self.calendar) {
            (Cell::Wrong(expected), _) => expected,
            (Cell::Number(_), Some(true)) if is_time => "a calendar time, as those before it are",
            (Cell::Calendar(_), Some(false)) => "a plain number, as the times before it are",
            (Cell::Label, _) => {
                // A label is a text, whose blanks count; of a category they do not.
                let text = text();
                let name = match wanted.kind {
                    ColumnKind::Category => text.as_ref().trim_ascii(),
                    _ => text.as_ref(),
                };
                let number = rows.number_of(name);
                rows.values.push(number);
                return Ok(());
            }
            (Cell::Number(v) | Cell::Calendar(v), _) => {
                rows.values.push(v);
                if is_time {
                    self.calendar = Some(calendar);
                    rows.calendar = calendar;
                    rows.push_time_text(text().as_ref().trim_ascii());
                }
                return Ok(());
            }
        };
        Err(TableError::Cell {
            line,
            column: wanted.column.clone(),
            text: short(&String::from_utf8_lossy(text().as_ref())).into_owned(),
            expected,
        })
    }
}
