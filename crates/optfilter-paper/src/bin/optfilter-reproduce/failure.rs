//! How the program ends: one line on standard error and an exit code, those of `optfilter`.

use std::fmt::Display;
use std::io::Write;

/// The exit code of a program that was asked to end.
pub const INTERRUPTED: u8 = 130;

/// The end of a run that did not succeed.
pub struct Failure {
    pub code: u8,
    pub message: String,
}

impl Failure {
    pub fn other(message: impl Display) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    pub fn interrupted(message: impl Display) -> Self {
        Self { code: INTERRUPTED, message: message.to_string() }
    }
}

/// A line on standard error.
pub fn remark(text: &str) {
    let _ = writeln!(std::io::stderr(), "{text}");
}
