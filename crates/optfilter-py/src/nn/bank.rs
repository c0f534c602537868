//! A bank of settings that follows without tuning, for the Python class `optfilter.nn.Follower` that was given none.
//!
//! It is the follower of `optfilter adapt` (`optfilter_nn::adapt`), with the manners of [`super::CoreFollower`]: what fails leaves
//! everything as it was, the interpreter's lock is released while networks compute, and signals are heard.

use super::given::{Given, bytes, checked_weights, hear, locked, owned, scores_dict, shape_of};
use super::{diverged, stopped};
use crate::convert::array;
use crate::threads::run_here;
use numpy::{PyArray1, PyReadonlyArray1};
use optfilter::checkpoint;
use optfilter_nn::adapt::{AdaptError, Follower, Scaling, Score, Setup, WeightMethod};
use optfilter_nn::{Loss, Shape, safetensors};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use std::sync::{Mutex, MutexGuard};

/// Samples between two looks at signals and two words of progress.
const STRIDE: usize = 200;

/// A bank, and the number of time steps it has learnt from.
struct State {
    follower: Follower,
    updates: u64,
}

/// A network asked for, with a bank of filters over it.
#[pyclass(frozen, module = "optfilter._core")]
pub(crate) struct CoreBank {
    shape: Shape,
    setup: Setup,
    state: Mutex<State>,
}

fn wrong(error: &AdaptError) -> PyErr {
    PyValueError::new_err(error.to_string())
}

/// What went wrong while learning, as the exception for it.
fn failed(py: Python<'_>, error: &AdaptError, updates: u64) -> PyErr {
    match error {
        AdaptError::Diverged { .. } => diverged(py, updates, "every member of the bank"),
        other => PyValueError::new_err(format!("X, y: {other}")),
    }
}

/// The loss of so many classes; 0 are numbers.
fn loss_of(classes: usize) -> Loss {
    match classes {
        0 => Loss::SquaredError,
        1 | 2 => Loss::BinaryCrossEntropy,
        _ => Loss::SoftmaxCrossEntropy,
    }
}

impl CoreBank {
    fn lock(&self, py: Python<'_>) -> PyResult<MutexGuard<'_, State>> {
        locked(py, &self.state)
    }

    /// Begins anew at some weights; the scaling begins anew, too.
    fn begin(&self, state: &mut State, weights: Vec<f32>) -> PyResult<()> {
        let classes = state.follower.classes();
        let begun = Follower::begin(self.shape, classes, &self.setup, Some(weights));
        *state = State { follower: begun.map_err(|e| wrong(&e))?.carefully(), updates: 0 };
        Ok(())
    }
}

#[pymethods]
impl CoreBank {
    /// `shape`: one number for vectors, three (rows, columns, channels) for images; `classes` 0: a number is predicted.
    #[new]
    fn new(
        network: &str,
        shape: Vec<usize>,
        classes: usize,
        scale: bool,
        seed: u64,
    ) -> PyResult<Self> {
        let shape = shape_of(&shape)?;
        let plain = || Scaling { features: vec![(0.0, 1.0); shape.len()], target: (0.0, 1.0) };
        let setup = Setup {
            network: network.into(),
            method: WeightMethod::Auto,
            pretrain: 0,
            running_scale: true,
            scaling: (!scale).then(plain),
            seed,
            ..Setup::default()
        };
        let follower = Follower::begin(shape, classes, &setup, None).map_err(|e| match e {
            AdaptError::Network(error) => super::network_error(error),
            other => wrong(&other),
        })?;
        let state = State { follower: follower.carefully(), updates: 0 };
        Ok(Self { shape, setup, state: Mutex::new(state) })
    }

    /// Probabilities (n, classes) or numbers (n, 1), mixed by the present shares.
    fn outputs<'py>(&self, py: Python<'py>, x: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>> {
        let given = Given::new(x, None, None)?;
        let x = given.samples(self.shape.len())?;
        let mut guard = self.lock(py)?;
        let follower = &mut guard.follower;
        let mut out = Vec::new();
        py.detach(|| follower.look(x, &mut out)).map_err(|e| wrong(&e))?;
        let n = x.len() / self.shape.len();
        array(py, out, [n, follower.classes().max(1)])
    }

