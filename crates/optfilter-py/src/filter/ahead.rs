//! The way back and the way ahead over whole series: smoothed estimates and forecasts.

use super::CoreFilter;
use super::series::{Arrays, Many};
use crate::convert::{array, as_array, check_memory, slice};
use crate::errors::{bad, is_pending, stopping_at_exceptions, take_pending, to_python};
use crate::problem::{build, spec_error};
use crate::threads;
use optfilter::Series;
use optfilter::model::Step;
use optfilter_run::{
    CancelCheck, DynFilter, Forecast, ForecastSummary, InitialState, Method, RollingForecaster,
    RunError, Smoothed, forecast, smooth_from, walk,
};
use pyo3::prelude::*;
use pyo3::types::PyDict;
use std::sync::atomic::Ordering;

/// What was asked of a series, or why there is none.
type Done<T> = Result<T, RunError>;

impl CoreFilter {
    /// Smooths every series; returns a dictionary of arrays with a leading axis of trajectories.
    pub(super) fn smooth_series<'py>(
        &self,
        py: Python<'py>,
        arrays: &Arrays<'py>,
        begin: (Option<f64>, bool),
        first_run: u64,
    ) -> PyResult<Bound<'py, PyDict>> {
        let built = self.built();
        let many = arrays.many(py, self, begin, first_run)?;
        let ((n, ..), (count, len)) = (self.sizes, many.shape());
        check_memory(&[4, count, len, n + n * n])?;
        if self.spec.method() == Method::Pf {
            // The particles of every row are kept for the way back.
            check_memory(&[len, self.spec.particles() as usize, n + 1])?;
        }
        let spec = self.spec.smoothing(&built.problem, len).map_err(spec_error)?;
        let runner = match spec == self.spec {
            true => built.runner,
            false => build(&spec, &built.problem, self.rule.as_ref())?,
        };
        let each = self.each(py, &*runner, &many, |start, series, watch| {
            smooth_from(&*runner, start, series, watch)
        })?;
        let out = PyDict::new(py);
        let put = |name: &str, of: &dyn Fn(&Smoothed) -> &[f64], square: bool| -> PyResult<()> {
            let values: Vec<f64> = each.iter().flat_map(|one| of(one).iter().copied()).collect();
            match (values.is_empty(), square) {
                (true, _) => Ok(()),
                (_, true) => out.set_item(name, array(py, values, [count, len, n, n])?),
                (_, false) => out.set_item(name, array(py, values, [count, len, n])?),
            }
        };
        put("means", &|s| &s.means, false)?;
        put("covariances", &|s| &s.covs, true)?;
        put("filtered_means", &|s| &s.filtered_means, false)?;
        put("filtered_covariances", &|s| &s.filtered_covs, true)?;
        let searches: Option<Vec<_>> =
            each.iter().map(|s| s.search.map(|s| (s.passes, s.loss, s.global))).collect();
        out.set_item("search", searches)?;
        Ok(out)
    }

    /// Filters every series and predicts `rows` rows of `dt` beyond it; returns a dictionary of arrays with a leading
    /// axis of trajectories. `us` are the inputs of the rows ahead.
    pub(super) fn forecast_series<'py>(
        &self,
        py: Python<'py>,
        arrays: &Arrays<'py>,
        begin: (Option<f64>, bool),
        (rows, dt): (usize, f64),
        us: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (runner, many) = (self.runner(), arrays.many(py, self, begin, 0)?);
        let ((n, m, inputs), (count, _)) = (self.sizes, many.shape());
        check_memory(&[count, rows, 8 * (n + m)])?;
        let us = us.map(|us| as_array("us_ahead", us)).transpose()?;
        let us = us.as_ref().map(|us| slice("us_ahead", us)).transpose()?.unwrap_or_default();
        if us.len() != rows * inputs {
            return Err(bad("us_ahead", format!("must have shape ({rows}, {inputs})")));
        }
        let each = self.each(py, &*runner, &many, |start, series, watch| {
            ahead(&*runner, start, series, (rows, dt), us, watch)
        })?;
        let out = PyDict::new(py);
        for (states, kind, width) in [(true, "state_", n), (false, "", m)] {
            let all: Vec<ForecastSummary> = each
                .iter()
                .flat_map(|one| if states { &one.states } else { &one.measurements })
                .flatten()
                .copied()
                .collect();
            let column = |of: &dyn Fn(&ForecastSummary) -> f64| {
                array(py, all.iter().map(of).collect(), [count, rows, width])
            };
            out.set_item(format!("{kind}means"), column(&|s| s.mean)?)?;
            out.set_item(format!("{kind}stds"), column(&|s| s.std)?)?;
            let ends = all.iter().flat_map(|s| s.intervals).flat_map(|(low, high)| [low, high]);
            let ends = array(py, ends.collect(), [count, rows, width, 3, 2])?;
            out.set_item(format!("{kind}intervals"), ends)?;
        }
        Ok(out)
    }

    /// Filters every series and predicts `rows` rows from each of its rows; returns a dictionary of arrays with leading axes
    /// of trajectories and rows. A forecast that leaves the finite numbers is NaN.
    pub(super) fn horizon_series<'py>(
        &self,
        py: Python<'py>,
        arrays: &Arrays<'py>,
        begin: (Option<f64>, bool),
        first_run: u64,
        rows: usize,
    ) -> PyResult<Bound<'py, PyDict>> {
        let (built, many) = (self.built(), arrays.many(py, self, begin, first_run)?);
        let (runner, dt) = (built.runner, built.problem.dt);
        let ((n, m, _), (count, len)) = (self.sizes, many.shape());
        check_memory(&[count, len, rows, 8 * (n + m)])?;
        let horizon = RollingForecaster::new(runner.clone(), rows);
        let each = self.each(py, &*runner, &many, |start, series, watch| {
            from_every_row(&*runner, &horizon, start, series, dt, watch)
        })?;
        let none =
            ForecastSummary { mean: f64::NAN, std: f64::NAN, intervals: [(f64::NAN, f64::NAN); 3] };
        let out = PyDict::new(py);
        for (states, kind, width) in [(true, "state_", n), (false, "", m)] {
            let mut all: Vec<ForecastSummary> = Vec::with_capacity(count * len * rows * width);
            for found in each.iter().flatten() {
                match found {
                    Some(one) if states => all.extend(one.states.iter().flatten()),
                    Some(one) => all.extend(one.measurements.iter().flatten()),
                    None => all.extend(std::iter::repeat_n(none, rows * width)),
                }
            }
            let column = |of: &dyn Fn(&ForecastSummary) -> f64| {
                array(py, all.iter().map(of).collect(), [count, len, rows, width])
            };
            out.set_item(format!("{kind}means"), column(&|s| s.mean)?)?;
            out.set_item(format!("{kind}stds"), column(&|s| s.std)?)?;
            let ends = all.iter().flat_map(|s| s.intervals).flat_map(|(low, high)| [low, high]);
            let ends = array(py, ends.collect(), [count, len, rows, width, 3, 2])?;
            out.set_item(format!("{kind}intervals"), ends)?;
        }
        Ok(out)
    }

    /// Does the same with every series, one after the other; a signal or an exception of a callable ends it.
    fn each<T: Send>(
        &self,
        py: Python<'_>,
        runner: &dyn DynFilter,
        many: &Many<'_>,
        work: impl Fn(&InitialState, &Series<'_>, &CancelCheck<'_>) -> Done<T> + Sync,
    ) -> PyResult<Vec<T>> {
        let all = |stop: &dyn Fn() -> bool| -> Vec<Done<T>> {
            let watch = CancelCheck { stride: 1, stop };
            let pairs = many.starts.iter().zip(&many.series);
            let mut out = Vec::with_capacity(many.series.len());
            for (start, series) in pairs {
                out.push(work(start, series, &watch));
                if out.last().is_some_and(Result::is_err) {
                    break;
                }
            }
            out
        };
        let stop = runner.stop_flag();
        let done = if self.python {
            stopping_at_exceptions(&stop, || all(&is_pending))
        } else {
            // The flag also ends a descent of many steps.
            let done = threads::install(py, &stop, || all(&|| stop.load(Ordering::Relaxed)));
            stop.store(false, Ordering::Relaxed);
            done?
        };
        if let Some(error) = take_pending() {
            return Err(error);
        }
        let mut out = Vec::with_capacity(done.len());
        for (b, one) in done.into_iter().enumerate() {
            match one {
                Ok(one) => out.push(one),
                Err(RunError::Spec(error)) => return Err(spec_error(error)),
                Err(RunError::Filter(error)) => {
                    return Err(to_python(py, error, (!many.single).then_some(b)));
                }
            }
        }
        Ok(out)
    }
}

