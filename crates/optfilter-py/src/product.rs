//! Products with a Jacobian written in Python: `vjp(x, w)` is the transposed Jacobian at `x` times `w`, `jvp(x, v)` the
//! Jacobian itself times `v`.

use crate::convert::{as_array, slice, type_name};
use crate::errors::{bad, is_pending, keep_pending};
use crate::extra::Extra;
use numpy::{PyArray1, PyUntypedArrayMethods};
use optfilter::model::Step;
use optfilter::scalar::Scalar;
use pyo3::exceptions::PyUserWarning;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, Ordering};

/// A function of the state, of the vector that the Jacobian is multiplied with, and of the extra parameters it takes.
#[derive(Debug)]
pub(crate) struct Product {
    name: &'static str,
    function: Py<PyAny>,
    extras: Vec<Extra>,
}

impl Product {
    pub(crate) fn new(
        name: &'static str,
        (function, extras): (Py<PyAny>, Vec<String>),
    ) -> PyResult<Self> {
        let extras = extras.iter().map(|e| Extra::parse(e)).collect::<PyResult<_>>()?;
        Ok(Self { name, function, extras })
    }

    /// The product over any scalar without derivatives of its own; lanes are called one after the other.
    pub(crate) fn apply<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, r: &[S], out: &mut [S]) {
        let both = [x, r].concat();
        let mut plain = |point: &[f64], out: &mut [f64], _: Option<&mut [f64]>| {
            let (x, r) = point.split_at(x.len());
            self.call(x, u, step, r, out);
        };
        S::lift(&both, &mut plain, out, None);
    }

    /// The row-major Jacobian, a row at a time, of a product with the transposed one.
    pub(crate) fn rows(&self, x: &[f64], u: &[f64], step: &Step, rows: usize, target: &mut [f64]) {
        let mut unit = vec![0.0; rows];
        for (i, row) in target.chunks_exact_mut(x.len()).enumerate() {
            unit[i] = 1.0;
            self.call(x, u, step, &unit, row);
            unit[i] = 0.0;
        }
    }

    /// The row-major Jacobian, a column at a time, of a product with the Jacobian itself.
    pub(crate) fn columns(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        rows: usize,
        target: &mut [f64],
    ) {
        let n = x.len();
        let (mut unit, mut column) = (vec![0.0; n], vec![0.0; rows]);
        for j in 0..n {
            unit[j] = 1.0;
            self.call(x, u, step, &unit, &mut column);
            unit[j] = 0.0;
            column.iter().enumerate().for_each(|(i, slope)| target[i * n + j] = *slope);
        }
    }

    /// Calls the function; its exception is kept for the driver and NaN returned.
    pub(crate) fn call(&self, x: &[f64], u: &[f64], step: &Step, r: &[f64], out: &mut [f64]) {
        if is_pending() {
            out.fill(f64::NAN);
            return;
        }
        let result = Python::attach(|py| self.try_call(py, [x, r], u, step, out));
        if let Err(error) = result {
            keep_pending(error);
            out.fill(f64::NAN);
        }
    }

    fn try_call(
        &self,
        py: Python<'_>,
        vectors: [&[f64]; 2],
        u: &[f64],
        step: &Step,
        out: &mut [f64],
    ) -> PyResult<()> {
        let mut arguments = vectors.map(|v| PyArray1::from_slice(py, v).into_any()).to_vec();
        for extra in &self.extras {
            arguments.push(extra.value(py, u, step)?);
        }
        let result = self.function.bind(py).call1(PyTuple::new(py, arguments)?)?;
        let values = as_array(self.name, &result)?;
        let numbers = slice(self.name, &values)?;
        if numbers.len() != out.len() {
            let (kind, shape) = (type_name(&result), values.shape());
            let needed = out.len();
            let message =
                format!("returned a {kind} of shape {shape:?} where {needed} numbers are needed");
            return Err(bad(self.name, message));
        }
        out.copy_from_slice(numbers);
        Ok(())
    }
}

/// Says, once for a function, that its gradient takes as many calls as it has states, or twice as many.
pub(crate) fn warn_of_slowness(name: &str, states: usize, has_jvp: bool, has_warned: &AtomicBool) {
    if has_warned.swap(true, Ordering::Relaxed) {
        return;
    }
    let (means, calls) = match has_jvp {
        true => (format!("{name}_jvp"), states),
        false => ("differences".to_owned(), 2 * states),
    };
    let message = format!(
        "{name}: its gradient is taken by {means}, for {calls} calls each time; give {name}_vjp or {name}_jacobian"
    );
    let warned = Python::attach(|py| {
        let message = CString::new(message).unwrap_or_default();
        PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)
    });
    if let Err(error) = warned {
        keep_pending(error);
    }
}
