//! Why nothing was fitted.

use super::quantity::FreeError;
use optfilter::filter::FilterError;
use optfilter_run::SpecError;
use std::fmt;

/// Why nothing was fitted.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum FitError {
    /// A name that cannot be estimated.
    Free(FreeError),
    /// A model or filter without such a likelihood.
    Spec(SpecError),
    /// The filter does not come through a series from the model's own values.
    Filter {
        /// The series, from 0.
        series: usize,
        /// What happened.
        error: FilterError,
    },
    /// A series without a measurement.
    Empty {
        /// The series, from 0.
        series: usize,
    },
    /// It was told to end.
    Stopped,
}

impl fmt::Display for FitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Free(error) => write!(f, "{error}"),
            Self::Spec(error) => write!(f, "{error}"),
            Self::Filter { series, error } => write!(
                f,
                "series {}: the filter fails with the values of the model: {error}; start from others",
                series + 1
            ),
            Self::Empty { series } => write!(f, "series {} holds no measurement", series + 1),
            Self::Stopped => write!(f, "the fit was told to end"),
        }
    }
}

impl std::error::Error for FitError {}

impl From<SpecError> for FitError {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}
