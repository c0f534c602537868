//! Errors that point at the text that caused them.
//!
//! A [`Diagnostic`] holds a message, the place (file, line, column) and, where one can be guessed, a
//! suggestion. Its display form is that of a compiler:
//!
//! ```text
//! error: unknown name `omgea`
//!   --> pendulum.toml:12:21
//!    |
//! 12 | theta = "theta + dt*omgea"
//!    |                     ^^^^^ did you mean `omega`?
//! ```

#![deny(clippy::indexing_slicing)] // the place of an error may be anywhere

pub use optfilter_table::closest;
use optfilter_table::cut;
use std::fmt;
use std::ops::Range;

/// How many characters of a line are shown before a place; twice as many after it.
const AROUND: usize = 80;
/// How many characters a message or a suggestion has at most: what it quotes may be of any length.
const LONGEST: usize = 800;

/// A text and the name under which errors show it.
#[derive(Clone, Debug)]
pub struct Source {
    /// File name, or a description such as `built-in system lorenz63`.
    pub name: String,
    /// The whole text.
    pub text: String,
}

/// What is wrong with a model file, and where.
#[derive(Clone, Debug, PartialEq)]
pub struct Diagnostic {
    /// What is wrong, in one sentence without a full stop.
    pub message: String,
    /// File name.
    pub file: String,
    /// Line, counted from 1.
    pub line: usize,
    /// Column in characters, counted from 1.
    pub column: usize,
    /// The line that holds the place, or what of a long one is around it.
    pub line_text: String,
    /// The number of characters to underline.
    pub width: usize,
    /// What to do about it.
    pub help: Option<String>,
}

impl Diagnostic {
    /// An error at the bytes `span` of `source`.
    pub fn new(source: &Source, span: Range<usize>, message: impl Into<String>) -> Self {
        let text = source.text.as_str();
        let start = text.floor_char_boundary(span.start);
        let end = text.floor_char_boundary(span.end.max(start));
        let piece = |range: Range<usize>| text.get(range).unwrap_or_default();
        let line_start = piece(0..start).rfind('\n').map_or(0, |i| i + 1);
        let line_end = piece(start..text.len()).find('\n').map_or(text.len(), |i| start + i);
        let line = piece(0..start).matches('\n').count() + 1;
        let before = piece(line_start..start);
        let column = before.chars().count() + 1;
        let indent = (column - 1).min(AROUND);
        let first =
            before.char_indices().rev().take(indent).last().map_or(start, |(i, _)| line_start + i);
        let shown = piece(first..line_end).trim_end();
        let line_text: String = shown.chars().take(indent + 2 * AROUND).collect();
        let width = piece(start..end.min(line_end).max(start)).chars().take(2 * AROUND).count();
        Self {
            message: cut(&message.into(), LONGEST).into_owned(),
            file: source.name.clone(),
            line,
            column,
            line_text,
            width: width.max(1),
            help: None,
        }
    }

    /// The same error with a suggestion.
    pub fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(cut(&help.into(), LONGEST).into_owned());
        self
    }

    /// The same error, with a suggestion if some name among `known` resembles `given`.
    pub fn suggest<'a>(self, given: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        match closest(given, known) {
            Some(name) => self.help(format!("did you mean `{name}`?")),
            None => self,
        }
    }

    /// The error on one line, for programs that read messages.
    pub fn one_line(&self) -> String {
        let help = self.help.as_ref().map(|h| format!(" ({h})")).unwrap_or_default();
        format!("{}:{}:{}: {}{help}", self.file, self.line, self.column, self.message)
    }
}

impl fmt::Display for Diagnostic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.line.to_string();
        let margin = " ".repeat(number.len());
        // Tabs are shown as one blank, so that the underline stands below the right characters.
        let shown: String =
            self.line_text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect();
        writeln!(f, "{}", self.message)?;
        writeln!(f, "{margin}--> {}:{}:{}", self.file, self.line, self.column)?;
        writeln!(f, "{margin} |")?;
        writeln!(f, "{number} | {shown}")?;
        let indent = " ".repeat((self.column - 1).min(AROUND));
        write!(f, "{margin} | {indent}{}", "^".repeat(self.width))?;
        match &self.help {
            Some(help) => write!(f, " {help}"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Diagnostic {}

#[cfg(test)]
#[allow(clippy::indexing_slicing)]
mod tests {
    use super::*;

    #[test]
    fn of_a_long_line_only_what_is_around_the_place_is_shown() {
        let text = format!("{}θ + foo{}", "ä".repeat(100_000), " + 1".repeat(100_000));
        let source = Source { name: "m.toml".into(), text: text.clone() };
        let at = text.find("foo").unwrap();
        let error = Diagnostic::new(&source, at..text.len(), "x".repeat(1 << 20));
        assert_eq!((error.line, error.column), (1, 100_005));
        let shown = error.help("y".repeat(1 << 20)).to_string();
        assert!(shown.len() < 2500, "{}", shown.len());
        let lines: Vec<&str> = shown.lines().collect();
        let before = |line: &str, sign| line.split_once(sign).unwrap().0.chars().count();
        assert_eq!(before(lines[3], "foo"), before(lines[4], "^"));
    }

    #[test]
    fn the_underline_stands_below_the_text() {
        let text = "a = 1\nb = \"θ + foo\"\n".to_owned();
        let source = Source { name: "m.toml".into(), text: text.clone() };
        let at = text.find("foo").unwrap();
        let shown = Diagnostic::new(&source, at..at + 3, "unknown name `foo`").to_string();
        assert!(shown.contains("m.toml:2:10"), "{shown}");
        let lines: Vec<&str> = shown.lines().collect();
        let column = lines[3].chars().position(|c| c == 'f').unwrap();
        assert_eq!(lines[4].chars().position(|c| c == '^'), Some(column));
    }
}
