//! A table before anything of it is read.

/// A table as it came.
#[derive(Debug)]
pub struct Table {
    /// Its name for messages and for commands.
    pub name: String,
    /// Its bytes.
    pub bytes: Vec<u8>,
}
