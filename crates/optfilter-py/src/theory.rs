//! The theory of learning rates.

use crate::convert::{array_of_matrix, matrix};
use crate::errors::bad;
use nalgebra::DMatrix;
use optfilter::equivalence::{self, EquivalenceError};
use optfilter::metrics;
use pyo3::prelude::*;

fn named(error: EquivalenceError) -> PyErr {
    let text = error.to_string();
    match error {
        EquivalenceError::ZeroSteps => bad("steps", "must be at least 1"),
        EquivalenceError::LearningRateTooLarge { .. } | EquivalenceError::Rate { .. } => {
            bad("learning_rate", text)
        }
        EquivalenceError::NotPositiveDefinite { matrix }
        | EquivalenceError::Shape { matrix, .. } => {
            let name = match matrix {
                "r" => "R",
                "h" => "H",
                "learning-rate matrix" => "learning_rate",
                other => other,
            };
            bad(name, text)
        }
        _ => pyo3::exceptions::PyValueError::new_err(text),
    }
}

fn pair(h: &Bound<'_, PyAny>, r: &Bound<'_, PyAny>) -> PyResult<(DMatrix<f64>, DMatrix<f64>)> {
    let h = matrix("H", h, None)?;
    let r = matrix("R", r, Some((h.nrows(), h.nrows())))?;
    Ok((h, r))
}

/// The prior covariance that gradient steps imply; `rate` is a number or a matrix (n, n).
#[pyfunction]
pub(crate) fn implied_prior<'py>(
    py: Python<'py>,
    rate: &Bound<'py, PyAny>,
    h: &Bound<'py, PyAny>,
    r: &Bound<'py, PyAny>,
    steps: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let (h, r) = pair(h, r)?;
    let prior = match rate.extract::<f64>() {
        Ok(rate) => equivalence::implied_prior_of_rate(rate, &h, &r, steps),
        Err(_) => {
            let rate = matrix("learning_rate", rate, Some((h.ncols(), h.ncols())))?;
            equivalence::implied_prior(&rate, &h, &r, steps)
        }
    };
    array_of_matrix(py, &prior.map_err(named)?)
}

/// The learning-rate matrix with which gradient steps give the Kalman mean.
#[pyfunction]
pub(crate) fn learning_rate_matrix<'py>(
    py: Python<'py>,
    prior_cov: &Bound<'py, PyAny>,
    h: &Bound<'py, PyAny>,
    r: &Bound<'py, PyAny>,
    steps: u32,
) -> PyResult<Bound<'py, PyAny>> {
    let (h, r) = pair(h, r)?;
    let prior = matrix("prior_cov", prior_cov, Some((h.ncols(), h.ncols())))?;
    let rate = equivalence::learning_rate_matrix(&prior, &h, &r, steps).map_err(named)?;
    array_of_matrix(py, &rate)
}

/// The largest learning rate (exclusive) that any prior implies.
#[pyfunction]
pub(crate) fn largest_learning_rate(h: &Bound<'_, PyAny>, r: &Bound<'_, PyAny>) -> PyResult<f64> {
    let (h, r) = pair(h, r)?;
    equivalence::largest_rate(&h, &r).map_err(named)
}

/// The interval that holds the mean of `count` chi-square values with 95 % probability.
#[pyfunction]
pub(crate) fn chi_square_band(dof: usize, count: usize) -> PyResult<(f64, f64)> {
    if dof == 0 || count == 0 {
        return Err(bad("dof and count", "must be at least 1"));
    }
    Ok(metrics::chi_square_band(dof, count))
}
