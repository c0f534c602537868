//! How the program ends: one line on standard error and an exit code that says what kind of thing went
//! wrong.
//!
//! | code | meaning |
//! |---|---|
//! | 0 | done (also when the reader of a pipe went away) |
//! | 1 | anything else: the output cannot be written, a checkpoint is damaged |
//! | 2 | usage: flags or the model file |
//! | 3 | data: a table cannot be read, a cell is not a number, a column is missing, times run backwards |
//! | 4 | divergence: the filter left the finite numbers |
//! | 130 | interrupted: asked to end by Ctrl-C or SIGTERM |

use optfilter::filter::FilterError;
use optfilter_model::table::TableError;
use optfilter_run::{SimulationError, SpecError};
use std::fmt;
use std::io;

/// The end of a run that did not succeed.
#[derive(Debug)]
pub struct Failure {
    /// The exit code; 0 for a broken pipe.
    pub code: u8,
    /// What to print; nothing for a broken pipe.
    pub message: String,
}

impl Failure {
    /// Something other than the kinds below.
    pub fn other(message: impl fmt::Display) -> Self {
        Self { code: 1, message: message.to_string() }
    }

    /// Asked to end; there is nothing to say about it.
    pub fn interrupted() -> Self {
        Self { code: 130, message: String::new() }
    }

    /// A mistake in flags or model file.
    pub fn usage(message: impl fmt::Display) -> Self {
        Self { code: 2, message: message.to_string() }
    }

    /// A mistake in the data.
    pub fn data(message: impl fmt::Display) -> Self {
        Self { code: 3, message: message.to_string() }
    }

    /// Reading or decoding a table failed.
    pub fn table(name: &str, error: &TableError) -> Self {
        Self::data(format!("{name}: {error}"))
    }

    /// Writing failed; a reader that went away is no failure.
    pub fn write(name: &str, error: &io::Error) -> Self {
        if error.kind() == io::ErrorKind::BrokenPipe {
            return Self { code: 0, message: String::new() };
        }
        Self::other(format!("cannot write {name}: {error}"))
    }

    /// The same for an error of the table writer.
    pub fn write_table(name: &str, error: &TableError) -> Self {
        match error {
            TableError::Io(e) => Self::write(name, e),
            TableError::Unsupported { .. } => Self::usage(format!("{name}: {error}")),
            other => Self::other(format!("cannot write {name}: {other}")),
        }
    }

    /// A filter stopped at a row.
    pub fn filter(name: &str, error: &FilterError) -> Self {
        match error {
            FilterError::Impossible { .. } | FilterError::NotFinite { .. } => {
                Self::data(format!("{name}: {error}"))
            }
            FilterError::Diverged { .. } | FilterError::NotPositiveDefinite { .. } => Self {
                code: 4,
                message: format!(
                    "{error}; try a smaller --lr, fewer --steps, another --method, or `optfilter tune`"
                ),
            },
            FilterError::Uneven { .. } => Self::usage(format!("{name}: {error}")),
            other => Self::other(other),
        }
    }
}

impl From<SimulationError> for Failure {
    fn from(error: SimulationError) -> Self {
        match error {
            SimulationError::Problem(error) => error.into(),
            SimulationError::Run(error) => Self { code: 4, message: error.to_string() },
        }
    }
}

impl From<SpecError> for Failure {
    fn from(error: SpecError) -> Self {
        // Where a model file would say what is missing.
        let place = match error.key {
            "Q" => "; add [process_noise] to the model file",
            "R" => "; add [measurement_noise] to the model file",
            _ => return Self::usage(error),
        };
        Self::usage(format!("{}{place}", error.message))
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}
