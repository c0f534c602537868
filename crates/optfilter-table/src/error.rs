//! What can be wrong with a table.

use crate::foreign::advice;
use crate::names::{closest, cut, short};

/// What can be wrong with a table, in one line.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum TableError {
    /// Reading or writing failed.
    #[error(transparent)]
    Io(#[from] std::io::Error),
    /// There is no header.
    #[error("the table is empty: a first line with column names is expected")]
    Empty,
    /// A column is not there.
    #[error("there is no column {:?}; {}", short(column), others(column, available))]
    MissingColumn {
        /// The column.
        column: String,
        /// The columns that are.
        available: Vec<String>,
    },
    /// A column is there twice.
    #[error("column {:?} appears twice", short(column))]
    DoubleColumn {
        /// The column.
        column: String,
    },
    /// A cell is not a number.
    #[error("line {line}, column {:?}: {:?} is not {expected}", short(column), short(text))]
    Cell {
        /// The line, from 1.
        line: u64,
        /// The column.
        column: String,
        /// The text.
        text: String,
        /// What was expected.
        expected: &'static str,
    },
    /// A row has more or fewer cells than the header.
    #[error("line {line} has {found} cells where the header has {expected}")]
    Ragged {
        /// The line, from 1.
        line: u64,
        /// Cells in the row.
        found: usize,
        /// Cells in the header.
        expected: usize,
    },
    /// A line is not valid for the format.
    #[error("line {line}: {}", cut(message, 400))]
    Syntax {
        /// The line, from 1.
        line: u64,
        /// What is wrong.
        message: String,
    },
    /// A file of another kind.
    #[error("the data are not a table: this is {kind}; {}", advice(kind))]
    Foreign {
        /// What it is.
        kind: &'static str,
    },
    /// NumPy's arrays that are no table.
    #[error("not a readable NumPy file: {}", cut(message, 400))]
    Array {
        /// What is wrong.
        message: String,
    },
    /// The program was built without the format.
    #[error("{message}")]
    Unsupported {
        /// What is missing.
        message: &'static str,
    },
}

/// What may have been meant instead of a column that is not there.
fn others(column: &str, available: &[String]) -> String {
    if let Some(near) = closest(column, available.iter().map(String::as_str)) {
        return format!("did you mean {near:?}?");
    }
    let shown: Vec<_> = available.iter().take(12).map(|name| short(name)).collect();
    format!("there are {}{}", shown.join(", "), if available.len() > 12 { ", ..." } else { "" })
}
