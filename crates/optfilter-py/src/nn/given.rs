//! Samples and labels as Python gives them, and scores as it gets them.

use crate::convert::{array, as_array, slice};
use crate::errors::bad;
use numpy::{PyArray1, PyReadonlyArray1, PyReadonlyArrayDyn};
use optfilter_nn::adapt::{Labels, Score, Tally};
use optfilter_nn::{Network, Shape, safetensors};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Mutex, MutexGuard};

/// Arrays that are borrowed for as long as this lives.
pub(super) struct Given<'py> {
    x: PyReadonlyArrayDyn<'py, f64>,
    classes: Option<PyReadonlyArray1<'py, u32>>,
    values: Option<PyReadonlyArrayDyn<'py, f64>>,
}

impl<'py> Given<'py> {
    /// Samples, and either classes or numbers (or neither, where nothing is learnt).
    pub fn new(
        x: &Bound<'py, PyAny>,
        classes: Option<PyReadonlyArray1<'py, u32>>,
        values: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let values = values.map(|y| as_array("y", y)).transpose()?;
        Ok(Self { x: as_array("X", x)?, classes, values })
    }

    /// Whole samples of so many numbers each, all of them finite.
    pub fn samples(&self, width: usize) -> PyResult<&[f64]> {
        let x = slice("X", &self.x)?;
        if !x.len().is_multiple_of(width) {
            let message = format!("samples have {width} numbers each; {} were given", x.len());
            return Err(bad("X", message));
        }
        match x.iter().position(|v| !v.is_finite()) {
            None => Ok(x),
            Some(i) => {
                let kind = if x[i].is_nan() { "NaN" } else { "infinity" };
                let message = format!("sample {} has a feature that is {kind}", i / width);
                Err(bad("X", message))
            }
        }
    }

    /// Classes as whole numbers, or numbers (of which `classes` is 0).
    pub fn labels(&self, classes: usize) -> PyResult<Labels> {
        match (classes, &self.classes, &self.values) {
            (0, None, Some(values)) => Ok(Labels::Values(slice("y", values)?.to_vec())),
            (0, _, _) => Err(bad("y", "numbers are needed, not classes")),
            (_, Some(of), None) => {
                Ok(Labels::Classes { of: of.as_slice()?.to_vec(), names: Vec::new() })
            }
            _ => Err(bad("y", "classes are needed, not numbers")),
        }
    }
}

/// One number for vectors, three (rows, columns, channels) for images.
pub(super) fn shape_of(shape: &[usize]) -> PyResult<Shape> {
    match *shape {
        [n] if n > 0 => Ok(Shape::Vector(n)),
        [height, width, channels] if height * width * channels > 0 => {
            Ok(Shape::Image { height, width, channels })
        }
        _ => Err(bad("X", format!("samples of shape {shape:?} cannot be read"))),
    }
}

/// Calls Python's `tell` with the number of time steps that are done; an error it raises is kept, and ends the work.
pub(super) fn hear(tell: Option<&Py<PyAny>>, steps: usize, raised: &mut Option<PyErr>) -> bool {
    let Some(tell) = tell else { return true };
    *raised = Python::attach(|py| tell.call1(py, (steps,)).map(|_| ())).err();
    raised.is_none()
}

/// Scores as a dictionary of arrays, and the calibration error of all of them as a share (of numbers there is none).
pub(super) fn scores_dict<'py>(
    py: Python<'py>,
    scores: &[Score],
    tally: &Tally,
) -> PyResult<Bound<'py, PyDict>> {
    let n = scores.len();
    let out = PyDict::new(py);
    out.set_item("loss", array(py, scores.iter().map(|s| s.loss).collect(), [n])?)?;
    // Numbers are not scored before their scale is known.
    let scored: Vec<i64> = scores.iter().map(|s| s.n as i64).collect();
    out.set_item("n", PyArray1::from_vec(py, scored))?;
    let right: Vec<i64> = scores.iter().map(|s| s.right as i64).collect();
    out.set_item("right", PyArray1::from_vec(py, right))?;
    let errors = scores.iter().map(|s| s.squared_error).collect();
    out.set_item("squared_error", array(py, errors, [n])?)?;
    let classes = !tally.by_class.is_empty();
    let calibration = if classes { tally.calibration_error() / 100.0 } else { f64::NAN };
    out.set_item("calibration_error", calibration)?;
    Ok(out)
}

/// What a follower keeps, for this thread alone.
pub(super) fn locked<'a, T>(py: Python<'_>, kept: &'a Mutex<T>) -> PyResult<MutexGuard<'a, T>> {
    kept.lock_py_attached(py)
        .map_err(|_| PyRuntimeError::new_err("the follower was left broken by a failure"))
}

/// Weights that are numbers, `needed` of them.
pub(super) fn checked_weights(
    weights: &PyReadonlyArray1<'_, f32>,
    needed: usize,
) -> PyResult<Vec<f32>> {
    let weights = weights.as_slice()?;
    let found = weights.len();
    if found != needed {
        return Err(bad("weights", format!("{needed} are needed, {found} were given")));
    }
    if weights.iter().any(|w| !w.is_finite()) {
        return Err(bad("weights", "one of them is not a finite number"));
    }
    Ok(weights.to_vec())
}

/// The weights of a safetensors file for so many classes, all of them finite.
pub(super) fn finite_weights(
    network: &Network,
    classes: usize,
    bytes: &[u8],
) -> PyResult<Vec<f32>> {
    let weights: Vec<f32> = safetensors::from_bytes_classes(network, classes, bytes)
        .map_err(|e| bad("weights", e.to_string()))?;
    match weights.iter().all(|w| w.is_finite()) {
        true => Ok(weights),
        false => Err(bad("weights", "one of them is not a finite number")),
    }
}

/// Bytes for Python, or why there are none.
pub(super) fn bytes<'py, E: std::fmt::Display>(
    py: Python<'py>,
    made: Result<Vec<u8>, E>,
) -> PyResult<Bound<'py, PyBytes>> {
    let made = made.map_err(|e| PyValueError::new_err(e.to_string()))?;
    Ok(PyBytes::new(py, &made))
}
