//! A network with a filter, for the Python class `optfilter.nn.Follower`.
//!
//! Classes, names and defaults are Python's; here are arrays, the weights, and the loop over time steps. What a time step
//! changes is put aside first and put back if it fails, so that nothing is ever half learnt. The interpreter's lock is
//! released while networks compute, and signals are heard between optimizer steps.

pub(crate) mod bank;
mod given;
mod learn;
mod scale;

use crate::convert::array;
use crate::errors::bad;
use crate::problem::{read_spec, spec_error};
use crate::threads::run_here;
use given::{Given, bytes, checked_weights, hear, locked, scores_dict, shape_of};
use learn::{Failure, Moving, Rules};
use numpy::{PyArray1, PyReadonlyArray1};
use optfilter::checkpoint;
use optfilter::rng::Stream;
use optfilter_nn::filter::Window;
use optfilter_nn::{Loss, Network, NetworkError, safetensors};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyType};
use std::sync::{Mutex, MutexGuard};

/// A network, its weights and how they follow.
#[pyclass(frozen, module = "optfilter._core")]
pub(crate) struct CoreFollower {
    network: Network,
    rules: Rules,
    moving: Mutex<Moving>,
}

fn network_error(error: NetworkError) -> PyErr {
    PyValueError::new_err(format!("network: {error}"))
}

/// The weights of a safetensors file, all of them finite.
fn finite_weights(network: &Network, bytes: &[u8]) -> PyResult<Vec<f32>> {
    let weights: Vec<f32> =
        safetensors::from_bytes(network, bytes).map_err(|e| bad("weights", e.to_string()))?;
    match weights.iter().all(|w| w.is_finite()) {
        true => Ok(weights),
        false => Err(bad("weights", "one of them is not a finite number")),
    }
}

/// For work that ended because it was told to; the question that told it has raised already.
fn stopped() -> PyErr {
    PyRuntimeError::new_err("stopped")
}

/// Python's `WeightsDiverged`.
fn diverged(py: Python<'_>, update: u64, quantity: &str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let make = || -> PyResult<PyErr> {
        let class = CLASS.import(py, "optfilter._stream", "WeightsDiverged")?;
        Ok(PyErr::from_value(class.call1((update, quantity))?))
    };
    make().unwrap_or_else(|error| error)
}

/// What went wrong while learning, as the exception for it.
fn failed(py: Python<'_>, failure: Failure) -> PyErr {
    match failure {
        Failure::Network(error) => PyValueError::new_err(format!("X, y: {error}")),
        Failure::Stopped => stopped(),
        Failure::Diverged { update, quantity } => diverged(py, update, quantity),
    }
}

impl CoreFollower {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, Moving>> {
        locked(py, &self.moving)
    }

    /// Numbers of a sample.
    fn width(&self) -> usize {
        self.network.input().len()
    }
}

#[pymethods]
impl CoreFollower {
    /// `shape`: one number for vectors, three (rows, columns, channels) for images.
    #[new]
    fn new(
        network: &str,
        shape: Vec<usize>,
        outputs: usize,
        loss: &str,
        spec: &str,
        scale: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let spec = read_spec(spec)?;
        let shape = shape_of(&shape)?;
        let loss = match loss {
            "binary" => Loss::BinaryCrossEntropy,
            "classes" => Loss::SoftmaxCrossEntropy,
            "squared" => Loss::SquaredError,
            other => return Err(bad("loss", format!("there is no {other:?}"))),
        };
        let network = Network::from_description(network, shape, outputs).map_err(network_error)?;
        let window = Window::new(spec.window(), spec.discount()).map_err(|e| bad("discount", e))?;
        let rules = Rules {
            rule: spec.rule().map_err(spec_error)?,
            steps: spec.steps(),
            carry: spec.carry(),
            window,
            loss,
        };
        let weights = network.init(&mut Stream::new(seed, 0, "initial weights"));
        let moving = Mutex::new(Moving::new(&network, &rules, weights, scale));
        Ok(Self { network, rules, moving })
    }

