//! Optimizers from Python: the library's rules, a learning-rate matrix, or a callable.

use crate::convert::{as_array, matrix, slice};
use crate::errors::{bad, is_pending, keep_pending};
use nalgebra::Dyn;
use numpy::PyArray1;
use optfilter::optim::{
    Adadelta, Adagrad, Adam, AnyOptimizer, Buffer, GradientDescent, Optimizer, OptimizerError,
    Preconditioned, RmsProp,
};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyTuple};
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::sync::Arc;

/// A rule written in Python: `rule(x, gradient, state) -> (x, state)`, with `state = None` at the start.
#[derive(Clone, Debug)]
pub(crate) struct PythonRule(Arc<Py<PyAny>>);

/// What a Python rule remembers: any object.
#[derive(Clone, Debug, Default)]
pub(crate) struct PythonState(Option<Arc<Py<PyAny>>>);

impl PythonRule {
    fn call(&self, x: &mut [f64], g: &[f64], state: &mut PythonState) -> PyResult<()> {
        Python::attach(|py| {
            let before = match &state.0 {
                Some(object) => object.clone_ref(py),
                None => py.None(),
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
            state.0 = Some(Arc::new(pair.get_item(1)?.unbind()));
            Ok(())
        })
    }
}

impl Optimizer<f64> for PythonRule {
    type State<V: Buffer<Elem = f64>> = PythonState;

    fn init<V: Buffer<Elem = f64>>(&self, _: &V) -> PythonState {
        PythonState::default()
    }

    fn step<V: Buffer<Elem = f64>>(&self, x: &mut V, g: &V, state: &mut PythonState) {
        if is_pending() {
            return;
        }
        if let Err(error) = self.call(x.as_mut_slice(), g.as_slice(), state) {
            keep_pending(error);
            x.as_mut_slice().fill(f64::NAN);
        }
    }
}

/// A Python rule's state is the user's object: it is written as Python pickles it.
impl Serialize for PythonState {
    fn serialize<T: Serializer>(&self, serializer: T) -> Result<T::Ok, T::Error> {
        let bytes = Python::attach(|py| -> PyResult<Option<Vec<u8>>> {
            let Some(object) = &self.0 else { return Ok(None) };
            py.import("pickle")?.call_method1("dumps", (object.bind(py),))?.extract().map(Some)
        });
        bytes.map_err(serde::ser::Error::custom)?.serialize(serializer)
    }
}

impl<'de> Deserialize<'de> for PythonState {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Some(bytes) = Option::<Vec<u8>>::deserialize(deserializer)? else {
            return Ok(Self(None));
        };
        let object = Python::attach(|py| -> PyResult<Py<PyAny>> {
            Ok(py.import("pickle")?.call_method1("loads", (PyBytes::new(py, &bytes),))?.unbind())
        });
        object.map(|object| Self(Some(Arc::new(object)))).map_err(serde::de::Error::custom)
    }
}

/// Any rule.
#[derive(Clone, Debug)]
pub(crate) enum Rule {
    /// One of the library's, over any scalar.
    Native(AnyOptimizer),
    /// A learning-rate matrix.
    Matrix(Preconditioned<Dyn>),
    Python(PythonRule),
}

/// Reads the tuple by which `optfilter.optimizers` describes an optimizer: a name, then its settings.
pub(crate) fn parse(spec: &Bound<'_, PyAny>) -> PyResult<Rule> {
    let spec = spec.cast::<PyTuple>().map_err(|_| bad("optimizer", "is not an optimizer"))?;
    let name: String = spec.get_item(0)?.extract()?;
    let number = |i: usize| -> PyResult<f64> { spec.get_item(i)?.extract() };
    let named = |e: OptimizerError| match e {
        OptimizerError::HyperParameter { name, value, requirement, .. } => {
            let name = match name {
                "beta1" => "b1",
                "beta2" => "b2",
                "gamma" => "decay",
                other => other,
            };
            bad(name, format!("{value} is not allowed; it must be {requirement}"))
        }
        other => bad("optimizer", other),
    };
    let positive = |i: usize, argument: &str| -> PyResult<f64> {
        let value = number(i)?;
        if value >= 0.0 && value.is_finite() {
            return Ok(value);
        }
        Err(bad(argument, format!("{value} is not allowed; it must be at least 0 and finite")))
    };
    let rule = match name.as_str() {
        "sgd" => AnyOptimizer::GradientDescent(GradientDescent::new(number(1)?).map_err(named)?),
        "momentum" => AnyOptimizer::GradientDescent(
            GradientDescent::with_momentum(number(1)?, number(2)?).map_err(named)?,
        ),
        "nesterov" => AnyOptimizer::GradientDescent(
            GradientDescent::with_nesterov(number(1)?, number(2)?).map_err(named)?,
        ),
        "adam" => {
            let rule = Adam::with_decay(number(1)?, number(2)?, number(3)?).map_err(named)?;
            AnyOptimizer::Adam(Adam { eps: positive(4, "eps")?, ..rule })
        }
        "rmsprop" => {
            let rule = RmsProp::with_decay(number(1)?, number(2)?).map_err(named)?;
            let eps_in_sqrt = spec.get_item(4)?.extract()?;
            AnyOptimizer::RmsProp(RmsProp { eps: positive(3, "eps")?, eps_in_sqrt, ..rule })
        }
        "adagrad" => {
            let rule = Adagrad::new(number(1)?).map_err(named)?;
            let initial_accumulator = positive(2, "initial_accumulator_value")?;
            AnyOptimizer::Adagrad(Adagrad { initial_accumulator, eps: positive(3, "eps")?, ..rule })
        }
        "adadelta" => {
            let rule = Adadelta::with_decay(number(1)?, number(2)?).map_err(named)?;
            AnyOptimizer::Adadelta(Adadelta { eps: positive(3, "eps")?, ..rule })
        }
        "matrix" => {
            let matrix = matrix("M", &spec.get_item(1)?, None)?;
            let rule = Preconditioned::new(matrix).map_err(|e| bad("M", e))?;
            return Ok(Rule::Matrix(rule));
        }
        "python" => {
            let function = spec.get_item(1)?.unbind();
            return Ok(Rule::Python(PythonRule(Arc::new(function))));
        }
        _ => return Err(bad("optimizer", format!("there is no optimizer called {name:?}"))),
    };
    Ok(Rule::Native(rule))
}

/// Raises what is wrong with an optimizer's settings, if anything is.
#[pyfunction]
pub(crate) fn check_optimizer(spec: &Bound<'_, PyAny>) -> PyResult<()> {
    parse(spec).map(|_| ())
}
