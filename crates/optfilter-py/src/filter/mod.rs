//! The Python class behind every filter: steps one by one here, whole series in [`run`].

mod lock;
mod results;
mod run;
mod series;

use crate::builder::{Settings, build};
use crate::convert::{array, fill_vector, matrix};
use crate::engine::{Report, Runner, Start};
use crate::errors::{bad, take_pending, to_python};
use crate::model::CoreModel;
use lock::Moving;
use nalgebra::DMatrix;
use optfilter::filter::FilterError;
use optfilter::model::Step;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use series::Arrays;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Mutex};

/// A filter. The classes of `optfilter.filters` derive from it.
#[pyclass(frozen, subclass, module = "optfilter._core")]
pub(crate) struct CoreFilter {
    runner: Arc<dyn Runner>,
    start: Start,
    dt: f64,
    /// Whether steps call Python: those must stay on the calling thread.
    python: bool,
    /// Whether a step is long enough to let other threads run meanwhile.
    heavy: bool,
    moving: Mutex<Moving>,
    /// The thread that holds `moving`, or 0.
    owner: AtomicU64,
}

impl CoreFilter {
    /// Runs a step, letting other threads run meanwhile if it is long.
    fn step<R: Send>(&self, py: Python<'_>, f: impl FnOnce() -> R + Send) -> R {
        if self.heavy { py.detach(f) } else { f() }
    }
}

/// Raises a callable's exception, or the error.
fn raise<T>(py: Python<'_>, result: Result<T, FilterError>) -> PyResult<T> {
    match (result, take_pending()) {
        (_, Some(error)) => Err(error),
        (Ok(value), None) => Ok(value),
        (Err(error), None) => Err(to_python(py, error, None)),
    }
}

#[pymethods]
impl CoreFilter {
    #[new]
    fn new(
        kind: &str,
        model: &Bound<'_, CoreModel>,
        dt: f64,
        x0: &Bound<'_, PyAny>,
        p0: Option<&Bound<'_, PyAny>>,
        settings: &Bound<'_, PyDict>,
    ) -> PyResult<Self> {
        let py = model.py();
        let model = &model.get().model;
        if !(dt.is_finite() && dt > 0.0) {
            return Err(bad("dt", format!("{dt} is not positive and finite")));
        }
        let (n, m, inputs) = {
            use optfilter::model::{Dynamics, Observation};
            (model.state_dim().0, model.output_dim().0, model.input_dim())
        };
        let mut mean = vec![0.0; n];
        fill_vector("x0", Some(x0), &mut mean)?;
        // Point estimates have no covariance, and may have too many components for one.
        let cov = p0.map(|p0| matrix("P0", p0, Some((n, n)))).transpose()?;
        let cov = cov.unwrap_or_else(|| DMatrix::zeros(0, 0));
        let start = Start { mean, cov, run: 0, at_first: false };
        let python = model.is_python();
        let of = Settings { py, kind, values: settings, sizes: (n, m), python };
        let runner = build(model, &of)?;
        let live = runner.start(&start).map_err(|e| to_python(py, e, None))?;
        let count = |key| -> usize {
            let value = settings.get_item(key).ok().flatten();
            value.and_then(|v| v.extract::<usize>().ok()).unwrap_or(1)
        };
        let rule_is_python = settings
            .get_item("optimizer")?
            .and_then(|spec| spec.get_item(0).ok())
            .is_some_and(|name| name.extract::<String>().is_ok_and(|name| name == "python"));
        let python = python || rule_is_python;
        let work = n * n * count("steps") * count("particles") * count("iterations");
        let moving = Moving {
            live,
            index: 0,
            time: 0.0,
            dt,
            even: true,
            y: vec![0.0; m],
            u: vec![0.0; inputs],
            report: Report::default(),
        };
        Ok(Self {
            runner,
            start,
            dt,
            python,
            heavy: !python && work > 2000,
            moving: Mutex::new(moving),
            owner: AtomicU64::new(0),
        })
    }

