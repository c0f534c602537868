//! A network with a filter or a bank of them, for the Python class `optfilter.nn.Follower`.
//!
//! It is the follower of `optfilter adapt` ([`optfilter_nn::adapt`]), kept carefully: what fails leaves everything as it was. Classes, names and
//! defaults are Python's; here are arrays. The interpreter's lock is released while networks compute, and signals are heard between
//! optimizer steps of a single filter and between time steps of a bank.

mod given;
mod single;

use crate::convert::array;
use crate::threads::run_here;
use given::{Given, bytes, checked_weights, finite_weights, hear, locked, scores_dict, shape_of};
use numpy::{PyArray1, PyReadonlyArray1};
use optfilter::checkpoint;
use optfilter_nn::adapt::{AdaptError, Follower, Scaling, Score, Setup, Tally, WeightMethod};
use optfilter_nn::{Shape, safetensors};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;
use pyo3::types::{PyBytes, PyDict, PyType};
use std::sync::{Mutex, MutexGuard};

/// Samples between two looks at signals and two words of progress.
const STRIDE: usize = 200;

/// A follower, and the number of time steps it has learnt from.
struct State {
    follower: Follower,
    updates: u64,
}

/// A network, and how its weights follow.
#[pyclass(frozen, module = "optfilter._core")]
pub(crate) struct CoreFollower {
    shape: Shape,
    setup: Setup,
    state: Mutex<State>,
}

fn wrong(error: &AdaptError) -> PyErr {
    match error {
        AdaptError::Network(error) => PyValueError::new_err(format!("network: {error}")),
        other => PyValueError::new_err(other.to_string()),
    }
}

/// Python's `WeightDivergenceError`.
fn diverged(py: Python<'_>, update: u64, quantity: &str) -> PyErr {
    static CLASS: PyOnceLock<Py<PyType>> = PyOnceLock::new();
    let make = || -> PyResult<PyErr> {
        let class = CLASS.import(py, "optfilter._stream", "WeightDivergenceError")?;
        Ok(PyErr::from_value(class.call1((update, quantity))?))
    };
    make().unwrap_or_else(|error| error)
}

impl CoreFollower {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        locked(py, &self.state)
    }

    /// What went wrong while learning, as the exception for it.
    fn failed(&self, py: Python<'_>, error: &AdaptError, updates: u64) -> PyErr {
        match (error, self.setup.method) {
            (AdaptError::Diverged { .. }, WeightMethod::Auto) => {
                diverged(py, updates, "every member of the bank")
            }
            (AdaptError::Diverged { .. }, _) => diverged(py, updates, "a weight"),
            // The question that told it to stop has raised already.
            (AdaptError::Stopped, _) => PyRuntimeError::new_err("stopped"),
            (other, _) => PyValueError::new_err(format!("X, y: {other}")),
        }
    }

    /// Begins anew at some weights; the scaling begins anew, too.
    fn begin(&self, state: &mut State, weights: Vec<f32>, updates: u64) -> PyResult<()> {
        let classes = state.follower.classes();
        let begun = Follower::begin(self.shape, classes, &self.setup, Some(weights));
        *state = State { follower: begun.map_err(|e| wrong(&e))?.carefully(), updates };
        Ok(())
    }
}

#[pymethods]
impl CoreFollower {
    /// `shape`: one number for vectors, three (rows, columns, channels) for images; `classes` 0: `numbers` are predicted; `spec`: a single filter,
    /// without it a bank.
    #[new]
    fn new(
        network: &str,
        shape: Vec<usize>,
        classes: usize,
        numbers: usize,
        spec: Option<&str>,
        scale: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let shape = shape_of(&shape)?;
        let mut setup = Setup {
            network: network.into(),
            method: WeightMethod::Auto,
            numbers,
            pretrain: 0,
            running_scale: true,
            scaling: (!scale).then(|| Scaling::plain(shape.len(), numbers)),
            seed,
            ..Setup::default()
        };
        if let Some(spec) = spec {
            single::choose(spec, &mut setup)?;
        }
        let follower = Follower::begin(shape, classes, &setup, None).map_err(|e| wrong(&e))?;
        let state = State { follower: follower.carefully(), updates: 0 };
        Ok(Self { shape, setup, state: Mutex::new(state) })
    }

