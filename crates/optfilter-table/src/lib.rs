//! Tables and arrays of numbers: rows in, rows out, in constant memory.
//!
//! CSV, TSV and JSON lines, compressed with gzip or not (and Parquet with the feature `parquet`), are read and written
//! row by row, and so are files of NumPy's, `.npz` and `.npy` ([`npz`] has whole arrays); what comes of these by a pipe, or is written, is
//! held in memory. What is none of these is named in the error.
//!
//! A reader is told which columns it should give and in what order; it hands out batches of plain
//! numbers, so that what follows never sees text. Nothing is made room for that has not come, and a row has at most 64 MiB of text. An empty cell, `NaN`, `NA` or `null` is a missing
//! number (NaN). A time column may also hold calendar times (`2026-11-15T13:00:00Z`).
//!
//! csv-core splits records, jiff reads calendar times, rawzip the records of archives; numbers are parsed by the standard library
//! and written by zmij, the shortest text that reads back as the same number. Both are fast enough for a million rows a second
//! on one core, which a data frame library would also reach, at a hundred times the dependencies.

// Readers of what strangers write: a place outside of a text or a row is an error, never a panic.
#![deny(clippy::string_slice, clippy::indexing_slicing)]

mod array_rows;
mod arrays;
mod calendar;
mod cell;
mod columns;
mod csv;
mod elements;
mod error;
mod foreign;
mod json;
mod names;
pub mod npz;
#[cfg(feature = "parquet")]
mod parquet;
mod read;
mod source;
mod store;
mod trail;
mod write;
mod zip;

pub use calendar::{Monthly, TimeStyle, format_time, parse_time};
pub use columns::{ColumnKind, FLAG_NAMES, Format, OutputColumn, Rows, Wanted, is_gzip};
pub use error::TableError;
pub use foreign::foreign;
pub use names::{closest, cut, short};
pub use read::{Begun, TableReader};
pub use source::{Source, TextBounds};
pub use trail::Trail;
pub use write::TableWriter;