    /// Carries the belief through one step of time.
    #[pyo3(signature = (u=None, dt=None))]
    fn predict(
        &self,
        py: Python<'_>,
        u: Option<&Bound<'_, PyAny>>,
        dt: Option<f64>,
    ) -> PyResult<()> {
        let mut guard = self.lock(py)?;
        let moving = &mut *guard.moving;
        match u {
            Some(u) => fill_vector("u", Some(u), &mut moving.u)?,
            None if moving.u.is_empty() => {}
            None => return Err(bad("u", format!("the model reads {} inputs", moving.u.len()))),
        }
        let length = dt.unwrap_or(self.dt);
        if !(length.is_finite() && length >= 0.0) {
            return Err(bad("dt", format!("{length} is not a length of time")));
        }
        let index = moving.index + 1;
        let even = moving.even && length == self.dt;
        let time = if even { index as f64 * self.dt } else { moving.time + length };
        let step = Step { index, time, dt: length };
        let (live, inputs) = (&mut moving.live, &moving.u);
        let result = self.step(py, || live.predict(inputs, &step));
        raise(py, result)?;
        (moving.index, moving.time, moving.dt, moving.even) = (index, time, length, even);
        Ok(())
    }

    /// Improves the belief by a measurement; `None` or NaN is a missing one.
    #[pyo3(signature = (y=None, u=None))]
    fn update(
        &self,
        py: Python<'_>,
        y: Option<&Bound<'_, PyAny>>,
        u: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let mut guard = self.lock(py)?;
        let moving = &mut *guard.moving;
        fill_vector("y", y, &mut moving.y)?;
        if u.is_some() {
            fill_vector("u", u, &mut moving.u)?;
        }
        let step = Step { index: moving.index, time: moving.time, dt: moving.dt };
        let (live, report) = (&mut moving.live, &mut moving.report);
        let (measured, inputs) = (&moving.y, &moving.u);
        let result = self.step(py, || live.update(measured, inputs, &step, report));
        raise(py, result)
    }

