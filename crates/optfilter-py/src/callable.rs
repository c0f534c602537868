//! Models written as Python callables.
//!
//! A callable maps a NumPy vector to a vector, or many of them, one per row, to as many. Derivatives are the user's
//! Jacobian or products with it, or else central differences ([`Differentiable::differences`]).

use crate::convert::{array, as_array, slice, type_name};
use crate::errors::{bad, is_pending, keep_pending};
use crate::extra::Extra;
use crate::product::{Product, warn_of_slowness};
use numpy::{PyArray1, PyArrayDyn, PyUntypedArrayMethods};
use optfilter::model::Step;
use optfilter::scalar::Scalar;
use pyo3::exceptions::PyRuntimeWarning;
use pyo3::prelude::*;
use pyo3::types::{PyList, PyTuple};
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// A Python function and the extra parameters it takes.
#[derive(Debug)]
pub(crate) struct Function {
    name: &'static str,
    function: Py<PyAny>,
    pub(crate) extras: Vec<Extra>,
    /// Whether it takes many states, one per row.
    vectorized: bool,
    /// The bits of the coarsest machine epsilon that its results had so far.
    precision: AtomicU64,
    has_warned: AtomicBool,
}

impl Function {
    pub(crate) fn new(
        name: &'static str,
        (function, extras): (Py<PyAny>, Vec<String>),
        vectorized: bool,
    ) -> PyResult<Self> {
        let extras = extras.iter().map(|e| Extra::parse(e)).collect::<PyResult<_>>()?;
        let precision = AtomicU64::new(f64::EPSILON.to_bits());
        Ok(Self { name, function, extras, vectorized, precision, has_warned: false.into() })
    }

    /// Calls the function at one or more states, one after the other in `x`; its exception is kept for the driver
    /// and NaN returned.
    pub(crate) fn call(&self, x: &[f64], n: usize, u: &[f64], step: &Step, out: &mut [f64]) {
        let rows = x.len() / n;
        if is_pending() || rows == 0 {
            out.fill(f64::NAN);
            return;
        }
        let width = out.len() / rows;
        let result = Python::attach(|py| {
            if self.vectorized {
                let states = array(py, x.to_vec(), [rows, n])?;
                return self.try_call(states, u, step, Some(rows), out);
            }
            for (x, out) in x.chunks_exact(n).zip(out.chunks_exact_mut(width)) {
                self.try_call(PyArray1::from_slice(py, x).into_any(), u, step, None, out)?;
            }
            Ok(())
        });
        if let Err(error) = result {
            keep_pending(error);
            out.fill(f64::NAN);
        }
    }

    fn try_call(
        &self,
        states: Bound<'_, PyAny>,
        u: &[f64],
        step: &Step,
        rows: Option<usize>,
        out: &mut [f64],
    ) -> PyResult<()> {
        let py = states.py();
        let mut arguments = vec![states];
        for extra in &self.extras {
            arguments.push(extra.value(py, u, step)?);
        }
        let result = self.function.bind(py).call1(PyTuple::new(py, arguments)?)?;
        let values = as_array(self.name, &result)?;
        let shape = values.shape();
        let (fits, needed) = match rows {
            None => (values.len() == out.len(), format!("{} numbers are", out.len())),
            // A transposed result has as many numbers.
            Some(rows) => {
                let width = out.len() / rows;
                let fits = shape == [rows, width] || (width == 1 && shape == [rows]);
                (fits, format!("vectorized=True: an array of shape {:?} is", [rows, width]))
            }
        };
        if !fits {
            let kind = type_name(&result);
            let message = format!("returned a {kind} of shape {shape:?} where {needed} needed");
            return Err(bad(self.name, message));
        }
        out.copy_from_slice(slice(self.name, &values)?);
        self.notice(coarseness(&result));
        Ok(())
    }

    /// The machine epsilon of its results, as far as they have shown it.
    fn precision(&self) -> f64 {
        f64::from_bits(self.precision.load(Ordering::Relaxed))
    }

    pub(crate) fn notice(&self, epsilon: f64) {
        // Positive numbers are ordered as their bits are.
        self.precision.fetch_max(epsilon.to_bits(), Ordering::Relaxed);
    }

    /// Says once that differences of a function of low precision are rough.
    fn warn(&self) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            return;
        }
        let message = format!(
            "{0}: its results have single precision or less, so its derivatives, taken as differences with a step \
             that suits this, are good to 3 or 4 digits; compute in float64 (JAX: jax_enable_x64) or give \
             {0}_jacobian",
            self.name
        );
        let warned = Python::attach(|py| {
            let message = CString::new(message).unwrap_or_default();
            PyErr::warn(py, &py.get_type::<PyRuntimeWarning>(), &message, 1)
        });
        if let Err(error) = warned {
            keep_pending(error);
        }
    }
}

