//! The arrays of a call as series of the library, one per trajectory, without copies.

use super::CoreFilter;
use crate::convert::{as_array, slice};
use crate::errors::{bad, to_python};
use crate::problem::check_particles;
use nalgebra::DMatrix;
use numpy::{PyReadonlyArrayDyn, PyUntypedArrayMethods};
use optfilter::Series;
use optfilter::filter::FilterError;
use optfilter_run::{Covariance, InitialState};
use pyo3::prelude::*;

/// The arrays of a call, kept alive while the library reads them.
pub(super) struct Arrays<'py> {
    ys: PyReadonlyArrayDyn<'py, f64>,
    ts: Option<PyReadonlyArrayDyn<'py, f64>>,
    us: Option<PyReadonlyArrayDyn<'py, f64>>,
    x0: Option<PyReadonlyArrayDyn<'py, f64>>,
    p0: Option<PyReadonlyArrayDyn<'py, f64>>,
}

/// Series and where they start.
pub(super) struct Many<'a> {
    pub(super) series: Vec<Series<'a>>,
    pub(super) starts: Vec<InitialState>,
    /// Whether the measurements had no axis for trajectories.
    pub(super) single: bool,
}

impl Many<'_> {
    /// Trajectories and times.
    pub(super) fn shape(&self) -> (usize, usize) {
        (self.series.len(), self.series.first().map_or(0, Series::len))
    }
}

/// The part of an array that belongs to trajectory `b`: its own, or one for all.
fn part(values: &[f64], b: usize, count: usize, each: usize) -> Option<&[f64]> {
    if values.len() == each {
        return Some(values);
    }
    (values.len() == count * each).then(|| &values[b * each..(b + 1) * each])
}

impl<'py> Arrays<'py> {
    pub(super) fn new(
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

    /// One series per trajectory; trajectory b has the number `first_run + b`.
    pub(super) fn many(
        &self,
        py: Python<'py>,
        filter: &CoreFilter,
        (t0, predict_first): (Option<f64>, bool),
        first_run: u64,
    ) -> PyResult<Many<'_>> {
        let (n, m, inputs) = filter.sizes;
        let (problem, default) = (filter.built().problem, filter.start());
        let dt = problem.dt;
        let (count, len, columns, single) = match *self.ys.shape() {
            [len, columns] => (1, len, columns, true),
            [count, len, columns] => (count, len, columns, false),
            _ => return Err(bad("ys", "must have two or three axes")),
        };
        if columns != m {
            let message = format!("has {columns} columns where the model measures {m}");
            return Err(bad("ys", message));
        }
        let threads = std::thread::available_parallelism().map_or(1, usize::from);
        check_particles(&filter.spec, &problem, count.min(threads))?;
        let ys = slice("ys", &self.ys)?;
        let ts = self.ts.as_ref().map(|a| slice("ts", a)).transpose()?;
        let us = self.us.as_ref().map(|a| slice("us", a)).transpose()?;
        let x0 = self.x0.as_ref().map(|a| slice("x0", a)).transpose()?;
        let p0 = self.p0.as_ref().map(|a| slice("P0", a)).transpose()?;
        if us.is_none() && inputs > 0 {
            return Err(bad("us", format!("the model reads {inputs} inputs")));
        }
        if us.is_some() && inputs == 0 {
            return Err(bad("us", "the model reads no inputs"));
        }
        let misfit = |name: &str, needed: String| bad(name, format!("must have shape {needed}"));
        let mut series = Vec::with_capacity(count);
        let mut starts = Vec::with_capacity(count);
        for b in 0..count {
            let fail = |e: FilterError| to_python(py, e, Some(b));
            let mut one = Series::new(&ys[b * len * m..(b + 1) * len * m], m)
                .and_then(|s| s.with_dt(dt))
                .map_err(fail)?;
            if let Some(ts) = ts {
                let times = part(ts, b, count, len)
                    .ok_or_else(|| misfit("ts", format!("({len},) or ({count}, {len})")))?;
                one = one.with_times(times).map_err(fail)?;
            }
            if let Some(t0) = t0 {
                one = one.start_at(t0).map_err(fail)?;
            } else if predict_first {
                one = one.predict_first();
            }
            if let Some(us) = us {
                let rows = part(us, b, count, len * inputs).ok_or_else(|| {
                    misfit("us", format!("({len}, {inputs}) or ({count}, {len}, {inputs})"))
                })?;
                one = one.with_inputs(rows, inputs).map_err(fail)?;
            }
            let mean = match x0 {
                None => default.mean.clone(),
                Some(x0) => part(x0, b, count, n)
                    .ok_or_else(|| misfit("x0", format!("({n},) or ({count}, {n})")))?
                    .to_vec(),
            };
            // A covariance that is given is meant.
            let diffuse = if p0.is_some() { Vec::new() } else { default.diffuse.clone() };
            let cov = match p0 {
                None => default.cov.clone(),
                Some(p0) => {
                    let values = part(p0, b, count, n * n).ok_or_else(|| {
                        misfit("P0", format!("({n}, {n}) or ({count}, {n}, {n})"))
                    })?;
                    Covariance::Dense(DMatrix::from_row_slice(n, n, values))
                }
            };
            series.push(one);
            starts.push(InitialState { mean, cov, diffuse, run: first_run + b as u64 });
        }
        Ok(Many { series, starts, single })
    }
}