    /// What the network says of samples: log-odds or logits of a single filter (moderated by its error bars, where it has them),
    /// probabilities of a bank, numbers in the labels' units.
    fn outputs<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let given = Given::new(x, None, None)?;
        let x = given.samples(self.shape.len())?;
        let mut guard = self.lock(py)?;
        let follower = &mut guard.follower;
        let mut out = Vec::new();
        let each = py.detach(|| follower.outputs(x, &mut out)).map_err(|e| wrong(&e))?;
        array(py, out, [x.len() / self.shape.len(), each])
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
        let x = given.samples(self.shape.len())?;
        let mut guard = self.lock(py)?;
        let state = &mut *guard;
        let labels = given.labels(state.follower.classes())?;
        run_here(py, |stop| state.follower.observe(x, &labels, stop))?
            .map_err(|e| self.failed(py, &e, state.updates))?;
        state.updates += 1;
        Ok(())
    }

    /// Time passes, and nothing is labelled.
    fn skip(&self, py: Python<'_>) -> PyResult<()> {
        self.lock(py)?.follower.pass();
        Ok(())
    }

    /// Begins anew with every network fitted to all samples, by up to `most` steps of Adam on their mean loss.
    fn settle<'py>(
        &self,
        py: Python<'py>,
        x: &Bound<'py, PyAny>,
        classes: Option<PyReadonlyArray1<'py, u32>>,
        values: Option<&Bound<'py, PyAny>>,
        most: u32,
        tolerance: f64,
    ) -> PyResult<()> {
        let given = Given::new(x, classes, values)?;
        let x = given.samples(self.shape.len())?;
        let mut guard = self.lock(py)?;
        let state = &mut *guard;
        let labels = given.labels(state.follower.classes())?;
        run_here(py, |stop| state.follower.fit(x, &labels, (most, tolerance), stop))?
            .map_err(|e| self.failed(py, &e, state.updates))
    }

    /// Predicts, scores and learns, time step after time step: `ends` are their last samples, exclusive. `tell` hears of
    /// some hundred samples at a time.
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
        let width = self.shape.len();
        let x = given.samples(width)?;
        let mut guard = self.lock(py)?;
        let state = &mut *guard;
        let labels = given.labels(state.follower.classes())?;
        let each = labels.len() / (x.len() / width).max(1);
        let mut raised = None;
        let mut tally = Tally::default();
        let followed = run_here(py, |stop| -> Result<Vec<Score>, AdaptError> {
            let (mut scores, mut predicted) = (Vec::with_capacity(ends.len()), Vec::new());
            let (mut from, mut told) = (0, 0);
            for (step, &to) in ends.iter().enumerate() {
                let rows = x.get(from * width..to * width).unwrap_or_default();
                let most = labels.len();
                let part = labels.part((from * each).min(most)..(to.max(from) * each).min(most));
                let time = step as f64;
                let score = state.follower.step_until(time, rows, &part, &mut predicted, stop)?;
                state.updates += 1;
                if score.n > 0 {
                    tally.add(&score, &predicted, &part, state.follower.classes());
                }
                scores.push(score);
                if to - told >= STRIDE || step + 1 == ends.len() {
                    told = to;
                    if !hear(tell.as_ref(), step + 1, &mut raised) || stop() {
                        return Err(AdaptError::Stopped);
                    }
                }
                from = to;
            }
            Ok(scores)
        })?;
        if let Some(error) = raised {
            return Err(error);
        }
        let scores = followed.map_err(|e| self.failed(py, &e, state.updates))?;
        scores_dict(py, &scores, &tally)
    }

    /// Makes room for more classes: the outputs of those known stay, the rest begins anew.
    fn grow(&self, py: Python<'_>, classes: usize) -> PyResult<()> {
        self.lock(py)?.follower.grow(classes).map_err(|e| wrong(&e))
    }

    /// Of a bank: its settings with their shares in what is predicted, the largest first.
    #[getter]
    fn shares(&self, py: Python<'_>) -> PyResult<Vec<(String, f64)>> {
        let shares = self.lock(py)?.follower.shares();
        Ok(shares.into_iter().map(|(setting, share)| (setting.label(), share)).collect())
    }

    /// Number of time steps learnt from.
    #[getter]
    fn updates(&self, py: Python<'_>) -> PyResult<u64> {
        Ok(self.lock(py)?.updates)
    }

    /// The tensors of weights: name, shape, and where each starts in the flat vector.
    #[getter]
    fn parameters(&self, py: Python<'_>) -> PyResult<Vec<(String, Vec<usize>, usize)>> {
        let state = self.lock(py)?;
        let tensors = state.follower.network().parameters().iter();
        Ok(tensors.map(|p| (p.name.clone(), p.shape.clone(), p.offset)).collect())
    }

    /// All weights, flat; of a bank those of the leading member of the network asked for.
    #[getter]
    fn weights<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyArray1<f32>>> {
        Ok(PyArray1::from_slice(py, self.lock(py)?.follower.weights()))
    }

    /// Begins anew at other weights, after so many updates.
    #[pyo3(signature = (weights, updates = 0))]
    fn set_weights(
        &self,
        py: Python<'_>,
        weights: PyReadonlyArray1<'_, f32>,
        updates: u64,
    ) -> PyResult<()> {
        let mut state = self.lock(py)?;
        let weights = checked_weights(&weights, state.follower.network().len())?;
        self.begin(&mut state, weights, updates)
    }

    /// Mean and factor of every feature, and of every label that is a number.
    #[getter]
    fn scaling(&self, py: Python<'_>) -> PyResult<(Vec<(f64, f64)>, Vec<(f64, f64)>)> {
        let state = self.lock(py)?;
        let Scaling { features, targets } = state.follower.scaling().clone();
        Ok((features, if state.follower.classes() == 0 { targets } else { Vec::new() }))
    }

    /// Another scaling, worth that of so many samples.
    fn set_scaling(
        &self,
        py: Python<'_>,
        features: Vec<(f64, f64)>,
        labels: Vec<(f64, f64)>,
        samples: f64,
    ) -> PyResult<()> {
        let targets = if labels.is_empty() { vec![(0.0, 1.0)] } else { labels };
        let scaling = Scaling { features, targets };
        self.lock(py)?.follower.set_scaling(scaling, samples).map_err(|e| wrong(&e))
    }

    /// The weights as a safetensors file with Flax's names, and a text that belongs to them.
    #[pyo3(signature = (about = None))]
    fn to_safetensors<'py>(
        &self,
        py: Python<'py>,
        about: Option<String>,
    ) -> PyResult<Bound<'py, PyBytes>> {
        let state = self.lock(py)?;
        let (network, weights) = (state.follower.network(), state.follower.weights());
        bytes(py, safetensors::to_bytes(network, weights, about))
    }

    /// Begins anew at the weights of a safetensors file of Flax or PyTorch.
    fn read_safetensors(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        let mut state = self.lock(py)?;
        let weights = finite_weights(state.follower.network(), state.follower.classes(), bytes)?;
        self.begin(&mut state, weights, 0)
    }

    /// Everything that is remembered.
    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let state = self.lock(py)?;
        let follower = state.follower.save().map_err(|e| wrong(&e))?;
        bytes(py, checkpoint::save("python/follower/2", &(follower, state.updates)))
    }

    /// Takes up what was saved by a follower of the same network and settings.
    fn load(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        let kept = checkpoint::load("python/follower/2", bytes);
        let (follower, updates): (Vec<u8>, u64) =
            kept.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let mut state = self.lock(py)?;
        state.follower.load(&follower).map_err(|e| wrong(&e))?;
        state.updates = updates;
        Ok(())
    }
}