/// The machine epsilon of an object's numbers, by its dtype or that of its items.
fn coarseness(object: &Bound<'_, PyAny>) -> f64 {
    if object.cast::<PyArrayDyn<f64>>().is_ok() {
        return f64::EPSILON;
    }
    if let Ok(items) = object.cast::<PyList>() {
        return items.iter().fold(f64::EPSILON, |a, item| a.max(coarseness(&item)));
    }
    if let Ok(items) = object.cast::<PyTuple>() {
        return items.iter().fold(f64::EPSILON, |a, item| a.max(coarseness(&item)));
    }
    let dtype = |attribute| object.getattr("dtype").and_then(|d| d.getattr(attribute)).ok();
    let kind: Option<char> = dtype("kind").and_then(|k| k.extract().ok());
    let size: Option<usize> = dtype("itemsize").and_then(|s| s.extract().ok());
    match (kind, size) {
        (Some('f'), Some(4)) => f64::from(f32::EPSILON),
        (Some('f'), Some(2)) => 2f64.powi(-10),
        // bfloat16, which NumPy has only as a foreign type.
        (Some('V'), Some(2)) => 2f64.powi(-7),
        _ => f64::EPSILON,
    }
}

/// A vector function of the state with what the user knows of its Jacobian.
#[derive(Debug)]
pub(crate) struct Differentiable {
    pub(crate) value: Function,
    pub(crate) jacobian: Option<Function>,
    /// The transposed Jacobian times a vector.
    pub(crate) vjp: Option<Product>,
    /// The Jacobian times a vector.
    pub(crate) jvp: Option<Product>,
    /// Whether it was said that its gradient takes many calls.
    pub(crate) has_warned: AtomicBool,
}

impl Differentiable {
    /// The value and, if asked for, the row-major Jacobian.
    fn eval_f64(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut [f64],
        jacobian: Option<&mut [f64]>,
    ) {
        self.value.call(x, x.len(), u, step, out);
        if let Some(target) = jacobian {
            self.jacobian_f64(x, u, step, out.len(), target);
        }
    }

    /// The row-major Jacobian alone.
    pub(crate) fn jacobian_f64(
        &self,
        x: &[f64],
        u: &[f64],
        step: &Step,
        rows: usize,
        target: &mut [f64],
    ) {
        match (&self.jacobian, &self.vjp, &self.jvp) {
            (Some(function), ..) => function.call(x, x.len(), u, step, target),
            (None, Some(vjp), _) => vjp.rows(x, u, step, rows, target),
            (None, None, Some(jvp)) => jvp.columns(x, u, step, rows, target),
            (None, None, None) => self.differences(x, u, step, rows, target),
        }
    }

    /// Central differences, which err by truncation (h^2) and by rounding (eps/h), balanced at h = cbrt(eps) times the
    /// length on which the function bends. For |x| >= 1 that is taken to be |x|, for 0 and above 0.1 to be 1. Below
    /// it is |x| again (as for a square root or a power), unless rounding swallows the difference (x is small beside
    /// what it is added to): then 1, if that gives the same within the rounding error.
    fn differences(&self, x: &[f64], u: &[f64], step: &Step, m: usize, target: &mut [f64]) {
        self.at_precision(|eps| self.differences_at(eps, x, u, step, m, target));
    }

    /// Takes differences of a function with the machine epsilon of its results.
    pub(crate) fn at_precision(&self, mut take: impl FnMut(f64)) {
        loop {
            let eps = self.value.precision();
            if eps > f64::EPSILON {
                self.value.warn();
            }
            take(eps);
            // Results may have shown that the function is less precise than it was taken for.
            if self.value.precision() == eps || is_pending() {
                return;
            }
        }
    }

    fn differences_at(
        &self,
        eps: f64,
        x: &[f64],
        u: &[f64],
        step: &Step,
        m: usize,
        target: &mut [f64],
    ) {
        let n = x.len();
        let small = |v: f64| v != 0.0 && v.abs() < 0.1;
        let length = |j: usize| if small(x[j]) { x[j].abs() } else { x[j].abs().max(1.0) };
        let near: Vec<Pair> = (0..n).map(|j| Pair::new(j, x[j], length(j), eps)).collect();
        let values = self.at_pairs(&near, x, u, step, m);
        if eps == f64::EPSILON && is_single(&values) {
            return self.value.notice(f64::from(f32::EPSILON));
        }
        let mut again = Vec::new();
        for (pair, values) in near.iter().zip(values.chunks_exact(2 * m)) {
            let mut clean = true;
            for i in 0..m {
                let (slope, rounding) = pair.slope(values, i, m, eps);
                target[i * n + pair.j] = slope;
                clean &= rounding <= 20.0 * eps.cbrt().powi(2) * slope.abs();
            }
            if small(x[pair.j]) && !clean {
                again.push(pair.j);
            }
        }
        let wide: Vec<Pair> = again.iter().map(|&j| Pair::new(j, x[j], 1.0, eps)).collect();
        let wide_values = self.at_pairs(&wide, x, u, step, m);
        for (pair, wide_values) in wide.iter().zip(wide_values.chunks_exact(2 * m)) {
            let (j, values) = (pair.j, &values[pair.j * 2 * m..][..2 * m]);
            for i in 0..m {
                let (slope, rounding) = near[j].slope(values, i, m, eps);
                let (wide, _) = pair.slope(wide_values, i, m, eps);
                // The factor is for functions that lose more than the last bit.
                if (wide - slope).abs() <= 16.0 * rounding || !slope.is_finite() {
                    target[i * n + j] = wide;
                }
            }
        }
    }

