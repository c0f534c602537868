//! The Python class behind every filter: steps one by one here, whole series in [`run`].

mod ahead;
mod class;
mod lock;
mod moving;
mod results;
mod run;
mod series;
mod stream;

pub(crate) use class::CoreFilter;

use crate::convert::{array, fill_vector, fixed_array, matrix};
use crate::errors::{bad, take_pending, to_python, with_last_good};
use crate::model::CoreModel;
use crate::problem::{
    build, check_read, covariance, is_python, read_problem, read_rule, read_spec,
};
use crate::threads;
use class::Built;
use moving::{Moving, SavedClock, StepClock, Traces};
use optfilter::filter::FilterError;
use optfilter::model::{Dynamics, Observation, Step};
use optfilter_run::{
    Covariance, DynFilter, Estimate, FilterSpec, Method, OnlineFilter, OptimizerChoice,
};
use pyo3::exceptions::{PyUserWarning, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyList};
use results::Wanted;
use series::Arrays;
use std::ffi::CString;
use std::sync::atomic::{AtomicBool, AtomicU64};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

/// What is wrong with a belief, under the names by which it is set.
fn as_set(error: FilterError) -> FilterError {
    match error {
        FilterError::NotPositiveDefinite { quantity: "initial cov", index } => {
            FilterError::NotPositiveDefinite { quantity: "P", index }
        }
        FilterError::NotFinite { argument: "initial mean", component, index } => {
            FilterError::NotFinite { argument: "x", component, index }
        }
        other => other,
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

/// A belief at the start of the problem. So many particles take seconds to draw, which a signal ends.
fn begin(
    py: Python<'_>,
    spec: &FilterSpec,
    runner: &Arc<dyn DynFilter>,
) -> PyResult<Box<dyn OnlineFilter>> {
    const MANY: usize = 1 << 20;
    let numbers = runner.dims().0.saturating_mul(spec.particles() as usize);
    let begun = if spec.method() == Method::Pf && numbers > MANY {
        let runner = runner.clone();
        let stop = AtomicBool::new(false); // which a draw does not look at
        threads::leave_at_signal(py, &stop, move || runner.start(runner.default_start()))?
    } else {
        runner.start(runner.default_start())
    };
    begun.map_err(|e| to_python(py, e, None))
}

/// Roughly how many multiplications a step takes.
fn work(spec: &FilterSpec, n: usize) -> usize {
    let (steps, particles) = (spec.steps() as usize, spec.particles() as usize);
    let members = (spec.members() as usize).min(1 << 20);
    match spec.method() {
        Method::Imap | Method::Vkf => n.saturating_mul(n).saturating_mul(steps),
        Method::Iekf => n * n * n * steps,
        Method::Pf => n.saturating_mul(particles),
        Method::Etkf => n.saturating_mul(members * members),
        Method::Letkf => n.saturating_mul(members * members * members),
        _ => n * n * n,
    }
}

#[pymethods]
impl CoreFilter {
    #[new]
    #[pyo3(signature = (model, spec, problem, rule=None))]
    fn new(
        model: &Bound<'_, CoreModel>,
        spec: &str,
        problem: &Bound<'_, PyDict>,
        rule: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<Self> {
        let py = model.py();
        let model = &model.get().model;
        let spec = read_spec(spec)?;
        let given = problem.get_item("given")?.map_or(Ok((false, false)), |g| g.extract())?;
        let problem = read_problem(model, problem)?;
        let rule = read_rule(rule)?;
        let runner = build(&spec, &problem, rule.as_ref())?;
        check_read(&spec, &problem, &*runner, given)?;
        if let Some(word) = runner.warning().filter(|_| problem.diffuse.contains(&true)) {
            let message = CString::new(word)?;
            PyErr::warn(py, &py.get_type::<PyUserWarning>(), &message, 1)?;
        }
        let live = begin(py, &spec, &runner)?;
        let (n, m, inputs) = (model.state_dim().0, model.output_dim().0, model.input_dim());
        let python = is_python(&problem) || matches!(rule, Some(OptimizerChoice::Custom(_)));
        let moving = Moving::new(live, problem.dt, m, inputs);
        Ok(Self {
            heavy: !python && work(&spec, n) > 2000,
            spec,
            rule,
            built: RwLock::new(Built { problem, runner }),
            sizes: (n, m, inputs),
            python,
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
        let built = self.built();
        let mut guard = self.lock(py)?;
        let moving = &mut *guard.moving;
        match u {
            Some(u) => fill_vector("u", Some(u), &mut moving.u)?,
            None if moving.u.is_empty() => {}
            None => return Err(bad("u", format!("the model reads {} inputs", moving.u.len()))),
        }
        let own = built.problem.dt;
        let length = dt.unwrap_or(own);
        if !(length.is_finite() && length >= 0.0) {
            return Err(bad("dt", format!("{length} is not a length of time")));
        }
        let clock = moving.clock.after(length, own);
        let step = Step { time: clock.time, ..Step::even(clock.index, length) };
        let (live, inputs) = (&mut moving.live, &moving.u);
        let result = self.step(py, &*built.runner, || live.predict(inputs, &step))?;
        raise(py, result)?;
        moving.clock = clock;
        if !std::mem::replace(&mut moving.predicted, true) {
            std::mem::swap(&mut moving.prior, &mut moving.before);
        }
        moving.live.estimate(&mut moving.prior);
        Ok(())
    }

    /// Improves the belief by a measurement; `None` or NaN is a missing one. `r` is its own R.
    #[pyo3(signature = (y=None, u=None, r=None))]
    fn update(
        &self,
        py: Python<'_>,
        y: Option<&Bound<'_, PyAny>>,
        u: Option<&Bound<'_, PyAny>>,
        r: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let runner = self.runner();
        let mut guard = self.lock(py)?;
        let moving = &mut *guard.moving;
        fill_vector("y", y, &mut moving.y)?;
        // What a measurement leaves behind is kept only when it was taken.
        let mut inputs = moving.u.clone();
        if u.is_some() {
            fill_vector("u", u, &mut inputs)?;
        }
        // A measurement before the first prediction is the first row, at the belief's own time.
        let clock = moving.clock.at_measurement();
        let step = Step { time: clock.time, ..Step::even(clock.index, clock.dt) };
        // What is known before the measurement, whether or not it was predicted for it.
        if !moving.predicted {
            moving.live.estimate(&mut moving.now);
        }
        let other = match r {
            None => None,
            Some(r) => {
                let (other, live) =
                    self.with_noise(None, Some(covariance("R", r)?), &*moving.live)?;
                moving.live = live;
                Some(other.runner)
            }
        };
        let (live, report) = (&mut moving.live, &mut moving.report);
        let (measured, given) = (&moving.y, &inputs);
        let used: &dyn DynFilter = other.as_deref().unwrap_or(&*runner);
        let result = self.step(py, used, || live.update(measured, given, &step, report));
        if other.is_some() {
            let wrong = |e| PyValueError::new_err(format!("{e}"));
            let bytes = moving.live.save().map_err(wrong)?;
            moving.live = runner.load(&bytes).map_err(wrong)?;
        }
        let prior = if moving.predicted { &moving.prior } else { &moving.now };
        raise(py, result?.map_err(|e| with_last_good(e, &prior.mean)))?;
        moving.clock = clock;
        moving.taken(inputs, &step);
        Ok(())
    }

    /// The estimate, a new array of n numbers, read-only.
    #[getter]
    fn x<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyAny>> {
        let mut out = Estimate::default();
        self.lock(py)?.moving.live.estimate(&mut out);
        fixed_array(py, out.mean, [self.sizes.0])
    }

    /// The error covariance (n, n), read-only, or None for filters that have none.
    #[getter(P)]
    fn cov<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let mut out = Estimate::default();
        self.lock(py)?.moving.live.estimate(&mut out);
        let n = self.sizes.0;
        if out.cov.is_empty() { Ok(None) } else { fixed_array(py, out.cov, [n, n]).map(Some) }
    }

    /// The state at the oldest row of the window, as the rows after it show it; None without a window, or before the first row.
    #[getter]
    fn lagged<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let runner = self.runner();
        if runner.lag().is_none_or(|rows| rows == 0) {
            return Ok(None);
        }
        let guard = self.lock(py)?;
        if guard.moving.clock.index == 0 {
            return Ok(None);
        }
        // The path is followed anew, which calls the model.
        let live = &guard.moving.live;
        let mut path = self.step(py, &*runner, || live.path())?;
        drop(guard);
        if let Some(error) = take_pending() {
            return Err(error);
        }
        let n = self.sizes.0;
        path.truncate(n);
        array(py, path, [n]).map(Some)
    }

    /// The prediction before the last measurement: mean, and covariance where there is one.
    #[getter]
    #[allow(clippy::type_complexity)] // two arrays
    fn prior<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Option<Bound<'py, PyAny>>)>> {
        let prior = self.lock(py)?.moving.prior.clone();
        if prior.mean.is_empty() {
            return Ok(None);
        }
        let cov = self.square(py, prior.cov)?;
        Ok(Some((array(py, prior.mean, [self.sizes.0])?, cov)))
    }

    /// What the last measurement met: mean and covariance before it, inputs, and the step (number, time, length).
    #[getter(_met)]
    #[allow(clippy::type_complexity)] // three arrays and a step
    fn met<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>, Bound<'py, PyAny>, (u64, f64, f64))>>
    {
        let guard = self.lock(py)?;
        let (prior, inputs) = (guard.moving.met().clone(), guard.moving.inputs.clone());
        let (seen, at) = (guard.moving.seen, guard.moving.at);
        drop(guard);
        let Some(cov) = self.square(py, prior.cov)?.filter(|_| seen) else { return Ok(None) };
        let (mean, count) = (array(py, prior.mean, [self.sizes.0])?, inputs.len());
        Ok(Some((mean, cov, array(py, inputs, [count])?, at)))
    }

    /// The last measurement that was given to `update` and taken.
    #[getter]
    fn z<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyAny>>> {
        let guard = self.lock(py)?;
        let (seen, z) = (guard.moving.seen, guard.moving.z.clone());
        drop(guard);
        let m = z.len();
        if seen { array(py, z, [m]).map(Some) } else { Ok(None) }
    }

    /// Starts the belief anew at a mean and covariance, keeping the clock.
    fn set_belief(
        &self,
        py: Python<'_>,
        x: Option<&Bound<'_, PyAny>>,
        p: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let n = self.sizes.0;
        let (runner, mut start) = (self.runner(), self.start());
        let mut guard = self.lock(py)?;
        let mut now = Estimate::default();
        guard.moving.live.estimate(&mut now);
        start.mean = now.mean;
        if let Some(x) = x {
            fill_vector("x", Some(x), &mut start.mean)?;
        }
        if p.is_some() || now.diffuse.is_none() {
            start.diffuse.clear(); // a covariance that is given is meant
        }
        if let Some(p) = p {
            start.cov = Covariance::Dense(matrix("P", p, Some((n, n)))?);
        } else if !now.cov.is_empty() && now.diffuse.is_none() {
            start.cov = Covariance::Dense(nalgebra::DMatrix::from_column_slice(n, n, &now.cov));
        }
        guard.moving.live = runner.start(&start).map_err(|e| to_python(py, as_set(e), None))?;
        Ok(())
    }

    /// Takes other noise from here on; the belief stays.
    fn set_noise(
        &self,
        py: Python<'_>,
        q: Option<&Bound<'_, PyAny>>,
        r: Option<&Bound<'_, PyAny>>,
    ) -> PyResult<()> {
        let q = q.map(|q| covariance("Q", q)).transpose()?;
        let r = r.map(|r| covariance("R", r)).transpose()?;
        let mut guard = self.lock(py)?;
        let (built, live) = self.with_noise(q, r, &*guard.moving.live)?;
        *self.built.write().unwrap_or_else(PoisonError::into_inner) = built;
        guard.moving.live = live;
        Ok(())
    }

    /// Back to the start, clock and belief.
    fn reset(&self, py: Python<'_>) -> PyResult<()> {
        let built = self.built();
        let mut guard = self.lock(py)?;
        let live = begin(py, &self.spec, &built.runner)?;
        let (_, m, inputs) = self.sizes;
        *guard.moving = Moving::new(live, built.problem.dt, m, inputs);
        Ok(())
    }

    /// Rows so far (predictions, and a measurement before the first) and the time reached.
    #[getter]
    fn clock(&self, py: Python<'_>) -> PyResult<(u64, f64)> {
        let guard = self.lock(py)?;
        Ok((guard.moving.clock.index, guard.moving.clock.time))
    }

    /// The settings as flags of the command line.
    #[getter]
    fn flags(&self) -> String {
        self.spec.flags()
    }

    /// What kind of its method it is, where the likelihood makes it another than the textbook's.
    #[getter]
    fn form(&self) -> Option<String> {
        self.runner().form().map(str::to_owned)
    }

    /// Whether the first row of a series is predicted unless a call says otherwise.
    #[getter]
    fn predicts_first(&self) -> bool {
        self.spec.predict_first()
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
        let values = self.lock(py)?.moving.report.innovation_cov.clone();
        let m = self.sizes.1;
        if values.is_empty() { Ok(None) } else { array(py, values, [m, m]).map(Some) }
    }

    /// The log-likelihood of the last measurement given those before.
    #[getter]
    fn log_likelihood(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let guard = self.lock(py)?;
        let known = guard.moving.seen && self.runner().has_cov();
        Ok(known.then_some(guard.moving.report.log_likelihood))
    }

    /// The last normalised innovation squared.
    #[getter]
    fn nis(&self, py: Python<'_>) -> PyResult<Option<f64>> {
        let guard = self.lock(py)?;
        let known = guard.moving.seen && self.runner().has_cov();
        Ok(known.then_some(guard.moving.report.nis))
    }

    /// Particles (count, n) and weights (count), or None.
    fn particle_arrays<'py>(
        &self,
        py: Python<'py>,
    ) -> PyResult<Option<(Bound<'py, PyAny>, Bound<'py, PyAny>)>> {
        let Some((values, weights)) = self.lock(py)?.moving.live.particles() else {
            return Ok(None);
        };
        let (n, count) = (self.sizes.0, weights.len());
        Ok(Some((array(py, values, [count, n])?, array(py, weights, [count])?)))
    }

    /// The belief, with what the last measurement left, and the clock, for pickling.
    fn save<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyBytes>, SavedClock)> {
        let guard = self.lock(py)?;
        let mut bytes = guard.moving.save_traces();
        let belief = guard.moving.live.save().map_err(|e| PyValueError::new_err(e.to_string()))?;
        bytes.extend(belief);
        Ok((PyBytes::new(py, &bytes), guard.moving.clock.save()))
    }

    /// The inverse of `save`.
    fn load(&self, py: Python<'_>, saved: (Vec<u8>, SavedClock)) -> PyResult<()> {
        let (bytes, clock) = saved;
        let wrong = |e: &dyn std::fmt::Display| PyValueError::new_err(e.to_string());
        let (traces, belief) = Traces::read(&bytes)
            .filter(|(traces, _)| traces.fit(self.sizes))
            .ok_or_else(|| wrong(&"the saved state is damaged, or of another filter"))?;
        let live = self.runner().load(belief).map_err(|e| wrong(&e))?;
        let mut guard = self.lock(py)?;
        guard.moving.live = live;
        guard.moving.clock = StepClock::load(clock);
        guard.moving.load_traces(traces);
        Ok(())
    }

    /// Takes further rows of a series: `ys` (T, m), `ts` (T,) and `us` (T, p), times of a calendar in units of the model
    /// since 1970. Returns a dictionary of arrays, the bytes to go on from, and how many rows there were before.
    #[pyo3(signature = (saved, ys, ts=None, calendar=false, us=None))]
    fn take<'py>(
        &self,
        py: Python<'py>,
        saved: Option<&[u8]>,
        ys: &Bound<'py, PyAny>,
        ts: Option<&Bound<'py, PyAny>>,
        calendar: bool,
        us: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyBytes>, u64)> {
        self.take_rows(py, saved, ys, ts, calendar, us)
    }

    /// Runs whole series. `ys` is (T, m) or (B, T, m); `ts` is (T,) or (B, T); `us` is (T, p) or (B, T, p); `x0` is
    /// (n,) or (B, n); `p0` is (n, n) or (B, n, n). Trajectory b draws from the stream of run `first_run + b`.
    /// Returns a dictionary of arrays, and the failures that `lenient` lets pass as (trajectory, exception).
    #[pyo3(signature = (ys, ts=None, us=None, x0=None, p0=None, t0=None, lenient=false, first_run=0, predict_first=false, covariances=true, only=None))]
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
        predict_first: bool,
        covariances: bool,
        only: Option<Vec<String>>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyList>)> {
        let arrays = Arrays::new(ys, ts, us, x0, p0)?;
        let wanted = Wanted { covariances, only };
        self.run_series(py, &arrays, (t0, predict_first), first_run, (lenient, &wanted))
    }

    /// Smooths whole series, shaped as for `run`. Returns a dictionary of arrays (B, T, ...).
    #[pyo3(signature = (ys, ts=None, us=None, x0=None, p0=None, t0=None, first_run=0, predict_first=false))]
    #[allow(clippy::too_many_arguments)] // one call, from one place in Python
    fn smooth_arrays<'py>(
        &self,
        py: Python<'py>,
        ys: &Bound<'py, PyAny>,
        ts: Option<&Bound<'py, PyAny>>,
        us: Option<&Bound<'py, PyAny>>,
        x0: Option<&Bound<'py, PyAny>>,
        p0: Option<&Bound<'py, PyAny>>,
        t0: Option<f64>,
        first_run: u64,
        predict_first: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let arrays = Arrays::new(ys, ts, us, x0, p0)?;
        self.smooth_series(py, &arrays, (t0, predict_first), first_run)
    }

    /// Filters whole series, shaped as for `run`, and predicts `rows` rows of `dt` beyond them with inputs `us_ahead`
    /// (rows, p). Returns a dictionary of arrays (B, rows, ...).
    #[pyo3(signature = (rows, dt, us_ahead, ys, ts=None, us=None, x0=None, p0=None, t0=None, predict_first=false))]
    #[allow(clippy::too_many_arguments)] // one call, from one place in Python
    fn forecast_arrays<'py>(
        &self,
        py: Python<'py>,
        rows: usize,
        dt: f64,
        us_ahead: Option<&Bound<'py, PyAny>>,
        ys: &Bound<'py, PyAny>,
        ts: Option<&Bound<'py, PyAny>>,
        us: Option<&Bound<'py, PyAny>>,
        x0: Option<&Bound<'py, PyAny>>,
        p0: Option<&Bound<'py, PyAny>>,
        t0: Option<f64>,
        predict_first: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let arrays = Arrays::new(ys, ts, us, x0, p0)?;
        self.forecast_series(py, &arrays, (t0, predict_first), (rows, dt), us_ahead)
    }

    /// Filters whole series, shaped as for `run`, and predicts `rows` rows from each of their rows. Returns a dictionary of
    /// arrays (B, T, rows, ...).
    #[pyo3(signature = (rows, ys, ts=None, us=None, x0=None, p0=None, t0=None, first_run=0, predict_first=false))]
    #[allow(clippy::too_many_arguments)] // one call, from one place in Python
    fn horizon_arrays<'py>(
        &self,
        py: Python<'py>,
        rows: usize,
        ys: &Bound<'py, PyAny>,
        ts: Option<&Bound<'py, PyAny>>,
        us: Option<&Bound<'py, PyAny>>,
        x0: Option<&Bound<'py, PyAny>>,
        p0: Option<&Bound<'py, PyAny>>,
        t0: Option<f64>,
        first_run: u64,
        predict_first: bool,
    ) -> PyResult<Bound<'py, PyDict>> {
        let arrays = Arrays::new(ys, ts, us, x0, p0)?;
        self.horizon_series(py, &arrays, (t0, predict_first), first_run, rows)
    }

    /// The innovations (B, T, m) of estimates (B, T, n) that `run` returned without them.
    #[pyo3(signature = (means, ys, ts=None, us=None, x0=None, t0=None, predict_first=false))]
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
        predict_first: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let arrays = Arrays::new(ys, ts, us, x0, None)?;
        self.later_innovations(py, &arrays, means, (t0, predict_first))
    }
}

impl CoreFilter {
    /// An n x n array, or None where there are no values.
    fn square<'py>(
        &self,
        py: Python<'py>,
        values: Vec<f64>,
    ) -> PyResult<Option<Bound<'py, PyAny>>> {
        let n = self.sizes.0;
        if values.is_empty() { Ok(None) } else { array(py, values, [n, n]).map(Some) }
    }
}
