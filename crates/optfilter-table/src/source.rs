//! Where a table comes from.

use std::io::Read;

/// Where a table comes from.
pub enum Source {
    /// A file, of which parts can be read in any order.
    File(std::fs::File),
    /// Bytes that come one after the other.
    Stream(Box<dyn Read + Send>),
}

impl Source {
    pub(crate) fn into_stream(self) -> Box<dyn Read + Send> {
        match self {
            Self::File(file) => Box::new(file),
            Self::Stream(input) => input,
        }
    }
}
