//! What can go wrong while filtering, and the checks that every part shares.

use alloc::string::String;
use alloc::vec::Vec;
use nalgebra::allocator::Allocator;
use nalgebra::{DefaultAllocator, Dim, OMatrix};

/// What can go wrong while filtering.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum FilterError {
    /// An argument has the wrong number of components.
    #[error("{argument} has {found} numbers where {expected} are needed{}", at(.index))]
    Size {
        /// The argument.
        argument: &'static str,
        /// Numbers needed.
        expected: usize,
        /// Numbers given.
        found: usize,
        /// The time index, from 1, where there is one.
        index: Option<u64>,
    },
    /// An argument is NaN or infinite where it must not be.
    #[error("{argument}: component {component} is not a finite number{}", at(.index))]
    NotFinite {
        /// The argument.
        argument: &'static str,
        /// The component.
        component: usize,
        /// The time index, where there is one.
        index: Option<u64>,
    },
    /// An argument that must hold something is empty.
    #[error("{argument} is empty")]
    Empty {
        /// The argument.
        argument: &'static str,
    },
    /// A time step that is not positive.
    #[error("dt = {dt} is not allowed; a time step must be positive and finite")]
    TimeStep {
        /// The step.
        dt: f64,
    },
    /// Times that decrease.
    #[error(
        "times run backwards at time index {index}: {time} after {previous}; sort the measurements by time"
    )]
    TimeBackwards {
        /// The time index of the later measurement.
        index: u64,
        /// The time before.
        previous: f64,
        /// The smaller time after it.
        time: f64,
    },
    /// Times that differ too much for a model that knows no time.
    #[error(
        "the step to time index {index} is {dt} long where others are {usual}, but the model goes from row to row and knows no dt; \
         write its equations with dt or as rates (dx/dt), fill the gaps with empty rows, or say irregular = \"per_row\" to \
         count every row as one step"
    )]
    Uneven {
        /// The time index.
        index: u64,
        /// The step that leads there.
        dt: f64,
        /// The first step.
        usual: f64,
    },
    /// A count that must be at least 1.
    #[error("{argument} must be at least 1")]
    Zero {
        /// The argument.
        argument: &'static str,
    },
    /// A setting outside its range.
    #[error("{argument} = {value} is not allowed; it must be {requirement}")]
    Setting {
        /// The argument.
        argument: &'static str,
        /// The value given.
        value: f64,
        /// The values allowed.
        requirement: &'static str,
    },
    /// A measurement that the likelihood says cannot occur.
    #[error(
        "measurement {value} of component {component} at time index {index} is impossible under the likelihood"
    )]
    Impossible {
        /// The time index.
        index: u64,
        /// The component.
        component: usize,
        /// The measurement.
        value: f64,
    },
    /// A rate or probability from which no measurement can be drawn.
    #[error("nothing can be drawn at h(x) = {eta} of component {component}, time index {index}")]
    NothingToDraw {
        /// The time index.
        index: u64,
        /// The component.
        component: usize,
        /// The rate, probability or their transform.
        eta: f64,
    },
    /// A matrix that should be a covariance is not positive definite.
    #[error("{quantity} is not symmetric positive definite{}", at(.index))]
    NotPositiveDefinite {
        /// The matrix.
        quantity: &'static str,
        /// The time index, where there is one.
        index: Option<u64>,
    },
    /// The filter left the finite numbers, or every sane range of them.
    #[error(
        "the filter diverged at time index {index}: {quantity} is not finite; last good state {}", shown(.last_good)
    )]
    Diverged {
        /// The time index.
        index: u64,
        /// What became infinite or NaN.
        quantity: &'static str,
        /// The last finite estimate; empty if there was none.
        last_good: Vec<f64>,
    },
}

/// " at time index t", or nothing.
fn at(index: &Option<u64>) -> String {
    index.map(|t| alloc::format!(" at time index {t}")).unwrap_or_default()
}

/// The first numbers of a state; nobody reads a million.
fn shown(state: &[f64]) -> String {
    match state.get(..10) {
        Some(first) if state.len() > 10 => {
            alloc::format!("{first:?} and {} more", state.len() - 10)
        }
        _ => alloc::format!("{state:?}"),
    }
}

/// Checks the length of an argument.
#[inline(always)]
pub(crate) fn check_len(
    argument: &'static str,
    expected: usize,
    found: usize,
    index: Option<u64>,
) -> Result<(), FilterError> {
    if found == expected {
        Ok(())
    } else {
        Err(FilterError::Size { argument, expected, found, index })
    }
}

/// Checks that a matrix is n x n. Sizes known at compile time make this nothing.
#[inline(always)]
pub(crate) fn check_square<N: Dim>(
    argument: &'static str,
    n: usize,
    matrix: &OMatrix<f64, N, N>,
    index: Option<u64>,
) -> Result<(), FilterError>
where
    DefaultAllocator: Allocator<N, N>,
{
    check_len(argument, n, matrix.nrows(), index)?;
    check_len(argument, n * n, matrix.len(), index)
}
