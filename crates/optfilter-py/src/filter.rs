//! The Python class behind every filter: steps one by one, and whole series.

use crate::builder::{Settings, build};
use crate::convert::{array, as_array, fill_vector, matrix, slice};
use crate::engine::{Live, Outcome, Report, Runner, Start};
use crate::errors::{bad, take_pending, to_python};
use crate::model::CoreModel;
use crate::threads;
use nalgebra::DMatrix;
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use optfilter::Series;
use optfilter::filter::{FilterError, Trace};
use optfilter::model::Step;
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::sync::MutexExt;
use pyo3::types::{PyBytes, PyDict};
use rayon::prelude::*;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, TryLockError};

/// What changes while a filter is stepped.
struct Moving {
    live: Box<dyn Live>,
    /// Steps taken.
    index: u64,
    time: f64,
    /// The length of the last step.
    dt: f64,
    /// Whether every step so far had the model's own length, so that time is a product, not a sum.
    even: bool,
    y: Vec<f64>,
    u: Vec<f64>,
    report: Report,
}

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

/// A number for this thread, never 0.
fn thread_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    thread_local! {
        static NUMBER: u64 = NEXT.fetch_add(1, Ordering::Relaxed);
    }
    NUMBER.with(|n| *n)
}

/// The lock on a filter's moving part, which remembers its owner.
struct Guard<'a> {
    moving: MutexGuard<'a, Moving>,
    owner: &'a AtomicU64,
}

impl Drop for Guard<'_> {
    fn drop(&mut self) {
        self.owner.store(0, Ordering::Relaxed);
    }
}

impl CoreFilter {
    fn lock(&self, py: Python<'_>) -> PyResult<Guard<'_>> {
        let broken = || PyRuntimeError::new_err("the filter was left broken by an earlier failure");
        let moving = match self.moving.try_lock() {
            Ok(moving) => moving,
            Err(TryLockError::Poisoned(_)) => return Err(broken()),
            Err(TryLockError::WouldBlock) => {
                if self.owner.load(Ordering::Relaxed) == thread_number() {
                    let message = "a callable of this filter's model stepped the filter itself";
                    return Err(PyRuntimeError::new_err(message));
                }
                // Another thread may need the interpreter to finish its step.
                self.moving.lock_py_attached(py).map_err(|_| broken())?
            }
        };
        self.owner.store(thread_number(), Ordering::Relaxed);
        Ok(Guard { moving, owner: &self.owner })
    }

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
        p0: &Bound<'_, PyAny>,
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
        let start = Start { mean, cov: matrix("P0", p0, Some((n, n)))?, run: 0, at_first: false };
        let of = Settings { py, kind, values: settings, sizes: (n, m) };
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
        let python = model.is_python() || rule_is_python;
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
        let mut out = Vec::with_capacity(self.start.mean.len());
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
        let mut mean = Vec::with_capacity(n);
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
        let mut mean = Vec::new();
        live.mean_into(&mut mean);
        if mean.len() != self.start.mean.len() {
            return Err(PyValueError::new_err("the saved belief is of another size"));
        }
        let mut guard = self.lock(py)?;
        let moving = &mut *guard.moving;
        (moving.live, moving.index, moving.time, moving.dt, moving.even) =
            (live, index, time, dt, even);
        Ok(())
    }

    /// Runs whole series. `ys` is (B, T, m); `ts` is (T,) or (B, T); `us` is (B, T, p) or (T, p); `x0` is
    /// (B, n); `p0` is (B, n, n). Trajectory b draws from the stream of run `first_run + b`. With
    /// `at_first` the first measurement is not preceded by a prediction. Returns a dictionary of arrays.
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
    ) -> PyResult<Bound<'py, PyDict>> {
        let arrays = Arrays::new(ys, ts, us, x0, p0)?;
        let batch = arrays.batch(self, t0, (first_run, at_first)).map_err(|e| e.raise(py))?;
        let outcome =
            if self.python { self.run_here(&batch) } else { self.run_native(py, &batch)? };
        if let Some(error) = take_pending() {
            return Err(error);
        }
        collect(py, outcome, &batch, self.runner.dims(), lenient)
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
        let batch = arrays.batch(self, t0, (0, false)).map_err(|e| e.raise(py))?;
        let means = as_array("means", means)?;
        let means = slice("means", &means)?;
        let (n, m, _) = self.runner.dims();
        let len = batch.series.first().map_or(0, Series::len);
        let size = len * n;
        if means.len() != batch.series.len() * size {
            return Err(bad("means", "does not fit ys"));
        }
        let mut out = Vec::with_capacity(batch.series.len() * len * m);
        for (b, series) in batch.series.iter().enumerate() {
            let means = &means[b * size..(b + 1) * size];
            let part = self.runner.innovations(&batch.starts[b].mean, series, means);
            out.extend(part.ok_or_else(|| bad("means", "this filter reports its innovations"))?);
        }
        array(py, out, [batch.series.len(), len, m])
    }
}

