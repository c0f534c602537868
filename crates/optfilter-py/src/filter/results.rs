//! The arrays that a call returns, written in place by the filters.

use super::series::Many;
use crate::convert::check_memory;
use crate::errors::bad;
use numpy::{IxDyn, PyArray, PyArrayMethods};
use optfilter_run::{DynFilter, OutputBuffers as Rows};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// One quantity of all trajectories: its name in Python, and the array.
type Quantity<'py> = (&'static str, Bound<'py, PyArray<f64, IxDyn>>);

/// Which arrays a call asks for.
pub(super) struct Wanted {
    /// Whether covariances are among them.
    pub(super) covariances: bool,
    /// Their names, where not all are.
    pub(super) only: Option<Vec<String>>,
}

impl Wanted {
    fn has(&self, name: &str) -> bool {
        let spread = name == "covariances" || name == "innovation_covariances";
        let named = self.only.as_ref().is_none_or(|only| only.iter().any(|other| other == name));
        name == "means" || named && (self.covariances || !spread)
    }
}

/// Arrays of zeros for everything that a filter reports.
pub(super) struct ResultArrays<'py> {
    quantities: Vec<Quantity<'py>>,
    count: usize,
}

impl<'py> ResultArrays<'py> {
    /// For `many` trajectories of `runner`; `innovations` may be left for later, and what is not `wanted` out.
    pub(super) fn new(
        py: Python<'py>,
        runner: &dyn DynFilter,
        many: &Many<'_>,
        innovations: bool,
        wanted: &Wanted,
    ) -> PyResult<Self> {
        let (n, m, _) = runner.dims();
        let (count, len) = many.shape();
        let lead = if many.single { vec![len] } else { vec![count, len] };
        let mut quantities = Vec::with_capacity(7);
        // All of them at once, since each alone may fit.
        let spreads = |name, size: usize| if wanted.has(name) { size * size } else { 0 };
        let spreads = spreads("covariances", n) + spreads("innovation_covariances", m);
        check_memory(&[count, len, n + m + 3 + if runner.has_cov() { spreads } else { 0 }])?;
        let mut add = |name, tail: &[usize]| -> PyResult<()> {
            if !wanted.has(name) {
                return Ok(());
            }
            let shape = [lead.as_slice(), tail].concat();
            quantities.push((name, PyArray::zeros(py, IxDyn(&shape), false)));
            Ok(())
        };
        add("means", &[n])?;
        if innovations {
            add("innovations", &[m])?;
            add("flags", &[])?;
        }
        if runner.has_cov() {
            add("covariances", &[n, n])?;
            add("innovation_covariances", &[m, m])?;
            add("log_likelihoods", &[])?;
            add("nis", &[])?;
        }
        if runner.lag().is_some() {
            add("lagged", &[n])?;
        }
        Ok(Self { quantities, count })
    }

    /// The rows of every trajectory.
    pub(super) fn rows(&mut self) -> PyResult<Vec<Rows<'_>>> {
        let mut out: Vec<Rows<'_>> = Vec::with_capacity(self.count);
        out.resize_with(self.count, Rows::default);
        for (name, array) in &mut self.quantities {
            // SAFETY: the array was made in `new`, is contiguous and is known to nobody else until `into_dict`;
            // the slice borrows from `self`, so it ends before that and cannot be made twice at a time.
            let mut left = unsafe { array.as_slice_mut() }.map_err(|e| bad("ys", e))?;
            let size = left.len() / self.count.max(1);
            for rows in &mut out {
                let (own, rest) = left.split_at_mut(size);
                left = rest;
                match *name {
                    "means" => rows.means = own,
                    "innovations" => rows.innovations = own,
                    "covariances" => rows.covs = own,
                    "innovation_covariances" => rows.innovation_covs = own,
                    "log_likelihoods" => rows.log_likelihoods = own,
                    "flags" => rows.flags = own,
                    "lagged" => rows.lagged = own,
                    _ => rows.nis = own,
                }
            }
        }
        Ok(out)
    }

    /// The arrays by name.
    pub(super) fn into_dict(self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let dict = PyDict::new(py);
        for (name, array) in self.quantities {
            dict.set_item(name, array)?;
        }
        Ok(dict)
    }
}