    /// One time step: every member is judged by it, and then learns; on an error nothing has changed.
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
        let labels = owned(given.labels(loss_of(state.follower.classes()))?);
        let learnt = py.detach(|| state.follower.observe(x, &labels));
        learnt.map_err(|e| failed(py, &e, state.updates))?;
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
        let labels = owned(given.labels(loss_of(state.follower.classes()))?);
        run_here(py, |stop| state.follower.fit(x, &labels, (most, tolerance), stop))?
            .map_err(|e| failed(py, &e, state.updates))
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
        let labels = given.labels(loss_of(state.follower.classes()))?;
        let mut raised = None;
        let followed = run_here(py, |stop| -> Result<Option<Vec<Score>>, AdaptError> {
            let (mut scores, mut predicted) = (Vec::with_capacity(ends.len()), Vec::new());
            let (mut from, mut told) = (0, 0);
            for (step, &to) in ends.iter().enumerate() {
                let rows = x.get(from * width..to * width).unwrap_or_default();
                let labels = owned(labels.cut(from, to, 1));
                let score = state.follower.step(step as f64, rows, &labels, &mut predicted)?;
                state.updates += 1;
                scores.push(score);
                if to - told >= STRIDE || step + 1 == ends.len() {
                    told = to;
                    if !hear(tell.as_ref(), step + 1, &mut raised) || stop() {
                        return Ok(None);
                    }
                }
                from = to;
            }
            Ok(Some(scores))
        })?;
        if let Some(error) = raised {
            return Err(error);
        }
        let scores = followed.map_err(|e| failed(py, &e, state.updates))?.ok_or_else(stopped)?;
        scores_dict(py, &scores)
    }

    /// Makes room for more classes: the outputs of those known stay, the members begin anew.
    fn grow(&self, py: Python<'_>, classes: usize) -> PyResult<()> {
        self.lock(py)?.follower.grow(classes).map_err(|e| wrong(&e))
    }

    /// The settings with their shares in what is predicted, the largest first.
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

    /// The weights of the leading member of the network asked for, flat.
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
        self.begin(&mut state, weights)?;
        state.updates = updates;
        Ok(())
    }

    /// Mean and factor of every feature, and of the label where it is a number.
    #[getter]
    fn scaling(&self, py: Python<'_>) -> PyResult<(Vec<(f64, f64)>, Vec<(f64, f64)>)> {
        let state = self.lock(py)?;
        let Scaling { features, target } = state.follower.scaling().clone();
        let label = if state.follower.classes() == 0 { vec![target] } else { Vec::new() };
        Ok((features, label))
    }

    /// Another scaling, worth that of so many samples.
    fn set_scaling(
        &self,
        py: Python<'_>,
        features: Vec<(f64, f64)>,
        labels: Vec<(f64, f64)>,
        samples: f64,
    ) -> PyResult<()> {
        let target = labels.first().copied().unwrap_or((0.0, 1.0));
        let scaling = Scaling { features, target };
        self.lock(py)?.follower.set_scaling(scaling, samples).map_err(|e| wrong(&e))
    }

    /// The weights of the leading member as a safetensors file with Flax's names, and a text that belongs to them.
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
        let weights = super::finite_weights(state.follower.network(), bytes)?;
        self.begin(&mut state, weights)
    }

    /// Everything that is remembered.
    fn save<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyBytes>> {
        let state = self.lock(py)?;
        let follower = state.follower.save().map_err(|e| wrong(&e))?;
        bytes(py, checkpoint::save("python/bank", &(follower, state.updates)))
    }

    /// Takes up what was saved by a bank of the same network.
    fn load(&self, py: Python<'_>, bytes: &[u8]) -> PyResult<()> {
        let kept = checkpoint::load("python/bank", bytes);
        let (follower, updates): (Vec<u8>, u64) =
            kept.map_err(|e| PyValueError::new_err(e.to_string()))?;
        let mut state = self.lock(py)?;
        state.follower.load(&follower).map_err(|e| wrong(&e))?;
        state.updates = updates;
        Ok(())
    }
}