/// The arrays of a call, kept alive while the library reads them.
struct Arrays<'py> {
    ys: PyReadonlyArrayDyn<'py, f64>,
    ts: Option<PyReadonlyArrayDyn<'py, f64>>,
    us: Option<PyReadonlyArrayDyn<'py, f64>>,
    x0: Option<PyReadonlyArrayDyn<'py, f64>>,
    p0: Option<PyReadonlyArrayDyn<'py, f64>>,
}

/// An error on the way to a batch.
enum BatchError {
    Filter(FilterError, Option<usize>),
    Python(PyErr),
}

impl BatchError {
    fn raise(self, py: Python<'_>) -> PyErr {
        match self {
            Self::Filter(error, trajectory) => to_python(py, error, trajectory),
            Self::Python(error) => error,
        }
    }
}

impl From<PyErr> for BatchError {
    fn from(error: PyErr) -> Self {
        Self::Python(error)
    }
}

/// Series and where they start.
struct Many<'a> {
    series: Vec<Series<'a>>,
    starts: Vec<Start>,
}

/// The part of an array that belongs to trajectory `b`: its own, or one for all.
fn part(values: &[f64], b: usize, count: usize, each: usize) -> Option<&[f64]> {
    if values.len() == each {
        return Some(values);
    }
    (values.len() == count * each).then(|| &values[b * each..(b + 1) * each])
}

impl<'py> Arrays<'py> {
    fn new(
        ys: &Bound<'py, PyAny>,
        ts: Option<&Bound<'py, PyAny>>,
        us: Option<&Bound<'py, PyAny>>,
        x0: Option<&Bound<'py, PyAny>>,
        p0: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Self> {
        let read = |name, object: Option<&Bound<'py, PyAny>>| {
            object.map(|object| as_array(name, object)).transpose()
        };
        Ok(Self {
            ys: as_array("ys", ys)?,
            ts: read("ts", ts)?,
            us: read("us", us)?,
            x0: read("x0", x0)?,
            p0: read("P0", p0)?,
        })
    }

    fn batch(
        &self,
        filter: &CoreFilter,
        t0: Option<f64>,
        (first_run, at_first): (u64, bool),
    ) -> Result<Many<'_>, BatchError> {
        let (n, m, inputs) = filter.runner.dims();
        let &[count, len, columns] = self.ys.shape() else {
            return Err(bad("ys", "must have three axes").into());
        };
        if columns != m {
            let message = format!("has {columns} columns where the model measures {m}");
            return Err(bad("ys", message).into());
        }
        let ys = slice("ys", &self.ys)?;
        let ts = self.ts.as_ref().map(|a| slice("ts", a)).transpose()?;
        let us = self.us.as_ref().map(|a| slice("us", a)).transpose()?;
        let x0 = self.x0.as_ref().map(|a| slice("x0", a)).transpose()?;
        let p0 = self.p0.as_ref().map(|a| slice("P0", a)).transpose()?;
        if us.is_none() && inputs > 0 {
            return Err(bad("us", format!("the model reads {inputs} inputs")).into());
        }
        if us.is_some() && inputs == 0 {
            return Err(bad("us", "the model reads no inputs").into());
        }
        let misfit = |name: &str, needed: String| bad(name, format!("must have shape {needed}"));
        let mut many =
            Many { series: Vec::with_capacity(count), starts: Vec::with_capacity(count) };
        for b in 0..count {
            let fail = |e| BatchError::Filter(e, Some(b));
            let mut series = Series::new(&ys[b * len * m..(b + 1) * len * m], m)
                .and_then(|s| s.with_dt(filter.dt))
                .map_err(fail)?;
            if let Some(ts) = ts {
                let times = part(ts, b, count, len)
                    .ok_or_else(|| misfit("ts", format!("({len},) or ({count}, {len})")))?;
                let start = t0.unwrap_or_else(|| times.first().map_or(0.0, |t| t - filter.dt));
                series = series.with_times(start, times).map_err(fail)?;
            }
            if let Some(us) = us {
                let rows = part(us, b, count, len * inputs).ok_or_else(|| {
                    misfit("us", format!("({len}, {inputs}) or ({count}, {len}, {inputs})"))
                })?;
                series = series.with_inputs(rows, inputs).map_err(fail)?;
            }
            let mean = match x0 {
                None => filter.start.mean.clone(),
                Some(x0) => part(x0, b, count, n)
                    .ok_or_else(|| misfit("x0", format!("({n},) or ({count}, {n})")))?
                    .to_vec(),
            };
            let cov = match p0 {
                None => filter.start.cov.clone(),
                Some(p0) => {
                    let values = part(p0, b, count, n * n).ok_or_else(|| {
                        misfit("P0", format!("({n}, {n}) or ({count}, {n}, {n})"))
                    })?;
                    DMatrix::from_row_slice(n, n, values)
                }
            };
            many.series.push(series);
            many.starts.push(Start { mean, cov, run: first_run + b as u64, at_first });
        }
        Ok(many)
    }
}

impl CoreFilter {
    /// Without the interpreter's lock: a single series on this thread, several on all.
    fn run_native(&self, py: Python<'_>, many: &Many<'_>) -> PyResult<Vec<Outcome>> {
        match (many.series.as_slice(), many.starts.as_slice()) {
            ([series], [start]) => Ok(vec![py.detach(|| self.runner.run(start, series))]),
            _ => threads::install(py, || self.run_all(many)),
        }
    }

