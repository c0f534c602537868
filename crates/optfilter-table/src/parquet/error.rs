//! Errors of the parquet crate as ours.

use crate::error::TableError;

pub(super) fn convert(error: parquet::errors::ParquetError) -> TableError {
    use parquet::errors::ParquetError;
    let other = |text: String| TableError::Io(std::io::Error::other(text));
    match error {
        ParquetError::External(inner) => match inner.downcast::<std::io::Error>() {
            Ok(io) => TableError::Io(*io),
            Err(inner) => other(inner.to_string()),
        },
        e => other(format!("not a readable Parquet file: {e}")),
    }
}