    /// The function above and below `x` for every pair, in one call if it takes many states.
    fn at_pairs(&self, pairs: &[Pair], x: &[f64], u: &[f64], step: &Step, m: usize) -> Vec<f64> {
        let n = x.len();
        let mut points = Vec::with_capacity(2 * pairs.len() * n);
        for pair in pairs {
            for value in [pair.above, pair.below] {
                points.extend_from_slice(x);
                let first = points.len() - n;
                points[first + pair.j] = value;
            }
        }
        let mut out = vec![0.0; 2 * pairs.len() * m];
        if !pairs.is_empty() {
            self.value.call(&points, n, u, step, &mut out);
        }
        out
    }

    /// The function at many states, if it takes them at once.
    pub(crate) fn many(
        &self,
        points: &dyn Fn() -> Vec<f64>,
        (n, m): (usize, usize),
        u: &[f64],
        step: &Step,
    ) -> Option<Vec<f64>> {
        if !self.value.vectorized {
            return None;
        }
        let points = points();
        let mut out = vec![0.0; points.len() / n * m];
        self.value.call(&points, n, u, step, &mut out);
        Some(out)
    }

    /// The function over any scalar.
    pub(crate) fn eval<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        S::lift(x, &mut |p, out, j| self.eval_f64(p, u, step, out, j), out, None);
    }

    /// The transposed Jacobian times `r`: by one call of the user's function for it, or by one of the Jacobian.
    pub(crate) fn vjp<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, r: &[S], out: &mut [S]) {
        match &self.vjp {
            Some(vjp) if !S::DIFFERENTIAL => return vjp.apply(x, u, step, r, out),
            None if self.jacobian.is_none() => {
                let has_jvp = self.jvp.is_some();
                warn_of_slowness(self.value.name, x.len(), has_jvp, &self.has_warned);
            }
            _ => {}
        }
        let (n, m) = (x.len(), r.len());
        let mut value = vec![S::ZERO; m];
        let mut jacobian = vec![S::ZERO; m * n];
        S::lift(
            x,
            &mut |p, out, j| self.eval_f64(p, u, step, out, j),
            &mut value,
            Some(&mut jacobian),
        );
        for j in 0..n {
            let mut sum = S::ZERO;
            for i in 0..m {
                sum += jacobian[i * n + j] * r[i];
            }
            out[j] = sum;
        }
    }
}

/// Two values of state `j`, around the one it has.
struct Pair {
    j: usize,
    above: f64,
    below: f64,
}

impl Pair {
    fn new(j: usize, x: f64, length: f64, eps: f64) -> Self {
        let h = eps.cbrt() * length;
        // A function of single precision rounds what it is given; the points are those that it sees.
        let seen = |v: f64| if eps > f64::EPSILON { f64::from(v as f32) } else { v };
        Self { j, above: seen(x + h), below: seen(x - h) }
    }

    /// The slope of component `i` of `m`, and how far rounding of the function may have turned it.
    fn slope(&self, values: &[f64], i: usize, m: usize, eps: f64) -> (f64, f64) {
        let (up, down) = (values[i], values[m + i]);
        // The points that were really used: x + h is rounded.
        let distance = self.above - self.below;
        ((up - down) / distance, eps * (up.abs() + down.abs()) / distance)
    }
}

/// Whether numbers that should have all digits have none beyond single precision, and not because they are round.
pub(crate) fn is_single(values: &[f64]) -> bool {
    let is_round = |v: f64| (v as f32).to_bits() & 0xfff == 0;
    values.iter().all(|&v| f64::from(v as f32) == v) && values.iter().any(|&v| !is_round(v))
}

/// A model of two callables.
#[derive(Debug)]
pub(crate) struct CallableModel {
    pub(crate) states: usize,
    pub(crate) outputs: usize,
    pub(crate) inputs: usize,
    pub(crate) transition: Differentiable,
    pub(crate) observation: Differentiable,
    pub(crate) state_angles: Vec<bool>,
    pub(crate) angles: Vec<bool>,
}
