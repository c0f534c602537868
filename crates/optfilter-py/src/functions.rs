//! Functions of the module: simulation and the theory of learning rates.

use crate::convert::{array, array_of_matrix, fill_vector, matrix};
use crate::errors::{bad, take_pending, to_python};
use crate::model::CoreModel;
use crate::threads;
use nalgebra::{DMatrix, DVector};
use optfilter::equivalence::{self, EquivalenceError};
use optfilter::filter::GaussianBelief;
use optfilter::metrics;
use optfilter::model::{Dynamics, GaussianNoise, Observation};
use optfilter::rng::Stream;
use optfilter::simulate::{Simulation, simulate as simulate_once};
use pyo3::prelude::*;
use rayon::prelude::*;

/// `count` trajectories of `steps` steps: states (count, steps, n) and measurements (count, steps, m).
/// Trajectory b draws from the stream (seed, first_run + b, "simulate").
#[pyfunction]
#[allow(clippy::too_many_arguments)] // one call, from one place in Python
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    model: &Bound<'py, CoreModel>,
    noise: (Bound<'py, PyAny>, Bound<'py, PyAny>, bool),
    x0: &Bound<'py, PyAny>,
    p0: &Bound<'py, PyAny>,
    dt: f64,
    steps: usize,
    count: usize,
    seed: u64,
    first_run: u64,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let model = &model.get().model;
    let (n, m) = (model.state_dim().0, model.output_dim().0);
    if model.input_dim() > 0 {
        return Err(bad("model", "models with inputs cannot be simulated"));
    }
    if !(dt.is_finite() && dt > 0.0) {
        return Err(bad("dt", format!("{dt} is not positive and finite")));
    }
    let mut mean = vec![0.0; n];
    fill_vector("x0", Some(x0), &mut mean)?;
    let cov = matrix("P0", p0, Some((n, n)))?;
    let start =
        GaussianBelief::new(DVector::from_vec(mean), cov).map_err(|e| to_python(py, e, None))?;
    let (q, r) = (matrix("Q", &noise.0, Some((n, n)))?, matrix("R", &noise.1, Some((m, m)))?);
    let made = if noise.2 { GaussianNoise::per_time(q, r) } else { GaussianNoise::new(q, r) };
    let noise = made.map_err(|e| bad("Q or R", e))?;
    let one = |b: usize| {
        let mut stream = Stream::new(seed, first_run + b as u64, "simulate");
        simulate_once(model, &noise, &start, steps, dt, &mut stream)
    };
    let runs: Result<Vec<Simulation>, _> = if model.is_python() {
        (0..count).map(one).collect()
    } else {
        threads::install(py, || (0..count).into_par_iter().map(one).collect())?
    };
    if let Some(error) = take_pending() {
        return Err(error);
    }
    let runs = runs.map_err(|e| to_python(py, e, None))?;
    let join = |pick: fn(&Simulation) -> &[f64]| -> Vec<f64> {
        runs.iter().flat_map(|run| pick(run).iter().copied()).collect()
    };
    let states = array(py, join(|run| &run.states), [count, steps, n])?;
    Ok((states, array(py, join(|run| &run.observations), [count, steps, m])?))
}

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
