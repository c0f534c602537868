//! Whole series: on this thread, on all, or as lanes.

use super::CoreFilter;
use super::results::Results;
use super::series::{Arrays, Many};
use crate::convert::{array, as_array, slice};
use crate::engine::{Rows, Watch};
use crate::errors::{bad, is_pending, take_pending, to_python};
use crate::threads;
use optfilter::filter::FilterError;
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};
use rayon::prelude::*;
use std::sync::atomic::{AtomicBool, Ordering};

/// How a trajectory ended.
type Ended = Result<(), FilterError>;

/// Trajectories that run as lanes of one computation, and between which a run can be stopped.
const LANES: usize = 32;

/// Steps between two looks at the clock, for filters whose steps are short.
const STRIDE: usize = 256;

impl CoreFilter {
    /// Runs every series; returns a dictionary of arrays and the failures that were let pass.
    pub(super) fn run_series<'py>(
        &self,
        py: Python<'py>,
        arrays: &Arrays<'py>,
        t0: Option<f64>,
        first: (u64, bool),
        lenient: bool,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyList>)> {
        let many = arrays.many(py, self, t0, first)?;
        let lanes = !self.python && many.series.len() > 1 && !first.1 && self.runner.has_lanes();
        let mut results = Results::new(py, &*self.runner, &many, !lanes)?;
        let ended = self.run_into(py, &many, results.rows()?, lanes);
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
        many: &Many<'_>,
        mut rows: Vec<Rows<'_>>,
        lanes: bool,
    ) -> PyResult<Vec<Ended>> {
        if self.python {
            return Ok(self.run_python(many, rows));
        }
        let stride = if self.heavy { 1 } else { STRIDE };
        if let ([series], [start], [rows]) =
            (many.series.as_slice(), many.starts.as_slice(), rows.as_mut_slice())
        {
            let run = |stop: &dyn Fn() -> bool| {
                self.runner.run(start, series, rows, &Watch { stride, stop })
            };
            return Ok(vec![threads::run_here(py, run)?]);
        }
        let stop = AtomicBool::new(false);
        let watch = || stop.load(Ordering::Relaxed);
        threads::install(py, &stop, || {
            if lanes {
                return self.run_lanes(many, rows, &watch);
            }
            (many.series.par_iter().zip(&many.starts).zip(rows))
                .map(|((series, start), mut rows)| {
                    self.runner.run(start, series, &mut rows, &Watch { stride, stop: &watch })
                })
                .collect()
        })
    }

    /// On this thread, which holds the interpreter's lock; ends at the first exception.
    fn run_python(&self, many: &Many<'_>, rows: Vec<Rows<'_>>) -> Vec<Ended> {
        let watch = Watch { stride: 1, stop: &is_pending };
        let mut out = Vec::with_capacity(rows.len());
        for ((series, start), mut rows) in many.series.iter().zip(&many.starts).zip(rows) {
            out.push(self.runner.run(start, series, &mut rows, &watch));
            if is_pending() {
                break;
            }
        }
        out
    }

    /// As lanes, on all threads.
    fn run_lanes(
        &self,
        many: &Many<'_>,
        mut rows: Vec<Rows<'_>>,
        stop: &(dyn Fn() -> bool + Sync),
    ) -> Vec<Ended> {
        let groups = many.series.par_chunks(LANES).zip(many.starts.par_chunks(LANES));
        let ended = groups.zip(rows.par_chunks_mut(LANES)).map(|((series, starts), rows)| {
            if stop() {
                return vec![Ok(()); rows.len()];
            }
            let watch = Watch { stride: STRIDE, stop: &stop };
            let estimates = self.runner.run_lanes(starts, series).and_then(Result::ok);
            let each = rows.iter_mut().enumerate().map(|(b, rows)| {
                match estimates.as_ref().and_then(|e| e.trajectory(b)) {
                    Some(Ok(means)) if means.len() == rows.means.len() => {
                        rows.means.copy_from_slice(&means);
                        Ok(())
                    }
                    // Once more alone, to have the estimates before the failure.
                    _ => self.runner.run(&starts[b], &series[b], rows, &watch),
                }
            });
            each.collect()
        });
        ended.collect::<Vec<Vec<Ended>>>().concat()
    }

    /// The innovations of estimates that came from lanes.
    pub(super) fn later_innovations<'py>(
        &self,
        py: Python<'py>,
        arrays: &Arrays<'py>,
        means: &Bound<'py, PyAny>,
        t0: Option<f64>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let many = arrays.many(py, self, t0, (0, false))?;
        let means = as_array("means", means)?;
        let means = slice("means", &means)?;
        let (n, m, _) = self.runner.dims();
        let (count, len) = many.shape();
        let size = len * n;
        if means.len() != count * size {
            return Err(bad("means", "does not fit ys"));
        }
        let mut out = Vec::with_capacity(count * len * m);
        let both = many.series.iter().zip(&many.starts);
        for (b, (series, start)) in both.enumerate() {
            let means = &means[b * size..(b + 1) * size];
            let part: Option<Vec<f64>> = self.runner.innovations(&start.mean, series, means);
            out.extend(part.ok_or_else(|| bad("means", "this filter reports its innovations"))?);
        }
        array(py, out, [count, len, m])
    }
}