    /// Outputs (n, outputs) for samples: log-odds or logits of classes, values in the labels' units.
    fn outputs<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let given = Given::new(x, None, None)?;
        let x = given.samples(self.width())?;
        let mut guard = self.lock(py)?;
        let moving = &mut *guard;
        let z = py.detach(|| moving.outputs(&self.network, &self.rules, x));
        let (n, outputs) = (x.len() / self.width(), self.network.outputs());
        array(py, z, [n, outputs])
    }

    /// One time step; on an error nothing has changed.
    #[pyo3(signature = (x, classes = None, values = None))]
    fn learn<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        classes: Option<PyReadonlyArray1<'py, u32>>,
        values: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<()> {
        let given = Given::new(x, classes, values)?;
        let (x, labels) = (given.samples(self.width())?, given.labels(self.rules.loss)?);
        let mut guard = self.lock(py)?;
        let moving = &mut *guard;
        run_here(py, |stop| moving.learn(&self.network, &self.rules, x, labels, stop))?
            .map_err(|failure| failed(py, failure))
    }

    /// Time passes, and nothing is labelled.
    fn skip(&self, py: Python<'_>) -> PyResult<()> {
        self.lock(py)?.skip();
        Ok(())
    }

    /// Up to `most` steps of Adam on the mean loss of all samples; returns the steps taken and the last loss.
    #[pyo3(signature = (x, classes, values, most, tolerance))]
    fn settle<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        classes: Option<PyReadonlyArray1<'py, u32>>,
        values: Option<&Bound<'py, PyAny>>,
        most: u32,
        tolerance: f64,
    ) -> PyResult<(u32, f64)> {
        let given = Given::new(x, classes, values)?;
        let (x, labels) = (given.samples(self.width())?, given.labels(self.rules.loss)?);
        let mut guard = self.lock(py)?;
        let moving = &mut *guard;
        run_here(py, |stop| {
            moving.settle(&self.network, &self.rules, x, labels, (most, tolerance), stop)
        })?
        .map_err(|failure| failed(py, failure))
    }

    /// Predicts, scores and learns, time step after time step: `ends` are their last samples, exclusive. `tell` hears of
    /// each thousand samples.
    #[pyo3(signature = (x, classes, values, ends, tell))]
    fn follow<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        classes: Option<PyReadonlyArray1<'py, u32>>,
        values: Option<&Bound<'py, PyAny>>,
        ends: Vec<usize>,
        tell: Option<Py<PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let given = Given::new(x, classes, values)?;
        let (x, labels) = (given.samples(self.width())?, given.labels(self.rules.loss)?);
        let mut guard = self.lock(py)?;
        let moving = &mut *guard;
        let mut raised = None;
        let followed = run_here(py, |stop| {
            let mut tell = |steps| hear(tell.as_ref(), steps, &mut raised);
            moving.follow(&self.network, &self.rules, x, labels, &ends, stop, &mut tell)
        })?;
        if let Some(error) = raised {
            return Err(error);
        }
        let scores = followed.map_err(|failure| failed(py, failure))?;
        scores_dict(py, &scores)
    }

    /// Number of time steps learnt from.
    #[getter]
    fn updates(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lock(py)?.updates)
    }

    /// The tensors of weights: name, shape, and where each starts in the flat vector.
    #[getter]
    fn parameters(&self) -> Vec<(String, Vec<usize>, usize)> {
        let tensors = self.network.parameters().iter();
        tensors.map(|p| (p.name.clone(), p.shape.clone(), p.offset)).collect()
    }

    /// All weights, flat.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        Ok(PyArray1::from_slice(py, self.lock(py)?.weights()))
    }

    /// Other weights, after so many updates; the optimizer's memory and the window begin anew.
    #[pyo3(signature = (weights, updates = 0))]
    fn set_weights(
        &self,
        py: Python<'_>,
        weights: PyReadonlyArray1<'_, f32>,
        updates: u64,
    ) -> PyResult<()> {
        let weights = checked_weights(&weights, self.network.len())?;
        let mut moving = self.lock(py)?;
        moving.begin(&self.rules, weights);
        moving.updates = updates;
        Ok(())
    }

    /// Mean and factor of every feature, and of every label.
    #[getter]
    fn scaling(&self, py: Python<'_>) -> PyResult<(Vec<(f64, f64)>, Vec<(f64, f64)>)> {
        Ok(self.lock(py)?.scaler.now().clone())
    }

    /// Another scaling, worth that of so many samples.
    fn set_scaling(
        &self,
        py: Python<'_>,
        features: Vec<(f64, f64)>,
        labels: Vec<(f64, f64)>,
        samples: f64,
    ) -> PyResult<()> {
        let mut moving = self.lock(py)?;
        let scaler = &mut moving.scaler;
        let (f, l) = (scaler.features.len(), scaler.labels.len());
        if (features.len(), labels.len()) != (f, l) {
            let message = format!("{f} features and {l} labels are needed");
            return Err(bad("scaling", message));
        }
        scaler.set(&features, &labels, samples);
        Ok(())
    }

    /// The weights as a safetensors file with Flax's names, and a text that belongs to them.
    #[pyo3(signature = (about = None))]
    fn to_safetensors<'py>(
        &self,
        py: Python<'py>,
        about: Option<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        bytes(py, safetensors::to_bytes(&self.network, self.lock(py)?.weights(), about))
    }

    /// The weights from a safetensors file of Flax or PyTorch.
    fn read_safetensors(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        let weights = finite_weights(&self.network, bytes)?;
        self.lock(py)?.begin(&self.rules, weights);
        Ok(())
    }

    /// Everything that is remembered.
    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let moving = self.lock(py)?;
        bytes(py, checkpoint::save("python/follower", &moving.kept()))
    }

    /// Takes up what was saved by a follower of the same network and settings.
    fn load(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        let kept = checkpoint::load("python/follower", bytes)
            .map_err(|e| PyValueError::new_err(e.to_string()))?;
        let fits = self.lock(py)?.take_up(kept);
        if !fits {
            return Err(bad("state", "is of another network"));
        }
        Ok(())
    }
}
