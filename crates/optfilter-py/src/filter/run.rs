//! Whole series: on this thread, on all, or as lanes.

use super::CoreFilter;
use super::results::{ResultArrays, Wanted};
use super::series::{Arrays, Many};
use crate::convert::{array, as_array, slice};
use crate::errors::{
    bad, is_pending, stopping_at_exceptions, take_pending, to_python, with_last_good,
};
use crate::threads;
use optfilter::Series;
use optfilter::filter::FilterError;
use optfilter_run::{CancelCheck, DynFilter, InitialState, OutputBuffers as Rows};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rayon::prelude::*;
use std::sync::atomic::Ordering;

/// How a trajectory ended.
type Ended = Result<(), FilterError>;

/// Trajectories that run as lanes of one computation, and between which a run can be stopped.
const LANES: usize = 32;

/// Most trajectories of a linear model that run as one task, and how many of their rows.
const TASK: (usize, usize) = (1024, 1 << 17);

/// Steps between two looks at the clock, for filters whose steps are short.
const STRIDE: usize = 256;

impl CoreFilter {
    /// Runs every series; returns a dictionary of arrays and the failures that were let pass.
    pub(super) fn run_series<'py>(
        &self,
        py: Python<'py>,
        arrays: &Arrays<'py>,
        begin: (Option<f64>, bool),
        first_run: u64,
        (lenient, wanted): (bool, &Wanted),
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyList>)> {
        let runner = self.runner();
        let many = arrays.many(py, self, begin, first_run)?;
        let lanes = !self.python && many.series.len() > 1 && runner.lanes().is_some();
        let mut results = ResultArrays::new(py, &*runner, &many, !lanes, wanted)?;
        let ended = self.run_into(py, &*runner, &many, results.rows()?, lanes);
        if let Some(error) = take_pending() {
            return Err(error);
        }
        let failures = PyList::empty(py);
        for (b, ended) in ended?.into_iter().enumerate() {
            let Err(error) = ended else { continue };
            let diverged = matches!(
                error,
                FilterError::Diverged { .. }
                    | FilterError::NotPositiveDefinite { index: Some(_), .. }
            );
            let exception = to_python(py, error, (!many.single).then_some(b));
            if !(lenient && diverged) {
                return Err(exception);
            }
            failures.append((b, exception.into_value(py)))?;
        }
        Ok((results.into_dict(py)?, failures))
    }

    fn run_into(
        &self,
        py: Python<'_>,
        runner: &dyn DynFilter,
        many: &Many<'_>,
        mut rows: Vec<Rows<'_>>,
        lanes: bool,
    ) -> PyResult<Vec<Ended>> {
        if self.python {
            return Ok(run_python(runner, many, rows));
        }
        if let ([series], [start], [rows], false) =
            (many.series.as_slice(), many.starts.as_slice(), rows.as_mut_slice(), self.heavy)
        {
            let run = |stop: &dyn Fn() -> bool| {
                run_one(runner, start, series, rows, &CancelCheck { stride: STRIDE, stop })
            };
            return Ok(vec![threads::run_here(py, run)?]);
        }
        // The flag also ends a descent of many steps.
        let stop = runner.stop_flag();
        let watch = || stop.load(Ordering::Relaxed);
        let ended = threads::install(py, &stop, || {
            if lanes {
                return run_lanes(runner, many, rows, &watch);
            }
            run_together(runner, many, rows, &watch)
        });
        stop.store(false, Ordering::Relaxed);
        ended
    }

    /// The innovations of estimates that came from lanes.
    pub(super) fn later_innovations<'py>(
        &self,
        py: Python<'py>,
        arrays: &Arrays<'py>,
        means: &Bound<'py, PyAny>,
        begin: (Option<f64>, bool),
    ) -> PyResult<Bound<'py, PyAny>> {
        let runner = self.runner();
        let many = arrays.many(py, self, begin, 0)?;
        let means = as_array("means", means)?;
        let means = slice("means", &means)?;
        let (n, m, _) = self.sizes;
        let (count, len) = many.shape();
        let size = len * n;
        if means.len() != count * size {
            return Err(bad("means", "does not fit ys"));
        }
        let Some(lanes) = runner.lanes() else {
            return Err(bad("means", "this filter reports its innovations"));
        };
        let mut out = Vec::with_capacity(count * len * m);
        for (b, (series, start)) in many.series.iter().zip(&many.starts).enumerate() {
            out.extend(lanes.innovations(&start.mean, series, &means[b * size..(b + 1) * size]));
        }
        array(py, out, [count, len, m])
    }
}

