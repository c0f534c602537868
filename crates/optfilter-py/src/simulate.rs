//! Trajectories and measurements of any model.

use crate::convert::{array, as_array, check_memory, slice};
use crate::errors::{bad, is_pending, take_pending, to_python};
use crate::model::CoreModel;
use crate::problem::{read_problem, spec_error};
use crate::threads;
use numpy::PyUntypedArrayMethods;
use optfilter::model::{Dynamics, Observation};
use optfilter_run::SimulationError;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// Rows between two looks whether to stop.
const STRIDE: usize = 64;

/// `count` trajectories of `steps` rows: states (count, steps, n) and measurements (count, steps, m).
/// Trajectory b draws from the stream (seed, first_run + b, "simulate").
#[pyfunction]
#[allow(clippy::too_many_arguments)] // one call, from one place in Python
pub(crate) fn simulate<'py>(
    py: Python<'py>,
    model: &Bound<'py, CoreModel>,
    problem: &Bound<'py, PyDict>,
    us: Option<&Bound<'py, PyAny>>,
    predict_first: bool,
    steps: usize,
    count: usize,
    seed: u64,
    first_run: u64,
) -> PyResult<(Bound<'py, PyAny>, Bound<'py, PyAny>)> {
    let model = &model.get().model;
    let (n, m, inputs) = (model.state_dim().0, model.output_dim().0, model.input_dim());
    let us = us.map(|us| as_array("us", us)).transpose()?;
    let us_len = us.as_ref().map_or(0, |us| us.len());
    if us_len != steps * inputs && us_len != count * steps * inputs {
        return Err(bad("us", format!("the model reads {inputs} inputs at each of {steps} steps")));
    }
    let us = us.as_ref().map_or(Ok(&[] as &[f64]), |us| slice("us", us))?;
    check_memory(&[6, n.max(m), n.max(m)])?;
    check_memory(&[count, steps, n + m])?;
    let problem = read_problem(model, problem)?;
    let mut states = vec![0.0; count * steps * n];
    let mut measured = vec![0.0; count * steps * m];
    let own = |b: usize| match us.len() > steps * inputs {
        true => &us[b * steps * inputs..(b + 1) * steps * inputs],
        false => us,
    };
    let run = |b: usize, states: &mut [f64], measured: &mut [f64], stop: &dyn Fn() -> bool| {
        let name = (seed, first_run + b as u64);
        let mut k = 0;
        optfilter_run::simulate(&problem, steps, name, predict_first, own(b), |_, x, y| {
            states[k * n..][..n].copy_from_slice(x);
            measured[k * m..][..m].copy_from_slice(y);
            k += 1;
            !(k.is_multiple_of(STRIDE) && stop())
        })
    };
    let ended: Vec<Result<(), SimulationError>> = if model.is_foreign() {
        let parts = states.chunks_mut(steps * n).zip(measured.chunks_mut(steps * m));
        parts.enumerate().map(|(b, (x, y))| run(b, x, y, &is_pending)).collect()
    } else {
        let stop = AtomicBool::new(false);
        let ask = || stop.load(Ordering::Relaxed);
        let parts = states.par_chunks_mut(steps * n).zip(measured.par_chunks_mut(steps * m));
        threads::install(py, &stop, || {
            parts.enumerate().map(|(b, (x, y))| run(b, x, y, &ask)).collect()
        })?
    };
    if let Some(error) = take_pending() {
        return Err(error);
    }
    for (b, ended) in ended.into_iter().enumerate() {
        ended.map_err(|error| match error {
            SimulationError::Problem(error) => spec_error(error),
            SimulationError::Run(error) => to_python(py, error, (count > 1).then_some(b)),
        })?;
    }
    Ok((array(py, states, [count, steps, n])?, array(py, measured, [count, steps, m])?))
}
