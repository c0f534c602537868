//! What callables may take besides the state.

use crate::errors::bad;
use numpy::PyArray1;
use optfilter::model::Step;
use pyo3::prelude::*;

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
