//! A stream followed without tuning: the bank of settings of `optfilter_nn::adapt`, behind `optfilter.nn.follow`.

use crate::convert::{array, as_array, slice};
use crate::errors::bad;
use crate::threads::run_here;
use numpy::{PyArray1, PyReadonlyArray1};
use optfilter_nn::Shape;
use optfilter_nn::adapt::{
    AdaptError, Follower, Labels, Score, Setup, Stream, WeightMethod, prequential,
};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// Time steps between two looks at signals and two words of progress.
const STRIDE: usize = 200;

/// Follows samples of a shape (one number, or rows, columns, channels) with a bank of settings; `steps` numbers the time step
/// of each sample. Returns the scores and the bank's settings with their shares.
#[pyfunction]
#[pyo3(signature = (x, classes, values, count, steps, shape, network, seed, tell))]
#[allow(clippy::too_many_arguments)] // those of the Python function, one by one
pub(crate) fn follow_auto<'py>(
    py: Python<'py>,
    x: &Bound<'py, PyAny>,
    classes: Option<PyReadonlyArray1<'py, u32>>,
    values: Option<&Bound<'py, PyAny>>,
    count: usize,
    steps: &Bound<'py, PyAny>,
    shape: Vec<usize>,
    network: &str,
    seed: u64,
    tell: Option<Py<PyAny>>,
) -> PyResult<(Bound<'py, PyDict>, Vec<(String, f64)>)> {
    let wrong = |e: AdaptError| PyValueError::new_err(e.to_string());
    let shape = match *shape.as_slice() {
        [n] => Shape::Vector(n),
        [height, width, channels] => Shape::Image { height, width, channels },
        _ => return Err(bad("X", format!("samples of shape {shape:?} cannot be read"))),
    };
    let x = as_array("X", x)?;
    let steps = as_array("time", steps)?;
    let labels = match (classes, values) {
        (Some(classes), None) => Labels::classes(classes.as_slice()?.to_vec(), count),
        (None, Some(values)) => Labels::Values(slice("y", &as_array("y", values)?)?.to_vec()),
        _ => return Err(bad("y", "either classes or numbers are needed")),
    };
    let stream =
        Stream::new(shape, slice("X", &x)?.to_vec(), labels, slice("time", &steps)?.to_vec())
            .map_err(wrong)?;
    let setup = Setup {
        network: network.into(),
        method: WeightMethod::Auto,
        pretrain: 0,
        running_scale: true,
        seed,
        ..Setup::default()
    };
    let mut follower = Follower::new(&stream, &setup, None).map_err(wrong)?;
    let mut raised = None;
    let followed = run_here(py, |stop| -> Result<Vec<Score>, AdaptError> {
        let mut scores = Vec::with_capacity(stream.steps());
        while scores.len() < stream.steps() && raised.is_none() && !stop() {
            let from = scores.len();
            let to = (from + STRIDE).min(stream.steps());
            scores.extend(prequential(&mut follower, &stream, from..to)?);
            if let Some(tell) = &tell {
                let told = Python::attach(|py| tell.call1(py, (to,)).map(|_| ()));
                raised = told.err();
            }
        }
        Ok(scores)
    })?;
    if let Some(error) = raised {
        return Err(error);
    }
    let scores = followed.map_err(wrong)?;
    let n = scores.len();
    let out = PyDict::new(py);
    out.set_item("loss", array(py, scores.iter().map(|s| s.loss).collect(), [n])?)?;
    let right: Vec<i64> = scores.iter().map(|s| s.right as i64).collect();
    out.set_item("right", PyArray1::from_vec(py, right))?;
    let errors = scores.iter().map(|s| s.squared_error).collect();
    out.set_item("squared_error", array(py, errors, [n])?)?;
    let shares = follower.shares().into_iter().map(|(s, share)| (s.label(), share)).collect();
    Ok((out, shares))
}
