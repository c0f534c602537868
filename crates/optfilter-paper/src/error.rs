//! Why a run cannot be finished.

use crate::cells::DataError;
use crate::control::Stopped;
use crate::specified::SpecifiedError;
use std::io;
use std::path::PathBuf;
use thiserror::Error;

/// A run could not be finished.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum RunError {
    /// Asked to stop.
    #[error("stopped; finished systems are kept, and the same command continues from there")]
    Stopped,
    /// A file could not be written.
    #[error("cannot write {path}: {source}")]
    Write {
        /// The file.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Threads could not be started.
    #[error("cannot start worker threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
    /// The data files of this crate are broken.
    #[error(transparent)]
    Data(#[from] DataError),
    /// Arrays of a twin experiment that cannot be used.
    #[error(transparent)]
    Arrays(#[from] crate::assimilation::ArraysError),
    /// A filter of the data assimilation could not go on.
    #[error("assimilation, {what}: {source}")]
    Assimilation {
        /// Where.
        what: &'static str,
        /// Why.
        source: optfilter::filter::FilterError,
    },
    /// A figure could not be drawn.
    #[error("figure {name}: {reason}")]
    Figure {
        /// Its name.
        name: String,
        /// Why.
        reason: String,
    },
    /// The library refused a configuration.
    #[error("specified protocol: {0}")]
    Specified(String),
}

impl From<Stopped> for RunError {
    fn from(_: Stopped) -> Self {
        Self::Stopped
    }
}

impl From<SpecifiedError> for RunError {
    fn from(error: SpecifiedError) -> Self {
        match error {
            SpecifiedError::Stopped => Self::Stopped,
            other => Self::Specified(other.to_string()),
        }
    }
}
