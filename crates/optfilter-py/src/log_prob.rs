//! Likelihoods written in Python: `log_prob(y, eta)` is the logarithm of the density of a measurement, eta = h(x).

use crate::convert::{array, as_array, slice, type_name};
use crate::errors::{bad, is_pending, keep_pending};
use numpy::{PyArray1, PyUntypedArrayMethods};
use optfilter::model::likelihood::LogDensity;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

const NAME: &str = "log_prob";
const GRADIENT: &str = "gradient";
const WARNING: &CStr = c"log_prob: its gradient is taken by differences; give gradient=, a function (y, eta) or \"jax\"";

/// A Python function of a measurement and of eta, with its gradient by eta if there is one.
#[derive(Debug)]
pub(crate) struct PythonLogDensity {
    function: Py<PyAny>,
    gradient: Option<Py<PyAny>>,
    /// Whether both take many etas, one per row.
    vectorized: bool,
    /// Whether it was said that the gradient is taken by differences.
    has_warned: AtomicBool,
}

impl PythonLogDensity {
    pub(crate) fn new(function: Py<PyAny>, gradient: Option<Py<PyAny>>, vectorized: bool) -> Self {
        Self { function, gradient, vectorized, has_warned: AtomicBool::new(false) }
    }

    /// Calls a function at many etas and writes `width` numbers for each; its exception is kept for the driver and NaN
    /// returned.
    fn call(&self, of: (&str, &Py<PyAny>), y: &[f64], etas: &[f64], width: usize, out: &mut [f64]) {
        let m = y.len();
        if is_pending() || etas.is_empty() {
            out.fill(f64::NAN);
            return;
        }
        let result = Python::attach(|py| {
            if self.vectorized {
                let etas = array(py, etas.to_vec(), [etas.len() / m, m])?;
                return call_once(of, y, etas, Some(width), out);
            }
            for (eta, out) in etas.chunks_exact(m).zip(out.chunks_exact_mut(width)) {
                call_once(of, y, PyArray1::from_slice(py, eta).into_any(), None, out)?;
            }
            Ok(())
        });
        if let Err(error) = result {
            keep_pending(error);
            out.fill(f64::NAN);
        }
    }

    /// Central differences, in one call if the function takes many etas.
    fn differences(&self, y: &[f64], eta: &[f64], out: &mut [f64]) {
        if !self.has_warned.swap(true, Ordering::Relaxed) {
            let warned =
                Python::attach(|py| PyErr::warn(py, &py.get_type::<PyUserWarning>(), WARNING, 1));
            if let Err(error) = warned {
                keep_pending(error);
            }
        }
        let m = eta.len();
        let mut points = eta.repeat(2 * m);
        for j in 0..m {
            let h = f64::EPSILON.cbrt() * eta[j].abs().max(1.0);
            points[2 * j * m + j] += h;
            points[(2 * j + 1) * m + j] -= h;
        }
        let mut values = vec![0.0; 2 * m];
        self.log_prob(y, &points, &mut values);
        for (j, out) in out.iter_mut().enumerate() {
            // The points that were really used: eta + h is rounded.
            let width = points[2 * j * m + j] - points[(2 * j + 1) * m + j];
            *out = (values[2 * j] - values[2 * j + 1]) / width;
        }
    }
}

fn call_once(
    (name, function): (&str, &Py<PyAny>),
    y: &[f64],
    eta: Bound<'_, PyAny>,
    width: Option<usize>,
    out: &mut [f64],
) -> PyResult<()> {
    let py = eta.py();
    let result = function.bind(py).call1((PyArray1::from_slice(py, y), eta))?;
    let values = as_array(name, &result)?;
    let shape = values.shape();
    let (fits, needed) = match width {
        None => (values.len() == out.len(), format!("{} numbers are", out.len())),
        Some(width) => {
            let rows = out.len() / width;
            let fits = shape == [rows, width] || (width == 1 && shape == [rows]);
            (fits, format!("vectorized=True: an array of shape {:?} is", [rows, width]))
        }
    };
    if !fits {
        let kind = type_name(&result);
        let message = format!("returned a {kind} of shape {shape:?} where {needed} needed");
        return Err(bad(name, message));
    }
    out.copy_from_slice(slice(name, &values)?);
    Ok(())
}

impl LogDensity for PythonLogDensity {
    fn log_prob(&self, y: &[f64], etas: &[f64], out: &mut [f64]) {
        self.call((NAME, &self.function), y, etas, 1, out);
    }

    fn gradient(&self, y: &[f64], eta: &[f64], out: &mut [f64]) {
        match &self.gradient {
            Some(gradient) => self.call((GRADIENT, gradient), y, eta, eta.len(), out),
            None => self.differences(y, eta, out),
        }
    }
}