    /// On this thread, stopping at the first exception.
    fn run_here(&self, many: &Many<'_>) -> Vec<Outcome> {
        let mut out = Vec::with_capacity(many.series.len());
        for (series, start) in many.series.iter().zip(&many.starts) {
            out.push(self.runner.run(start, series));
            if crate::errors::is_pending() {
                break;
            }
        }
        out
    }

    /// On all cores, as lanes where the filter can.
    fn run_all(&self, many: &Many<'_>) -> Vec<Outcome> {
        let (n, m, _) = self.runner.dims();
        if !many.starts.iter().any(|start| start.at_first)
            && let Some(Ok(estimates)) = self.runner.run_lanes(&many.starts, &many.series)
        {
            return (0..many.series.len())
                .into_par_iter()
                .map(|b| match estimates.trajectory(b) {
                    Some(Ok(means)) => {
                        let trace =
                            Trace { state_dim: n, output_dim: m, means, ..Trace::default() };
                        Outcome { trace, error: None }
                    }
                    // Once more alone, to have the estimates before the failure.
                    _ => self.runner.run(&many.starts[b], &many.series[b]),
                })
                .collect();
        }
        many.series
            .par_iter()
            .zip(&many.starts)
            .map(|(series, start)| self.runner.run(start, series))
            .collect()
    }
}

/// All trajectories of one quantity in one array; what a failed trajectory lacks is NaN.
fn stack(outcomes: &[Outcome], size: usize, pick: impl Fn(&Trace) -> &[f64]) -> Option<Vec<f64>> {
    if outcomes.iter().all(|o| pick(&o.trace).is_empty()) {
        return None;
    }
    let mut out = Vec::with_capacity(outcomes.len() * size);
    for (b, outcome) in outcomes.iter().enumerate() {
        out.extend_from_slice(pick(&outcome.trace));
        out.resize((b + 1) * size, f64::NAN);
    }
    Some(out)
}

fn collect<'py>(
    py: Python<'py>,
    outcomes: Vec<Outcome>,
    many: &Many<'_>,
    (n, m, _): (usize, usize, usize),
    lenient: bool,
) -> PyResult<Bound<'py, PyDict>> {
    let (count, len) = (outcomes.len(), many.series.first().map_or(0, Series::len));
    let mut outcomes = outcomes;
    let failures = pyo3::types::PyList::empty(py);
    for (b, outcome) in outcomes.iter_mut().enumerate() {
        if let Some(error) = outcome.error.take() {
            let diverged = matches!(
                error,
                FilterError::Diverged { .. }
                    | FilterError::NotPositiveDefinite { index: Some(_), .. }
            );
            let exception = to_python(py, error, Some(b));
            if !(lenient && diverged) {
                return Err(exception);
            }
            failures.append((b, exception.into_value(py)))?;
        }
    }
    let result = PyDict::new(py);
    result.set_item("failures", &failures)?;
    let set3 = |key, width: usize, values: Option<Vec<f64>>| -> PyResult<()> {
        match values {
            Some(values) => result.set_item(key, array(py, values, [count, len, width])?),
            None => Ok(()),
        }
    };
    if count == 1 && failures.is_empty() {
        // One series: its numbers are handed over as they are.
        let trace = outcomes.swap_remove(0).trace;
        let full = |values: Vec<f64>| (!values.is_empty()).then_some(values);
        set3("means", n, full(trace.means))?;
        set3("innovations", m, full(trace.innovations))?;
        if let Some(values) = full(trace.covs) {
            result.set_item("covariances", array(py, values, [1, len, n, n])?)?;
        }
        if let Some(values) = full(trace.innovation_covs) {
            result.set_item("innovation_covariances", array(py, values, [1, len, m, m])?)?;
        }
        if let Some(values) = full(trace.log_likelihoods) {
            result.set_item("log_likelihoods", array(py, values, [1, len])?)?;
        }
        if let Some(values) = full(trace.nis) {
            result.set_item("nis", array(py, values, [1, len])?)?;
        }
        return Ok(result);
    }
    set3("means", n, stack(&outcomes, len * n, |t| &t.means))?;
    set3("innovations", m, stack(&outcomes, len * m, |t| &t.innovations))?;
    if let Some(values) = stack(&outcomes, len * n * n, |t| &t.covs) {
        result.set_item("covariances", array(py, values, [count, len, n, n])?)?;
    }
    if let Some(values) = stack(&outcomes, len * m * m, |t| &t.innovation_covs) {
        result.set_item("innovation_covariances", array(py, values, [count, len, m, m])?)?;
    }
    if let Some(values) = stack(&outcomes, len, |t| &t.log_likelihoods) {
        result.set_item("log_likelihoods", array(py, values, [count, len])?)?;
    }
    if let Some(values) = stack(&outcomes, len, |t| &t.nis) {
        result.set_item("nis", array(py, values, [count, len])?)?;
    }
    Ok(result)
}
