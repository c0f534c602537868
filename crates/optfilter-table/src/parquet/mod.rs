//! Parquet tables, without Arrow: the crate's own rows are enough for numbers, and Arrow would make the
//! build several times longer.
//!
//! Reading needs a file's end first, so a file is read where it lies and a stream is read into memory as it is
//! (compressed). Columns that nobody asked for are not decoded. Writing collects a row group at a time.
//!
//! Plain, Snappy, gzip, LZ4 and zstd files can be read; the error of any other says what to do.

mod claims;
mod error;
mod file;
mod guard;
mod read;
mod write;

pub(crate) use read::ParquetReader;
pub(crate) use write::ParquetWriter;
