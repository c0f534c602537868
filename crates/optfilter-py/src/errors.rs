//! Errors of the library as Python's own kinds, and Python's errors through the library unchanged.
//!
//! A user's callable may raise in the middle of a Rust step, which knows nothing of Python. The
//! exception is then kept here, per thread, the callable's result is NaN, and the driver that called the
//! step raises the exception itself ([`take_pending`]). Models with callables run on the calling thread
//! only, so the thread names the call.

use optfilter::filter::FilterError;
use pyo3::exceptions::{PyKeyboardInterrupt, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::PyType;
use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

thread_local! {
    static PENDING: RefCell<Option<PyErr>> = const { RefCell::new(None) };
    /// The flag of the filter that runs on this thread, raised by an exception.
    static STOP: RefCell<Option<Arc<AtomicBool>>> = const { RefCell::new(None) };
}

/// Runs a filter whose steps call Python; an exception in one of them raises `stop` for that time.
pub(crate) fn stopping_at_exceptions<R>(stop: &Arc<AtomicBool>, run: impl FnOnce() -> R) -> R {
    let before = STOP.with(|cell| cell.replace(Some(stop.clone())));
    let result = run();
    STOP.with(|cell| cell.replace(before));
    stop.store(false, Ordering::Relaxed);
    result
}

/// Keeps an exception for the driver; the first one wins.
pub(crate) fn keep_pending(error: PyErr) {
    PENDING.with(|cell| {
        cell.borrow_mut().get_or_insert(error);
    });
    STOP.with(|cell| {
        if let Some(stop) = &*cell.borrow() {
            stop.store(true, Ordering::Relaxed);
        }
    });
}

/// Whether an exception waits to be raised.
pub(crate) fn is_pending() -> bool {
    PENDING.with(|cell| cell.borrow().is_some())
}

/// The exception that a callable raised since the last call, if any.
pub(crate) fn take_pending() -> Option<PyErr> {
    PENDING.with(|cell| cell.borrow_mut().take())
}

/// A covariance that is none as a divergence, with the last estimate before it.
pub(crate) fn with_last_good(error: FilterError, last: &[f64]) -> FilterError {
    match error {
        FilterError::NotPositiveDefinite { quantity, index: Some(index) } => {
            FilterError::Diverged { index, quantity, last_good: last.to_vec() }
        }
        other => other,
    }
}

/// A `ValueError` whose text begins with the argument's name.
pub(crate) fn bad(argument: &str, message: impl std::fmt::Display) -> PyErr {
    PyValueError::new_err(format!("{argument}: {message}"))
}

/// The Python name of an argument that the library calls otherwise.
fn python_name(name: &str) -> &str {
    match name {
        "observations" => "ys",
        "times" => "ts",
        "inputs" => "us",
        "initial mean" | "starts" => "x0",
        "start" => "t0",
        "initial cov" => "P0",
        "process_cov (Q)" => "Q",
        "measurement_cov (R)" => "R",
        "prior_cov" => "prior_cov",
        other => other,
    }
}

/// A time index as Python counts, from 0; an update before the first step belongs to the first measurement.
fn shown(index: u64) -> u64 {
    index.saturating_sub(1)
}

/// An error of the library as an exception. Time indices count from 0 in Python, so that `ys[index]` is
/// the measurement at fault.
pub(crate) fn to_python(py: Python<'_>, error: FilterError, trajectory: Option<usize>) -> PyErr {
    if let Some(pending) = take_pending() {
        return pending;
    }
    match error {
        FilterError::Diverged { index, quantity, last_good } => {
            divergence(py, index, quantity, last_good, trajectory)
        }
        FilterError::NotPositiveDefinite { quantity, index: Some(index) } => {
            divergence(py, index, quantity, Vec::new(), trajectory)
        }
        FilterError::NotPositiveDefinite { quantity, index: None } => {
            bad(python_name(quantity), "must be symmetric and positive (semi-)definite")
        }
        FilterError::Size { argument, expected, found, .. } => {
            bad(python_name(argument), format!("{expected} numbers are needed, {found} were given"))
        }
        FilterError::NotFinite { argument, component, index } => {
            let place = index.map_or_else(String::new, |t| format!(" at time index {}", shown(t)));
            bad(
                python_name(argument),
                format!("component {component}{place} is not a finite number"),
            )
        }
        FilterError::TimeBackwards { index, previous, time } => bad(
            "ts",
            format!("time runs backwards at index {}: {time} after {previous}", shown(index)),
        ),
        FilterError::Uneven { index, dt, usual } => bad(
            "ts",
            format!(
                "the step to index {} is {dt} long where others are {usual}, but the model goes from row to row and knows no \
                 dt; use dt in its equations, models.ContinuousLinear, or irregular=\"per_row\" to count every row as one step",
                shown(index)
            ),
        ),
        FilterError::TimeStep { dt } => bad("dt", format!("{dt} is not positive and finite")),
        FilterError::Impossible { index, component, value } => bad(
            "y",
            format!(
                "{value} (component {component}, time index {}) is impossible under the likelihood",
                shown(index)
            ),
        ),
        FilterError::Empty { argument: "watch" } => PyKeyboardInterrupt::new_err(()),
        FilterError::NothingToDraw { index, component, eta } => bad(
            "likelihood",
            format!(
                "nothing can be drawn at h(x) = {eta} (component {component}, time index {})",
                shown(index)
            ),
        ),
        FilterError::Empty { argument } => bad(python_name(argument), "is empty"),
        FilterError::Zero { argument } => bad(python_name(argument), "must be at least 1"),
        FilterError::Setting { argument, value, requirement } => {
            bad(argument, format!("{value} is not allowed; it must be {requirement}"))
        }
        other => PyValueError::new_err(other.to_string()),
    }
}

fn divergence(
    py: Python<'_>,
    index: u64,
    quantity: &'static str,
    last_good: Vec<f64>,
    trajectory: Option<usize>,
) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let make = || -> PyResult<PyErr> {
        let class = CLASS.import(py, "optfilter._errors", "DivergenceError")?;
        let value = class.call1((shown(index), quantity, last_good, trajectory))?;
        Ok(PyErr::from_value(value))
    };
    make().unwrap_or_else(|error| error)
}