/// One trajectory; a failure names the last estimate before it.
fn run_one(
    runner: &dyn DynFilter,
    start: &InitialState,
    series: &Series<'_>,
    rows: &mut Rows<'_>,
    watch: &CancelCheck<'_>,
) -> Ended {
    runner.run(start, series, rows, watch).map_err(|error| {
        let n = start.mean.len();
        let good = rows.means.chunks_exact(n).take_while(|mean| !mean[0].is_nan()).last();
        with_last_good(error, good.unwrap_or(&start.mean))
    })
}

/// On this thread, which holds the interpreter's lock; ends at the first exception.
fn run_python(runner: &dyn DynFilter, many: &Many<'_>, rows: Vec<Rows<'_>>) -> Vec<Ended> {
    let watch = CancelCheck { stride: 1, stop: &is_pending };
    let stop = runner.stop_flag();
    let mut out = Vec::with_capacity(rows.len());
    for ((series, start), mut rows) in many.series.iter().zip(&many.starts).zip(rows) {
        // An exception ends a descent of many steps, too.
        out.push(stopping_at_exceptions(&stop, || {
            run_one(runner, start, series, &mut rows, &watch)
        }));
        if is_pending() {
            break;
        }
    }
    out
}

/// On all threads; together where that is faster, and alone elsewhere.
fn run_together(
    runner: &dyn DynFilter,
    many: &Many<'_>,
    mut rows: Vec<Rows<'_>>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Ended> {
    let (count, len) = many.shape();
    // As many tasks as keep every thread busy, each of whole groups of lanes.
    let share = count.div_ceil(4 * rayon::current_num_threads());
    let most = TASK.0.min(TASK.1 / len.max(1)).min(share);
    let size = most.next_multiple_of(LANES);
    let tasks = many.series.par_chunks(size).zip(many.starts.par_chunks(size));
    let ended = tasks.zip(rows.par_chunks_mut(size)).map(|((series, starts), rows)| {
        let watch = || CancelCheck { stride: STRIDE, stop: &stop };
        let done = runner.run_together(starts, series, rows, &watch());
        let alone = rows.par_iter_mut().enumerate().map(|(b, rows)| match done.get(b) {
            Some(true) => Ok(()),
            _ => run_one(runner, &starts[b], &series[b], rows, &watch()),
        });
        alone.collect()
    });
    ended.collect::<Vec<Vec<Ended>>>().concat()
}

/// As lanes, on all threads.
fn run_lanes(
    runner: &dyn DynFilter,
    many: &Many<'_>,
    mut rows: Vec<Rows<'_>>,
    stop: &(dyn Fn() -> bool + Sync),
) -> Vec<Ended> {
    let groups = many.series.par_chunks(LANES).zip(many.starts.par_chunks(LANES));
    let ended = groups.zip(rows.par_chunks_mut(LANES)).map(|((series, starts), rows)| {
        if stop() {
            return vec![Ok(()); rows.len()];
        }
        let watch = CancelCheck { stride: STRIDE, stop: &stop };
        let estimates = runner.lanes().and_then(|lanes| lanes.run(starts, series).ok());
        let each = rows.iter_mut().enumerate().map(|(b, rows)| {
            match estimates.as_ref().and_then(|e| e.trajectory(b)) {
                Some(Ok(means)) if means.len() == rows.means.len() => {
                    rows.means.copy_from_slice(&means);
                    Ok(())
                }
                // Once more alone, to have the estimates before the failure.
                _ => run_one(runner, &starts[b], &series[b], rows, &watch),
            }
        });
        each.collect()
    });
    ended.collect::<Vec<Vec<Ended>>>().concat()
}
