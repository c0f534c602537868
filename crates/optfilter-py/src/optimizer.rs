//! Optimizers written in Python: `rule(x, gradient, state) -> (x, state)`, with `state = None` at the start.

use crate::convert::{as_array, slice};
use crate::errors::{bad, is_pending, keep_pending};
use numpy::PyArray1;
use optfilter_run::{CustomOptimizer, CustomOptimizerState, CustomState};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use std::any::Any;
use std::sync::Arc;

/// A rule written in Python.
pub(crate) struct PythonRule(pub(crate) Py<PyAny>);

/// What a Python rule remembers: any object, saved as Python pickles it.
struct PythonMemory(Py<PyAny>);

impl CustomState for PythonMemory {
    fn to_bytes(&self) -> Result<Vec<u8>, String> {
        Python::attach(|py| -> PyResult<Vec<u8>> {
            py.import("pickle")?.call_method1("dumps", (self.0.bind(py),))?.extract()
        })
        .map_err(|e| e.to_string())
    }
    fn as_any(&self) -> &dyn Any {
        self
    }
}

impl PythonRule {
    fn call(&self, x: &mut [f64], g: &[f64], memory: &mut CustomOptimizerState) -> PyResult<()> {
        Python::attach(|py| {
            let before = match memory {
                CustomOptimizerState::Empty => py.None(),
                CustomOptimizerState::Live(memory) => {
                    match memory.as_any().downcast_ref::<PythonMemory>() {
                        Some(PythonMemory(object)) => object.clone_ref(py),
                        None => py.None(),
                    }
                }
                CustomOptimizerState::Saved(bytes) => {
                    let bytes = PyBytes::new(py, bytes);
                    py.import("pickle")?.call_method1("loads", (bytes,))?.unbind()
                }
            };
            let arguments = (PyArray1::from_slice(py, x), PyArray1::from_slice(py, g), before);
            let result = self.0.bind(py).call1(arguments)?;
            let shape = "must return the pair (x, state)";
            let pair = result.cast::<PyTuple>().map_err(|_| bad("optimizer", shape))?;
            if pair.len() != 2 {
                return Err(bad("optimizer", shape));
            }
            let next = as_array("optimizer", &pair.get_item(0)?)?;
            let values = slice("optimizer", &next)?;
            if values.len() != x.len() {
                let message = format!("x has {} numbers and became {}", x.len(), values.len());
                return Err(bad("optimizer", message));
            }
            x.copy_from_slice(values);
            *memory =
                CustomOptimizerState::Live(Arc::new(PythonMemory(pair.get_item(1)?.unbind())));
            Ok(())
        })
    }
}

impl CustomOptimizer for PythonRule {
    fn step(&self, x: &mut [f64], gradient: &[f64], memory: &mut CustomOptimizerState) {
        if is_pending() {
            return;
        }
        if let Err(error) = self.call(x, gradient, memory) {
            keep_pending(error);
            x.fill(f64::NAN);
        }
    }
}
