//! Models written as Python callables.
//!
//! A callable maps a NumPy vector to a vector. Derivatives are the user's Jacobian or
//! vector-Jacobian product, or else central differences with step cbrt(eps) max(1, |x|), which balance truncation (h^2) against rounding (eps/h).

use crate::convert::{as_array, slice, type_name};
use crate::errors::{bad, is_pending, keep_pending};
use crate::vjp::{Vjp, warn_of_differences};
use numpy::{PyArray1, PyUntypedArrayMethods};
use optfilter::model::Step;
use optfilter::scalar::Scalar;
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::atomic::AtomicBool;

/// What a callable wants besides the state, in the order of its parameters.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Extra {
    Inputs,
    Time,
    Interval,
    Index,
}

impl Extra {
    pub(crate) fn parse(name: &str) -> PyResult<Self> {
        match name {
            "u" => Ok(Self::Inputs),
            "t" => Ok(Self::Time),
            "dt" => Ok(Self::Interval),
            "k" => Ok(Self::Index),
            _ => Err(bad("callable", format!("unknown parameter {name:?}; known: u, t, dt, k"))),
        }
    }

    /// What it is at a step, for Python.
    pub(crate) fn value<'py>(
        self,
        py: Python<'py>,
        u: &[f64],
        step: &Step,
    ) -> PyResult<Bound<'py, PyAny>> {
        Ok(match self {
            Self::Inputs => PyArray1::from_slice(py, u).into_any(),
            Self::Time => step.time.into_pyobject(py)?.into_any(),
            Self::Interval => step.dt.into_pyobject(py)?.into_any(),
            Self::Index => step.index.into_pyobject(py)?.into_any(),
        })
    }
}

/// A Python function and the extra parameters it takes.
#[derive(Debug)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) function: Py<PyAny>,
    pub(crate) extras: Vec<Extra>,
}

impl Function {
    /// Calls the function; its exception is kept for the driver and NaN returned.
    fn call(&self, x: &[f64], u: &[f64], step: &Step, out: &mut [f64]) {
        if is_pending() {
            out.fill(f64::NAN);
            return;
        }
        let result = Python::attach(|py| self.try_call(py, x, u, step, out));
        if let Err(error) = result {
            keep_pending(error);
            out.fill(f64::NAN);
        }
    }

    fn try_call(
        &self,
        py: Python<'_>,
        x: &[f64],
        u: &[f64],
        step: &Step,
        out: &mut [f64],
    ) -> PyResult<()> {
        let state = PyArray1::from_slice(py, x).into_any();
        let mut arguments = vec![state];
        for extra in &self.extras {
            arguments.push(extra.value(py, u, step)?);
        }
        let result = self.function.bind(py).call1(PyTuple::new(py, arguments)?)?;
        let values = as_array(self.name, &result)?;
        let values_slice = slice(self.name, &values)?;
        if values_slice.len() != out.len() {
            let message = format!(
                "returned a {} of shape {:?} where {} numbers are needed",
                type_name(&result),
                values.shape(),
                out.len()
            );
            return Err(bad(self.name, message));
        }
        out.copy_from_slice(values_slice);
        Ok(())
    }
}

/// A vector function of the state with an optional Jacobian.
#[derive(Debug)]
pub(crate) struct Differentiable {
    pub(crate) value: Function,
    pub(crate) jacobian: Option<Function>,
    pub(crate) vjp: Option<Vjp>,
    /// Whether it was said that its gradient is taken by differences.
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
        self.value.call(x, u, step, out);
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
        match (&self.jacobian, &self.vjp) {
            (Some(function), _) => function.call(x, u, step, target),
            (None, Some(vjp)) => vjp.jacobian(x, u, step, rows, target),
            (None, None) => self.differences(x, u, step, rows, target),
        }
    }

    fn differences(&self, x: &[f64], u: &[f64], step: &Step, m: usize, target: &mut [f64]) {
        let n = x.len();
        let mut point = x.to_vec();
        let (mut up, mut down) = (vec![0.0; m], vec![0.0; m]);
        for j in 0..n {
            let h = f64::EPSILON.cbrt() * x[j].abs().max(1.0);
            let (above, below) = (x[j] + h, x[j] - h);
            point[j] = above;
            self.value.call(&point, u, step, &mut up);
            point[j] = below;
            self.value.call(&point, u, step, &mut down);
            point[j] = x[j];
            for i in 0..m {
                // The points that were really used: x + h is rounded.
                target[i * n + j] = (up[i] - down[i]) / (above - below);
            }
        }
    }

    /// The function over any scalar.
    pub(crate) fn eval<S: Scalar>(&self, x: &[S], u: &[f64], step: &Step, out: &mut [S]) {
        S::lift(x, &mut |p, out, j| self.eval_f64(p, u, step, out, j), out, None);
    }

    /// The transposed Jacobian times `r`: by one call of the user's function for it, or by one of the Jacobian.
    pub(crate) fn pull_back<S: Scalar>(
        &self,
        x: &[S],
        u: &[f64],
        step: &Step,
        r: &[S],
        out: &mut [S],
    ) {
        match &self.vjp {
            Some(vjp) if !S::DIFFERENTIAL => return vjp.pull_back(x, u, step, r, out),
            None if self.jacobian.is_none() => {
                warn_of_differences(self.value.name, x.len(), &self.has_warned);
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