/// Filters a series and predicts beyond it.
fn ahead(
    runner: &dyn DynFilter,
    start: &InitialState,
    series: &Series<'_>,
    (rows, dt): (usize, f64),
    us: &[f64],
    watch: &CancelCheck<'_>,
) -> Done<Forecast> {
    let mut live = runner.start(start)?;
    walk(&mut *live, series, |k, _, _| Ok::<_, RunError>(watch.check(k)?))?;
    let (last, len) = (series.step(series.len() - 1).time, series.len());
    let steps: Vec<Step> = (1..=rows)
        .map(|k| Step { time: last + k as f64 * dt, ..Step::even((len + k) as u64, dt) })
        .collect();
    forecast(runner, &mut *live, &steps, us)
}

/// Filters a series and predicts from every row of it; the belief goes on from the row.
fn from_every_row(
    runner: &dyn DynFilter,
    horizon: &RollingForecaster,
    start: &InitialState,
    series: &Series<'_>,
    dt: f64,
    watch: &CancelCheck<'_>,
) -> Done<Vec<Option<Forecast>>> {
    let lost = |_| optfilter::filter::FilterError::Empty { argument: "saved belief" };
    let mut out = Vec::with_capacity(series.len());
    walk(&mut *runner.start(start)?, series, |k, live, _| {
        let saved = live.save().map_err(lost)?;
        out.push(horizon.look_from(live, &series.step(k), series.input(k), dt).ok());
        live.restore(&saved).map_err(lost)?;
        Ok::<_, RunError>(watch.check(k)?)
    })?;
    Ok(out)
}
