//! Parquet tables, without Arrow: the crate's own rows are enough for numbers, and Arrow would make the
//! build several times longer.
//!
//! Reading needs a file's end first, so a file is read where it lies and a stream is read into memory as it is
//! (compressed). Columns that nobody asked for are not decoded. Writing collects a row group at a time.
//!
//! Plain, Snappy and gzip files can be read. Zstandard would need a C library; the error says what to do.

mod read;
mod write;

pub(super) use read::ParquetReader;
pub(super) use write::ParquetWriter;

use super::TableError;

fn convert(error: parquet::errors::ParquetError) -> TableError {
    use parquet::errors::ParquetError;
    let other = |text: String| TableError::Io(std::io::Error::other(text));
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => TableError::Io(*io),
            Err(inner) => other(inner.to_string()),
        },
        e if e.to_string().contains("Disabled feature") => TableError::Unsupported {
            message: "the file is compressed in a way this program cannot read; write it with \
                      compression \"snappy\" or \"gzip\"",
        },
        e => other(format!("not a readable Parquet file: {e}")),
    }
}