    /// The estimate, a new array of n numbers.
    #[getter]
    fn x<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut out = vec![0.0; self.start.mean.len()];
        self.lock(py)?.moving.live.mean_into(&mut out);
        let n = out.len();
        array(py, out, [n])
    }

    /// The error covariance (n, n), or None for filters that have none.
    #[getter(P)]
    fn cov<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let n = self.start.mean.len();
        let values = self.lock(py)?.moving.live.cov_values();
        values.map(|values| array(py, values, [n, n])).transpose()
    }

    /// Starts the belief anew at a mean and covariance, keeping the clock.
    fn set_belief(
        &self,
        py: Python<'_>,
        x: Option<&Bound<'_, PyAny>>,
        p: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let n = self.start.mean.len();
        let mut guard = self.lock(py)?;
        let live = &guard.moving.live;
        let mut mean = vec![0.0; n];
        live.mean_into(&mut mean);
        if let Some(x) = x {
            fill_vector("x", Some(x), &mut mean)?;
        }
        let cov = match (p, live.cov_values()) {
            (Some(p), _) => matrix("P", p, Some((n, n)))?,
            (None, Some(values)) => DMatrix::from_column_slice(n, n, &values),
            (None, None) => self.start.cov.clone(),
        };
        let start = Start { mean, cov, run: self.start.run, at_first: false };
        guard.moving.live = self.runner.start(&start).map_err(|e| to_python(py, e, None))?;
        Ok(())
    }

    /// Back to the start, clock and belief.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let mut guard = self.lock(py)?;
        let live = self.runner.start(&self.start).map_err(|e| to_python(py, e, None))?;
        let moving = &mut *guard.moving;
        (moving.live, moving.index, moving.time) = (live, 0, 0.0);
        (moving.dt, moving.even, moving.report) = (self.dt, true, Report::default());
        Ok(())
    }

    /// Steps taken and the time reached.
    #[getter]
    fn clock(&self, py: Python<'_>) -> PyResult<(u64, f64)> {
        let guard = self.lock(py)?;
        Ok((guard.moving.index, guard.moving.time))
    }

    /// The last innovation (m numbers).
    #[getter]
    fn innovation<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let values = self.lock(py)?.moving.report.innovation.clone();
        let m = values.len();
        if m == 0 { Ok(None) } else { array(py, values, [m]).map(Some) }
    }

    /// The covariance of the last innovation (m, m).
    #[getter(S)]
    fn innovation_cov<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let guard = self.lock(py)?;
        let (values, m) = (guard.moving.report.innovation_cov.clone(), guard.moving.y.len());
        drop(guard);
        if values.is_empty() { Ok(None) } else { array(py, values, [m, m]).map(Some) }
    }

    /// The log-likelihood of the last measurement given those before.
    #[getter]
    fn log_likelihood(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.lock(py)?.moving.report.log_likelihood)
    }

    /// The last normalised innovation squared.
    #[getter]
    fn nis(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        Ok(self.lock(py)?.moving.report.nis)
    }

    /// Particles (count, n) and weights (count), or None.
    fn particle_arrays<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let Some((values, weights)) = self.lock(py)?.moving.live.particles() else {
            return Ok(None);
        };
        let (n, count) = (self.start.mean.len(), weights.len());
        Ok(Some((array(py, values, [count, n])?, array(py, weights, [count])?)))
    }

    /// The belief and the clock, for pickling.
    fn save<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, u64, f64, f64, bool)> {
        let guard = self.lock(py)?;
        let moving = &guard.moving;
        let bytes = moving.live.to_bytes().map_err(PyValueError::new_err)?;
        Ok((PyBytes::new(py, &bytes), moving.index, moving.time, moving.dt, moving.even))
    }

    /// The inverse of `save`.
    fn load(&self, py: Python<'_>, saved: (Vec<u8>, u64, f64, f64, bool)) -> PyResult<()> {
        let (bytes, index, time, dt, even) = saved;
        let live = self.runner.load(&bytes).map_err(PyValueError::new_err)?;
        let mut guard = self.lock(py)?;
        let moving = &mut *guard.moving;
        (moving.live, moving.index, moving.time, moving.dt, moving.even) =
            (live, index, time, dt, even);
        Ok(())
    }

    /// Runs whole series. `ys` is (T, m) or (B, T, m); `ts` is (T,) or (B, T); `us` is (T, p) or (B, T, p); `x0` is
    /// (n,) or (B, n); `p0` is (n, n) or (B, n, n). Trajectory b draws from the stream of run `first_run + b`.
    /// With `at_first` the first measurement is not preceded by a prediction. Returns a dictionary of arrays, and the
    /// failures that `lenient` lets pass as (trajectory, exception).
    #[pyo3(signature = (ys, ts=None, us=None, x0=None, p0=None, t0=None, lenient=false, first_run=0, at_first=false))]
    #[allow(clippy::too_many_arguments)] // one call, from one place in Python
    fn run<'py>(
        &self,
        py: Python<'py>,
        ys: &Bound<'py, PyAny>,
        ts: Option<&Bound<'py, PyAny>>,
        us: Option<&Bound<'py, PyAny>>,
        x0: Option<&Bound<'py, PyAny>>,
        p0: Option<&Bound<'py, PyAny>>,
        t0: Option<f64>,
        lenient: bool,
        first_run: u64,
        at_first: bool,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyList>)> {
        let arrays = Arrays::new(ys, ts, us, x0, p0)?;
        self.run_series(py, &arrays, t0, (first_run, at_first), lenient)
    }

    /// The innovations (B, T, m) of estimates (B, T, n) that `run` returned without them.
    #[pyo3(signature = (means, ys, ts=None, us=None, x0=None, t0=None))]
    #[allow(clippy::too_many_arguments)] // one call, from one place in Python
    fn innovations_of<'py>(
        &self,
        py: Python<'py>,
        means: &Bound<'py, PyAny>,
        ys: &Bound<'py, PyAny>,
        ts: Option<&Bound<'py, PyAny>>,
        us: Option<&Bound<'py, PyAny>>,
        x0: Option<&Bound<'py, PyAny>>,
        t0: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arrays = Arrays::new(ys, ts, us, x0, None)?;
        self.later_innovations(py, &arrays, means, t0)
    }
}
