//! The settings of a filter, read from a dictionary, with errors that name the argument.

use crate::convert::{matrix, sized};
use crate::errors::bad;
use crate::likelihood::{self, AnyLikelihood};
use crate::optimizer::{self, Rule};
use nalgebra::{DMatrix, DefaultAllocator, Dim};
use optfilter::Shapes;
use optfilter::filter::{Resampling, Scheme};
use optfilter::model::{GaussianNoise, NoiseError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The settings of a filter, read from a dictionary.
pub(crate) struct Settings<'a, 'py> {
    pub(crate) py: Python<'py>,
    pub(crate) kind: &'a str,
    pub(crate) values: &'a Bound<'py, PyDict>,
    pub(crate) sizes: (usize, usize),
    /// Whether the model's steps run Python.
    pub(crate) python: bool,
}

impl<'py> Settings<'_, 'py> {
    pub(super) fn get(&self, key: &str) -> PyResult<Option<Bound<'py, PyAny>>> {
        Ok(self.values.get_item(key)?.filter(|value| !value.is_none()))
    }

    pub(super) fn need(&self, key: &str) -> PyResult<Bound<'py, PyAny>> {
        self.get(key)?.ok_or_else(|| bad(key, format!("{} needs it", self.kind)))
    }

    pub(super) fn cov(&self, key: &str, size: usize) -> PyResult<DMatrix<f64>> {
        matrix(key, &self.need(key)?, Some((size, size)))
    }

    pub(super) fn noise<N: Dim, M: Dim>(&self, n: N, m: M) -> PyResult<GaussianNoise<N, M>>
    where
        DefaultAllocator: Shapes<N, M>,
    {
        let q = sized(n, n, &self.cov("Q", self.sizes.0)?);
        let r = sized(m, m, &self.cov("R", self.sizes.1)?);
        let per_time = match self.get("Q_per_time")? {
            Some(value) => value.extract()?,
            None => false,
        };
        let made = if per_time { GaussianNoise::per_time(q, r) } else { GaussianNoise::new(q, r) };
        made.map_err(|e| match e {
            NoiseError::ProcessCov => {
                bad("Q", "must be finite, symmetric and positive semi-definite")
            }
            NoiseError::MeasurementCov => {
                bad("R", "must be finite, symmetric and positive definite")
            }
            other => bad("Q or R", other),
        })
    }

    pub(super) fn count(&self, key: &str) -> PyResult<u32> {
        let value = self.need(key)?;
        let count: i64 =
            value.extract().map_err(|_| bad(key, "must be a whole number, at least 1"))?;
        match u32::try_from(count) {
            Ok(count) if count > 0 => Ok(count),
            _ => Err(bad(key, format!("must be a whole number, at least 1, not {count}"))),
        }
    }

    pub(super) fn likelihood(&self) -> PyResult<AnyLikelihood> {
        let likelihood = likelihood::parse(&self.need("likelihood")?)?;
        if let Some(dim) = likelihood.dim()
            && dim != self.sizes.1
        {
            let message = format!("is for {dim} measurements; the model has {}", self.sizes.1);
            return Err(bad("likelihood", message));
        }
        Ok(likelihood)
    }

    pub(super) fn rule(&self) -> PyResult<Rule> {
        let rule = optimizer::parse(&self.need("optimizer")?)?;
        if let Rule::Matrix(matrix) = &rule
            && matrix.matrix().nrows() != self.sizes.0
        {
            let message = format!("must be {0} x {0} like the model's state", self.sizes.0);
            return Err(bad("M", message));
        }
        Ok(rule)
    }

    pub(super) fn resampling(&self) -> PyResult<Resampling> {
        let name: String = self.need("resampling")?.extract()?;
        let scheme = match name.as_str() {
            "systematic" => Scheme::Systematic,
            "stratified" => Scheme::Stratified,
            "residual" => Scheme::Residual,
            "multinomial" => Scheme::Multinomial,
            _ => {
                let known = "systematic, stratified, residual and multinomial";
                return Err(bad("resampling", format!("{name:?} is not known; there are {known}")));
            }
        };
        Ok(match self.get("threshold")? {
            Some(fraction) => Resampling::Below(scheme, fraction.extract()?),
            None => Resampling::Always(scheme),
        })
    }
}
