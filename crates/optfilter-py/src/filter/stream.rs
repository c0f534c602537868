//! Rows as they come, a few at a time: all that is known of a series goes from call to call as bytes.
//!
//! The rows go through [`Session`], as those of the command line do, so that whoever keeps the bytes between two calls, for
//! however many series, has the numbers of one run over all rows.

use super::CoreFilter;
use crate::convert::{array, as_array, slice};
use crate::errors::{bad, take_pending, to_python};
use optfilter_run::{Session, SessionError};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};

/// Results of rows, row after row.
#[derive(Default)]
struct Taken {
    means: Vec<f64>,
    covs: Vec<f64>,
    innovations: Vec<f64>,
    log_likelihoods: Vec<f64>,
    nis: Vec<f64>,
    flags: Vec<f64>,
}

impl Taken {
    fn push(&mut self, session: &Session, has_cov: bool) {
        let estimate = &session.estimate;
        self.means.extend_from_slice(&estimate.mean);
        self.innovations.extend_from_slice(&estimate.innovation);
        self.flags.push(session.flag as usize as f64);
        if has_cov {
            self.covs.extend_from_slice(&estimate.cov);
            self.log_likelihoods.push(estimate.log_likelihood);
            self.nis.push(estimate.nis);
        }
    }
}

impl CoreFilter {
    /// Takes the rows `ys` (T, m), `ts` (T), `us` (T, p) of a series from where `saved` left it, or from its start. Returns the
    /// arrays of these rows, what to go on from, and how many rows there were before.
    pub(super) fn take_rows<'py>(
        &self,
        py: Python<'py>,
        saved: Option<&[u8]>,
        ys: &Bound<'py, PyAny>,
        ts: Option<&Bound<'py, PyAny>>,
        calendar: bool,
        us: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyBytes>, u64)> {
        let (n, m, inputs) = self.sizes;
        let ys = as_array("ys", ys)?;
        let ts = ts.map(|ts| as_array("ts", ts)).transpose()?;
        let us = us.map(|us| as_array("us", us)).transpose()?;
        let ys = slice("ys", &ys)?;
        let ts = ts.as_ref().map(|ts| slice("ts", ts)).transpose()?;
        let us = us.as_ref().map(|us| slice("us", us)).transpose()?.unwrap_or_default();
        let rows = ys.len() / m;
        if ys.len() != rows * m || us.len() != rows * inputs || ts.is_some_and(|t| t.len() != rows)
        {
            return Err(bad("ys", "measurements, times and inputs must have the same rows"));
        }
        let built = self.built();
        let runner = &*built.runner;
        let mut session = Session::new(runner, &self.spec, built.problem.dt)
            .map_err(|e| to_python(py, e, None))?;
        let wrong = |e: &dyn std::fmt::Display| PyValueError::new_err(format!("saved: {e}"));
        if let Some(saved) = saved {
            session.restore(saved).map_err(|e| wrong(&e))?;
        }
        let (before, has_cov) = (session.rows(), runner.has_cov());
        let mut taken = Taken::default();
        let ended = self.step(py, runner, || {
            for row in 0..rows {
                let (y, u) = (&ys[row * m..(row + 1) * m], &us[row * inputs..(row + 1) * inputs]);
                session.take(ts.map(|ts| ts[row]), calendar, u, y)?;
                taken.push(&session, has_cov);
            }
            Ok(())
        });
        if let Some(error) = take_pending() {
            return Err(error);
        }
        ended?.map_err(|error| match error {
            SessionError::Filter(error) => to_python(py, error, None),
            SessionError::Backwards(from, to) => {
                bad("ts", format!("time runs backwards, from {from} to {to}"))
            }
        })?;
        let dict = PyDict::new(py);
        dict.set_item("means", array(py, taken.means, [rows, n])?)?;
        dict.set_item("innovations", array(py, taken.innovations, [rows, m])?)?;
        dict.set_item("flags", array(py, taken.flags, [rows])?)?;
        if has_cov {
            dict.set_item("covariances", array(py, taken.covs, [rows, n, n])?)?;
            dict.set_item("log_likelihoods", array(py, taken.log_likelihoods, [rows])?)?;
            dict.set_item("nis", array(py, taken.nis, [rows])?)?;
        }
        let saved = session.save().map_err(|e| wrong(&e))?;
        Ok((dict, PyBytes::new(py, &saved), before))
    }
}
